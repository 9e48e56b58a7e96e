"""The core's part of the fast path: decisions about notifications that were read as tokens, many at a time.

A decision about a notification has two parts. The local recipients follow from the rows that it matches; the host works
them out from numbers (`rows.py`). The neighbours that get a copy follow from the *ways* of these rows, the header and
the incoming link; that is decided here, once for each distinct set of ways in a batch. The answers are those of
`Broker.publish` and `Broker.receive`: the same policy makes both.

Refusals, and copies that name their own destinations, take the ordinary path and are not decided here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.language import Notification
from octopia.matching import Answers, Matcher, Tokens
from octopia.routing.conforming import Conforming
from octopia.routing.decide import Decisions
from octopia.routing.decision import Decision
from octopia.routing.messages import Header
from octopia.routing.policy import Policy
from octopia.routing.rows import Rows
from octopia.topology import BrokerId

Seen = Callable[[int], Notification]
# Headers of publications, None for those to be refused; and the header of each notification by index, or None if all
# have the first.
Headers = tuple[list[Header | None], npt.NDArray[np.int64] | None]


class Express:
    """Decides for one broker."""

    __slots__ = ("_by_names", "_by_ways", "_first_header", "_groups", "_state", "index", "match", "rows")

    def __init__(
        self, state: Any, policy: Policy[Any], decisions: Decisions, conforming: Conforming, rows: Rows
    ) -> None:
        self._state = state
        self._first_header = policy.first_header
        self._by_ways = decisions.decide_by_ways
        self._groups = conforming.groups_of_tokens
        self._by_names = conforming.satisfied_by_names
        self.rows = rows
        self.index: Matcher[Any] = state.prt.index
        # the rows that each notification matches, each once
        self.match: Callable[[Tokens, Seen], Answers] = self.index.match_rows_tokens

    def headers(self, client: str, tokens: Tokens, seen: Seen, now: float) -> Headers | None:
        """The first headers of a client's notifications; None: they take the ordinary path."""
        groups = self._groups(client, tokens, seen)
        if groups is None:
            return None
        self._state.now = now
        satisfied, which = groups
        return [self._first_header(self._state, some) if some else None for some in satisfied], which

    def header_of(self, client: str, names: tuple[str, ...], now: float) -> Header | None:
        """The first header of a client's notifications with these names, if the names alone decide that they conform;
        otherwise None."""
        satisfied = self._by_names(client, names)
        if not satisfied:
            return None
        self._state.now = now
        return self._first_header(self._state, satisfied)

    def decide(self, ways: bytes, header: Header, came_by: BrokerId | None) -> Decision:
        """The copies of notifications that match subscriptions on these ways: a set of bits, the first byte lowest."""
        return self._by_ways(ways, self.rows, header, came_by)
