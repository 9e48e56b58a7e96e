"""Explain from running brokers why a client does or does not get a notification.

The answer is the first obstacle: the client has no subscription, no subscription matches, nobody may publish or has
advertised it, a copy does not get through, the client's queue is full, or it would come too late. Tables are read from
the brokers; a probe, which is not delivered, finds the path. Reasons about filters are those of `language/explain.py`,
as for scenarios (`embedded/explain.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from octopia.errors import LanguageError, OctopiaError
from octopia.language import (
    Filter,
    Notification,
    NotificationLike,
    conforms,
    matches,
    parse_filter,
    parse_notification,
    why_can_get_nothing,
    why_not_conforms,
    why_not_matches,
    why_subscription_misses,
)
from octopia.net import Client
from octopia.topology import BrokerId
from octopia.watch.path import Gets, Hop, Path
from octopia.watch.probing import follow, probe
from octopia.watch.reader import Reader

# The most rows examined of one client, and of all advertisements of a broker.
SUBSCRIPTIONS_MAX = 10_000
ADVERTISEMENTS_MAX = 2_000
# Lines about subscriptions that do not match; the others are counted.
MISSES_SHOWN_MAX = 5

# Causes, in the order in which they are checked.
CLIENT, SUBSCRIPTION, PREDICATE, RIGHT, ADVERTISEMENT = "client", "subscription", "predicate", "right", "advertisement"
LINK, DROP, DEADLINE, DELIVERED, UNKNOWN = "link", "drop", "deadline", "delivered", "unknown"
# Makes a client for the broker at this url.
MakeClient = Callable[[str], Client]


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """One client and one notification: delivered or not, the cause, and the reasons as lines."""

    client: str
    publisher: str
    notification: str
    delivered: bool
    cause: str
    reasons: list[str]
    path: Path | None = None

    def to_jsonable(self) -> dict[str, Any]:
        """In the same form as answers about scenarios, plus the cause."""
        return {
            "notification": self.notification,
            "publisher": self.publisher,
            "client": self.client,
            "delivered": self.delivered,
            "cause": self.cause,
            "reasons": self.reasons,
        }


@dataclass(frozen=True, slots=True)
class _Found:
    """A client, its broker, and its registrations."""

    broker: BrokerId
    row: Mapping[str, Any]
    filters: dict[str, Filter] = field(default_factory=dict)
    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    is_whole: bool = True


class _StoppedError(Exception):
    """The cause was found."""

    def __init__(self, cause: str, *lines: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.lines = list(lines)


async def why(
    reader: Reader,
    client: str,
    notification: NotificationLike,
    *,
    publisher: str | None = None,
    make_client: MakeClient | None = None,
) -> LiveAnswer:
    """Whether `client` would get this notification if it were published now, and why.

    `publisher` publishes it; by default, the first client that may and has advertised it. `make_client` connects to the
    publisher's broker for the probe, as a client that may probe in the name of others; without it, the path is not
    checked.
    """
    seen = parse_notification(notification)
    asked = _Asking(reader, client, seen)
    try:
        return await asked.answer(publisher, make_client)
    except _StoppedError as stopped:
        return LiveAnswer(client, publisher or "", str(seen), False, stopped.cause, stopped.lines)


async def why_traced(reader: Reader, client: str, publisher: str, sequence: int) -> LiveAnswer:
    """Whether `client` got a notification that was traced or probed, and why. Brokers remember the last thousand."""
    path = await follow(reader, publisher, sequence, 0.0)
    name = f"{publisher}:{sequence}"
    if not path.broker:
        line = (
            f"no broker has a record of notification {sequence} of {publisher}: only traced ones are kept, for a while"
        )
        return LiveAnswer(client, publisher, name, False, UNKNOWN, [line])
    if path.refused:
        cause = ADVERTISEMENT if "advertise" in path.refused else RIGHT
        return LiveAnswer(client, publisher, name, False, cause, [f"it was refused: {path.refused}"], path)
    gets = path.to(client)
    if gets is not None:
        return LiveAnswer(client, publisher, name, True, DELIVERED, _delivered(path, gets), path)
    if path.notification is None:
        line = "it was not for this client; its content was not kept"
        return LiveAnswer(client, publisher, name, False, UNKNOWN, [line], path)
    asked = _Asking(reader, client, parse_notification(path.notification))
    try:
        found = await asked.wanted()
        raise await asked.lost(found, path)
    except _StoppedError as stopped:
        return LiveAnswer(client, publisher, name, False, stopped.cause, stopped.lines, path)


class _Asking:
    def __init__(self, reader: Reader, client: str, seen: Notification) -> None:
        self._reader = reader
        self._client = client
        self._seen = seen
        self._silent: dict[BrokerId, str] = {}

    async def answer(self, publisher: str | None, make_client: MakeClient | None) -> LiveAnswer:
        found = await self.wanted()
        if publisher is None:
            source, name = await self._someone()
        else:
            source, name = await self._given(publisher), publisher
        path = None
        if make_client is None:
            lines = [self._matching(found), f"{name} at {source} may publish it and has advertised it"]
            lines.append("the path was not checked: that requires a client with the right to probe")
            return LiveAnswer(self._client, name, str(self._seen), True, DELIVERED, lines)
        async with make_client(self._reader.watched.places[source].url) as prober:
            path = await probe(prober, self._reader, self._seen, publisher=name)
        if path.refused:
            raise _StoppedError(RIGHT if "may not" in path.refused else ADVERTISEMENT, path.refused)
        gets = path.to(self._client)
        if gets is None:
            stopped = await self.lost(found, path)
            return LiveAnswer(self._client, name, str(self._seen), False, stopped.cause, stopped.lines, path)
        cause, lines = self._at_the_end(found, gets)
        lines = [*lines, *_delivered(path, gets)]
        return LiveAnswer(self._client, name, str(self._seen), cause == DELIVERED, cause, lines, path)

    # -- the client

    async def _find(self, client: str) -> _Found | None:
        """The location of a client; brokers that did not answer are noted."""
        asked = {"table": "clients", "client": client}
        answers = await self._reader.get_all("/tables", None, dict.fromkeys(self._reader.watched.scot.brokers, asked))
        found: _Found | None = None
        for broker, answer in answers.items():
            if isinstance(answer, OctopiaError):
                self._silent[broker] = str(answer)
            elif answer["rows"] and (found is None or answer["rows"][0]["connected"]):
                found = _Found(broker, answer["rows"][0])
        return found

    async def _missing(self, client: str) -> _StoppedError:
        lines = [f"no broker that answers knows a client named {client}"]
        lines += [f"{broker} may, and does not answer: {reason}" for broker, reason in list(self._silent.items())[:5]]
        return _StoppedError(LINK if self._silent else CLIENT, *lines)

    async def wanted(self) -> _Found:
        """The client, with a subscription that matches."""
        found = await self._find(self._client)
        if found is None:
            raise await self._missing(self._client)
        rows, whole = await self._reader.rows(found.broker, "subscriptions", SUBSCRIPTIONS_MAX, client=self._client)
        filters = _filters(rows)
        found = _Found(found.broker, found.row, filters, {row["id"]: row for row in rows}, whole)
        if not filters:
            refused = await self._refused(found, "subscribe")
            lines = [f"{self._client} at {found.broker} has no subscription"]
            raise _StoppedError(RIGHT if refused else SUBSCRIPTION, *lines, *refused)
        if not self._matched(found):
            raise _StoppedError(PREDICATE, *await self._misses(found))
        return found

    def _matched(self, found: _Found) -> list[str]:
        return [id for id, filter in found.filters.items() if matches(filter, self._seen)]

    def _matching(self, found: _Found) -> str:
        ids = self._matched(found)
        return f"matches subscription{'s' if len(ids) > 1 else ''} {', '.join(ids)} of {self._client} at {found.broker}"

    async def _misses(self, found: _Found) -> list[str]:
        lines = []
        for id, filter in list(found.filters.items())[:MISSES_SHOWN_MAX]:
            line = why_subscription_misses(id, filter, self._seen)
            lines += [line] if line else []
        more = len(found.filters) - len(lines)
        if more > 0:
            lines.append(f"nor do its other {more} subscriptions")
        if not found.is_whole:
            lines.append(f"only the first {SUBSCRIPTIONS_MAX:,} of its subscriptions were checked")
        if len(found.filters) <= MISSES_SHOWN_MAX:
            lines += why_can_get_nothing(found.filters, await self._advertised())
        return lines + await self._refused(found, "subscribe")

    async def _refused(self, found: _Found, request: str) -> list[str]:
        """Recent refusals of the client by its broker."""
        try:
            told = await self._reader.get(found.broker, "/events")
        except OctopiaError:
            return []
        text = f"{request} refused"
        lines = [e["reason"] for e in told["events"] if e["text"] == text and e.get("client") == self._client]
        return [f"a subscription of it was refused: {line}" for line in dict.fromkeys(lines[-3:])]

    # -- the publisher

    async def _advertised(self) -> dict[tuple[str, str], Filter]:
        """All advertisements of clients, by client and id; at most `ADVERTISEMENTS_MAX` of each broker."""
        return {(name, id): filter for _, name, id, filter in await self._promises()}

    async def _promises(self) -> list[tuple[BrokerId, str, str, Filter]]:
        found: list[tuple[BrokerId, str, str, Filter]] = []
        for broker in self._reader.watched.scot.brokers:
            try:
                rows, _ = await self._reader.rows(broker, "advertisements", ADVERTISEMENTS_MAX)
            except OctopiaError as error:
                self._silent[broker] = str(error)
                continue
            for row in rows:
                if row["client"] and (filter := _filter(row)) is not None:
                    found.append((broker, row["client"], row["id"], filter))
        return found

    async def _someone(self) -> tuple[BrokerId, str]:
        """A client that has advertised this and may publish it."""
        promises = await self._promises()
        reason = None
        for broker, name, _, filter in promises:
            if conforms(self._seen, filter):
                row = await self._row(broker, name)
                reason = _why_no_right(name, row, self._seen) if row else None
                if row is not None and reason is None:
                    return broker, name
        if reason is not None:
            raise _StoppedError(RIGHT, reason)
        lines = ["nobody has advertised it, so nobody can publish it"]
        for _, name, id, filter in promises[:MISSES_SHOWN_MAX]:
            lines.append(f"advertisement {id} of {name}: {why_not_conforms(self._seen, filter)}")
        if len(promises) > MISSES_SHOWN_MAX:
            lines.append(f"nor do {len(promises) - MISSES_SHOWN_MAX} other advertisements allow it")
        lines += [f"{broker} does not answer: {reason}" for broker, reason in self._silent.items()]
        raise _StoppedError(ADVERTISEMENT, *lines)

    async def _row(self, broker: BrokerId, name: str) -> Mapping[str, Any] | None:
        rows: list[Mapping[str, Any]] = (await self._reader.table(broker, "clients", client=name))["rows"]
        return rows[0] if rows else None

    async def _given(self, publisher: str) -> BrokerId:
        found = await self._find(publisher)
        if found is None:
            raise await self._missing(publisher)
        reason = _why_no_right(publisher, found.row, self._seen)
        if reason is not None:
            raise _StoppedError(RIGHT, reason)
        rows, _ = await self._reader.rows(found.broker, "advertisements", ADVERTISEMENTS_MAX, client=publisher)
        promises = _filters(rows)
        if not any(conforms(self._seen, filter) for filter in promises.values()):
            lines = [f"advertisement {id}: {why_not_conforms(self._seen, each)}" for id, each in promises.items()]
            first = f"{publisher} at {found.broker} has {'not advertised this' if promises else 'no advertisement'}"
            raise _StoppedError(ADVERTISEMENT, first, *lines[:MISSES_SHOWN_MAX])
        return found.broker

    # -- the way

    async def lost(self, found: _Found, path: Path) -> _StoppedError:
        """A subscription matches, and no copy reached the client's broker."""
        lines = [f"{self._matching(found)}, and nothing comes there"]
        stuck = [hop for hop in path.under_way if not hop.up]
        lines += [f"{_hop_line(hop)}: the link is down, and the copy waits" for hop in stuck]
        for hop in path.under_way:
            if hop.up:
                silent = self._silent.get(BrokerId.parse(hop.receiver))
                why_not = f"{hop.receiver} does not answer: {silent}" if silent else "it has not arrived yet"
                lines.append(f"{_hop_line(hop)}: {why_not}")
        if not path.under_way:
            down = await self._down()
            lines.append(f"no copy was sent towards it; links are down: {', '.join(down)}" if down else _BUG)
        return _StoppedError(LINK, *lines)

    async def _down(self) -> list[str]:
        states = await self._reader.states()
        return [
            f"{broker} → {link['neighbour']}"
            for broker, state in states.items()
            if isinstance(state, dict)
            for link in state["links"]
            if not link["up"]
        ]

    def _at_the_end(self, found: _Found, gets: Gets) -> tuple[str, list[str]]:
        """The fate of the notification in the client's queue."""
        row = found.row
        if gets.trouble and "oldest" not in gets.trouble:
            return DROP, [gets.trouble]
        lines = [gets.trouble] if gets.trouble else []
        deadlines = [found.rows[id]["deadline_ms"] or 0 for id in gets.subscriptions if id in found.rows]
        # as long as the first in the queue has waited, or as its length and rate suggest
        waits_ms = gets.after_ns / 1e6 + 1000 * max(row["wait_s"] or 0.0, row["oldest_s"] or 0.0)
        if deadlines and all(deadlines) and waits_ms > max(deadlines):
            late = f"too late: it arrives after {waits_ms:.0f} ms, and the deadline is {max(deadlines)} ms"
            return DEADLINE, [late, f"{row['too_old']:,} deliveries to it were too late so far"]
        if not row["connected"]:
            lines.append(f"{self._client} is away since {row['away_s']:.0f} s; it waits in its queue")
        elif gets.queue:
            lines.append(f"{gets.queue:,} deliveries wait for {self._client} before it")
        return DELIVERED, lines


_BUG = "all links are up: a notification was lost, please report this"


def _filter(row: Mapping[str, Any]) -> Filter | None:
    """The filter of a row; None if it was too long to be shown."""
    try:
        return parse_filter(row["filter"])
    except LanguageError:
        return None


def _filters(rows: list[dict[str, Any]]) -> dict[str, Filter]:
    read = ((row["id"], _filter(row)) for row in rows)
    return {id: filter for id, filter in read if filter is not None}


def _why_no_right(name: str, row: Mapping[str, Any], seen: Notification) -> str | None:
    """Why a client may not publish this, by its right to advertise."""
    right = row["may_advertise"]
    if right is None:
        return f"{name} may not publish anything"
    try:
        reason = why_not_matches(right, seen)
    except LanguageError:
        return None
    return None if reason is None else f"{name} may not publish this: {reason}; its right is: {right}"


def _delivered(path: Path, gets: Gets) -> list[str]:
    ids = gets.subscriptions
    count = len(gets.way)
    hops = "no hops: both are clients of one broker" if not count else "1 hop" if count == 1 else f"{count} hops"
    lines = [
        f"matches subscription{'s' if len(ids) > 1 else ''} {', '.join(ids)}",
        f"published at {path.broker}, delivered at {gets.broker}, {hops}, {gets.after_ns / 1e6:.3f} ms",
    ]
    return lines + [_hop_line(hop) for hop in gets.way]


def _hop_line(hop: Hop) -> str:
    burden = f", carrying CIV {hop.civ}" if hop.civ else ""
    burden += f", for {', '.join(hop.destinations)}" if hop.destinations else ""
    same = BrokerId.parse(hop.sender).region == BrokerId.parse(hop.receiver).region
    return f"{hop.sender} → {hop.receiver} by {'iLink' if same else 'aLink'}{burden}"
