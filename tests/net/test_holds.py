"""Holding publishers: at one broker against sets, and along a line of brokers whose messages come when they like."""

from collections import deque
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.net.broker.holds import Holds, PauseOrder
from tests.effort import cases

OWNERS = ["q", "r", "m", "n"]
PUBLISHERS = ["P", "Q", "R"]


class Told:
    """The sources' knowledge, from the orders alone."""

    def __init__(self, holds: Holds[str]) -> None:
        self.holds = holds
        self.paused: set[tuple[str, str]] = set()

    def carry_out(self) -> None:
        for source, publishers, held in self.holds.take_orders():
            pairs = {(source, publisher) for publisher in publishers}
            assert pairs
            assert len(pairs) == len(publishers)
            # Nobody is told twice.
            assert pairs.isdisjoint(self.paused) if held else pairs <= self.paused
            self.paused = self.paused | pairs if held else self.paused - pairs


class Naive:
    """The same by going through everything: (source, publisher, asker, is a queue) for every reason to pause."""

    def __init__(self) -> None:
        self.filling: set[str] = set()
        self.named: set[tuple[str, str]] = set()
        self.reasons: set[tuple[str, str, str, bool]] = set()

    def keep(self, wanted: Any) -> None:
        self.reasons = {reason for reason in self.reasons if wanted(reason)}

    def passed(self, source: str, publisher: str, queue: str) -> None:
        if source != queue and queue in self.filling:
            self.reasons.add((source, publisher, queue, True))
        if source != queue and (queue, publisher) in self.named:
            self.reasons.add((source, publisher, queue, False))

    def release(self, neighbour: str, publishers: list[str]) -> None:
        self.named -= {(neighbour, publisher) for publisher in publishers}
        self.keep(lambda r: (r[2], r[3]) != (neighbour, False) or r[1] not in publishers)

    def has_room(self, queue: str) -> None:
        self.filling.discard(queue)
        self.keep(lambda r: (r[2], r[3]) != (queue, True))

    def gone(self, owner: str) -> None:
        self.has_room(owner)
        self.release(owner, PUBLISHERS)
        self.keep(lambda r: r[0] != owner)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fills", "room", "holds", "releases", "passed", "passed", "passed", "gone", "say"]),
        st.sampled_from(OWNERS),
        st.sampled_from(OWNERS),
        st.lists(st.sampled_from(PUBLISHERS), min_size=1, max_size=3, unique=True),
    ),
    max_size=50,
)


@settings(deadline=None, max_examples=cases(500))
@given(STEPS)
def test_a_source_pauses_a_publisher_as_long_as_anyone_wants_it(steps: list[tuple[str, str, str, list[str]]]) -> None:
    holds: Holds[str] = Holds()
    told, naive = Told(holds), Naive()
    for step, owner, other, publishers in steps:
        if step == "fills":
            holds.queue_fills(owner)
            naive.filling.add(owner)
        elif step == "room":
            holds.queue_has_room(owner)
            naive.has_room(owner)
        elif step == "holds":
            holds.neighbour_holds(owner, publishers)
            naive.named |= {(owner, publisher) for publisher in publishers}
        elif step == "releases":
            holds.neighbour_releases(owner, publishers)
            naive.release(owner, publishers)
        elif step == "passed":
            holds.passed(owner, publishers, other)
            holds.passed_on(owner, publishers, other)
            for publisher in publishers:
                naive.passed(owner, publisher, other)
        elif step == "gone":
            holds.gone(owner)
            naive.gone(owner)
            # It is another connection after this, and was told nothing.
            told.paused = {pair for pair in told.paused if pair[0] != owner}
        else:
            told.carry_out()
            assert told.paused == {reason[:2] for reason in naive.reasons}
        assert holds.held == len({reason[:2] for reason in naive.reasons})
        assert holds.named == len(naive.named)
        for queue in OWNERS:
            assert (queue in holds._filling) == (queue in naive.filling)
            assert holds.has_named(queue) == any(n == queue for n, _ in naive.named)
    for owner in OWNERS:
        holds.queue_has_room(owner)
        holds.neighbour_releases(owner, PUBLISHERS)
    told.carry_out()
    assert not told.paused
    assert is_empty(holds)


def is_empty(holds: Holds[Any]) -> bool:
    """Nothing is left behind."""
    return not any(getattr(holds, name) for name in Holds.__slots__ if name != "_held_max")


def test_orders_name_all_publishers_of_a_source_at_once() -> None:
    holds: Holds[str] = Holds()
    holds.queue_fills("q")
    holds.passed("m", ["Q", "S"], "q")
    holds.passed("n", ["R"], "q")
    holds.passed("m", ["P", "Q"], "q")
    assert holds.take_orders() == [PauseOrder("m", ["P", "Q", "S"], True), PauseOrder("n", ["R"], True)]
    assert holds.take_orders() == []
    holds.queue_has_room("q")
    assert holds.take_orders() == [PauseOrder("m", ["P", "Q", "S"], False), PauseOrder("n", ["R"], False)]


def test_what_was_asked_and_released_in_between_is_not_said() -> None:
    holds: Holds[str] = Holds()
    holds.queue_fills("q")
    holds.passed("m", ["P"], "q")
    holds.queue_has_room("q")
    assert holds.take_orders() == []
    assert is_empty(holds)


def test_a_client_that_listens_to_itself_is_not_paused_by_its_own_queue() -> None:
    holds: Holds[str] = Holds()
    holds.queue_fills("q")
    holds.passed("q", ["P"], "q")
    assert holds.take_orders() == []


def test_beyond_the_bound_nobody_more_is_asked_and_room_is_used_again() -> None:
    holds: Holds[str] = Holds(held_max=2)
    holds.queue_fills("q")
    holds.passed("m", ["P", "Q", "R"], "q")
    holds.passed("n", ["P"], "q")
    assert holds.take_orders() == [PauseOrder("m", ["P", "Q"], True)]
    # One that is held has room for another who wants the same.
    holds.queue_fills("r")
    holds.passed("m", ["P", "R"], "r")
    holds.queue_has_room("q")
    assert holds.take_orders() == [PauseOrder("m", ["Q"], False)]
    holds.passed("m", ["R"], "r")
    assert holds.take_orders() == [PauseOrder("m", ["R"], True)]
    holds.neighbour_holds("n", ["P", "Q", "R"])
    assert holds.named == 2
    holds.neighbour_holds("m", ["P"])
    assert not holds.has_named("m")
    holds.gone("n")
    holds.queue_has_room("r")
    holds.take_orders()
    assert is_empty(holds)


class Node:
    """A broker in a line, with a subscriber's queue; `left` and `right` are its neighbours."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.holds: Holds[Any] = Holds()
        self.waiting = 0
        self.paused: set[str] = set()  # clients here that may not publish


class Line:
    """Brokers in a line. Publisher `a` sends to the last broker's subscriber, `b` nowhere near a full queue.

    What is under way between two brokers is in `frames` (towards the last) and `words` (towards the first).
    """

    FULL = 4

    def __init__(self, length: int, random: Random) -> None:
        self.random = random
        self.nodes = [Node(number) for number in range(length)]
        self.frames: list[deque[str]] = [deque() for _ in range(length - 1)]
        self.words: list[deque[PauseOrder[Any]]] = [deque() for _ in range(length - 1)]
        self.got = {"a": 0, "b": 0}
        self.published = {"a": 0, "b": 0}

    def publish(self, publisher: str) -> bool:
        if publisher in self.nodes[0].paused:
            return False
        self.published[publisher] += 1
        self._arrive(0, publisher, ("client", publisher))
        return True

    def _arrive(self, at: int, publisher: str, source: Any) -> None:
        node = self.nodes[at]
        queue: Any = ("link", at + 1)
        if at == len(self.nodes) - 1:
            queue = f"subscriber of {publisher}"
            self.got[publisher] += 1
            if publisher == "a":
                node.waiting += 1
                if node.waiting >= self.FULL:
                    node.holds.queue_fills(queue)
        else:
            self.frames[at].append(publisher)
        node.holds.passed(source, [publisher], queue)
        node.holds.passed_on(source, [publisher], queue)
        self._say(at)

    def _say(self, at: int) -> None:
        node = self.nodes[at]
        for order in node.holds.take_orders():
            if order.source == ("link", at - 1):
                self.words[at - 1].append(order)
            else:
                assert order.source == ("client", *order.publishers)
                node.paused = node.paused | set(order.publishers) if order.held else node.paused - set(order.publishers)

    def move(self) -> bool:
        """One frame or one word gets somewhere; False where nothing is under way."""
        under_way = [("frame", n) for n, q in enumerate(self.frames) if q]
        under_way += [("word", n) for n, q in enumerate(self.words) if q]
        if not under_way:
            return False
        kind, n = self.random.choice(under_way)
        if kind == "frame":
            self._arrive(n + 1, self.frames[n].popleft(), ("link", n))
        else:
            order = self.words[n].popleft()
            holds = self.nodes[n].holds
            (holds.neighbour_holds if order.held else holds.neighbour_releases)(("link", n + 1), order.publishers)
            self._say(n)
        return True

    def drain(self) -> None:
        last = self.nodes[-1]
        last.waiting = max(0, last.waiting - 1)
        if last.waiting < self.FULL // 2:
            last.holds.queue_has_room("subscriber of a")
            self._say(len(self.nodes) - 1)

    def reset(self, n: int) -> None:
        """The connection between n and n + 1 is re-established: frames are resent, words are not."""
        self.words[n].clear()
        self.nodes[n].holds.gone(("link", n + 1))
        self.nodes[n + 1].holds.gone(("link", n))
        self._say(n)
        self._say(n + 1)

    def settle(self) -> None:
        while self.move():
            pass


@pytest.mark.parametrize("seed", range(60))
def test_along_a_line_the_right_one_pauses_and_in_the_end_nobody_does(seed: int) -> None:
    random = Random(seed)
    line = Line(random.randint(1, 5), random)
    for _ in range(400):
        step = random.random()
        if step < 0.35:
            line.publish("a")
        elif step < 0.5:
            assert line.publish("b"), "nobody wants this one to pause"
        elif step < 0.9:
            line.move()
        elif step < 0.97:
            line.drain()
        elif line.words:
            line.reset(random.randrange(len(line.words)))
    # In any state: a publisher that continues into a full queue is paused after one notification per hop.
    for _ in range(line.FULL + len(line.nodes)):
        line.publish("a")
        line.settle()
    assert line.nodes[0].paused == {"a"}
    assert line.publish("b")
    # When there is room again, all continue, and everything published has arrived.
    line.settle()
    while line.nodes[-1].waiting:
        line.drain()
        line.settle()
    assert line.nodes[0].paused == set()
    assert line.got == line.published
    assert all(is_empty(node.holds) for node in line.nodes)
