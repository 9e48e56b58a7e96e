"""The memory bound alone: invented clients, links and connections, against a model that knows only sizes."""

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from octopia.net.broker.memory import AWAY_BYTES, FREED_BYTES, GIVE_BACK_S, HOLD_S, LARGE_BYTES, Memory, level
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.frame_queue import FRAME_MEMORY_BYTES, FrameQueue, Turn
from octopia.net.limits import NetLimits


class NoLoop:
    def call_soon(self, call: Any, *args: Any) -> None:
        pass


class Queue:
    """A client, or a link: frames that begin with `d` may be dropped."""

    def __init__(self, name: str, kind: str, frames: list[bytes]) -> None:
        self.name = name
        self.kind = kind  # away, drop, block, disconnect; up, down
        self.queue = FrameQueue(Turn(cast("Any", NoLoop())), 10**9, 10**12)
        self.queue.put_all(frames)
        self.is_up = kind == "up"

    @property
    def is_away(self) -> bool:
        return self.kind == "away"

    @property
    def may_shed(self) -> bool:
        return self.kind == "drop"

    @property
    def may_end(self) -> bool:
        return self.kind == "disconnect"

    def shed(self, memory_bytes: int) -> int:
        return 0 if self.is_up else self.queue.shed(memory_bytes, lambda frame: frame[:1] == b"d")


@dataclass
class Reader:
    name: str
    unfinished_bytes: int
    unfinished_s: float
    closed: list[str] = field(default_factory=list)

    def drop_unfinished(self, reason: str) -> None:
        self.closed.append(reason)
        self.unfinished_bytes = 0


class World:
    """Clients and connections, and what was done to them."""

    def __init__(self, clients: list[Queue], links: list[Queue], readers: list[Reader], **limits: int) -> None:
        self.clients = {client.name: client for client in clients}
        self.links = {link.name: link for link in links}
        self.unfinished = readers
        self.ended: list[str] = []
        self.given_back = 0
        self.is_held = False
        self.counters = Counters()
        self.limits = NetLimits(**limits)
        self.memory = Memory(
            self.limits,
            clients=self,
            links=cast("Any", self.links),
            connections=self,
            ledger={each.queue: None for each in (*clients, *links)},
            held_bytes=lambda: 0,
            counters=self.counters,
            log=Log("test"),
            give_back=self.give_back,
        )

    @property
    def kept_bytes(self) -> int:
        return sum(reader.unfinished_bytes for reader in self.unfinished)

    @kept_bytes.setter
    def kept_bytes(self, value: int) -> None:
        raise AssertionError

    def values(self) -> list[Queue]:
        return list(self.clients.values())

    @property
    def away(self) -> list[Queue]:
        return [client for client in self.clients.values() if client.is_away]

    def end(self, session: Queue, code: str, reason: str) -> None:
        self.ended.append(session.name)
        session.queue.clear()
        del self.clients[session.name]

    def give_back(self) -> None:
        self.given_back += 1

    def hold_sources(self, holder: Any) -> None:
        self.is_held = True

    def release_sources(self, holder: Any) -> None:
        self.is_held = False

    def state(self) -> dict[str, list[int]]:
        """By name, the sizes of all waiting frames; for a connection, the received bytes."""
        queues = [*self.clients.values(), *self.links.values()]
        sizes = {queue.name: [len(frame) for frame in queue.queue.in_order()] for queue in queues}
        return sizes | {reader.name: [reader.unfinished_bytes] for reader in self.unfinished}


@pytest.mark.parametrize("seed", range(50))
def test_the_level_is_the_highest_that_fits(seed: int) -> None:
    source = random.Random(seed)
    sizes = [source.randrange(40) for _ in range(source.randrange(1, 8))]
    for allowed in range(-3, sum(sizes) + 3):
        fitting = [at for at in range(max(sizes) + 1) if sum(min(size, at) for size in sizes) <= allowed]
        assert level(sizes, allowed) == max(fitting, default=0), (sizes, allowed)
    assert level([], 5) == 0


# -- the model: sizes only, and everything recomputed at every step

Model = dict[str, list[tuple[int, bool]]]  # frames by name: size, and whether it may be dropped


class Naive:
    """The stated order, with frames as numbers."""

    def __init__(self, world: World) -> None:
        queues = [*world.clients.values(), *world.links.values()]
        self.kinds = {queue.name: queue.kind for queue in queues}
        self.frames: Model = {q.name: [(len(f), f[:1] == b"d") for f in q.queue.in_order()] for q in queues}
        self.readers = {reader.name: (reader.unfinished_s, reader.unfinished_bytes) for reader in world.unfinished}
        self.ended: list[str] = []
        self.dropped = 0

    def size(self, name: str) -> int:
        return sum(size + FRAME_MEMORY_BYTES for size, _ in self.frames[name])

    @property
    def used(self) -> int:
        return sum(map(self.size, self.frames)) + sum(size for _, size in self.readers.values())

    def shed(self, kind: str, goal: int) -> None:
        names = [name for name in self.frames if self.kinds[name] == kind]
        allowed = sum(map(self.size, names)) - (self.used - goal)
        sizes = [self.size(name) for name in names]
        # The first level that is too high, and one below.
        levels = range(max(sizes, default=0) + 1)
        cut = max(bisect_right(levels, allowed, key=lambda at: sum(min(size, at) for size in sizes)) - 1, 0)
        for name in names:
            while self.size(name) > cut:
                at_first = next((at for at, (_, may) in enumerate(self.frames[name]) if may), None)
                if at_first is None:
                    break
                del self.frames[name][at_first]
                self.dropped += kind != "down"

    def end(self, kinds: set[str], at_least: int, goal: int) -> None:
        while self.used > goal:
            names = [name for name in self.frames if self.kinds[name] in kinds and self.size(name) > at_least]
            if not names:
                return
            name = max(names, key=self.size)
            del self.frames[name]
            self.ended.append(name)

    def close_readers(self, over: int) -> None:
        while over > 0 and self.readers:
            name = max(self.readers, key=lambda name: self.readers[name])
            over -= self.readers.pop(name)[1]

    def check(self, bound: int, away_max: int, unfinished_max: int, held_for_s: float) -> None:
        away = sum(self.size(name) for name in self.frames if self.kinds[name] == "away")
        if away > away_max:
            goal = self.used - away + away_max - away_max // 16
            self.shed("away", goal)
            self.end({"away"}, AWAY_BYTES, goal)
        goal = bound - bound // 16
        self.close_readers(sum(size for _, size in self.readers.values()) - unfinished_max)
        if self.used <= bound:
            return
        self.shed("away", goal)
        self.end({"away"}, AWAY_BYTES, goal)
        if self.used > goal:
            self.shed("drop", goal)
            self.end({"disconnect"}, LARGE_BYTES, goal)
        self.close_readers(self.used - goal)
        if self.used > bound and (held_for_s > HOLD_S or self.used > bound * 9 / 8):
            self.end({"drop", "block", "disconnect"}, LARGE_BYTES, goal)
            if self.used > bound:
                self.shed("down", goal)

    def state(self) -> dict[str, list[int]]:
        return {name: [size for size, _ in frames] for name, frames in self.frames.items()}


def random_world(source: random.Random, bound: int) -> World:
    def frames() -> list[bytes]:
        few_large = source.random() < 0.3
        size = 300_000 if few_large else 30_000
        return [
            (b"d" if source.random() < 0.8 else b"a") * source.randrange(1, size) for _ in range(source.randrange(0, 9))
        ]

    kinds = ["away", "drop", "block", "disconnect"]
    clients = [Queue(f"c{at}", source.choice(kinds), frames()) for at in range(source.randrange(10))]
    links = [Queue(f"l{at}", source.choice(["up", "down"]), frames()) for at in range(source.randrange(4))]
    readers = [
        Reader(f"r{at}", source.randrange(1, 100_000), float(source.randrange(5))) for at in range(source.randrange(6))
    ]
    unfinished = source.choice([50_000, 10**9])
    away = source.choice([bound // 4, 10**9])
    return World(clients, links, readers, memory_bytes_max=bound, unfinished_bytes_max=unfinished, away_bytes_max=away)


@pytest.mark.parametrize("seed", range(200))
def test_what_goes_first_is_what_the_order_says(seed: int) -> None:
    source = random.Random(seed)
    bound = source.choice([200_000, 1_000_000, 3_000_000])
    world = random_world(source, bound)
    for held_for_s in (0.0, HOLD_S + 0.1):
        # The second time as after a while in which nothing has helped.
        naive = Naive(world)
        was_held, before = world.is_held, world.counters.deliveries_dropped_for_memory
        world.memory.check(held_for_s)
        limits = world.limits
        waited_s = held_for_s if was_held else 0.0
        naive.check(bound, limits.away_bytes_max, limits.unfinished_bytes_max, waited_s)
        readers = {reader.name: [0] for reader in world.unfinished}
        readers |= {name: [size] for name, (_, size) in naive.readers.items()}
        assert world.state() == naive.state() | readers, seed
        assert world.memory.used_bytes == naive.used
        assert world.counters.deliveries_dropped_for_memory - before == naive.dropped
        assert sorted(world.ended) == sorted(naive.ended)
        world.ended.clear()
        assert (world.is_held, world.memory.is_full) == (naive.used > bound,) * 2 or naive.used > bound * 7 / 8
        world.unfinished = [reader for reader in world.unfinished if reader.unfinished_bytes]


def test_those_who_publish_are_held_until_an_eighth_is_free() -> None:
    block = Queue("c", "block", [b"d" * (1000 - FRAME_MEMORY_BYTES)] * 100)
    world = World([block], [], [], memory_bytes_max=99_999)
    held = []
    for _ in range(14):
        world.memory.check(0.0)
        held.append(world.is_held)
        assert world.memory.is_full == world.is_held
        block.queue.shed(block.queue.memory_bytes - 1, lambda _: True)
    # 100, 99, … 88 frames are more than 7/8 of the bound, 87 are not.
    assert held == [True] * 13 + [False]


def test_what_waits_for_a_neighbour_that_is_up_is_never_dropped() -> None:
    world = World([], [Queue("l", "up", [b"d" * 1000] * 1000)], [], memory_bytes_max=10_000)
    for now in (0.0, 1.0, 2.0):
        world.memory.check(now)
    assert world.links["l"].queue.waits == 1000
    assert world.is_held


def test_much_that_was_freed_is_given_back_but_not_at_every_tick() -> None:
    world = World([Queue("c", "block", []), Queue("away", "away", [])], [], [], away_bytes_max=1_000_000)
    block, away = (client.queue for client in world.values())
    given_back = []
    for now, blocked, absent in (
        (10.0, 2 * FREED_BYTES, 0),
        (11.0, FREED_BYTES * 3 // 2, 0),  # little was freed
        (12.0, 0, 0),
        (12.1, 2 * FREED_BYTES, 0),
        (12.2, 0, 0),  # too soon
        (12.0 + GIVE_BACK_S, 0, 0),
        (20.0, 0, 2 * FREED_BYTES),  # is dropped at once
    ):
        for queue, size in ((block, blocked), (away, absent)):
            queue.clear()
            queue.put_all([b"d" * 100_000] * (size // 100_000))
            world.memory._ledger[queue] = None
        world.memory.grew(now)
        given_back.append(world.given_back)
    assert given_back == [0, 0, 1, 1, 1, 2, 3]
