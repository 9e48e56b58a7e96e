"""Lanes of an output queue: who overtakes whom, that nobody starves, and that the bounds are those of the whole queue.

The oracle knows the rules and not the queue: frames carry their lane and number, and what left is judged by these.
"""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.net.frame_queue import FRAME_MEMORY_BYTES, FrameQueue, Turn, memory_bytes_of
from octopia.wire import TooOld, message_frame
from tests.effort import cases

FENCE = 9


class Wire:
    """A socket that keeps its input; frames here are four bytes: lane and number."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data
        self.frames += [data[at : at + 4] for at in range(0, len(data), 4)]


def frame(lane: int, number: int) -> bytes:
    return bytes([lane]) + number.to_bytes(3, "big")


def is_notification(data: bytes) -> bool:
    return data[0] != FENCE


def lane_and_number(data: bytes) -> tuple[int, int]:
    return data[0], int.from_bytes(data[1:], "big")


@pytest.fixture
def loop() -> Any:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def a_box(loop: Any, *, window: int = 5, frames_max: int = 1000) -> FrameQueue:
    return FrameQueue(Turn(loop), frames_max=frames_max, bytes_max=4 * frames_max, window=window)


def sent_one_by_one(box: FrameQueue) -> list[tuple[int, int]]:
    """What leaves a queue, in order, where the peer takes one frame at a time."""
    wire = Wire()
    box.window = 1
    box.attach(cast("Any", wire), box.confirmed)
    box.flush()
    while box.held:
        box.confirm(box.sent)
    return [lane_and_number(each) for each in wire.frames]


def test_in_a_round_each_lane_has_its_share(loop: Any) -> None:
    """64 of the highest, 16, 4 and 1 while all wait; then the rest, highest first, and no lane starves."""
    box = a_box(loop)
    for number in range(200):
        for lane in range(4):
            box.put(frame(lane, number), lane)
    assert (box.waits, box.waits_by_priority, box.waiting_bytes) == (800, (200, 200, 200, 200), 3200)
    order = [lane for lane, _ in sent_one_by_one(box)]
    rounds = [3] * 64 + [2] * 16 + [1] * 4 + [0]
    assert order[:255] == rounds * 3
    # the highest lane has 8 left, and goes on; the others keep their shares of each round
    assert order[255:284] == [3] * 8 + [2] * 16 + [1] * 4 + [0]
    assert order[284 : 284 + 21] == [2] * 16 + [1] * 4 + [0]
    assert sorted(order) == sorted([0, 1, 2, 3] * 200)


@pytest.mark.parametrize("lane", [1, 2, 3])
def test_few_urgent_frames_go_before_everything_ordinary(loop: Any, lane: int) -> None:
    box = a_box(loop)
    for number in range(100):
        box.put(frame(0, number))
    box.put_if_room([frame(lane, 0), frame(lane, 1)], lane)
    assert box.put_below([frame(lane, 2)], 0, 1000, 4000, lane) == 1
    assert sent_one_by_one(box) == [*((lane, n) for n in range(3)), *((0, n) for n in range(100))]


def test_nothing_overtakes_a_fence_and_it_overtakes_nothing(loop: Any) -> None:
    box = a_box(loop)
    box.put(frame(0, 0))
    box.put(frame(2, 1), 2)
    box.put_fence(frame(FENCE, 2))
    box.put(frame(0, 3))
    box.put(frame(3, 4), 3)
    assert box.in_order() == [frame(2, 1), frame(0, 0), frame(FENCE, 2), frame(3, 4), frame(0, 3)]
    # from now on it is so, whatever comes
    box.put(frame(3, 5), 3)
    assert [number for _, number in sent_one_by_one(box)] == [1, 0, 2, 4, 3, 5]


def test_what_was_said_to_be_written_last_is(loop: Any) -> None:
    """`write_no_more`: later frames wait, however urgent they are."""
    box = a_box(loop, window=100)
    wire = Wire()
    box.attach(cast("Any", wire), 0)
    box.writable = False
    for number in range(3):
        box.put(frame(0, number))
        box.put(frame(1, number), 1)
    box.write_no_more()
    box.put(frame(3, 0), 3)
    box.resume_writing()
    assert box.has_written_all
    assert [lane_and_number(each) for each in wire.frames] == [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2)]
    assert box.waits_by_priority == (0, 0, 0, 1)


def test_at_the_bound_the_lowest_lane_gives_way(loop: Any) -> None:
    box = a_box(loop, frames_max=4)
    box.put_fence(frame(FENCE, 0))
    for lane in (3, 1, 0, 1):
        box.put(frame(lane, box.waits), lane)
    assert box.is_full
    gone: list[bytes] = []

    def dropped(drop: Callable[[], object]) -> bytes:
        before = [*box.waiting, *chain.from_iterable(box._urgent)]
        drop()
        after = [*box.waiting, *chain.from_iterable(box._urgent)]
        (one,) = [each for each in before if each not in after]
        gone.append(one)
        return one

    assert dropped(lambda: box.drop_oldest(is_notification)) == frame(0, 3)
    assert dropped(lambda: box.drop_oldest(is_notification)) == frame(1, 2)
    assert dropped(box.drop_newest) == frame(1, 4)
    assert dropped(lambda: box.drop_newest(told=False)) == frame(3, 1)
    assert not box.drop_oldest(is_notification)
    assert (box.waits, box.waiting_bytes, box.dropped_total) == (1, 4, 3)


def test_memory_is_shed_from_the_lowest_lane(loop: Any) -> None:
    box = a_box(loop)
    for number in range(4):
        for lane in range(4):
            box.put(frame(lane, number), lane)
    one = 4 + FRAME_MEMORY_BYTES
    assert box.memory_bytes == memory_bytes_of([box]) == 16 * one
    assert box.shed(10 * one, is_notification) == 6
    assert box.waits_by_priority == (0, 2, 4, 4)
    assert box.memory_bytes == memory_bytes_of([box]) == 10 * one
    assert [number for lane, number in sent_one_by_one(box) if lane == 1] == [2, 3]


def test_what_is_too_old_is_dropped_when_its_turn_comes(loop: Any) -> None:
    box = a_box(loop, window=100)
    now = [0]
    box.too_old = lambda data: len(data) == 4 and lane_and_number(data)[1] < now[0]
    wire = Wire()
    box.attach(cast("Any", wire), 0)
    box.writable = False
    for number in range(6):
        box.put(frame(number % 2, number), number % 2)
    now[0] = 4
    assert box.waits == 6, "nobody looks before its turn"
    box.resume_writing()
    told = message_frame(TooOld(4))
    assert wire.written == frame(1, 5) + frame(0, 4) + told
    assert (box.too_old_total, box.dropped_total, box.sent, box.held) == (4, 0, 3, 3)
    assert (box.waiting_bytes, box.memory_bytes) == (0, 8 + len(told) + 3 * FRAME_MEMORY_BYTES)
    now[0] = 100
    box.take_back()
    box.flush()
    # the notices are never too old
    assert wire.written.endswith(told + message_frame(TooOld(2)))
    assert (box.too_old_total, box.held) == (6, 2)
    box.confirm(box.sent)
    assert (box.held, box.memory_bytes) == (0, 0)


def test_who_is_away_is_told_of_what_was_too_old_when_it_is_back(loop: Any) -> None:
    """Also by another life of the broker, which is given what waits."""
    box = a_box(loop)
    box.too_old = lambda data: len(data) == 4
    wire = Wire()
    box.attach(cast("Any", wire), 0)
    box.put(frame(0, 1))
    box.window = 1
    box.flush()
    box.confirm(box.sent)
    assert wire.written == message_frame(TooOld(1))
    box._aged = 3
    other = a_box(loop)
    other.refill(box.confirmed, box.under_way, box.in_order(), box.untold)
    again = Wire()
    other.attach(cast("Any", again), other.confirmed)
    other.flush()
    assert again.written == message_frame(TooOld(3))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put", "many", "fence", "flush", "confirm", "break", "restart", "stop", "go", "end", "shed"]
        ),
        st.integers(0, 7),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=cases(150))
@given(STEPS)
def test_under_any_history_all_arrive_once_and_overtake_only_as_they_may(steps: list[tuple[str, int]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        play(loop, steps)
    finally:
        loop.close()


def play(loop: Any, steps: list[tuple[str, int]]) -> None:
    box = a_box(loop)
    wire = Wire()
    box.attach(cast("Any", wire), 0)
    put: list[bytes] = []
    received: list[bytes] = []
    lost = 0
    for step, number in [*steps, ("break", 9), *[("confirm", 9), ("go", 0), ("flush", 0)] * 200]:
        if step == "put":
            put.append(frame(number % 4, len(put)))
            box.put(put[-1], number % 4)
        elif step == "many":
            made = [frame(number % 4, len(put) + n) for n in range(number)]
            put += made
            assert box.put_if_room(made, number % 4)
        elif step == "fence":
            put.append(frame(FENCE, len(put)))
            box.put_fence(put[-1])
        elif step == "flush":
            box.flush()
        elif step == "confirm":
            received += wire.frames[:number]
            del wire.frames[:number]
            box.confirm(box.confirmed + min(number, box.sent - box.confirmed))
        elif step in ("break", "restart"):
            arrived = min(number, len(wire.frames))
            received += wire.frames[:arrived]
            confirmed = box.confirmed + arrived
            if step == "restart":
                kept = (box.confirmed, box.under_way, box.in_order(), box.untold)
                box = a_box(loop)
                box.refill(*kept)
            else:
                box.detach()
            wire = Wire()
            box.attach(cast("Any", wire), confirmed)
        elif step == "stop":
            box.writable = False
        elif step == "end":
            box.in_order()
        elif step == "shed":
            lost += box.shed(box.memory_bytes - number * 10, is_notification)
            box._dropped = 0  # the notice of it is not the subject
        else:
            box.resume_writing()
        waiting = [*box.waiting, *chain.from_iterable(box._urgent)]
        assert box.waits == len(waiting) == sum(box.waits_by_priority)
        assert box.waiting_bytes == 4 * len(waiting)
        assert box.held == len(put) - len(received) - lost
    assert len(received) == len(put) - lost
    check_order(put, received)


def check_order(put: list[bytes], received: list[bytes]) -> None:
    """Each once; in order within a lane; and a fence between those before it and those after it."""
    at = {each: place for place, each in enumerate(received)}
    assert len(at) == len(received)
    assert set(at) <= set(put)
    there = [each for each in put if each in at]
    for lane in (0, 1, 2, 3):
        places = [at[each] for each in there if each[0] == lane]
        assert places == sorted(places)
    for number, each in enumerate(there):
        if each[0] == FENCE:
            assert all(at[other] < at[each] for other in there[:number])
            assert all(at[other] > at[each] for other in there[number + 1 :])
