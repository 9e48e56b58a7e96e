"""A channel alone: no network, a loop whose time passes only on demand, and a socket that keeps its input."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, cast

import pytest

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.language import parse_filter
from octopia.net.channel import CONFIRM_FRAMES, CONFIRM_S, LINGER_S, Channel, Heartbeats
from octopia.net.frame_queue import FrameQueue, Turn
from octopia.wire import (
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Accepted,
    Ack,
    AdvertiseRequest,
    Codec,
    Connection,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Side,
    Welcome,
    WireLimits,
    advertise_frame,
    message_frame,
)

CODEC = Codec(WireLimits())
HELLO = Hello([VERSION], ROLE_CLIENT, "c")
WELCOME = Welcome(VERSION, "(a,0)", "c")


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """As much of an event loop as a channel needs."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._order = count()
        self._due: list[tuple[float, int, Timer, Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[..., None], *args: Any) -> Timer:
        timer = Timer()
        heapq.heappush(self._due, (self.now_s + delay_s, next(self._order), timer, call, args))
        return timer

    def call_soon(self, call: Callable[..., None], *args: Any) -> Timer:
        return self.call_later(0.0, call, *args)

    def create_future(self) -> Any:
        return asyncio.Future(loop=cast("Any", self))

    def get_debug(self) -> bool:
        return False

    def pass_time(self, seconds: float = 0.0) -> None:
        until = self.now_s + seconds
        while self._due and self._due[0][0] <= until:
            at, _, timer, call, args = heapq.heappop(self._due)
            self.now_s = max(self.now_s, at)
            if not timer.cancelled:
                call(*args)
        self.now_s = until


class Socket:
    """A transport that keeps its output, and knows whether it is read from."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.state = "open"
        self.unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 7) if name == "peername" else None

    def write(self, data: bytes) -> None:
        assert self.state == "open", "written after the end"
        self.written += data

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "aborted"


class Party:
    """An end and an owner in one, which records its calls."""

    def __init__(self, box: FrameQueue, role: str) -> None:
        self.queue = box
        self.role = role
        self.told: list[Any] = []
        self.hello: Hello | None = None
        self.failing: Exception | None = None
        self.before_confirming: Callable[[], None] = lambda: None

    def made(self, channel: Channel) -> None:
        self.told.append("made")
        if self.hello is not None:
            channel.say(self.hello)

    def greet(self, channel: Channel, message: Any) -> None:
        self.told.append(message)
        if self.failing is not None:
            raise self.failing
        if not isinstance(message, Goodbye):
            self.queue.attach(channel.transport, 0)
            channel.carry(self, self.role, 0)

    def take_in(self, channel: Channel, messages: Iterator[Any]) -> None:
        for message in messages:
            if isinstance(message, Ack | Ping | Pong | Goodbye):
                channel.manage(message)
            else:
                self.told.append(message)
        if self.failing is not None:
            raise self.failing
        self.before_confirming()

    def lost(self, channel: Channel, reason: str) -> None:
        self.told.append(("lost", reason))

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self.told.append(error)

    def gone(self, channel: Channel, reason: str) -> None:
        self.told.append(("gone", reason))


class Scene:
    """A channel with its party, of a broker that accepted, or of a client."""

    def __init__(self, side: Side = Side.ACCEPTING_BROKER, **options: Any) -> None:
        self.loop = Loop()
        self.socket = Socket()
        accepts = side is Side.ACCEPTING_BROKER
        self.queue = FrameQueue(Turn(cast("Any", self.loop)), 100, 10_000)
        self.party = Party(self.queue, ROLE_CLIENT if accepts else ROLE_BROKER)
        if not accepts:
            self.party.hello = HELLO
        self.channel = Channel(Connection(side, CODEC), self.party, cast("Any", self.loop), **options)
        self.channel.connection_made(cast("Any", self.socket))
        # What the other end makes of what is written here.
        self.other = Connection(Side.CLIENT if accepts else Side.ACCEPTING_BROKER, CODEC)
        if accepts:
            self.other.open(ROLE_BROKER)

    def shake_hands(self) -> "Scene":
        accepts = self.party.role == ROLE_CLIENT
        self.channel.data_received(message_frame(HELLO if accepts else WELCOME))
        self.loop.pass_time()
        if not accepts:
            assert self.said() == [HELLO]
            self.other.open(ROLE_CLIENT)
        self.party.told.clear()
        return self

    def hear(self, *messages: Any) -> None:
        self.channel.data_received(b"".join(frame_of(message) for message in messages))

    def said(self) -> list[Any]:
        data, self.socket.written = self.socket.written, b""
        return self.other.receive(data)


def frame_of(message: Any) -> bytes:
    if isinstance(message, AdvertiseRequest):
        return advertise_frame(message.id, message.filter)
    return message_frame(message)


def request(number: int) -> AdvertiseRequest:
    return AdvertiseRequest(f"a{number}", parse_filter("x > 0"))


@pytest.fixture(params=[Side.ACCEPTING_BROKER, Side.CLIENT], ids=["broker", "client"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param).shake_hands()


def numbered(scene: Scene, number: int) -> Any:
    """A numbered message that the peer of this scene may send."""
    return request(number) if scene.party.role == ROLE_CLIENT else Accepted("advertise", f"a{number}")


def test_what_comes_in_the_read_of_the_handshake_waits_for_the_owner() -> None:
    scene = Scene()
    scene.hear(HELLO, request(1), request(2))
    assert scene.party.told == ["made", HELLO]
    scene.loop.pass_time()
    assert scene.party.told == ["made", HELLO, request(1), request(2)]


def test_frames_are_confirmed_when_there_are_many_or_when_asked(scene: Scene) -> None:
    for number in range(CONFIRM_FRAMES - 1):
        scene.hear(numbered(scene, number))
    assert scene.said() == []
    scene.hear(numbered(scene, CONFIRM_FRAMES))
    assert scene.said() == [Ack(CONFIRM_FRAMES)]
    scene.channel.confirm()
    assert scene.said() == []
    scene.hear(numbered(scene, 0))
    scene.channel.confirm()
    assert scene.said() == [Ack(CONFIRM_FRAMES + 1)]


def test_where_nobody_ticks_frames_are_confirmed_soon() -> None:
    scene = Scene(Side.CLIENT, confirm_s=CONFIRM_S).shake_hands()
    for number in range(3):
        scene.hear(numbered(scene, number))
    assert scene.said() == []
    scene.loop.pass_time(CONFIRM_S)
    assert scene.said() == [Ack(3)]
    scene.loop.pass_time(10 * CONFIRM_S)
    assert scene.said() == []


def test_a_question_is_answered_after_the_whole_read_was_dealt_with_and_confirmed(scene: Scene) -> None:
    written: list[bytes] = []
    scene.party.before_confirming = lambda: written.append(scene.socket.written)
    scene.hear(numbered(scene, 1), Ping(5), numbered(scene, 2), Ping(6))
    assert written == [b""]
    assert scene.said() == [Ack(2), Pong(5), Pong(6)]


def test_nothing_of_a_read_is_confirmed_whose_owner_gave_up_on_it(scene: Scene) -> None:
    scene.party.before_confirming = scene.channel.abort
    scene.hear(numbered(scene, 1), Ping(5))
    assert scene.said() == []
    assert scene.socket.state == "aborted"


def test_what_the_peer_confirms_leaves_the_box(scene: Scene) -> None:
    frames = [advertise_frame(f"b{n}", parse_filter("x > 0")) for n in range(4)]
    if scene.party.role == ROLE_CLIENT:
        frames = [message_frame(Accepted("advertise", f"b{n}")) for n in range(4)]
    scene.queue.put_all(frames)
    scene.queue.flush()
    scene.hear(Ack(3))
    assert (scene.queue.sent, scene.queue.confirmed) == (4, 3)


def test_a_wrong_confirmation_is_a_breach_that_the_peer_is_told(scene: Scene) -> None:
    scene.hear(Ack(7))
    (fault,) = scene.party.told
    assert isinstance(fault, RemoteProtocolError)
    (goodbye,) = scene.said()
    assert (goodbye.code, goodbye.reason) == ("protocol", str(fault))
    assert scene.socket.state == "closed"
    scene.hear(numbered(scene, 1))
    assert scene.party.told == [fault]


def test_what_came_before_a_breach_in_the_same_read_counts(scene: Scene) -> None:
    scene.channel.data_received(frame_of(numbered(scene, 1)) + b"\x00\x00\x00\x01\xff")
    first, fault = scene.party.told
    assert first == numbered(scene, 1)
    assert isinstance(fault, RemoteProtocolError)
    assert scene.said()[-1].code == "protocol"


@pytest.mark.parametrize(
    ("failing", "code"), [(RefusedError("no"), "refused"), (ZeroDivisionError("never told"), "internal")]
)
def test_a_failure_here_ends_the_channel_and_only_says_what_the_peer_may_know(
    scene: Scene, failing: Exception, code: str
) -> None:
    scene.party.failing = failing
    scene.hear(numbered(scene, 1))
    assert scene.party.told == [numbered(scene, 1), failing]
    (goodbye,) = scene.said()
    assert goodbye.code == code
    assert "never" not in goodbye.reason


def test_a_peer_that_says_nothing_is_closed_when_its_time_is_over() -> None:
    scene = Scene(handshake_s=5.0)
    scene.loop.pass_time(4.9)
    assert scene.said() == []
    scene.loop.pass_time(0.2)
    assert scene.said() == [Goodbye("handshake", "no handshake within 5 s")]
    done = Scene(handshake_s=5.0).shake_hands()
    done.loop.pass_time(50)
    assert done.said() == []


def test_a_goodbye_is_known_to_whoever_is_told_of_the_loss(scene: Scene) -> None:
    scene.hear(Goodbye("shutdown", "it stops"))
    assert scene.socket.state == "closed"
    scene.channel.connection_lost(None)
    assert scene.channel.goodbye == Goodbye("shutdown", "it stops")
    assert scene.party.told == [("lost", "shutdown: it stops"), ("gone", "shutdown: it stops")]


def test_a_goodbye_instead_of_a_welcome_goes_to_the_end() -> None:
    scene = Scene(Side.CLIENT)
    scene.hear(Goodbye("refused", "no"))
    scene.channel.connection_lost(None)
    assert scene.party.told == ["made", Goodbye("refused", "no"), ("gone", "refused: no")]


@pytest.mark.parametrize(("error", "reason"), [(None, "the connection was closed"), (OSError("cut"), "cut")])
def test_a_loss_without_a_word_has_a_reason_too(scene: Scene, error: Exception | None, reason: str) -> None:
    scene.channel.connection_lost(error)
    assert scene.party.told == [("lost", reason), ("gone", reason)]


def test_who_disowned_a_channel_hears_nothing_more_of_it(scene: Scene) -> None:
    scene.channel.disown()
    scene.channel.close("replaced", "elsewhere")
    scene.channel.connection_lost(None)
    assert scene.party.told == [("gone", "replaced: elsewhere")]


# Powers of two, so that ticks add up exactly.
LIFE = Heartbeats(every_s=0.125, ask_s=0.75, gone_s=2.25)


def check(scene: Scene, times: int, life: Heartbeats = LIFE, late_s: float = 0.0) -> list[Any]:
    """So many ticks, each of them late by so much; what was said."""
    for _ in range(times):
        scene.loop.pass_time(life.every_s + late_s)
        scene.channel.check_life(scene.loop.time(), life)
        if scene.socket.state != "open":
            break
    return scene.said()


def test_a_silent_peer_is_asked_and_then_given_up(scene: Scene) -> None:
    assert check(scene, 5) == []
    assert check(scene, 6) == [Ping()]
    assert check(scene, 6) == [Ping()]
    assert check(scene, 1) == [Ping()]
    assert check(scene, 1) == [Goodbye("idle", "no sign of life for 2.25 s")]
    assert scene.socket.state == "aborted"


def test_any_byte_is_a_sign_of_life(scene: Scene) -> None:
    for _ in range(20):
        assert check(scene, 5) == []
        scene.hear(Pong())
    # It is asked anew when it falls silent again.
    for _ in range(3):
        assert check(scene, 11) == [Ping()]
        scene.hear(Pong())


@pytest.mark.parametrize("late_s", [2.0, 3600.0])
def test_silence_counts_only_as_far_as_we_were_there_to_listen(scene: Scene, late_s: float) -> None:
    """This process was stopped, or is busy: what came meanwhile is read before anybody is given up."""
    assert check(scene, 2, late_s=late_s) == []
    assert check(scene, 7, late_s=late_s) == [Ping()] * 3
    assert scene.socket.state == "open"
    check(scene, 1, late_s=late_s)
    assert scene.socket.state == "aborted"


def test_a_peer_that_is_not_read_from_is_not_given_up_but_hears_of_us(scene: Scene) -> None:
    scene.channel.hold(scene.queue)
    assert set(check(scene, 100)) == {Ping()}
    scene.channel.release(scene.queue)
    check(scene, 18)
    assert scene.socket.state == "open"


def test_a_peer_gets_a_sign_of_life_at_each_check_unless_it_has_output_to_read(scene: Scene) -> None:
    life = Heartbeats(every_s=0.125, ask_s=10.0, gone_s=30.0, tells=True)
    assert check(scene, 3, life) == [Pong()] * 3
    scene.channel.pause_writing()
    assert check(scene, 20, life) == []


def test_a_client_checks_by_itself_that_signs_come_as_often_as_it_was_told() -> None:
    scene = Scene(Side.CLIENT).shake_hands()
    scene.channel.watch(1.0)
    for _ in range(20):
        scene.loop.pass_time(1.5)
        scene.hear(Pong())
    assert scene.said() == []
    scene.loop.pass_time(2.25)
    assert scene.said() == [Ping()]
    scene.loop.pass_time(1.0)
    assert scene.said() == [Goodbye("idle", "no sign of life for 3 s")]
    assert scene.socket.state == "aborted"
    scene.channel.connection_lost(None)
    scene.loop.pass_time(10.0)


def test_reading_goes_on_when_everyone_who_asked_has_room(scene: Scene) -> None:
    other = FrameQueue(Turn(cast("Any", scene.loop)), 1, 1)
    scene.channel.hold(scene.queue)
    scene.channel.hold(other)
    scene.channel.hold(other)
    scene.channel.release(other)
    assert scene.channel.is_held
    assert not scene.socket.reading
    scene.channel.release(scene.queue)
    scene.channel.release(scene.queue)
    assert scene.socket.reading


def test_a_channel_that_is_gone_holds_nobodys_room(scene: Scene) -> None:
    full = FrameQueue(Turn(cast("Any", scene.loop)), 1, 1)
    full.put(b"xx")
    full.block(scene.channel)
    assert full.holds_up
    scene.channel.connection_lost(None)
    assert not full.holds_up


def test_after_freezing_nothing_new_is_taken_and_nothing_confirmed() -> None:
    scene = Scene().shake_hands()
    scene.hear(request(1))
    scene.channel.freeze()
    assert scene.said() == [Ack(1)]
    scene.hear(request(2), Ping(3), Ack(0))
    scene.channel.confirm()
    assert scene.party.told == [request(1)]
    assert scene.said() == []
    # The other end will send it again: it must not be taken for known.
    assert scene.channel.taken == 1


def test_parting_leaves_the_closing_to_the_peer_and_passes_over_what_it_still_says(scene: Scene) -> None:
    scene.hear(numbered(scene, 1))
    scene.channel.hold(scene.queue)
    scene.channel.freeze()
    scene.channel.part("restart", "back soon")
    assert scene.said() == [Ack(1), Goodbye("restart", "back soon")]
    assert (scene.socket.state, scene.socket.reading) == ("open", True)
    scene.hear(numbered(scene, 2))
    scene.channel.close("shutdown", "not twice")
    scene.channel.connection_lost(None)
    assert scene.said() == []
    assert scene.channel.taken == 1
    assert scene.party.told == [
        numbered(scene, 1),
        ("lost", "restart: back soon"),
        ("gone", "restart: back soon"),
    ]


def test_a_socket_that_takes_no_more_stops_the_box_it_carries_and_no_other(scene: Scene) -> None:
    takes = []
    scene.channel.pause_writing()
    takes.append(scene.queue.writable)
    scene.channel.resume_writing()
    takes.append(scene.queue.writable)
    scene.queue.attach(cast("Any", Socket()), 0)
    scene.channel.pause_writing()
    takes.append(scene.queue.writable)
    assert takes == [False, True, True]


def test_a_connection_that_nobody_waits_for_any_more_is_dropped_when_it_comes() -> None:
    scene = Scene()
    late = Channel(Connection(Side.CLIENT, CODEC), scene.party, cast("Any", scene.loop))
    late.abort()
    socket = Socket()
    late.connection_made(cast("Any", socket))
    assert socket.state == "aborted"
    assert socket.written == b""


def test_waiting_for_the_end_ends_with_it_or_ends_it() -> None:
    async def main() -> None:
        for is_lost, unsent_bytes in ((True, 0), (False, 0), (False, 1)):
            scene = Scene()
            scene.socket.unsent_bytes = unsent_bytes
            channel = Channel(Connection(Side.CLIENT, CODEC), scene.party, asyncio.get_running_loop())
            channel.connection_made(cast("Any", scene.socket))
            channel.hang_up()
            if is_lost:
                channel.connection_lost(None)
            await channel.wait_gone(0.001)
            assert scene.socket.state == ("aborted" if unsent_bytes else "closed")

    asyncio.run(main())


def one_slice(scene: Scene) -> None:
    """One turn of the loop, in which at most one slice is dealt with."""
    _, _, timer, call, args = heapq.heappop(scene.loop._due)
    if not timer.cancelled:
        call(*args)


def test_a_read_with_many_requests_is_dealt_with_in_slices_in_order_and_confirmed_as_far_as_it_was() -> None:
    scene = Scene(slice_max=3).shake_hands()
    requests = [request(number) for number in range(8)]
    scene.hear(*requests, Ping(7))
    assert scene.party.told == requests[:3]
    assert [scene.socket.reading] == [False]
    scene.channel.confirm()
    assert scene.said() == [Ack(3)]
    one_slice(scene)
    assert (scene.party.told, scene.channel.taken) == (requests[:6], 6)
    # What comes all the same waits behind the rest.
    scene.hear(request(8))
    one_slice(scene)
    assert scene.party.told == requests
    assert scene.said() == [Ack(8), Pong(7)]
    one_slice(scene)
    assert scene.party.told == [*requests, request(8)]
    assert [scene.socket.reading] == [True]
    assert scene.channel.taken == 9


def test_what_was_not_dealt_with_when_a_connection_is_lost_was_not_taken() -> None:
    scene = Scene(slice_max=3).shake_hands()
    scene.hear(*map(request, range(8)))
    scene.channel.connection_lost(None)
    assert scene.channel.taken == 3
    scene.loop.pass_time(1.0)
    assert scene.party.told == [
        *map(request, range(3)),
        ("lost", "the connection was closed"),
        ("gone", "the connection was closed"),
    ]


def test_a_frozen_channel_takes_nothing_of_what_is_left() -> None:
    scene = Scene(slice_max=3).shake_hands()
    scene.hear(*map(request, range(8)))
    scene.channel.freeze()
    assert scene.said() == [Ack(3)]
    scene.loop.pass_time(1.0)
    assert scene.party.told == list(map(request, range(3)))
    assert scene.channel.taken == 3
    assert scene.said() == []


def test_a_goodbye_behind_many_requests_ends_the_connection_after_them() -> None:
    scene = Scene(slice_max=3).shake_hands()
    scene.hear(*map(request, range(8)), Goodbye("bye"))
    assert scene.socket.state == "open"
    scene.loop.pass_time(1.0)
    assert scene.party.told == list(map(request, range(8)))
    assert scene.socket.state == "closed"


def test_a_fault_in_a_later_slice_ends_the_connection_with_the_reason() -> None:
    scene = Scene(slice_max=3).shake_hands()
    scene.hear(*map(request, range(5)))
    scene.party.failing = RefusedError("not this")
    scene.loop.pass_time(1.0)
    assert scene.said() == [Goodbye("refused", "not this")]
    assert scene.socket.state == "closed"


def test_a_goodbye_is_followed_by_reading_until_the_peer_closes() -> None:
    """A socket that is closed with unread input resets the connection, and the peer never reads the goodbye."""
    scene = Scene(Side.CLIENT).shake_hands()
    scene.channel.part("bye")
    assert scene.said() == [Goodbye("bye", "")]
    scene.hear(Ping(1), Ack(0))
    assert (scene.socket.state, scene.socket.reading, scene.said()) == ("open", True, [])
    scene.channel.connection_lost(None)
    assert scene.party.told == [("lost", "bye: "), ("gone", "bye: ")]


def test_a_goodbye_that_the_peer_never_reads_ends_the_connection_after_a_while() -> None:
    scene = Scene(Side.CLIENT).shake_hands()
    scene.channel.part("bye")
    scene.loop.pass_time(LINGER_S - 0.1)
    assert scene.socket.state == "open"
    scene.loop.pass_time(0.2)
    assert scene.socket.state == "aborted"
