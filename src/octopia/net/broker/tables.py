"""The tables of a broker as sources of rows, for readers: subscriptions, advertisements, clients and links.

`operations/paging.py` searches and sorts them and splits them into pages. Rows are made when they are shown. The text
of filters is cached during a search, since writing it takes longer than searching it; `TEXTS_MAX` bounds the cache.
Rates compare totals with those of an earlier call, at least `RATE_S` ago: the first call shows none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from octopia.net.broker.links import Link
from octopia.net.broker.operations.paging import ROWS_MAX, RowSource
from octopia.net.broker.rights import Rights
from octopia.net.broker.sessions import Session
from octopia.routing import Broker
from octopia.topology import BrokerId

TEXTS_MAX = 250_000
RATE_S = 0.5
# The displayed length of a filter or a right.
FILTER_CHARS_MAX = 20_000


class _Rows:
    """What all tables do alike."""

    def __init__(self) -> None:
        self._texts: dict[Any, str] = {}  # the searchable text of rows, by key

    def _text(self, key: Any, make: Callable[[], str]) -> str:
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            text = self._texts[key] = make().lower()
        return text

    def rest(self) -> None:
        self._texts.clear()

    def row(self, entry: Any) -> dict[str, Any]:
        raise NotImplementedError

    def value(self, entry: Any, column: str) -> Any:
        found = self.row(entry)[column]
        return -1 if found is None else found


class _Rates:
    """Rates of totals."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: dict[str, tuple[float, tuple[int, ...], tuple[float, ...] | None]] = {}

    def of(self, name: str, *totals: int) -> tuple[float, ...] | None:
        """Each rate per second; None at the first call."""
        now = self._now()
        seen = self._seen.get(name)
        if seen is None or any(total < before for total, before in zip(totals, seen[1], strict=True)):
            self._seen[name] = (now, totals, None)
            return None
        since_s, before, rates = seen
        if now - since_s >= RATE_S:
            rates = tuple((total - was) / (now - since_s) for total, was in zip(totals, before, strict=True))
            self._seen[name] = (now, totals, rates)
        return rates

    def keep(self, names: Mapping[str, Any]) -> None:
        """Forget all others."""
        if len(self._seen) > len(names):
            self._seen = {name: seen for name, seen in self._seen.items() if name in names}


class SubscriptionRows(_Rows):
    """The PRT: subscriptions of this broker's clients and those learnt from neighbours."""

    columns = ("client", "id", "host", "from", "filter", "priority", "policy", "deadline_ms", "ordered")

    def __init__(self, broker: Broker, sessions: Mapping[str, Session]) -> None:
        super().__init__()
        self._broker = broker
        self._sessions = sessions

    def __len__(self) -> int:
        return len(self._broker.state.prt)

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        prt = self._broker.state.prt
        if client is None:
            yield list(islice(prt.matched_with(), ROWS_MAX))
            return
        own = self._broker.state.subscriptions.of(client)
        found = (prt.get(each.key) for each in islice(own.values(), ROWS_MAX))
        yield [entry for entry in found if entry is not None]

    def part(self, start: int, stop: int) -> Sequence[Any]:
        return list(islice(self._broker.state.prt.matched_with(), start, stop))

    def text(self, entry: Any) -> str:
        return self._text(
            entry.key, lambda: f"{entry.client} {entry.id} {entry.key.host} {entry.filter} {self._policy(entry)}"
        )

    def _policy(self, entry: Any) -> str:
        session = self._sessions.get(entry.client) if entry.client else None
        return "" if session is None else session.deliveries.policies.get(entry.id, "")

    def value(self, entry: Any, column: str) -> Any:
        if column in ("client", "id", "priority"):
            return getattr(entry, column)
        if column == "filter":
            return self.text(entry)
        if column == "host":
            return entry.key.host
        return self._policy(entry) if column == "policy" else super().value(entry, column)

    def row(self, entry: Any) -> dict[str, Any]:
        session = self._sessions.get(entry.client) if entry.client else None
        return {
            "client": entry.client,
            "id": entry.id,
            "host": str(entry.key.host),
            "from": "" if entry.last_hop is None else str(entry.last_hop),
            "filter": _cut(str(entry.filter)),
            "priority": entry.priority,
            "policy": self._policy(entry),
            "deadline_ms": None if session is None else session.deliveries.deadline_ms_of(entry.id),
            "ordered": None if session is None else entry.id not in session.deliveries.unordered,
        }


class AdvertisementRows(_Rows):
    """The SRT: advertisements of this broker's clients first, then those learnt from neighbours."""

    columns = ("client", "id", "host", "from", "filter", "civ", "interest")

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    def __len__(self) -> int:
        return len(self._broker.state.srt)

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        state = self._broker.state
        for name in state.advertisements.clients() if client is None else [client]:
            own = list(state.advertisements.of(name).items())
            entries = ((name, id, state.srt.get(each.key)) for id, each in own)
            yield [each for each in entries if each[2] is not None]
        if client is None:
            every = list(islice(state.srt, ROWS_MAX))
            yield [("", "", entry) for entry in every if entry.last_hop is not None]

    def part(self, start: int, stop: int) -> Sequence[Any]:
        return list(islice((entry for chunk in self.chunks(None) for entry in chunk), start, stop))

    def text(self, entry: Any) -> str:
        client, id, row = entry
        return self._text(row.key, lambda: f"{client} {id} {row.key.host} {row.filter}")

    def value(self, entry: Any, column: str) -> Any:
        if column == "filter":
            return self.text(entry)
        return entry[2].key.host if column == "host" else super().value(entry, column)

    def row(self, entry: Any) -> dict[str, Any]:
        client, id, row = entry
        return {
            "client": client,
            "id": id,
            "host": str(row.key.host),
            "from": "" if row.last_hop is None else str(row.last_hop),
            "filter": _cut(str(row.filter)),
            "civ": f"{row.civ:b}" if row.civ else "",
            "interest": row.interest,
        }


class ClientRows(_Rows):
    """Clients of this broker: policy, queue, drops, rates and rights."""

    columns = (
        "client", "connected", "away_s", "policy", "subscriptions", "advertisements", "queue", "queue_bytes",
        "queue_max", "dropped", "too_old", "published", "sent", "publish_rate", "send_rate", "wait_s", "oldest_s",
        "slow", "paused", "owner", "may_advertise", "may_subscribe", "peer",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, sessions: Mapping[str, Session], now: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        super().__init__()
        self._broker = broker
        self._sessions = sessions
        self._now = now
        self._wall = wall
        self._rates = _Rates(now)

    def __len__(self) -> int:
        return len(self._sessions)

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        if client is None:
            self._rates.keep(self._sessions)
            yield list(islice(self._sessions.values(), ROWS_MAX))
        elif client in self._sessions:
            yield [self._sessions[client]]

    def part(self, start: int, stop: int) -> Sequence[Any]:
        self._rates.keep(self._sessions)
        return list(islice(self._sessions.values(), start, stop))

    def text(self, entry: Session) -> str:
        return f"{entry.name} {entry.rights.name} {' '.join(dict.fromkeys(entry.deliveries.policies.values()))}".lower()

    def value(self, entry: Session, column: str) -> Any:
        queue = entry.queue
        match column:
            case "client":
                return entry.name
            case "queue":
                return queue.waits
            case "queue_bytes":
                return queue.waiting_bytes
            case "dropped":
                return queue.dropped_total
            case "published":
                return entry.publisher.published
            case "sent":
                return queue.left_total
            case _:
                return super().value(entry, column)

    def row(self, entry: Session) -> dict[str, Any]:
        state, queue, channel = self._broker.state, entry.queue, entry.channel
        rates = self._rates.of(entry.name, entry.publisher.published, queue.left_total)
        rate = None if rates is None else rates[1]
        return {
            "client": entry.name,
            "connected": channel is not None,
            "away_s": None if entry.left_s is None else round(self._now() - entry.left_s, 3),
            "policy": ",".join(sorted(set(entry.deliveries.policies.values()))),
            "subscriptions": len(state.subscriptions.of(entry.name)),
            "advertisements": len(state.advertisements.of(entry.name)),
            "queue": queue.waits,
            "queue_bytes": queue.waiting_bytes,
            "queue_max": queue.frames_max,
            "dropped": queue.dropped_total,
            "too_old": queue.too_old_total,
            "published": entry.publisher.published,
            "sent": queue.left_total,
            "publish_rate": None if rates is None else round(rates[0], 3),
            "send_rate": None if rate is None else round(rate, 3),
            "wait_s": _wait_s(queue.waits, rate),
            "oldest_s": self._oldest_s(entry),
            "slow": entry.deliveries.asks or entry.deliveries.privilege.lost,
            "paused": channel is not None and channel.is_held,
            "owner": entry.rights.name,
            "may_advertise": _right(entry.rights, "advertise"),
            "may_subscribe": _right(entry.rights, "subscribe"),
            "peer": "" if channel is None else channel.name,
        }

    def _oldest_s(self, entry: Session) -> float | None:
        """The age of the oldest of the deliveries that wait first, if notifications carry their time (deadlines)."""
        oldest_ms = entry.queue.oldest_ms
        return None if oldest_ms is None else round(max(0.0, self._wall() - oldest_ms / 1000), 3)


class LinkRows(_Rows):
    """Links of this broker: up or down, Q_l, CE, τ, rates."""

    columns = (
        "neighbour", "kind", "up", "connected", "queue", "queue_bytes", "element", "tau", "overloaded", "avoided",
        "sent", "lost", "rate", "wait_s",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, links: Mapping[BrokerId, Link], tau: float, avoids: bool, now: Callable[[], float]
    ) -> None:
        """`avoids`: the routing avoids links that are overloaded or down."""
        super().__init__()
        self._broker = broker
        self._links = links
        self._tau = tau
        self._avoids = avoids
        self._rates = _Rates(now)

    def __len__(self) -> int:
        return len(self._links)

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        yield list(self._links.values()) if client is None else []

    def part(self, start: int, stop: int) -> Sequence[Any]:
        return list(islice(self._links.values(), start, stop))

    def text(self, entry: Link) -> str:
        return f"{entry.neighbour} {'up' if entry.is_up else 'down'}"

    def row(self, entry: Link) -> dict[str, Any]:
        neighbour, queue, lst = entry.neighbour, entry.queue, self._broker.state.lst
        overloaded = lst.overloaded(neighbour)
        rates = self._rates.of(str(neighbour), queue.left_total)
        rate = None if rates is None else rates[0]
        return {
            "neighbour": str(neighbour),
            "kind": "i" if neighbour.region == self._broker.id.region else "a",
            "up": entry.is_up,
            "connected": entry.channel is not None,
            "queue": queue.waits,
            "queue_bytes": queue.waiting_bytes,
            "element": round(lst.element(neighbour), 4),
            "tau": self._tau,
            "overloaded": overloaded,
            "avoided": self._avoids and (overloaded or not entry.is_up),
            "sent": queue.left_total,
            "lost": entry.outgoing.dropped,
            "rate": None if rate is None else round(rate, 3),
            "wait_s": _wait_s(queue.waits, rate),
        }


def sources(
    broker: Broker,
    sessions: Mapping[str, Session],
    links: Mapping[BrokerId, Link],
    tau: float,
    avoids: bool,
    now: Callable[[], float],
    wall: Callable[[], float],
) -> dict[str, RowSource]:
    """All tables of a broker by name."""
    return {
        "subscriptions": SubscriptionRows(broker, sessions),
        "advertisements": AdvertisementRows(broker),
        "clients": ClientRows(broker, sessions, now, wall),
        "links": LinkRows(broker, links, tau, avoids, now),
    }


def _wait_s(waits: int, rate: float | None) -> float | None:
    """How long a new entry will wait at the current rate; None if unknown."""
    if not waits:
        return 0.0
    return round(waits / rate, 4) if rate else None


def _right(rights: Rights, name: str) -> str | None:
    filter = getattr(rights, name)
    return None if filter is None else _cut(str(filter))


def _cut(text: str) -> str:
    return text if len(text) <= FILTER_CHARS_MAX else f"{text[:FILTER_CHARS_MAX]}…"
