"""The express way: from the notifications of a read, as columns, to the queues, without an object for any of them.

    Haul (columns of a read) ── headers, ways ──▶ core ── decisions ──▶ frame lines ──▶ bytes per destination ──▶ queues

Python is asked once per batch, per distinct set of ways and per destination. The rest is compiled: matching
(`octopia.matching`) and making frames (`fan_out.py`). The output equals that of the ordinary way, byte for byte
(`tests/net/test_dispatch.py`).

A batch takes the express way up to a notification that must take the ordinary way: one that is refused, or whose copy
takes a detour and must be stamped (`order.py`). While anything is out of order, all take the ordinary way.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching import Answers
from octopia.net.broker.dispatch import Dispatch
from octopia.net.broker.fan_out import LANES, Bundle, FanOut, Stamps
from octopia.net.broker.operations.counters import Counters
from octopia.routing import Decision, Express, Header
from octopia.topology import BrokerId
from octopia.wire import Haul, Heads, copy_heads

# The destination of each copy of a decision, with its heads; None if the notification must take the ordinary way.
Copies = tuple[tuple[int, Heads], ...]
_NOTHING: Copies = ()


class Batch:
    """A haul with its decisions: a group for each notification, a decision with its copies for each group.

    `ordinary` lists the positions of notifications that must take the ordinary way, in order, followed by the end.
    """

    __slots__ = ("_ends", "answers", "copies", "decisions", "groups", "haul", "ordinary")

    def __init__(
        self, haul: Haul, answers: Answers, groups: npt.NDArray[np.int64], decided: list[tuple[Decision, Copies] | None]
    ) -> None:
        self.haul = haul
        self.answers = answers
        self.groups = groups
        self.decisions = [None if each is None else each[0] for each in decided]
        self.copies = [_NOTHING if each is None else each[1] for each in decided]
        self.ordinary: list[int] = [len(haul)]
        if None in self.decisions:
            late = np.array([decision is None for decision in self.decisions])
            self.ordinary = [*np.flatnonzero(late[groups]).tolist(), len(haul)]
        self._ends: npt.NDArray[np.int64] | None = None

    def matches(self, start: int, stop: int) -> Answers:
        """The matches of the notifications in a range."""
        counts, rows = self.answers
        if stop - start == len(counts):
            return self.answers
        if self._ends is None:
            self._ends = np.concatenate([[0], np.cumsum(counts)])
        return Answers(counts[start:stop], rows[self._ends[start] : self._ends[stop]])


class ExpressWay:
    """Takes hauls to the queues of one broker."""

    def __init__(
        self,
        core: Express,
        dispatch: Dispatch,
        *,
        sessions: Mapping[str, Any],
        links: Mapping[BrokerId, Any],
        neighbours: tuple[BrokerId, ...],
        overtakes: bool,
        counters: Counters,
    ) -> None:
        self.core = core
        self._dispatch = dispatch
        self._sessions = sessions
        self._links = links
        self._neighbours = neighbours
        self._number_of = {neighbour: number for number, neighbour in enumerate(neighbours)}
        self._overtakes = overtakes
        self._counters = counters
        self.links = len(neighbours)
        self._clients = core.rows.names
        self._fan_out = FanOut(core.rows, self.links)

    # -- decisions

    def published(self, client: str, haul: Haul, now: float) -> Batch | None:
        """Decide about notifications published by a client; None: all must take the ordinary way."""
        headers = self.core.headers(client, haul.tokens, haul.notification, now)
        if headers is None:
            return None
        return self._decide(haul, *headers, None)

    def received(self, sender: BrokerId, haul: Haul) -> Batch:
        """The same for copies from a neighbour, all with one header."""
        return self._decide(haul, [haul.carried], None, sender)

    def _decide(
        self,
        haul: Haul,
        headers: list[Header | None],
        which: npt.NDArray[np.int64] | None,
        came_by: BrokerId | None,
    ) -> Batch:
        self._fan_out.headers.forget_if_many()
        answers = self.core.match(haul.tokens, haul.notification)
        groups, sets, heads = self._fan_out.sets_of_ways(answers, which)
        decided: list[tuple[Decision, Copies] | None] = []
        for ways, head in zip(sets, heads, strict=True):
            header = headers[0 if which is None else int(which[head])]
            decided.append(None if header is None else self._copies(self.core.decide(ways, header, came_by)))
        return Batch(haul, answers, groups, decided)

    def _copies(self, decision: Decision) -> tuple[Decision, Copies] | None:
        """A decision with its copies, which are cached with it; None if they must take the ordinary way."""
        if decision.memo is None:
            if self._overtakes and any(header.civ for _, header in decision.copies):
                return None
            decision.memo = self._plan(decision)
        return decision, decision.memo

    def _plan(self, decision: Decision) -> Copies:
        priorities = decision.priorities or (0,) * len(decision.copies)
        return tuple(
            (LANES * self._number_of[to] + priority, copy_heads(header))
            for (to, header), priority in zip(decision.copies, priorities, strict=True)
        )

    # -- queues

    @property
    def is_open(self) -> bool:
        """Whether nothing is out of order, so that no notification needs individual treatment."""
        return not self._dispatch.ways.taken and not self._dispatch.reorder.waiting

    def carry_out(self, batch: Batch, start: int, stop: int, accepted_ms: int, stamps: Stamps | None = None) -> None:
        """Queue the notifications of a range, as decided; none of them is an ordinary one."""
        if start == stop:
            return
        tokens = batch.haul.tokens
        groups = batch.groups[start:stop]
        bundles, deliveries, last = self._fan_out.frames(
            batch.matches(start, stop), groups, batch.copies, tokens, start, accepted_ms, stamps
        )
        if deliveries:
            self._counters.deliveries += deliveries
            if self._overtakes:
                self._note_delivered(batch.haul, deliveries, start, start + last)
        if any(decision is not None and decision.case for decision in batch.decisions):
            self._count_cases(batch, groups)
        self._put(bundles)

    def _note_delivered(self, haul: Haul, deliveries: int, start: int, last: int) -> None:
        """Note for each publisher its last notification delivered here; `last` is the last of all."""
        tokens, noted = haul.tokens, self._dispatch.reorder.last
        if tokens.counts.publishers == 1:
            noted[tokens.publisher(0)] = haul.sequence(last)
            return
        for number, place in enumerate(self._fan_out.last_delivered(deliveries, tokens, start)):
            if place >= 0:
                noted[tokens.publisher(number)] = haul.sequence(place)

    @property
    def destinations(self) -> int:
        """The number of destinations; their indices are all below it."""
        return LANES * (self.links + len(self.core.rows.names))

    def put(self, to: int, data: bytes, frames: int) -> None:
        """Queue consecutive frames for a destination."""
        member, lane = to // LANES - self.links, to % LANES
        if member < 0:
            self._links[self._neighbours[to // LANES]].lane(lane).put_bundle(data, frames)
            return
        session = self._sessions.get(self._clients[member])
        # most often there is room, and one call is enough
        if session is not None and (lane or not session.box.put_bundle(data, frames)):
            session.put_bundle(data, frames, lane)

    def count_deliveries(self, publisher: str, deliveries: int, last: int) -> None:
        """Count deliveries of a publisher's notifications; `last` is the number of the last one."""
        self._counters.deliveries += deliveries
        if self._overtakes:
            self._dispatch.reorder.last[publisher] = last

    def count_case(self, decision: Decision, count: int) -> None:
        """Count the notifications for which a decision was carried out."""
        self._dispatch.cases.count_many(decision, count)

    def _put(self, bundles: list[Bundle]) -> None:
        for bundle in bundles:
            self.put(*bundle)

    def _count_cases(self, batch: Batch, groups: npt.NDArray[np.int64]) -> None:
        times = np.bincount(groups, minlength=len(batch.decisions)).tolist()
        for decision, count in zip(batch.decisions, times, strict=True):
            if decision is not None and decision.case:
                self.count_case(decision, count)
