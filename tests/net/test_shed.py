"""Dropping from an output queue to free memory, and the report to the peer when it returns."""

import random
from typing import Any, cast

import pytest

from octopia.net.frame_queue import FRAME_MEMORY_BYTES, FrameQueue, Turn
from octopia.wire import Accepted, Dropped, message_frame
from tests.net.test_memory import NoLoop

ONE = message_frame(Dropped(1))


def is_delivery(frame: bytes | memoryview) -> bool:
    return frame[:1] == b"d"


class Wire:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def write(self, data: bytes) -> None:
        # Frames here end with a full stop.
        self.frames += [part + b"." for part in data.split(b".")[:-1]] if b"." in data else [data]


def box_with(frames: list[bytes], sent: int) -> FrameQueue:
    """A box with this many sent, unconfirmed frames, whose peer is away."""
    box = FrameQueue(Turn(cast("Any", NoLoop())), 10**6, 10**9, window=max(sent, 1))
    box.put_all(frames)
    if sent:
        box.attach(cast("Any", Wire()), 0)
        box.flush()
        box.detach()
    return box


@pytest.mark.parametrize("seed", range(40))
def test_the_oldest_waiting_go_then_those_that_were_sent(seed: int) -> None:
    source = random.Random(seed)
    frames = [(b"d" if source.random() < 0.7 else b"a") + b"x" * source.randrange(20, 60) + b"." for _ in range(20)]
    sent = source.randrange(15)
    box = box_with(frames, sent)
    total = sum(len(frame) + FRAME_MEMORY_BYTES for frame in frames)
    assert box.memory_bytes == total
    goal = source.randrange(total)
    dropped = box.shed(goal, is_delivery)
    dropped += box.shed_sent(goal, is_delivery)

    # The same with a list.
    left: list[bytes | None] = list(frames)
    size = total
    for at in [*range(sent, 20), *range(sent)]:
        frame = left[at]
        assert frame is not None
        if size > goal and is_delivery(frame):
            left[at] = ONE if at < sent else None
            size -= len(frame) - len(ONE) if at < sent else len(frame) + FRAME_MEMORY_BYTES
    assert box.unconfirmed() == [frame for frame in left if frame is not None]
    assert (box.memory_bytes, box.dropped_total) == (size, dropped)
    assert dropped == sum(frame not in frames for frame in left)
    # The numbers of the frames are what they were.
    assert (box.sent, box.confirmed) == (sent, 0)
    assert box.waiting_bytes == sum(map(len, box.in_order()))


def test_who_comes_back_is_told_of_each_that_is_missing_and_of_none_that_it_has() -> None:
    frames = [b"d" + bytes([65 + n]) * 30 + b"." for n in range(8)]
    box = box_with(frames, sent=5)
    answer = message_frame(Accepted("subscribe", "s"))
    box.put(answer)
    assert box.shed(0, is_delivery) == 3
    assert box.shed_sent(0, is_delivery) == 5
    # Two of the five had arrived: three notices in the place of the others, and one for those that never left.
    written: list[bytes] = []
    wire = Wire()
    vars(wire)["write"] = written.append
    box.window = 100
    box.attach(cast("Any", wire), 2)
    box.flush()
    assert b"".join(written) == message_frame(Dropped(3)) + ONE * 3 + answer
    assert box.sent == 2 + 1 + 3 + 1
