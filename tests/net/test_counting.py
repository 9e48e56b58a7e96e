"""Counting the advertisements that overlap a filter: the sum over the cluster, or a stated lower bound."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import Filter, parse_filter
from octopia.net import Client
from octopia.net.broker.counting import QUESTIONS_MAX, Counting, Done, count_for
from octopia.net.broker.rights import Rights
from octopia.topology import BrokerId
from octopia.wire import Codec, Connection, Counted, CountRequest, Side, WireLimits
from tests.net.fake_broker import FakeNetwork, virtual
from tests.net.live import Live, asynchronous

ANY = parse_filter("price > 0")


class Cluster:
    """A tree of brokers; frames wait until `move`."""

    def __init__(self, parents: list[int], counts: list[int], down: set[int]) -> None:
        """Broker n + 1 is below `parents[n]`; the link above each broker of `down` is down."""
        self.ids = [BrokerId(f"r{n}", 0) for n in range(len(counts))]
        self.counts = counts
        self.links: dict[int, list[int]] = {n: [] for n in range(len(counts))}
        for child, parent in enumerate(parents, 1):
            self.links[child].append(parent)
            self.links[parent].append(child)
        self.down = {frozenset((child, parents[child - 1])) for child in down}
        self.under_way: list[tuple[int, int, bytes]] = []
        self.brokers = [self._broker(n) for n in range(len(counts))]

    def _broker(self, n: int) -> Counting:
        def send(to: BrokerId, frame: bytes) -> bool:
            there = self.ids.index(to)
            if frozenset((n, there)) in self.down:
                return False
            self.under_way.append((n, there, frame))
            return True

        def count(filter: Filter) -> int:
            assert filter == ANY
            return self.counts[n]

        return Counting(tuple(self.ids[each] for each in self.links[n]), count, send)

    def move(self) -> None:
        while self.under_way:
            sender, to, frame = self.under_way.pop(0)
            message = read(frame)
            if isinstance(message, CountRequest):
                self.brokers[to].received(self.ids[sender], message)
            else:
                self.brokers[to].answered(self.ids[sender], message)

    def reached(self, start: int) -> set[int]:
        """The brokers that can be asked from here, by plain search."""
        seen, left = {start}, [start]
        while left:
            here = left.pop()
            for there in self.links[here]:
                if there not in seen and frozenset((here, there)) not in self.down:
                    seen.add(there)
                    left.append(there)
        return seen


def read(frame: bytes) -> CountRequest | Counted:
    connection = Connection(Side.ACCEPTING_BROKER, Codec(WireLimits()))
    connection.open("broker")
    (message,) = connection.receive(frame)
    assert isinstance(message, CountRequest | Counted)
    return message


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, int]:
    size = draw(st.integers(1, 8))
    parents = [draw(st.integers(0, n)) for n in range(size - 1)]
    counts = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    down = draw(st.sets(st.integers(1, size - 1))) if size > 1 else set()
    return Cluster(parents, counts, down), draw(st.integers(0, size - 1))


@given(clusters())
def test_the_answer_is_the_sum_over_all_brokers_that_can_be_asked(drawn: tuple[Cluster, int]) -> None:
    cluster, start = drawn
    answers: list[tuple[int, bool]] = []
    cluster.brokers[start].ask(ANY, lambda count, complete: answers.append((count, complete)))
    cluster.move()
    reached = cluster.reached(start)
    assert answers == [(sum(cluster.counts[n] for n in reached), len(reached) == len(cluster.counts))]


def test_an_answer_lost_with_a_connection_makes_the_sum_incomplete() -> None:
    cluster = Cluster([0, 1], [1, 2, 4], set())
    answers: list[tuple[int, bool]] = []
    cluster.brokers[0].ask(ANY, lambda count, complete: answers.append((count, complete)))
    cluster.under_way.clear()
    assert answers == []
    cluster.brokers[0].gone(cluster.ids[1])
    cluster.brokers[0].answered(cluster.ids[1], Counted(1, 6, True))  # too late
    assert answers == [(1, False)]


def test_a_broker_with_too_many_questions_counts_only_its_own() -> None:
    cluster = Cluster([0], [1, 2], set())
    answers: list[tuple[int, bool]] = []
    for _ in range(QUESTIONS_MAX + 1):
        cluster.brokers[0].ask(ANY, lambda count, complete: answers.append((count, complete)))
    assert answers == [(1, False)]
    cluster.move()
    assert answers == [(1, False)] + [(3, True)] * QUESTIONS_MAX


@pytest.mark.parametrize("routing", ["idr", "fdr", "tid-dynamic"])
@asynchronous
async def test_a_client_learns_how_many_advertisements_overlap(routing: str) -> None:
    async with Live("path:3", 2, routing=routing) as live:
        asker = await live.client("a,0")
        assert await asker.overlapping("price > 100") == 0
        await live.publisher("c,1", "price > 0", "price > 50 and symbol is not null")
        await live.publisher("a,0", "price < 10")
        while (found := await asker.overlapping("price > 100")) != 2 and routing == "tid-dynamic":
            await asyncio.sleep(0.002)  # not confirmed under this routing
        assert found == 2
        assert await asker.overlapping("price > 100 and symbol = 'A'") == 1
        assert await asker.overlapping("volume > 1") == 0
        assert await asker.overlapping("price > 5") == 3


@virtual
async def test_a_broker_that_knows_no_such_question_is_not_asked(network: FakeNetwork) -> None:
    broker = network.add()
    client = Client(broker.url, name="me")
    await client.open()
    assert await client.overlapping("price > 0") is None
    await client.close()


def test_a_client_learns_nothing_of_what_it_may_not_subscribe_to() -> None:
    rights = Rights("desk", subscribe=parse_filter("price > 100"))
    answers: list[Counted] = []

    def ask(filter: Filter, done: Done) -> None:
        done(7, True)

    for number, filter in enumerate((parse_filter("price > 200"), parse_filter("price > 0"), None)):
        count_for(CountRequest(number, filter), answers.append, rights.check_subscribe, ask)
    assert answers == [Counted(0, 7, True), Counted(1, 0, False), Counted(2, 0, False)]
