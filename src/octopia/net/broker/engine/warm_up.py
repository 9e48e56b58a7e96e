"""Load or compile all code of the compiled engine, so that no notification has to wait for it.

Small brokers of all routings route notifications of all kinds, as brokers do: every kernel is called with arguments of
the types that a broker uses, so the compiled versions on disk are the ones that will be needed. As a program, it does
just that: `python -m octopia.net.broker.engine.warm_up`.
"""

from collections.abc import Callable

from octopia.language import Filter, Value, parse_filter, parse_notification
from octopia.matching import warm_up as warm_up_matching
from octopia.net.broker.engine.compiled import CompiledEngine
from octopia.net.broker.engine.order import Order
from octopia.net.broker.engine.outcome import ALL, Outcome
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.engine.reference import ReferenceEngine
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.traces import Traces
from octopia.net.broker.rights import Rights
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle
from octopia.protocol import Key, Subscribe
from octopia.routing import Advertised, Broker, Received, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import Codec, Connection, Side, Unread, WireLimits, encode_parcel, publish_frame

_ROUTINGS = ("snr", "idr", "fdr", "tid", "tid-dynamic")
_PRICED = parse_filter("class = 'STOCK' and price > 0")
_ADVERTISED = parse_filter("class = 'STOCK' and price > 0 and symbol is not null and volume > -1 and open is not null")
_RIGHT = parse_filter("class = 'STOCK' and symbol in (" + ", ".join(f"'S{number}'" for number in range(12)) + ")")
_VALUES: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "S1", "volume": 1 << 60, "open": True}


class _Queue:
    """Keeps what is put into it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        self.written.append(bytes(bundle.data))


class _Link:
    def __init__(self) -> None:
        self.outgoing = _Queue()


class _Client(_Queue):
    def __init__(self, name: str, right: Filter | None = None) -> None:
        super().__init__()
        rights = Rights(name, advertise=right) if right is not None else Rights(name)
        self.publisher = Publisher(name, rights.permit(), rights)
        self.deliveries = self

    def priority_of(self, subscriptions: tuple[str, ...]) -> int:
        return 0


class _Broker:
    """A broker without connections, whose clients are interested in everything."""

    def __init__(self, id: BrokerId, scot: Scot, routing: str) -> None:
        self.core = Broker(id, scot, routing)
        self.codec = Codec(WireLimits(), scot)
        self.links = {neighbour: _Link() for neighbour in self.core.state.neighbours}
        self.clients = {"p": _Client("p"), "q": _Client("q", _RIGHT), "c": _Client("c")}
        order = Order(id, 1.0, 1, 1) if routing == "idr" else None
        traces = Traces(id, scot.brokers, scot.clusters, lambda to: (True, 0), lambda client, ids: (0, ""))
        cases = CaseCounts(())

        def wall() -> float:
            return 0.0

        reference = ReferenceEngine(
            self.core,
            self.codec,
            clients=self.clients,  # type: ignore[arg-type]
            links=self.links,
            order=order,
            cases=cases,
            counters=Counters(),
            traces=traces,
            wall=wall,
        )
        self.engine = CompiledEngine(
            self.core,
            self.codec,
            reference,
            clients=self.clients,  # type: ignore[arg-type]
            links=self.links,
            order=order,
            cases=cases,
            wall=wall,
        )
        self.engine.observed = True
        for name in ("p", "q"):
            self.core.handle(Advertised(name, "a", _ADVERTISED), 0.0)
        for number, filter in enumerate([*_filters(), *[_PRICED] * 30]):
            self.core.handle(Subscribed("c", str(number), filter, True, number % 2), 0.0)

    def read(self, data: bytes, role: str, route: Callable[[Unread], Outcome]) -> None:
        """Route all notifications of a read."""
        connection = Connection(Side.ACCEPTING_BROKER, self.codec)
        connection.open(role)
        connection.feed(data)
        for message in connection.messages():
            outcome = route(message)
            if outcome.notes is not None:
                outcome.notes.sample(ALL // 2, True)
            for destination, lane, bundle in outcome.bundles:
                destination.put(bundle, lane, None)
            message.took(outcome.after, outcome.frames)


def _filters() -> list[Filter]:
    """Conditions of all kinds."""
    texts = (
        "class = 'STOCK' and price < 100",
        "class = 'STOCK' and (symbol like 'S%' or volume > 1)",
        "volume > 1152921504606846975 and symbol like '%1' and open = true",
        "symbol like '%S%' and symbol >= 'A' and price <> 3",
        "symbol not like '%x%' and symbol not like 'x%' and volume <> 1152921504606846975",
    )
    return [parse_filter(text) for text in texts]


def warm_up() -> str:
    """Load or compile all kernels; returns the name of the kernels in use."""
    kernels = warm_up_matching()
    if kernels == "numba":
        from octopia.native import note_compiled

        for routing in _ROUTINGS:
            _route_some(routing)
        note_compiled()
    return kernels


def _route_some(routing: str) -> None:
    """Take notifications through two brokers, from a client of each to the clients of both."""
    scot = Scot(parse_tree("path:2"), 1)
    here, there = [_Broker(id, scot, routing) for id in scot.brokers]
    for one, other in ((here, there), (there, here)):
        for number, filter in enumerate(_filters()):
            tids = tuple(entry.key for entry in one.core.state.srt) if routing.startswith("tid") else ()
            message = Subscribe(Key(other.core.id, 100 + number), filter, tids)
            one.core.handle(Received(other.core.id, message), 0.0)
    for name in ("p", "q"):
        for first in (1, 100):
            frames = [
                publish_frame(encode_parcel(parse_notification(_VALUES), name, first + number)) for number in range(5)
            ]
            publisher = here.clients[name].publisher
            here.read(b"".join(frames), "client", lambda unread, own=publisher: here.engine.publish(own, unread, 0.0))  # type: ignore[misc]
            written = b"".join(here.links[there.core.id].outgoing.written)
            here.links[there.core.id].outgoing.written.clear()
            there.read(written, "broker", lambda unread: there.engine.receive(here.core.id, unread, 0.0))


if __name__ == "__main__":
    warm_up()
