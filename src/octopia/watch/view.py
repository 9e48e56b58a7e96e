"""The state of an overlay, computed from the brokers' answers. No I/O and no clock.

Rates are differences between two answers of the same life of a broker, over the time between them by the broker's own
clock; without an earlier answer, or after a restart, they are None and not 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from octopia.errors import OctopiaError
from octopia.topology import BrokerId
from octopia.watch.reader import WrongBrokerError

OK, STOPPING, DOWN, WRONG = "ok", "stopping", "down", "wrong"
# The seconds since a broker's previous answer, and that answer.
_Since = tuple[float, Any] | None


@dataclass(frozen=True, slots=True)
class LinkView:
    """One direction of a link, as reported by its sender. `load` is Q_l · CE / τ: above 1 it is overloaded (Eq. 10)."""

    sender: BrokerId
    receiver: BrokerId
    up: bool
    connected: bool
    queue: int
    element: float
    load: float
    overloaded: bool
    avoided: bool
    sent: int
    lost: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker. If it does not answer, `status` is down or wrong, `reason` says why, and the rest is empty."""

    broker: BrokerId
    status: str
    reason: str = ""
    overloaded: str = ""
    clients: int = 0
    subscriptions: int = 0
    advertisements: int = 0
    queue: int = 0  # Q_l of all its links
    client_queue: int = 0
    published_rate: float | None = None
    delivered_rate: float | None = None
    sent_rate: float | None = None  # on links
    dropped_rate: float | None = None
    refused_rate: float | None = None
    dropped: int = 0
    around: int | None = None  # notifications that did not take their usual path; None: the routing has no cases
    cpu: float | None = None  # cores that its process used
    memory_bytes: int = 0  # resident, of its process
    shares: int = 1  # brokers of its process
    version: str = ""
    uptime_s: float = 0.0
    events_last: int = 0
    links: tuple[LinkView, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of all brokers that answer."""

    brokers: int
    up: int
    clients: int
    subscriptions: int
    queue: int
    client_queue: int
    published_rate: float | None
    delivered_rate: float | None
    sent_rate: float | None
    dropped_rate: float | None
    refused_rate: float | None
    links: int
    links_up: int
    links_overloaded: int


@dataclass(frozen=True, slots=True)
class OverlayView:
    """All brokers at one moment; `time_s` is the watcher's."""

    time_s: float
    brokers: Mapping[BrokerId, BrokerView]
    totals: Totals

    def links(self) -> Iterable[LinkView]:
        for broker in self.brokers.values():
            yield from broker.links


def overlay_view(time_s: float, answers: Mapping[BrokerId, Any], before: Mapping[BrokerId, Any]) -> OverlayView:
    """The state according to the current answers and the previous ones; an answer may be an error."""
    brokers = {broker: broker_view(broker, answer, before.get(broker)) for broker, answer in answers.items()}
    return OverlayView(time_s, brokers, _totals(brokers.values()))


def broker_view(broker: BrokerId, answer: Any, before: Any = None) -> BrokerView:
    """One broker, by its `/state` or the error in its place, and its previous answer."""
    if isinstance(answer, WrongBrokerError):
        return BrokerView(broker, WRONG, str(answer))
    if isinstance(answer, OctopiaError):
        return BrokerView(broker, DOWN, str(answer))
    # `/healthz`, for those without a token, has no process, no counters and no times
    process = answer.get("process", {})
    since = _since(answer, before)
    links = tuple(_link(broker, each, answer.get("tau", 0.0), since) for each in answer["links"])
    rates = [link.rate for link in links if link.rate is not None]
    cases = answer.get("cases")
    return BrokerView(
        broker,
        answer["status"],
        overloaded=answer.get("overloaded", ""),
        clients=answer.get("clients", 0),
        subscriptions=answer.get("subscriptions", 0),
        advertisements=answer.get("advertisements", 0),
        queue=sum(link.queue for link in links),
        client_queue=sum(answer.get("client_queue_by_priority", ())),
        published_rate=_rate(since, answer, "published"),
        delivered_rate=_rate(since, answer, "deliveries"),
        sent_rate=sum(rates) if since is not None else None,
        dropped_rate=_rate(since, answer, "dropped"),
        refused_rate=_rate(since, answer, "counters", "refusals"),
        dropped=answer.get("dropped", 0),
        around=sum(each["notifications"] for case, each in cases.items() if case != "0") if cases else None,
        cpu=_cpu(answer, before, since),
        memory_bytes=process.get("resident_bytes", 0),
        shares=process.get("brokers", 1),
        version=process.get("version", ""),
        uptime_s=max(0.0, answer["time_s"] - answer["started_s"]) if process else 0.0,
        events_last=answer.get("events_last", 0),
        links=links,
    )


def _since(answer: Mapping[str, Any], before: Any) -> _Since:
    """The previous answer and the time since then, if it is from the same life."""
    if not isinstance(before, dict) or before.get("started_s") != answer.get("started_s", 0):
        return None
    took_s = answer["time_s"] - before["time_s"]
    return (took_s, before) if took_s > 0 else None


def _per_s(now: int, before: int, took_s: float) -> float:
    return max(now - before, 0) / took_s


def _rate(since: _Since, answer: Any, *path: str) -> float | None:
    """Of the number at this path of names."""
    return None if since is None else _per_s(reduce(getitem, path, answer), reduce(getitem, path, since[1]), since[0])


def _cpu(answer: Mapping[str, Any], before: Any, since: _Since) -> float | None:
    """Of the process, which may have continued while the broker restarted, or the reverse."""
    if since is None or before["process"]["pid"] != answer["process"]["pid"]:
        return None
    return max(0.0, float(answer["process"]["cpu_s"] - before["process"]["cpu_s"])) / since[0]


def _link(broker: BrokerId, given: Mapping[str, Any], tau: float, since: _Since) -> LinkView:
    rate = None
    if since is not None:
        earlier = next((each for each in since[1]["links"] if each["neighbour"] == given["neighbour"]), None)
        rate = None if earlier is None else _per_s(given["sent"], earlier["sent"], since[0])
    return LinkView(
        broker,
        BrokerId.parse(given["neighbour"]),
        given["up"],
        given["connected"],
        given["queue"],
        given["element"],
        given["queue"] * given["element"] / tau if tau else 0.0,
        given["overloaded"],
        given["avoided"],
        given["sent"],
        given["lost"],
        rate,
    )


def _totals(brokers: Iterable[BrokerView]) -> Totals:
    every = list(brokers)
    links = [link for broker in every for link in broker.links]

    def added(name: str) -> float | None:
        known = [rate for broker in every if (rate := getattr(broker, name)) is not None]
        return sum(known) if known else None

    return Totals(
        brokers=len(every),
        up=sum(broker.status == OK for broker in every),
        clients=sum(broker.clients for broker in every),
        subscriptions=sum(broker.subscriptions for broker in every),
        queue=sum(broker.queue for broker in every),
        client_queue=sum(broker.client_queue for broker in every),
        published_rate=added("published_rate"),
        delivered_rate=added("delivered_rate"),
        sent_rate=added("sent_rate"),
        dropped_rate=added("dropped_rate"),
        refused_rate=added("refused_rate"),
        links=len(links),
        links_up=sum(link.up for link in links),
        links_overloaded=sum(link.overloaded and link.up for link in links),
    )


def series_of(view: OverlayView) -> dict[str, float]:
    """The numbers of a view that have a history, by name: `published`, `(a,0) queue`, `(a,0)-(a,1) rate`."""
    found: dict[str, float | None] = {
        "published": view.totals.published_rate,
        "delivered": view.totals.delivered_rate,
        "dropped": view.totals.dropped_rate,
        "refused": view.totals.refused_rate,
        "queue": view.totals.queue,
        "client_queue": view.totals.client_queue,
    }
    for broker in view.brokers.values():
        if broker.status in (DOWN, WRONG):
            continue
        at = str(broker.broker)
        found[f"{at} published"] = broker.published_rate
        found[f"{at} delivered"] = broker.delivered_rate
        found[f"{at} queue"] = broker.queue
        found[f"{at} client_queue"] = broker.client_queue
        found[f"{at} cpu"] = broker.cpu
        found[f"{at} memory"] = broker.memory_bytes
        for link in broker.links:
            found[f"{at}-{link.receiver} rate"] = link.rate
            found[f"{at}-{link.receiver} queue"] = link.queue
    return {name: value for name, value in found.items() if value is not None}


def series_count(brokers: int, directed_links: int) -> int:
    """About how many series a view of so many has."""
    return 6 + 6 * brokers + 2 * directed_links
