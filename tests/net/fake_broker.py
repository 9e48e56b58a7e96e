"""Brokers and a network that exist in one event loop only, for tests of clients: no sockets, no time that passes.

`VirtualLoop` jumps to the next timer when nothing else is to be done, and ends a test in which nothing can happen any
more: a client that waits for ever is an error, not a pause. `FakeNetwork` answers `create_connection` of that loop; its
connections carry bytes both ways in pieces, and can be cut after any of them. `FakeBroker` is a second implementation
of a broker's side of a session, as docs/reference/wire.md describes it: it numbers and confirms frames, drops repeats,
checks what is published against what is advertised, and writes down what it routed. It is strict: a publication before
the advertisement was answered is refused, since somewhere in a real overlay it might not be in force yet.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from octopia.language import Filter, conforms, parse_notification
from octopia.wire import (
    MOVE,
    ROLE_CLIENT,
    ROLE_PROBE,
    VERSION,
    Accepted,
    Ack,
    AdvertiseRequest,
    Batch,
    Codec,
    Connection,
    Crowded,
    Goodbye,
    Hello,
    Load,
    Ping,
    Pong,
    Refused,
    Side,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
    WireLimits,
    WireNotification,
    deliver_frame,
    encode_parcel,
    message_frame,
)
from tests.net.live import Coroutines, Test, provided

CODEC = Codec(WireLimits())
CONFIRM_S = 0.025
# Bytes that one end may have in flight before it is told to stop writing.
WRITE_BYTES_MAX = 4096


def one_by_one(messages: list[Any]) -> Iterator[Any]:
    """The messages of a read, with notifications one by one."""
    for message in messages:
        if isinstance(message, Batch):
            yield from map(message.notification, range(len(message)))
        else:
            yield message


class _Selector(selectors.DefaultSelector):
    """Waits for nothing: lets the clock jump instead."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("nothing can happen any more, and the test has not ended")
            self.loop.now_s += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.network: FakeNetwork | None = None
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now_s

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str, port: int, **_: Any
    ) -> tuple[Any, Any]:
        await asyncio.sleep(0.001)
        assert self.network is not None
        return self.network.connect(factory(), port)


def run_virtual(main: Callable[["FakeNetwork"], Coroutine[Any, Any, None]], seed: int = 0) -> None:
    """Run a test in its own network."""

    async def with_network() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.network = FakeNetwork(random.Random(seed))
        faults: list[Any] = []
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        await main(loop.network)
        assert faults == [], faults

    async def in_place(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    # Pauses are drawn from a source of their own; here everything follows from the seed. A virtual clock knows nothing
    # of threads, so what a client would do in one is done in place.
    with (
        patch("asyncio.to_thread", in_place),
        patch("octopia.net.pauses._draws", random.Random(seed)),
        patch("octopia.net.client.moving._draws", random.Random(seed)),
        patch("octopia.net.client.nearest._draws", random.Random(seed)),
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        runner.run(with_network())


def virtual(test: Coroutines) -> Test:
    """For a test in its own network, which is its first argument; it follows from its `seed`, if it has one."""
    return provided(test, lambda given: run_virtual(lambda network: test(network, **given), given.get("seed", 0)))


class FakeNetwork:
    """Brokers by port, and the connections to them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.brokers: dict[int, FakeBroker] = {}
        self.lines: list[Line] = []
        self.delay_s = 0.001
        # The next connections break after so many bytes: to the broker, to the client.
        self.budgets: list[tuple[int | None, int | None]] = []
        self.routed: list[tuple[FakeSession, int]] = []  # by all, in time

    def add(self, **options: Any) -> "FakeBroker":
        broker = FakeBroker(self, 7400 + len(self.brokers), **options)
        self.brokers[broker.port] = broker
        return broker

    def connect(self, protocol: Any, port: int) -> tuple[Any, Any]:
        broker = self.brokers[port]
        if not broker.up:
            raise ConnectionRefusedError(111, "Connection refused")
        line = Line(self, protocol, broker)
        if self.budgets:
            line.budgets = dict(zip(("up", "down"), self.budgets.pop(0), strict=True))
        self.lines.append(line)
        protocol.connection_made(line)
        return line, protocol

    def cut_all(self) -> None:
        for line in list(self.lines):
            line.cut()


class Line(asyncio.Transport):
    """One connection: the client's transport, and the broker's end of it."""

    def __init__(self, network: FakeNetwork, protocol: Any, broker: "FakeBroker") -> None:
        super().__init__()
        self.network = network
        self.delay_s = network.delay_s if broker.delay_s is None else broker.delay_s
        self.is_cut = False
        self.closing = False
        self.budgets: dict[str, int | None] = {"up": None, "down": None}
        self._protocol = protocol
        self._under_way = {"up": 0, "down": 0}
        self._queues: dict[str, deque[tuple[bytes, Callable[[bytes], None], bool]]] = {"up": deque(), "down": deque()}
        self._paused = False
        self._reading = True
        self._unread: list[bytes] = []
        self.talk = Talk(self, broker)

    # -- what the client's end calls

    def write(self, data: Any) -> None:
        if not self.closing:
            self.carry("up", bytes(data), self.talk.data_received)

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            # After what was written.
            asyncio.get_running_loop().call_later(2 * self.delay_s, self._end, None)

    def abort(self) -> None:
        self.cut()

    def is_closing(self) -> bool:
        return self.closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self._under_way["up"]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        unread, self._unread = self._unread, []
        for data in unread:
            self.to_client(data)

    def is_reading(self) -> bool:
        return self._reading

    # -- bytes

    def carry(self, way: str, data: bytes, arrive: Callable[[bytes], None]) -> None:
        """Bytes arrive a moment later, in their order; where the budget ends the connection breaks."""
        if self.is_cut:
            return
        budget = self.budgets[way]
        breaks = budget is not None and len(data) >= budget
        if budget is not None:
            data = data[:budget]
            self.budgets[way] = budget - len(data)
        self._under_way[way] += len(data)
        if way == "up" and self._under_way["up"] > WRITE_BYTES_MAX and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

        self._queues[way].append((data, arrive, breaks))
        # Timers of the same time have no order: whichever is first takes what was first.
        asyncio.get_running_loop().call_later(self.delay_s, self._arrived, way)

    def _arrived(self, way: str) -> None:
        if self.is_cut:
            return
        data, arrive, breaks = self._queues[way].popleft()
        self._under_way[way] -= len(data)
        if data:
            arrive(data)
        if breaks:
            self.cut()
        elif self._paused and self._under_way["up"] <= WRITE_BYTES_MAX // 2:
            self._paused = False
            self._protocol.resume_writing()

    def say(self, data: bytes) -> None:
        """Output of the broker's end."""
        self.carry("down", data, self.to_client)

    def to_client(self, data: bytes) -> None:
        if self._reading:
            self._protocol.data_received(data)
        else:
            self._unread.append(data)

    def cut(self) -> None:
        """Break the connection: bytes in flight are lost."""
        if not self.is_cut:
            self.closing = True
            self._end(ConnectionResetError(104, "Connection reset by peer"))

    def _end(self, error: Exception | None) -> None:
        if self.is_cut:
            return
        self.is_cut = True
        self.network.lines.remove(self)
        self.talk.connection_lost()
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)


@dataclass(eq=False)
class FakeSession:
    """A broker's state of a client."""

    broker: "FakeBroker"
    name: str
    secret: bytes
    received: int = 0
    out: list[bytes] = field(default_factory=list)  # every numbered frame so far
    last: int = -1
    advertised: dict[str, Filter] = field(default_factory=dict)
    in_force: dict[str, Filter] = field(default_factory=dict)  # advertised, and the client was told so
    subscribed: dict[str, Filter] = field(default_factory=dict)
    listening: dict[str, None] = field(default_factory=dict)  # subscribed, and the client was told so
    moves: bool = False
    routed: list[int] = field(default_factory=list)
    repeats: int = 0
    refused: list[str] = field(default_factory=list)
    told: int = 0  # how many publications the client knows to be routed
    talk: "Talk | None" = None
    over: bool = False

    def put(self, message: Any) -> None:
        self.put_frame(message_frame(message))

    def deliver(self, *subscriptions: str, number: int) -> None:
        """Deliver {"n": number}, of some publisher."""
        parcel = encode_parcel(parse_notification({"n": number}), "someone", number)
        self.put_frame(deliver_frame(subscriptions, parcel))

    def put_frame(self, frame: bytes) -> None:
        self.out.append(frame)
        if self.talk is not None:
            self.talk.line.say(frame)


class FakeBroker:
    """One broker. `refuses` may answer a request with a reason to refuse it."""

    def __init__(self, network: FakeNetwork, port: int) -> None:
        self.network = network
        self.port = port
        self.up = True
        self.goodbye: Callable[[Hello], Goodbye | None] = lambda hello: None
        self.refuses: Callable[[Any], str] = lambda request: ""
        self.answer_s: Callable[[], float] = lambda: 0.0
        self.confirms = True
        self.delay_s: float | None = None  # of its connections, where it is not the network's
        self.overloaded = False
        self.probes = 0
        self.knows_probes = True
        self.restart_s = 30.0
        self.sessions: dict[bytes, FakeSession] = {}
        self.past: list[FakeSession] = []
        self.hellos = 0

    @property
    def url(self) -> str:
        return f"octopia://fake:{self.port}"

    def crowd(self) -> int:
        """Ask all clients that can move to go elsewhere; returns how many there are."""
        talks = [session.talk for session in self.sessions.values() if session.moves and session.talk is not None]
        for talk in talks:
            talk.line.say(message_frame(Crowded("too much to do")))
        return len(talks)

    def deliver(self, number: int) -> None:
        """Deliver {"n": number} to every session, for all subscriptions that it was told are in force."""
        for session in self.sessions.values():
            if session.listening:
                session.deliver(*session.listening, number=number)

    def cut(self) -> None:
        """Break all connections to this broker."""
        for line in [line for line in self.network.lines if line.talk.broker is self]:
            line.cut()

    def restart(self) -> None:
        """It is back at once, and knows nobody."""
        self.forget()
        self.cut()

    def leave(self) -> None:
        """It says that it restarts, and is away until `up` is set again; it keeps its sessions."""
        self.up = False
        for session in self.sessions.values():
            if session.talk is not None:
                session.talk.line.say(message_frame(Goodbye("restart", "the broker restarts")))

    def kill(self) -> None:
        """End it without a word, and all it knew."""
        self.up = False
        self.restart()

    def forget(self) -> None:
        """All sessions end, as after a restart of the broker or a long absence."""
        for session in self.sessions.values():
            session.over = True
            session.talk = None
        self.past += self.sessions.values()
        self.sessions = {}

    @property
    def session(self) -> FakeSession:
        """The only one at present."""
        (session,) = self.sessions.values()
        return session

    def session_for(self, hello: Hello) -> tuple[FakeSession, bool]:
        known = self.sessions.get(hello.session)
        if known is not None and hello.received <= len(known.out):
            return known, True
        for other in list(self.sessions.values()):
            if other.name == hello.name:
                self.past.append(self.sessions.pop(other.secret))
                other.over = True
        number = len(self.past) + len(self.sessions)
        secret = f"{self.port} {number}".encode()
        self.sessions[secret] = FakeSession(self, hello.name or f"c{self.port}", secret)
        return self.sessions[secret], False


class Talk:
    """The broker's end of one connection."""

    def __init__(self, line: Line, broker: FakeBroker) -> None:
        self.line = line
        self.broker = broker
        self.session: FakeSession | None = None
        self._connection = Connection(Side.ACCEPTING_BROKER, CODEC)
        self._ticks = False

    def data_received(self, data: bytes) -> None:
        for message in one_by_one(self._connection.receive(data)):
            if isinstance(message, Hello):
                self._greet(message)
            else:
                self._take(message)
        if self.session is not None and self.session.talk is self:
            self.session.received = self._connection.received
            self._tick_later()

    def _greet(self, hello: Hello) -> None:
        if hello.role == ROLE_PROBE:
            self.broker.probes += 1
            answer = Load(f"(fake,{self.broker.port})", self.broker.overloaded)
            older = Goodbye("refused", "unknown role 'probe'")
            self.line.say(message_frame(answer if self.broker.knows_probes else older))
            return
        self.broker.hellos += 1
        goodbye = self.broker.goodbye(hello)
        if goodbye is not None:
            self.line.say(message_frame(goodbye))
            return
        session, resumed = self.broker.session_for(hello)
        self.session, session.talk = session, self
        session.moves = MOVE in hello.capabilities
        self._connection.open(ROLE_CLIENT, session.received)
        welcome = Welcome(
            VERSION,
            f"(fake,{self.broker.port})",
            session.name,
            [],
            session.secret,
            resumed,
            session.received,
            30.0,
            restart_s=self.broker.restart_s,
        )
        self.line.say(message_frame(welcome))
        for frame in session.out[hello.received if resumed else 0 :]:
            self.line.say(frame)
        self.data_received(b"")

    def _take(self, message: Any) -> None:
        session = self.session
        assert session is not None
        if session.over:
            return
        if isinstance(message, WireNotification):
            self._publish(session, message)
        elif isinstance(message, AdvertiseRequest | SubscribeRequest | UnadvertiseRequest | UnsubscribeRequest):
            self._request(session, message)
        elif isinstance(message, Ping):
            session.received = self._connection.received
            self._confirm()
            self.line.say(message_frame(Pong(message.number)))
        elif isinstance(message, Goodbye):
            session.over = True
            self.broker.past.append(self.broker.sessions.pop(session.secret))
            self.line.close()

    def _publish(self, session: FakeSession, notification: WireNotification) -> None:
        assert notification.publisher == session.name
        if notification.sequence <= session.last:
            session.repeats += 1
            return
        session.last = notification.sequence
        if not any(conforms(notification, filter) for filter in session.in_force.values()):
            session.refused.append(str(notification.sequence))
            session.put(Refused("publish", str(notification.sequence), "not advertised"))
            return
        session.routed.append(notification.sequence)
        self.broker.network.routed.append((session, notification.sequence))

    def _request(self, session: FakeSession, request: Any) -> None:
        name = type(request).__name__.removesuffix("Request").lower()
        reason = self.broker.refuses(request)
        if not reason:
            held = session.advertised if name.endswith("advertise") else session.subscribed
            if name.startswith("un"):
                held.pop(request.id, None)
                if name == "unadvertise":
                    session.in_force.pop(request.id, None)
                session.listening.pop(request.id, None)
            else:
                held[request.id] = request.filter
        answer = Refused(name, request.id, reason) if reason else Accepted(name, request.id)
        wait_s = self.broker.answer_s()
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._answer, session, answer)
        else:
            self._answer(session, answer)

    def _answer(self, session: FakeSession, answer: Any) -> None:
        if not session.over:
            if answer.request == "advertise" and answer.id in session.advertised:
                session.in_force[answer.id] = session.advertised[answer.id]
            if answer.request == "subscribe" and answer.id in session.subscribed:
                session.listening[answer.id] = None
            session.put(answer)

    def _tick_later(self) -> None:
        if not self._ticks:
            self._ticks = True
            asyncio.get_running_loop().call_later(CONFIRM_S, self._tick)

    def _tick(self) -> None:
        self._ticks = False
        if self.session is not None and self.session.talk is self:
            self._confirm()
            if not self.broker.confirms:
                self._tick_later()

    def _confirm(self) -> None:
        session = self.session
        assert session is not None
        if self.broker.confirms:
            known, confirmation = len(session.routed), message_frame(Ack(session.received))

            def arrive(data: bytes) -> None:
                # Neither a part of it nor what comes after hanging up tells the client anything.
                if data == confirmation and not self.line.closing:
                    session.told = known
                self.line.to_client(data)

            self.line.carry("down", confirmation, arrive)

    def connection_lost(self) -> None:
        if self.session is not None and self.session.talk is self:
            self.session.talk = None
