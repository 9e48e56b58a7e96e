"""What decides at a full queue: whose source is stopped, and when a queue that moves no more is given up."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from octopia.net.broker.intake import Intake
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.stall import StallWatch
from octopia.net.frame_queue import FrameQueue, Turn


class Source:
    """A channel as far as a full queue knows it."""

    def __init__(self) -> None:
        self.holding: list[Any] = []

    @property
    def is_held(self) -> bool:
        return bool(self.holding)

    def hold(self, box: Any) -> None:
        self.holding.append(box)

    def release(self, box: Any) -> None:
        self.holding.remove(box)


class Wire:
    def write(self, data: bytes) -> None:
        pass


@pytest.fixture
def turn() -> Iterator[Turn]:
    loop = asyncio.new_event_loop()
    yield Turn(loop)
    loop.close()


def full_box(turn: Turn) -> FrameQueue:
    box = FrameQueue(turn, frames_max=4, bytes_max=1000, window=4)
    box.attach(cast("Any", Wire()), 0)
    box.put_all([b"x"] * 4)
    box.flush()
    box.put_all([b"y"] * 4)
    return box


def test_a_full_queue_stops_whoever_brings_something_now_and_counts_it_once(turn: Turn) -> None:
    counters = Counters()
    intake = Intake(counters)
    source, boxes = Source(), [full_box(turn), full_box(turn)]
    for box in boxes * 2:
        intake.hold_back(box, cast("Any", source))
    assert source.holding == boxes
    assert counters.sources_held == 1


def test_outside_of_a_read_a_full_queue_stops_nobody(turn: Turn) -> None:
    counters = Counters()
    box = full_box(turn)
    Intake(counters).hold_back(box, None)
    assert not box.holds_up
    assert counters.sources_held == 0


def test_a_full_queue_of_which_nothing_is_confirmed_for_so_long_is_stalled(turn: Turn) -> None:
    box = full_box(turn)
    watch = StallWatch(box, stall_s=30.0)
    found = [watch.is_stalled(now) for now in (0.0, 29.0, 30.0, 31.0)]
    assert found == [False, False, False, True]


def test_one_confirmation_begins_the_time_anew(turn: Turn) -> None:
    box = full_box(turn)
    watch = StallWatch(box, stall_s=30.0)
    assert not watch.is_stalled(0.0)
    box.confirm(1)
    box.put(b"z")
    found = [watch.is_stalled(now) for now in (31.0, 61.0, 62.0)]
    assert found == [False, False, True]


def test_a_queue_with_room_that_holds_nobody_up_is_never_stalled(turn: Turn) -> None:
    box = FrameQueue(turn, frames_max=4, bytes_max=1000)
    watch = StallWatch(box, stall_s=1.0)
    box.put(b"x")
    assert not any(watch.is_stalled(now) for now in (0.0, 100.0))
