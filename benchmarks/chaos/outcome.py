"""The result of a scenario, compared with the promises."""

from dataclasses import dataclass, field

from benchmarks.chaos.oracle import Tally
from benchmarks.chaos.versions import DELAY_COST_S_MAX, RATE_RATIO_MIN

ACCEPTED = "accepted (fault)"


@dataclass(frozen=True)
class Promise:
    """The scenario's criteria, in addition to 0 lost, 0 unwanted and order."""

    repeats: bool = False  # whether a notification may come twice: a broker died
    recovery_s_max: float | None = None
    order: bool = True  # whether order is judged: not across an overload, or where ways change because a link is down


@dataclass
class Outcome:
    """One row of the table. None: not measured."""

    tally: Tally | None = None
    recovery_s: float | None = None
    never_recovered: bool = False
    delay_s: float | None = None
    calm_delay_s: float | None = None
    rate_ratio: float | None = None
    answer: str = ""  # for attacks that must be refused: "refused: …" or ACCEPTED
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def verdict(self) -> str:
        return "held" if not self.faults else "FAULT: " + "; ".join(self.faults)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def expect(self, holds: bool, text: str) -> None:
        """A fault with this text unless it holds."""
        if not holds:
            self.fault(text)

    def refused(self, reason: str) -> None:
        self.answer = f"refused: {reason}"

    def accepted(self, text: str) -> None:
        self.answer = ACCEPTED
        self.fault(text)

    def judge(self, promise: Promise) -> None:
        """Compare the figures with the promises."""
        tally = self.tally
        if tally is not None:
            self.expect(tally.lost == 0, f"{tally.lost:,} lost")
            self.expect(promise.repeats or tally.repeated == 0, f"{tally.repeated:,} repeated")
            self.expect(tally.unwanted == 0, f"{tally.unwanted:,} unwanted")
            self.expect(not promise.order or tally.out_of_order == 0, f"{tally.out_of_order:,} out of order")
        self.expect(not self.never_recovered, "never recovered")
        if promise.recovery_s_max is not None and self.recovery_s is not None:
            self.expect(self.recovery_s <= promise.recovery_s_max, f"recovery took {self.recovery_s:.1f} s")
        if self.rate_ratio is not None:
            self.expect(self.rate_ratio >= RATE_RATIO_MIN, f"bystanders at {self.rate_ratio:.0%} of their rate")
        if self.delay_s is not None:
            cost_s = self.delay_s - (self.calm_delay_s or 0.0)
            self.expect(cost_s <= DELAY_COST_S_MAX, f"bystanders waited {self.delay_s * 1000:,.0f} ms")
