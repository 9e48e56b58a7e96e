"""Decisions for a host that matches notifications itself, many at a time, as a compiled engine does.

A decision about a notification has two parts. The local recipients follow from the rows that it matches; the host works
them out from numbers (`rows.py`). The neighbours that get a copy follow from the *ways* of these rows, the header and
the incoming link; that is decided here, once for each distinct set of ways. The answers are those of `Broker.publish`
and `Broker.receive`: the same policy makes both.
"""

from collections.abc import Callable, Sequence
from typing import Any

from octopia.matching import Matcher
from octopia.protocol import Header
from octopia.routing.clients import Registered
from octopia.routing.conforming import Conforming, Terms
from octopia.routing.decide import Decisions
from octopia.routing.decision import Decision
from octopia.routing.policy import Policy
from octopia.routing.rows import Rows
from octopia.topology import BrokerId


class ByWays:
    """Decides for one broker. `index` is the matcher of its subscriptions, `rows` what its rows mean."""

    __slots__ = ("_by_ways", "_first_header", "_is_steady", "_state", "advertised", "index", "rows", "terms")

    def __init__(
        self, state: Any, policy: Policy[Any], decisions: Decisions, conforming: Conforming, rows: Rows
    ) -> None:
        self._state = state
        self._first_header = policy.first_header
        self._is_steady = policy.is_steady
        self._by_ways = decisions.decide_by_ways
        self.rows = rows
        self.index: Matcher[Any] = state.prt.index
        # the conditions on a client's notifications with certain attribute names
        self.terms: Callable[[str, tuple[str, ...]], Terms] = conforming.terms
        # a client's advertisements, oldest first; the same list until one comes or goes
        self.advertised: Callable[[str], list[Registered]] = conforming.advertised

    def epoch(self, now: float) -> int:
        """A number that stays as long as decisions do; -1 if decisions about publications may differ from now on."""
        if self._is_steady is not None and not self._is_steady(self._state, now):
            return -1
        changes: int = self._state.changes
        return changes

    def first_header(self, satisfied: Sequence[Registered], now: float, counts: int) -> Header:
        """The header of so many notifications that satisfy these advertisements."""
        return self._first_header(self._state, satisfied, now, counts)

    def decide(self, ways: bytes, header: Header, came_by: BrokerId | None) -> Decision:
        """The copies of notifications that match subscriptions on these ways: a set of bits, the first byte lowest."""
        return self._by_ways(ways, self.rows, header, came_by)
