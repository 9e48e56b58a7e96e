"""Delivery options of some subscribers beyond their filters: priority, deadline, any order.

Everything follows from the seed by counter, so more subscribers leave the first ones as they were. Urgent subscribers
are drawn among those that are not interested in a burst: a copy is as urgent as the most urgent subscription it is for,
so one urgent subscriber of a burst would make the whole burst urgent.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from octopia.errors import InputError
from octopia.workload.draws import stream, uniform
from octopia.workload.spec import WorkloadSpec

PRIORITY_MAX: Final = 3
DEADLINE_S_MAX: Final = 86_400.0


@dataclass(frozen=True)
class WishSpec:
    """The share of subscribers that are urgent and their priority; the share with a deadline and how long that is."""

    urgent_share: float = 0.0
    priority: int = PRIORITY_MAX
    deadline_share: float = 0.0
    deadline_s: float = 1.0

    def __post_init__(self) -> None:
        for name in ("urgent_share", "deadline_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)!r}: give a share from 0 to 1, for example 0.1")
        if self.priority not in range(PRIORITY_MAX + 1):
            raise InputError(f"priority is {self.priority!r}: give 0 (ordinary) to {PRIORITY_MAX} (most urgent)")
        if not 0 < self.deadline_s <= DEADLINE_S_MAX:
            raise InputError(f"deadline_s is {self.deadline_s!r}: give seconds above 0 and up to {DEADLINE_S_MAX:,.0f}")


@dataclass(frozen=True)
class Wish:
    """Options of all subscriptions of a client. `deadline_ns` starts at acceptance by the publisher's broker; 0: none.

    `ordered`: False delivers notifications as they come, where a routing would hold them back to keep order.
    """

    priority: int = 0
    deadline_ns: int = 0
    ordered: bool = True


def urgent_subscribers(spec: WorkloadSpec, wishes: WishSpec, wants_burst: Set[int]) -> list[int]:
    """The numbers of the urgent subscribers, whatever their priority."""
    drawn = uniform(stream(spec.seed, "urgent"), np.arange(spec.subscribers)) < wishes.urgent_share
    return [number for number in np.flatnonzero(drawn).tolist() if number not in wants_burst]


def draw_wishes(spec: WorkloadSpec, wishes: WishSpec, interested: Sequence[Sequence[int]]) -> dict[str, Wish]:
    """The options by client; `interested` are the subscribers of each burst. Other clients have no options."""
    urgent = set(urgent_subscribers(spec, wishes, {number for burst in interested for number in burst}))
    timed = uniform(stream(spec.seed, "deadlines"), np.arange(spec.subscribers)) < wishes.deadline_share
    deadline_ns = round(wishes.deadline_s * 1e9)
    return {
        f"s{number}": Wish(
            wishes.priority if number in urgent else 0,
            deadline_ns if has_deadline else 0,
            ordered=number not in urgent,
        )
        for number, has_deadline in enumerate(timed.tolist())
        if has_deadline or number in urgent
    }
