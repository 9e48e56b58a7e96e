"""Covering: which subscriptions need not be sent, because one that was sent covers them.

A `CoverSet` holds all subscriptions for which a neighbour should be served, and decides which of them are sent.
Invariants, after each call:

1. Each subscription is sent, or others that are sent cover it: one of them, or one for each of its conjunctions. That
   is proved by `language.covers`, or both are the same filter. A cover has at least the priority of what it covers. So
   whatever matches a subscription matches one that is sent, no less urgent; and an advertisement that overlaps it
   overlaps one that is sent. That is all that reverse paths and CIV bits go by, so both are as exact as if everything
   were sent.
2. Every subscription sent is in force: nothing is sent for a subscription that was withdrawn.
3. A call that adds or withdraws says what to send now, and what to withdraw *after* that. On a link that keeps order,
   invariant 1 therefore holds at the neighbour as well, after each message.

Subscriptions with the same filter and priority are a group. A group that is sent has one representative; a group that
is not sent has covers. A new subscription without a cover supersedes those that it covers.

**Bounds.** One subscription covers at most `COVERED_MAX` other filters; equal filters do not count. A full one covers
nothing more: the next is sent as if it were not covered. This bounds the work of a change: a withdrawal searches new
covers for, and sends, at most `COVERED_MAX` filters, and a new subscription supersedes at most that many. Without the
bound, a client could make a broker send 100,000 messages by repeatedly subscribing to everything and withdrawing it.
Memory, in each set: a reference for each subscription (about 100 bytes) and for each distinct filter a group (about 500
bytes).

**Which set is kept where** is up to the routing: *per link*, all subscriptions that a link should serve; or *per host
broker*, the subscriptions of its own clients, for all links at once. The content of a set does not depend on which
links are up, so a link that comes up is sent the content of its set. All sets of a broker share a `Pool`: one index of
everything that any of them sends. Most subscriptions are added to several sets at once, and their covers are searched
for once.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.language import Filter
from octopia.matching import CoverIndex, CoverQuery
from octopia.protocol import Key
from octopia.routing.entries import PrtEntry

COVERINGS: Final = ("none", "host", "link")
COVERED_MAX: Final = 64

Entry = TypeVar("Entry", bound=PrtEntry)


def check_kind(covering: str, routing: str, kinds: tuple[str, ...]) -> None:
    """`InputError` unless this is a kind of covering that the routing supports."""
    if covering not in COVERINGS:
        known = ", ".join(COVERINGS)
        raise InputError(f"unknown covering {covering!r}{maybe_meant(covering, COVERINGS)}; choose from {known}")
    if covering != "none" and covering not in kinds:
        has = " or ".join(("none", *kinds))
        reason = " since its copies name their destinations" if "host" in kinds else ""
        raise InputError(f"{routing} routing cannot cover per {covering}{reason}; use {has}, or another routing")


class Change(NamedTuple, Generic[Entry]):
    """The subscriptions to send, and those to withdraw after that."""

    send: list[Entry]
    withdraw: list[Key]


class _Group(Generic[Entry]):
    """Subscriptions with the same filter and priority. `sent` represents them; without it, `covers` cover them.

    `covers` has one group for the whole filter, or one for each of its conjunctions, in order.

    `covered` are the groups that this one helps to cover, in the order in which they were added.
    """

    __slots__ = ("covered", "covers", "filter", "members", "priority", "sent")

    def __init__(self, entry: Entry) -> None:
        self.filter = entry.filter
        self.priority = entry.priority
        self.members: dict[Key, Entry] = {entry.key: entry}
        self.sent: Entry | None = None
        self.covers: tuple[_Group[Entry], ...] = ()
        self.covered: dict[_Group[Entry], None] = {}

    @property
    def full(self) -> bool:
        return len(self.covered) >= COVERED_MAX


class _Turn(Generic[Entry]):
    """The net effect of one call: groups that are newly sent, and subscriptions that are no longer sent."""

    __slots__ = ("fresh", "withdraw")

    def __init__(self) -> None:
        self.fresh: dict[_Group[Entry], None] = {}
        self.withdraw: list[Key] = []

    def unsend(self, group: _Group[Entry]) -> None:
        if group in self.fresh:
            del self.fresh[group]
        elif group.sent is not None:
            self.withdraw.append(group.sent.key)
        group.sent = None

    def change(self) -> Change[Entry]:
        return Change([group.sent for group in self.fresh if group.sent is not None], self.withdraw)


class _Shown(Generic[Entry]):
    """A filter that sets of a pool send, with the groups for which they send it."""

    __slots__ = ("filter", "groups")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.groups: dict[CoverSet[Entry], list[_Group[Entry]]] = {}


class Pool(Generic[Entry]):
    """The filters that any of several sets sends, each once in one index."""

    __slots__ = ("_index", "_shown")

    def __init__(self) -> None:
        self._index: CoverIndex[_Shown[Entry]] = CoverIndex()
        self._shown: dict[Filter, _Shown[Entry]] = {}

    def __len__(self) -> int:
        return len(self._index)

    def ask(self, filter: Filter) -> "CoverQuery[_Shown[Entry]]":
        """Which filters cover this one, and which it covers. The sets repeat each other's questions, which is cheap."""
        return self._index.ask(filter)

    def show(self, group: _Group[Entry], by: "CoverSet[Entry]") -> None:
        """Record that a set sends a group."""
        shown = self._shown.get(group.filter)
        if shown is None:
            shown = self._shown[group.filter] = _Shown(group.filter)
            self._index.add(shown, group.filter)
        shown.groups.setdefault(by, []).append(group)

    def hide(self, group: _Group[Entry], by: "CoverSet[Entry]") -> None:
        """Record that a set no longer sends a group."""
        shown = self._shown[group.filter]
        shown.groups[by].remove(group)
        if not shown.groups[by]:
            del shown.groups[by]
        if not shown.groups:
            del self._shown[group.filter]
            self._index.remove(shown)


class CoverSet(Generic[Entry]):
    """The subscriptions for which some neighbours should be served, and which of them are sent there."""

    __slots__ = ("_groups", "_pool")

    def __init__(self, pool: Pool[Entry] | None = None) -> None:
        self._pool: Pool[Entry] = Pool() if pool is None else pool
        self._groups: dict[tuple[Filter, int], _Group[Entry]] = {}

    def sent(self) -> Iterator[Entry]:
        """The subscriptions sent, oldest filter first."""
        return (group.sent for group in self._groups.values() if group.sent is not None)

    def change(self, entry: Entry, came: bool) -> Change[Entry]:
        """Add a subscription that came, or remove one that went."""
        return self.add(entry) if came else self.remove(entry)

    def add(self, entry: Entry) -> Change[Entry]:
        """Add a subscription that is not in the set."""
        known = self._groups.get((entry.filter, entry.priority))
        if known is not None:
            known.members[entry.key] = entry
            return Change([], [])
        group = self._groups[entry.filter, entry.priority] = _Group(entry)
        turn: _Turn[Entry] = _Turn()
        self._place(group, turn)
        return turn.change()

    def remove(self, entry: Entry) -> Change[Entry]:
        """Remove a subscription of the set."""
        group = self._groups[entry.filter, entry.priority]
        del group.members[entry.key]
        was_sent = group.sent is not None and group.sent.key == entry.key
        if group.members:
            if not was_sent:
                return Change([], [])
            group.sent = next(iter(group.members.values()))
            return Change([group.sent], [entry.key])
        del self._groups[entry.filter, entry.priority]
        if not was_sent:
            self._leave_covers(group)
            return Change([], [])
        self._pool.hide(group, self)
        turn: _Turn[Entry] = _Turn()
        for orphan in list(group.covered):
            self._uncover(orphan, group, turn)
        turn.withdraw.append(entry.key)
        return turn.change()

    def clear(self) -> None:
        """Remove all subscriptions without telling anyone."""
        for group in self._groups.values():
            if group.sent is not None:
                self._pool.hide(group, self)
        self._groups.clear()

    def _place(self, group: _Group[Entry], turn: _Turn[Entry]) -> None:
        """Find covers for a group that has none, or send it."""
        found = self._pool.ask(group.filter).covering_each(lambda shown: self._with_room(shown, group) is not None)
        if found:
            self._cover(group, (self._with_room(shown, group) for shown in found))
        else:
            self._send(group, turn)

    def _uncover(self, group: _Group[Entry], gone: _Group[Entry], turn: _Turn[Entry]) -> None:
        """Find another cover for a group that lost one, or send the group."""
        if len(group.covers) == 1:
            self._place(group, turn)
            return
        # one for each conjunction: the others stay. If one has none now, nothing covers the whole either
        covers: list[_Group[Entry] | None] = list(group.covers)
        for at, conjunction in enumerate(group.filter.conjunctions):
            if covers[at] is gone:
                question = self._pool.ask(Filter([conjunction]))
                shown = question.covering(lambda shown: self._with_room(shown, group) is not None)
                covers[at] = None if shown is None else self._with_room(shown, group)
                if covers[at] is None:
                    self._leave_covers(group, gone)
                    self._send(group, turn)
                    return
        self._cover(group, covers)

    def _cover(self, group: _Group[Entry], covers: Iterable[_Group[Entry] | None]) -> None:
        group.covers = tuple(cover for cover in covers if cover is not None)
        for cover in group.covers:
            cover.covered[group] = None

    def _send(self, group: _Group[Entry], turn: _Turn[Entry]) -> None:
        group.covers = ()
        group.sent = next(iter(group.members.values()))
        turn.fresh[group] = None
        self._supersede(group, turn)
        self._pool.show(group, self)

    def _with_room(self, shown: _Shown[Entry], group: _Group[Entry]) -> _Group[Entry] | None:
        """The group sent here with this filter that is urgent enough for another and not full."""
        for cover in shown.groups.get(self, ()):
            if cover.priority >= group.priority and not cover.full:
                return cover
        return None

    def _supersede(self, wider: _Group[Entry], turn: _Turn[Entry]) -> None:
        """Let a newly sent group cover as many sent groups as it can, each with everything that it covered."""
        found = self._pool.ask(wider.filter).covered(lambda shown: any(self._less_urgent(shown, wider)), COVERED_MAX)
        for narrower in [group for shown in found for group in self._less_urgent(shown, wider)]:
            moving = wider.covered | {narrower: None} | narrower.covered
            if len(moving) > COVERED_MAX:
                continue
            self._pool.hide(narrower, self)
            turn.unsend(narrower)
            narrower.covers = (wider,)
            for group in narrower.covered:
                group.covers = tuple(wider if cover is narrower else cover for cover in group.covers)
            narrower.covered = {}
            wider.covered = moving

    def _less_urgent(self, shown: _Shown[Entry], wider: _Group[Entry]) -> Iterator[_Group[Entry]]:
        """The groups sent here with this filter that another is urgent enough to cover."""
        return (group for group in shown.groups.get(self, ()) if group.priority <= wider.priority and not group.full)

    def _leave_covers(self, group: _Group[Entry], but: _Group[Entry] | None = None) -> None:
        """Detach a group from its covers; `but` is gone itself."""
        for cover in dict.fromkeys(group.covers):
            if cover is not but:
                del cover.covered[group]
