"""How often a broker decided in which case of its routing, and the copies that it made then (`Policy.cases`).

Under `idr` a notification with target iLinks adds (α + β)γ, (α + θ)γ, αγ or (α + 1)γ copies to output queues, in cases
0, i, ii and iv. Counting costs a look at each decision, and nothing where the routing tells no cases apart.
"""

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Protocol


class Decided(Protocol):
    """What is counted of a decision: the number of its case, from 1 on, 0 for none; and its copies."""

    @property
    def case(self) -> int: ...
    @property
    def copies(self) -> Sized: ...


@dataclass(frozen=True, slots=True)
class CaseReport:
    """Totals of one case: notifications that this broker decided about in it, and copies put on links for them."""

    case: str
    notifications: int
    copies: int


class CaseCounts:
    """Totals since the broker started."""

    __slots__ = ("_copies", "_notifications", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        # the first place is for decisions in no case
        self._notifications = [0] * (len(names) + 1)
        self._copies = [0] * (len(names) + 1)

    def count(self, decisions: Iterable[Decided]) -> None:
        """Take in what was decided about some notifications."""
        notifications, copies = self._notifications, self._copies
        for decision in decisions:
            case = decision.case
            if case:
                notifications[case] += 1
                copies[case] += len(decision.copies)

    def count_many(self, decision: Decided, times: int) -> None:
        """Take in what was decided about so many notifications alike."""
        self._notifications[decision.case] += times
        self._copies[decision.case] += times * len(decision.copies)

    def report(self) -> tuple[CaseReport, ...]:
        """The totals by case; () where the routing has no cases."""
        totals = zip(self.names, self._notifications[1:], self._copies[1:], strict=True)
        return tuple(CaseReport(*each) for each in totals)
