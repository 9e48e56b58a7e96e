"""Output queues: what leaves them and when, who overtakes whom, what gives way, and what observers are told.

The first part compares a queue with a model under any history. The model has no bundles: it handles frame by frame, in
plain lists, and finds the next one anew each time. Everything that can be seen from outside must be equal after every
step. The second part has the rules one by one, by hand.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final, cast

import pytest

from octopia.net.frame_queue import FRAME_MEMORY_BYTES, WEIGHTS, Bundle, FrameQueue, Turn, memory_bytes_of
from octopia.wire import Dropped, TooOld, message_frame, split_frames
from tests.effort import cases

WINDOW: Final = 5
NOTIFICATION, FENCE, OTHER = b"nfo"
ONE_DROPPED: Final = message_frame(Dropped(1))


def frame(kind: int, number: int, size: int = 0) -> bytes:
    """A frame that nobody else makes."""
    body = bytes([kind]) + number.to_bytes(4, "big") + b"x" * size
    return len(body).to_bytes(4, "big") + body


def number_of(data: bytes | memoryview) -> int:
    return int.from_bytes(data[5:9], "big")


def is_notification(data: bytes | memoryview) -> bool:
    return data[4] == NOTIFICATION


def is_ours(data: bytes | memoryview) -> bool:
    """Not a notice of the queue itself."""
    return data[4] in (NOTIFICATION, FENCE, OTHER)


def drop_oldest(queue: FrameQueue) -> bool:
    """Drop one frame, if there is one to drop."""
    return queue.shed(queue.memory_bytes - 1, is_notification) == 1


def drop_newest(queue: FrameQueue, *, told: bool = True) -> None:
    """Drop one frame, as for one that was just put."""
    assert queue.drop_newest(Bundle(b""), queue.waits, 10**6, told=told) == 1


class Wire:
    """A socket that keeps its input."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes | memoryview) -> None:
        self.written += bytes(data)

    def frames(self) -> list[bytes]:
        return split_frames(self.written)


class Numbers:
    """A tag that knows the numbers of the frames of its bundle."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def cut(self, frames: int) -> "Numbers":
        first, self.numbers = Numbers(self.numbers[:frames]), self.numbers[frames:]
        return first


class Books:
    """An observer that knows where each frame is, from what it is told alone."""

    def __init__(self) -> None:
        self.waiting: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.gone: set[bytes] = set()

    def entered(self, queue: FrameQueue, bundle: Bundle, waited: int) -> None:
        frames = ours(bundle)
        assert waited == queue.waits
        assert not self.waiting & set(frames)
        self.waiting.update(frames)
        bundle.tag = Numbers([number_of(each) for each in frames])

    def left(self, queue: FrameQueue, bundle: Bundle) -> None:
        self._move(bundle, self.waiting, self.sent)

    def returned(self, queue: FrameQueue, bundle: Bundle) -> None:
        self._move(bundle, self.sent, self.waiting)

    def lost(self, queue: FrameQueue, bundle: Bundle) -> None:
        self._move(bundle, self.waiting if self.waiting.issuperset(ours(bundle)) else self.sent, self.gone)

    def expired(self, queue: FrameQueue, bundle: Bundle) -> None:
        self._move(bundle, self.waiting, self.gone)

    def _move(self, bundle: Bundle, source: set[bytes], to: set[bytes]) -> None:
        frames = ours(bundle)
        if isinstance(bundle.tag, Numbers):
            assert bundle.tag.numbers == [number_of(each) for each in frames]
        assert source.issuperset(frames)
        source.difference_update(frames)
        to.update(frames)


def ours(bundle: Bundle) -> list[bytes]:
    return [each for each in bundle.split() if is_ours(each)]


# -- the model


class Model:
    """A queue, frame by frame. `fixed` go first; the others wait in a lane each."""

    def __init__(self) -> None:
        self.fixed: list[bytes] = []
        self.lanes: list[list[bytes]] = [[], [], [], []]
        self.credits = list(WEIGHTS)
        self.unconfirmed: list[bytes] = []
        self.confirmed = self.sent = self.left_before = 0
        self.untold = self.dropped_total = 0
        self.aged = self.too_old_total = 0
        self.oldest = -1  # notifications with lower numbers are too old
        self.last: int | None = None
        self.connected = self.writable = False
        self.written: list[bytes] = []
        self.gone: set[bytes] = set()

    @property
    def waiting(self) -> list[bytes]:
        return [*self.fixed, *(each for lane in self.lanes for each in lane)]

    @property
    def memory_bytes(self) -> int:
        return sum(len(each) + FRAME_MEMORY_BYTES for each in [*self.waiting, *self.unconfirmed])

    def next(self) -> bytes:
        """Take the frame whose turn it is."""
        if self.fixed:
            return self.fixed.pop(0)
        if not any(self.lanes[1:]):
            return self.lanes[0].pop(0)
        while True:
            for priority in (3, 2, 1, 0):
                if self.lanes[priority] and self.credits[priority]:
                    self.credits[priority] -= 1
                    return self.lanes[priority].pop(0)
            self.credits = list(WEIGHTS)

    def settle(self) -> None:
        settled = []
        while any(self.lanes[1:]):
            settled.append(self.next())
        self.fixed = [*settled, *self.fixed, *self.lanes[0]]
        self.lanes[0] = []

    def room(self) -> int:
        room = WINDOW - self.sent + self.confirmed
        return room if self.last is None else min(room, self.last - self.sent)

    def flush(self) -> None:
        if not self.connected:
            return
        if self.untold and self.writable and self.room() > 0:
            self.fixed.insert(0, message_frame(Dropped(self.untold)))
            self.untold = 0
        while (self.waiting or self.aged) and self.writable and self.room() > 0:
            if self.aged:
                self.fixed.insert(0, message_frame(TooOld(self.aged)))
                self.aged = 0
            while self.waiting and self.room() > 0:
                self.send(self.next())

    def send(self, one: bytes) -> None:
        if is_notification(one) and number_of(one) < self.oldest:
            self.aged += 1
            self.too_old_total += 1
            self.gone.add(one)
            if self.last is not None:
                self.last -= 1
            return
        self.unconfirmed.append(one)
        self.written.append(one)
        self.sent += 1

    def confirm(self, count: int) -> None:
        del self.unconfirmed[:count]
        self.confirmed += count
        if self.waiting or self.aged:
            self.flush()

    def take_back(self) -> None:
        self.fixed = self.unconfirmed + self.fixed
        self.left_before += len(self.unconfirmed)
        self.unconfirmed = []
        self.sent = self.confirmed

    def notices_and_order(self) -> list[bytes]:
        if self.aged:
            self.fixed.insert(0, message_frame(TooOld(self.aged)))
            self.aged = 0
        self.settle()
        return list(self.fixed)

    def drop(self, one: bytes, told: bool = True) -> None:
        for line in (self.fixed, *self.lanes):
            if one in line:
                line.remove(one)
                break
        self.gone.add(one)
        self.untold += told
        self.dropped_total += told

    def drop_oldest(self) -> bool:
        for line in ([*self.fixed, *self.lanes[0]], *self.lanes[1:]):
            for one in line:
                if is_notification(one):
                    self.drop(one)
                    return True
        return False

    def drop_newest(self, told: bool) -> None:
        line = next((lane for lane in self.lanes if lane), self.fixed)
        self.drop(line[-1], told)

    def shed(self, memory_bytes: int) -> int:
        dropped = 0
        while self.memory_bytes > memory_bytes and self.drop_oldest():
            dropped += 1
        return dropped

    def shed_sent(self, memory_bytes: int) -> int:
        dropped = 0
        for place, one in enumerate(self.unconfirmed):
            if self.memory_bytes > memory_bytes and is_notification(one) and len(one) > len(ONE_DROPPED):
                self.unconfirmed[place] = ONE_DROPPED
                self.gone.add(one)
                dropped += 1
        self.dropped_total += dropped
        return dropped

    def end(self, wanted: Any) -> int:
        """The session ends; unsent frames that are wanted stay."""
        held = len(self.unconfirmed) + len(self.waiting)
        kept = [each for each in self.notices_and_order() if wanted(each)] if wanted else []
        self.gone.update(each for each in self.waiting if each not in kept)
        self.left_before += self.sent
        self.fixed, self.lanes, self.unconfirmed = kept, [[], [], [], []], []
        self.confirmed = self.sent = self.untold = self.aged = 0
        return held - len(kept)


class Pair:
    """A queue and its model, which are told the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.model = Model()
        self.books = Books()
        self.queue = self.new_queue()
        self.wire = Wire()
        self.made = 0
        self.connect(0)

    def new_queue(self) -> FrameQueue:
        queue = FrameQueue(Turn(self.loop), frames_max=40, bytes_max=1_000, window=WINDOW)
        queue.observer = self.books
        queue.still_wanted = self.still_wanted
        return queue

    def still_wanted(self, bundle: Bundle) -> list[Bundle]:
        wanted: list[Bundle] = []
        for _ in range(bundle.frames):
            one = bundle.cut(1) if bundle.frames > 1 else bundle
            if is_notification(one.data) and number_of(one.data) < self.model.oldest:
                self.books.expired(self.queue, one)
            else:
                wanted.append(one)
        return wanted

    def make(self, kind: int, count: int, size: int = 0) -> list[bytes]:
        self.made += count
        return [frame(kind, self.made - count + n, (size + n) % 60) for n in range(count)]

    def connect(self, arrived: int) -> None:
        model = self.model
        self.wire, model.written = Wire(), []
        self.queue.attach(cast("Any", self.wire), self.queue.confirmed + arrived)
        model.connected = False
        model.confirm(arrived)
        model.take_back()
        model.connected = model.writable = True
        model.last = None

    # -- steps

    def put(self, a: int, b: int) -> None:
        made = self.make(NOTIFICATION, b % 12 + 1, a)
        self.queue.put(b"".join(made), len(made), a % 4)
        self.model.lanes[a % 4] += made

    def put_below(self, a: int, b: int) -> None:
        """As many as stay below a bound, if their bytes do, too."""
        made, model, lane = self.make(NOTIFICATION, b % 12 + 1, a), self.model, a % 4
        frames_max, bytes_max = b, 40 * a
        fit = max(min(len(made), frames_max - 1 - len(model.waiting)), 0)
        if len(b"".join([*model.waiting, *made[:fit]])) >= bytes_max:
            fit = 0
        rest = self.queue.put_below(Bundle(b"".join(made), len(made)), frames_max, bytes_max, lane)
        assert (rest.split() if rest else []) == made[fit:]
        model.lanes[lane] += made[:fit]

    def put_other(self, a: int, b: int) -> None:
        made = self.make(OTHER, b % 3 + 1)
        self.queue.put_all(made)
        self.model.lanes[0] += made

    def put_fence(self, a: int, b: int) -> None:
        (made,) = self.make(FENCE, 1)
        self.queue.put_fence(made)
        self.model.settle()
        self.model.fixed.append(made)

    def flush(self, a: int, b: int) -> None:
        self.queue.flush()
        self.model.flush()

    def confirm(self, a: int, b: int) -> None:
        count = min(a, self.model.sent - self.model.confirmed)
        if self.model.connected:
            self.queue.confirm(self.queue.confirmed + count)
            self.model.confirm(count)

    def lose(self, a: int, b: int) -> None:
        self.queue.detach()
        self.model.connected = self.model.writable = False

    def come_back(self, a: int, b: int) -> None:
        self.lose(a, b)
        self.connect(min(a, len(self.model.unconfirmed)))

    def restart(self, a: int, b: int) -> None:
        """Another queue is given what this one held."""
        model, old = self.model, self.queue
        model.fixed = model.notices_and_order()
        kept = (old.confirmed, old.under_way, old.in_order(), old.untold)
        assert kept == (model.confirmed, model.unconfirmed, model.fixed, model.untold)
        self.books = Books()
        self.books.sent.update(each for each in model.unconfirmed if is_ours(each))
        self.queue = self.new_queue()
        self.queue.refill(*kept)
        model.credits = list(WEIGHTS)
        model.gone.clear()
        model.left_before = model.dropped_total = model.too_old_total = 0
        self.connect(min(a, len(model.unconfirmed)))

    def stop_writing(self, a: int, b: int) -> None:
        self.queue.writable = self.model.writable = False

    def resume_writing(self, a: int, b: int) -> None:
        self.queue.resume_writing()
        self.model.writable = self.model.connected
        self.model.flush()

    def write_no_more(self, a: int, b: int) -> None:
        self.queue.write_no_more()
        self.model.settle()
        self.model.last = self.model.sent + len(self.model.fixed)

    def look(self, a: int, b: int) -> None:
        """The order is known, and kept from now on."""
        assert self.queue.unconfirmed() == [*self.model.unconfirmed, *self.model.notices_and_order()]

    def age(self, a: int, b: int) -> None:
        self.model.oldest = max(self.model.oldest, self.made - 3 * b)

    def drop_oldest(self, a: int, b: int) -> None:
        assert drop_oldest(self.queue) == self.model.drop_oldest()

    def drop_newest(self, a: int, b: int) -> None:
        if self.model.waiting:
            drop_newest(self.queue, told=b % 2 == 0)
            self.model.drop_newest(b % 2 == 0)

    def put_and_drop_oldest(self, a: int, b: int) -> None:
        """At a bound, the oldest make room for each of the new ones."""
        model, lane, bounds = self.model, a % 4, (b + 1, 40 * a)
        made = self.make(NOTIFICATION, b % 12 + 1, a)
        bundle = Bundle(b"".join(made), len(made))
        waited, size = len(model.waiting), len(b"".join(model.waiting))
        self.queue.put_bundle(bundle, lane)
        self.queue.drop_oldest(bundle, *bounds, is_notification)
        model.lanes[lane] += made
        # not below what waited before
        frames_max, bytes_max = max(bounds[0] - 1, waited), max(bounds[1] - 1, size)
        while len(model.waiting) > frames_max or len(b"".join(model.waiting)) > bytes_max:
            if not model.drop_oldest():
                break

    def put_and_drop_newest(self, a: int, b: int) -> None:
        """At a bound, each of the new ones is dropped that does not fit."""
        model, bounds = self.model, (b + 1, 40 * a)
        made = self.make(NOTIFICATION, b % 12 + 1, a)
        bundle = Bundle(b"".join(made), len(made))
        if any(model.lanes[1:]):
            # Others give way, too; those that do depend on their sizes.
            bounds = (b + 1, 10**6)
        self.queue.put_bundle(bundle)
        before = len(model.waiting)
        dropped = self.queue.drop_newest(bundle, *bounds, told=b % 2 == 0)
        for one in made:
            model.lanes[0].append(one)
            if len(model.waiting) >= bounds[0] or len(b"".join(model.waiting)) >= bounds[1]:
                model.drop_newest(b % 2 == 0)
        assert before + len(made) - dropped == len(model.waiting)

    def shed(self, a: int, b: int) -> None:
        goal = self.queue.memory_bytes - 40 * b
        assert self.queue.shed(goal, is_notification) == self.model.shed(goal)

    def shed_sent(self, a: int, b: int) -> None:
        if not self.model.connected:
            goal = self.queue.memory_bytes - 10 * b
            assert self.queue.shed_sent(goal, is_notification) == self.model.shed_sent(goal)

    def end(self, a: int, b: int) -> None:
        if b < 2:
            self.lose(a, b)
            wanted = is_notification if b else None
            ended = self.queue.keep_unsent(wanted) if wanted else self.queue.clear()
            assert ended == self.model.end(wanted)
            self.connect(0)

    # -- the judge

    def compare(self) -> None:
        queue, model, books = self.queue, self.model, self.books
        waiting = model.waiting
        assert self.wire.written == b"".join(model.written)
        assert (queue.sent, queue.confirmed) == (model.sent, model.confirmed)
        assert (queue.waits, queue.waiting_bytes) == (len(waiting), sum(map(len, waiting)))
        lanes = [len(lane) for lane in model.lanes]
        assert queue.waits_by_priority == (lanes[0] + len(model.fixed), *lanes[1:])
        assert (queue.held, queue.untold) == (len(waiting) + len(model.unconfirmed), model.untold)
        assert queue.left_total == model.left_before + model.sent
        assert (queue.dropped_total, queue.too_old_total) == (model.dropped_total, model.too_old_total)
        assert queue.memory_bytes <= model.memory_bytes + sum(map(len, model.written)), "of confirmed ones, a bundle"
        assert queue.has_written_all == (model.last is not None and model.sent >= model.last)
        assert queue.count(is_notification) == sum(map(is_notification, [*model.fixed, *model.lanes[0]]))
        # entered = waiting + sent + lost
        assert books.waiting == {each for each in waiting if is_ours(each)}
        assert books.sent.issuperset(each for each in model.unconfirmed if is_ours(each))
        assert books.gone == {each for each in model.gone if is_ours(each)}


STEPS = (
    *[Pair.put] * 5, *[Pair.put_below] * 2, Pair.put_other, Pair.put_fence, *[Pair.flush] * 3, *[Pair.confirm] * 4,
    Pair.lose, *[Pair.come_back] * 2, Pair.restart, Pair.stop_writing, *[Pair.resume_writing] * 2, Pair.write_no_more,
    Pair.look, Pair.age, Pair.drop_oldest, Pair.drop_newest, Pair.put_and_drop_oldest, Pair.put_and_drop_newest,
    Pair.shed, Pair.shed_sent, Pair.end,
)  # fmt: skip


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.mark.parametrize("part", range(4))
def test_under_any_history_it_is_as_if_it_went_frame_by_frame(loop: asyncio.AbstractEventLoop, part: int) -> None:
    for seed in range(part, cases(4_000), 4):
        try:
            play(Pair(loop), random.Random(seed))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def play(pair: Pair, draw: random.Random) -> None:
    for _ in range(draw.choice((10, 40, 120))):
        draw.choice(STEPS)(pair, draw.randint(0, 40), draw.randint(0, 40))
        pair.compare()
    # in the end everything arrives
    pair.come_back(0, 0)
    model = pair.model
    while model.waiting or model.unconfirmed or model.untold or model.aged:
        pair.flush(0, 0)
        pair.confirm(40, 0)
        pair.compare()


# -- the rules, by hand


def a_queue(loop: asyncio.AbstractEventLoop, *, window: int = WINDOW, frames_max: int = 1_000) -> FrameQueue:
    return FrameQueue(Turn(loop), frames_max=frames_max, bytes_max=9 * frames_max, window=window)


def on_a_wire(queue: FrameQueue) -> Wire:
    wire = Wire()
    queue.attach(cast("Any", wire), queue.confirmed)
    return wire


def sent_one_by_one(queue: FrameQueue) -> list[int]:
    """What leaves a queue, in order, where the peer takes one frame at a time."""
    queue.window = 1
    wire = on_a_wire(queue)
    queue.flush()
    while queue.held:
        queue.confirm(queue.sent)
    return [number_of(each) for each in wire.frames()]


def joined(*numbers: int) -> bytes:
    return b"".join(frame(NOTIFICATION, number) for number in numbers)


def test_in_a_round_each_lane_has_its_share(loop: asyncio.AbstractEventLoop) -> None:
    """64 of the highest, 16, 4 and 1 while all wait; then the rest, highest first, and no lane starves."""
    queue = a_queue(loop)
    for lane in range(4):
        # as bundles of all sizes, and numbered by lane
        for at, size in ((0, 1), (1, 2), (3, 37), (40, 160)):
            queue.put(joined(*range(1000 * lane + at, 1000 * lane + at + size)), size, lane)
    assert (queue.waits, queue.waits_by_priority, queue.waiting_bytes) == (800, (200, 200, 200, 200), 7200)
    order = [number // 1000 for number in sent_one_by_one(queue)]
    rounds = [3] * 64 + [2] * 16 + [1] * 4 + [0]
    assert order[:255] == rounds * 3
    # the highest lane has 8 left, and goes on; the others keep their shares of each round
    assert order[255:284] == [3] * 8 + [2] * 16 + [1] * 4 + [0]
    assert order[284 : 284 + 21] == [2] * 16 + [1] * 4 + [0]
    assert sorted(order) == sorted([0, 1, 2, 3] * 200)


@pytest.mark.parametrize("lane", [1, 2, 3])
def test_few_urgent_frames_go_before_everything_ordinary(loop: asyncio.AbstractEventLoop, lane: int) -> None:
    queue = a_queue(loop)
    queue.put(joined(*range(100)), 100)
    queue.put(joined(200, 201), 2, lane)
    assert queue.put_below(Bundle(joined(202)), 1000, 4000, lane) is None
    assert sent_one_by_one(queue) == [200, 201, 202, *range(100)]


def test_nothing_overtakes_a_fence_and_it_overtakes_nothing(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop)
    queue.put(joined(0))
    queue.put(joined(1), lane=2)
    queue.put_fence(frame(FENCE, 2))
    queue.put(joined(3))
    queue.put(joined(4), lane=3)
    assert [number_of(each) for each in queue.in_order()] == [1, 0, 2, 4, 3]
    # from now on it is so, whatever comes
    queue.put(joined(5), lane=3)
    assert sent_one_by_one(queue) == [1, 0, 2, 4, 3, 5]


def test_what_was_said_to_be_written_last_is_and_the_rest_goes_on_the_next_connection(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """`write_no_more`: later frames wait, however urgent they are."""
    queue = a_queue(loop)
    wire = on_a_wire(queue)
    queue.put(joined(*range(7)), 7)
    assert not queue.has_written_all
    queue.write_no_more()
    queue.put(joined(7, 8, 9), 3, 3)
    queue.flush()
    assert (wire.written, queue.has_written_all) == (joined(*range(5)), False)
    queue.confirm(3)
    assert (wire.written, queue.has_written_all) == (joined(*range(7)), True)
    queue.confirm(6)
    # The peer says goodbye and that it took no more than it confirmed.
    queue.take_back()
    queue.detach()
    assert queue.left_total == 7
    again = on_a_wire(queue)
    queue.flush()
    assert again.written == joined(6, 7, 8, 9)


def test_what_is_too_old_does_not_make_room_for_more_after_the_last(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop)
    wire = on_a_wire(queue)
    queue.still_wanted = lambda bundle: [] if number_of(bundle.data) == 0 else [bundle]
    queue.put(joined(0))
    queue.put(joined(1))
    queue.write_no_more()
    queue.put(joined(2, 3), 2)
    queue.flush()
    assert (wire.written, queue.has_written_all) == (joined(1), True)


def test_at_the_bound_the_lowest_lane_gives_way(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop, frames_max=4)
    queue.put_fence(frame(FENCE, 0))
    for number, lane in enumerate((3, 1, 0, 1), 1):
        queue.put(joined(number), lane=lane)
    assert queue.is_full
    books = queue.observer = Books()
    books.waiting.update([frame(FENCE, 0), *(joined(number) for number in range(1, 5))])
    lost: list[set[bytes]] = []
    for drop in (
        lambda: drop_oldest(queue),
        lambda: drop_oldest(queue),
        lambda: drop_newest(queue),
        lambda: drop_newest(queue, told=False),
    ):
        drop()
        lost.append(set(books.gone))
        books.gone.clear()
    assert lost == [{joined(3)}, {joined(2)}, {joined(4)}, {joined(1)}]
    assert not drop_oldest(queue)
    assert (queue.waits, queue.waiting_bytes, queue.dropped_total, queue.untold) == (1, 9, 3, 3)


def test_memory_is_shed_from_the_lowest_lane(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop)
    for lane in range(4):
        queue.put(joined(*range(10 * lane, 10 * lane + 4)), 4, lane)
    one = 9 + FRAME_MEMORY_BYTES
    assert queue.memory_bytes == memory_bytes_of([queue]) == 16 * one
    assert queue.shed(10 * one, is_notification) == 6
    assert queue.waits_by_priority == (0, 2, 4, 4)
    assert queue.memory_bytes == memory_bytes_of([queue]) == 10 * one
    assert [number for number in sent_one_by_one(queue) if number // 10 == 1] == [12, 13]


def test_what_is_too_old_is_dropped_when_its_turn_comes_and_the_peer_is_told(loop: asyncio.AbstractEventLoop) -> None:
    queue, now = a_queue(loop, window=100), [0]

    def still_wanted(bundle: Bundle) -> list[Bundle]:
        return [Bundle(each) for each in bundle.split() if not is_ours(each) or number_of(each) >= now[0]]

    queue.still_wanted = still_wanted
    wire = on_a_wire(queue)
    queue.writable = False
    queue.put(joined(0, 2, 4), 3)
    queue.put(joined(1, 3, 5), 3, 1)
    now[0] = 4
    assert queue.waits == 6, "nobody looks before its turn"
    queue.resume_writing()
    told = message_frame(TooOld(4))
    assert wire.written == joined(5, 4) + told
    assert (queue.too_old_total, queue.dropped_total, queue.sent, queue.held) == (4, 0, 3, 3)
    assert (queue.waiting_bytes, queue.memory_bytes) == (0, 18 + len(told) + 3 * FRAME_MEMORY_BYTES)
    now[0] = 100
    queue.take_back()
    queue.flush()
    # the notices are never too old
    assert wire.written.endswith(told + message_frame(TooOld(2)))
    assert (queue.too_old_total, queue.held) == (6, 2)
    queue.confirm(queue.sent)
    assert (queue.held, queue.memory_bytes) == (0, 0)


def test_the_mark_counts_what_the_socket_does_not_take(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop, window=3, frames_max=100)
    wire = on_a_wire(queue)
    queue.mark_frames = 4
    assert queue.has_room(3, 27)
    queue.put(joined(0, 1, 2), 3)
    assert not queue.has_room(1, 9)
    queue.put(joined(3))
    # What the socket takes does not count.
    assert [queue.is_over_mark] == [False]
    assert wire.written == joined(0, 1, 2)
    queue.put(joined(4, 5), 2)
    assert [queue.is_over_mark] == [False]
    queue.put(joined(6))
    assert [queue.is_over_mark, queue.is_full] == [True, False]
    queue.mark_frames, queue.mark_bytes = 100, 36
    assert not queue.has_room(1, 9)
    assert [queue.is_over_mark] == [True]
    queue.mark_frames = queue.mark_bytes = 0
    queue.confirm(3)
    queue.confirm(6)
    assert not queue.waits
    assert not queue.has_room(1, 9), "a mark of 0 lets nothing pass unseen"


def test_who_wants_to_know_when_little_waits_is_told_once(loop: asyncio.AbstractEventLoop) -> None:
    queue = a_queue(loop, window=2)
    on_a_wire(queue)
    told: list[int] = []
    queue.put(joined(*range(6)), 6)
    queue.when_low(2, 1000, lambda: told.append(queue.waits))
    assert [queue.holds_up] == [True]
    queue.flush()
    queue.confirm(1)
    assert not told
    queue.confirm(2)
    assert told == [2]
    assert [queue.holds_up] == [False]
    queue.confirm(4)
    assert told == [2]
    assert (queue.confirmed, queue.confirmed_bytes) == (4, 36)
    queue.put(joined(6, 7, 8), 3)
    queue.when_low(0, 1000, lambda: told.append(queue.waits))
    queue.never_mind()
    queue.clear()
    assert told == [2]
    assert queue.confirmed_bytes == 36
