"""Priorities: how urgent a copy is, as far as the broker that sends it knows.

A subscription has a priority, 0 to `PRIORITY_MAX`. A copy is as urgent as the most urgent subscription that it is on
its way to. On an aLink, and wherever it is matched, that is the most urgent matching entry that came from there. For
clusters beyond an iLink a host broker goes by what CIB_SET said of the advertisement (`snr`, `idr`): the most urgent
subscription there that overlaps it, which this notification need not match. For clusters or brokers that no broker on
the way can look up, the header carries the priority (`Civ.priority`, `Dests.priority`).

Sets by priority ("urgent") are tuples: for each priority from 1 on, the set, as bits, of members with at least that
priority. So the priority of a part is the last set in which it has a bit. None or empty: nothing is urgent. Hosts and
routings test for that first, so overlays without priorities pay for one test.
"""

from collections.abc import Iterable, Sequence

from octopia.protocol import PRIORITY_MAX

Urgent = tuple[int, ...]
NOT_URGENT: Urgent = (0,) * PRIORITY_MAX


def priority_of(urgent: Sequence[int] | None, part: int) -> int:
    """The priority of the most urgent in a part, as bits."""
    found = 0
    if urgent:
        for priority, members in enumerate(urgent, 1):
            if members & part:
                found = priority
    return found


def with_priority(urgent: Urgent | None, bit: int, priority: int) -> Urgent | None:
    """The sets with this member at this priority, whatever it was before."""
    if urgent is None:
        if not priority:
            return None
        urgent = NOT_URGENT
    changed = tuple(members | bit if priority >= at else members & ~bit for at, members in enumerate(urgent, 1))
    return changed if any(changed) else None


def union(sets: Iterable[Sequence[int] | None]) -> Urgent:
    """All sets joined, priority by priority; empty where nothing is urgent."""
    joined: list[int] = []
    for urgent in sets:
        if urgent:
            joined = joined or [0] * PRIORITY_MAX
            for at, members in enumerate(urgent):
                joined[at] |= members
    return tuple(joined)


def or_none(priorities: Iterable[int]) -> tuple[int, ...] | None:
    """In the form of `Decision.priorities`: None if all are 0."""
    made = tuple(priorities)
    return made if any(made) else None


def why_not_priority(priority: int) -> str | None:
    """Why this is not a valid priority, in one line; None if it is one."""
    if 0 <= priority <= PRIORITY_MAX:
        return None
    return f"priority {priority}: it is a number from 0 (ordinary) to {PRIORITY_MAX} (most urgent)"
