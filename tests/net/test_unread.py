"""A channel whose peer does not read, or does not complete its frames: no network, time only passes when told."""

from typing import Any

from octopia.net.channel import LINGER_S, UNREAD_BYTES_MAX
from octopia.wire import Ack, Goodbye, Ping, Pong, message_frame
from tests.net.test_channel import Scene, frame_of, numbered, request, scene

__all__ = ["scene"]  # the fixture: both ends behave the same
STALL_S = 30.0
PONG_BYTES = len(message_frame(Pong(1000)))


def clog(scene: Scene) -> list[int]:
    """The socket takes nothing any more; returns a list whose only entry says how much is left in it."""
    left = [100_000]
    vars(scene.socket)["get_write_buffer_size"] = lambda: left[0]
    scene.channel.pause_writing()
    return left


def ask_too_much(scene: Scene) -> int:
    """Questions until the channel stops reading; returns how many."""
    asked = 0
    while scene.socket.reading:
        scene.hear(*(Ping(1000) for _ in range(1000)))
        asked += 1000
        assert asked * PONG_BYTES < 10 * UNREAD_BYTES_MAX
    return asked


def test_who_asks_and_does_not_read_is_not_read_from_until_it_does(scene: Scene) -> None:
    clog(scene)
    asked = ask_too_much(scene)
    assert UNREAD_BYTES_MAX <= asked * PONG_BYTES < UNREAD_BYTES_MAX + 1000 * PONG_BYTES
    assert scene.channel.is_held
    scene.channel.resume_writing()
    assert scene.socket.reading
    assert scene.said() == [Pong(1000)] * asked
    # It starts afresh.
    scene.channel.pause_writing()
    assert ask_too_much(scene) == asked


def test_who_asks_and_reads_is_always_read_from(scene: Scene) -> None:
    for _ in range(100):
        scene.channel.pause_writing()
        scene.hear(*(Ping(1000) for _ in range(1000)))
        scene.channel.resume_writing()
    assert scene.socket.reading
    assert scene.said() == [Pong(1000)] * 100_000


def test_who_takes_nothing_for_too_long_is_cut_off(scene: Scene) -> None:
    left = clog(scene)
    ask_too_much(scene)
    for _ in range(5):
        left[0] -= 1
        scene.loop.pass_time(STALL_S)
        assert scene.socket.state == "open"
    scene.loop.pass_time(STALL_S)
    assert scene.socket.state == "aborted"


def test_confirmations_to_a_peer_that_does_not_read_become_one(scene: Scene) -> None:
    clog(scene)
    for number in range(2000):
        scene.hear(numbered(scene, number))
        scene.channel.confirm()
    assert scene.said() == []
    scene.channel.resume_writing()
    assert scene.said() == [Ack(2000)]
    assert scene.socket.reading


def test_an_answer_comes_behind_its_confirmation_and_freezing_confirms_all_the_same(scene: Scene) -> None:
    clog(scene)
    scene.hear(numbered(scene, 1), Ping(7))
    assert scene.said() == [Ack(1), Pong(7)]
    scene.hear(numbered(scene, 2))
    scene.channel.freeze()
    assert scene.said() == [Ack(2)]


def test_last_words_that_are_not_read_are_not_kept(scene: Scene) -> None:
    scene.channel.close("busy", "later")
    assert scene.said() == [Goodbye("busy", "later")]
    scene.loop.pass_time(LINGER_S - 0.1)
    assert scene.socket.state == "closed"
    scene.loop.pass_time(0.2)
    assert scene.socket.state == "aborted"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def check(scene: Scene, times: int) -> None:
    for _ in range(times):
        scene.channel.check_frame(0.1, 1.0)


def test_a_frame_must_be_complete_in_time() -> None:
    scene = Scene().shake_hands()
    data = frame_of(request(1))
    for piece in pieces(data[:-1], 5):
        scene.channel.data_received(piece)
    assert scene.channel.unfinished_bytes == len(data) - 1
    # The first look only notes that it is there.
    check(scene, 10)
    assert scene.said() == []
    check(scene, 2)
    assert scene.said() == [Goodbye("idle", "a frame was not complete within 1 s")]


def test_frame_after_frame_may_be_cut_anywhere_for_ever() -> None:
    scene = Scene().shake_hands()
    stream = b"".join(frame_of(request(number)) for number in range(300))
    for piece in pieces(stream, 7):
        scene.channel.data_received(piece)
        check(scene, 1)
    assert scene.party.told == [request(number) for number in range(300)]
    assert (scene.said(), scene.channel.unfinished_bytes) == ([], 0)


def test_while_we_do_not_read_nobody_can_complete_a_frame() -> None:
    scene = Scene().shake_hands()
    scene.channel.data_received(frame_of(request(1))[:-1])
    holder: Any = scene.queue
    scene.channel.hold(holder)
    check(scene, 50)
    assert scene.said() == []
    scene.channel.release(holder)
    check(scene, 12)
    assert scene.said()[0].code == "idle"


def test_an_unfinished_frame_can_be_forgotten_at_once() -> None:
    scene = Scene().shake_hands()
    scene.channel.data_received(frame_of(request(1))[:-1])
    scene.channel.drop_unfinished("no room")
    assert scene.channel.unfinished_bytes == 0
    assert scene.said() == [Goodbye("memory", "no room")]
    scene.channel.data_received(frame_of(request(1)))
    assert (scene.party.told, scene.channel.unfinished_bytes) == ([], 0)
