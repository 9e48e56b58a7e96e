"""How often a broker decided in each case of its routing, and the copies made in it (`Policy.cases`).

Under `idr`, a notification with target iLinks adds (α + β)γ, (α + θ)γ, αγ or (α + 1)γ copies to output queues, in cases
0, i, ii and iv. Counting costs one lookup per decision, and nothing if the routing does not distinguish cases.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from octopia.routing import Decision, Refusal


@dataclass(frozen=True, slots=True)
class CaseReport:
    """Totals of one case: notifications that this broker decided about in it, and their copies on links."""

    case: str
    notifications: int
    copies: int


class CaseCounts:
    """Totals since the broker started."""

    __slots__ = ("_copies", "_notifications", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        # the first entry is for decisions in no case
        self._notifications = [0] * (len(names) + 1)
        self._copies = [0] * (len(names) + 1)

    def count(self, decisions: Iterable[Decision | Refusal]) -> None:
        """Count the decisions about some notifications."""
        notifications, copies = self._notifications, self._copies
        for decision in decisions:
            case = decision.case
            if case:
                notifications[case] += 1
                copies[case] += len(decision.copies)

    def count_many(self, decision: Decision, times: int) -> None:
        """Count one decision made about several notifications."""
        self._notifications[decision.case] += times
        self._copies[decision.case] += times * len(decision.copies)

    def report(self) -> tuple[CaseReport, ...]:
        """The totals by case; () if the routing has no cases."""
        totals = zip(self.names, self._notifications[1:], self._copies[1:], strict=True)
        return tuple(CaseReport(*each) for each in totals)
