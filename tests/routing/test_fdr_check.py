"""Valid headers from a neighbour: each violation is refused, and copies that pass end and do not multiply."""

import random

import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_notification
from octopia.protocol import Dests, SubscriptionsComplete
from octopia.routing import Broker, LinkCameUp, LinkWentDown, Received, Send
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases

SEEN = parse_notification({"n": 1})
SCOT = Scot(parse_tree("path:3"), 3)
B1 = BrokerId("b", 1)
A1, A2, B0, B2, C0, C1 = (BrokerId(*name) for name in [("a", 1), ("a", 2), ("b", 0), ("b", 2), ("c", 0), ("c", 1)])


def dests(*brokers: BrokerId) -> int:
    return sum(1 << SCOT.brokers.index(broker) for broker in brokers)


ALLOWED = [
    (A1, Dests(dests(B1))),
    (A1, Dests(dests(B1, C1, C0, B0))),
    (A1, Dests(dests(A2))),  # a region mate of the sender, on its way around
    (B0, Dests(dests(A1, A2, B2, C1))),
]
REFUSED = [
    (A1, Dests(dests(A1)), "for itself"),
    (B0, Dests(dests(B0, C1)), "for itself"),
    (C1, Dests(1 << 9), "the overlay has not"),
    (C1, Dests(0), "for nobody"),
]


@pytest.mark.parametrize(("sender", "header"), ALLOWED)
def test_what_the_rules_lead_to_passes(sender: BrokerId, header: Dests) -> None:
    assert len(Broker(B1, SCOT, "fdr").receive(sender, header, (SEEN,))) == 1


@pytest.mark.parametrize(("sender", "header", "reason"), REFUSED)
def test_what_they_cannot_lead_to_is_the_neighbours_fault(sender: BrokerId, header: Dests, reason: str) -> None:
    broker = Broker(B1, SCOT, "fdr")
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=reason):
            broker.receive(sender, header, (SEEN,))


def test_what_lies_behind_the_sender_does_not_come_from_there() -> None:
    overlay = Scot(parse_tree("path:4"), 2)
    c1 = BrokerId("c", 1)
    behind = 1 << overlay.brokers.index(BrokerId("a", 1))
    broker = Broker(c1, overlay, "fdr")
    with pytest.raises(RemoteProtocolError, match="do not lie beyond this link"):
        broker.receive(BrokerId("b", 1), Dests(behind), (SEEN,))
    # unless it may go around a link that was down
    broker.handle(LinkWentDown(BrokerId("d", 1)), 0)
    broker.handle(LinkCameUp(BrokerId("d", 1)), 0)
    broker.receive(BrokerId("b", 1), Dests(behind), (SEEN,))


def test_what_waited_for_a_broker_that_restarted_may_go_around_a_link_it_has_yet_to_hear_of() -> None:
    overlay = Scot(parse_tree("path:4"), 2)
    b1 = BrokerId("b", 1)
    behind, other = (1 << overlay.brokers.index(BrokerId("a", cluster)) for cluster in (1, 0))
    broker = Broker(BrokerId("c", 1), overlay, "fdr", links_up=False)
    broker.handle(LinkCameUp(b1), 0)
    broker.receive(b1, Dests(behind), (SEEN,))
    # with its word all the neighbour's news have come: there were none
    broker.handle(Received(b1, SubscriptionsComplete()), 0)
    with pytest.raises(RemoteProtocolError, match="do not lie beyond this link"):
        broker.receive(b1, Dests(other), (SEEN,))


OVERLAYS = [("path:3", 3), ("star:4", 2), ("balanced:2,2", 2), ("path:1", 4)]


@pytest.mark.parametrize(("tree", "clusters"), OVERLAYS)
def test_whatever_passes_ends_and_serves_each_at_most_once(tree: str, clusters: int) -> None:
    """Any header that a neighbour may send, with any links down: brokers that keep the rules divide it and finish."""
    overlay = Scot(parse_tree(tree), clusters)
    brokers = overlay.brokers
    # to a broker by a shortest way, after a hop from who made it up
    hops_max = len(brokers) + 1
    passed = 0
    for seed in range(cases(150)):
        draw = random.Random(f"{tree} {seed}")
        cut = [link for link in overlay.links if draw.random() < draw.choice([0, 0.2, 0.6])]
        nodes = {id: Broker(id, overlay, "fdr") for id in brokers}
        down = {frozenset((link[0], link[1])) for link in cut}
        spread_news(nodes, down)
        for _ in range(20):
            receiver = draw.choice(brokers)
            near = [n for n in overlay.neighbours(receiver) if frozenset((n, receiver)) not in down]
            if not near:
                continue
            header = Dests(draw.randrange(1, 1 << len(brokers)))
            passed += follow(nodes, down, draw.choice(near), receiver, header, hops_max)
    assert passed > cases(300)


def spread_news(nodes: dict[BrokerId, Broker], down: set[frozenset[BrokerId]]) -> None:
    """Both ends of each of these links notice, and tell the others, who tell theirs."""
    said: list[tuple[BrokerId, Received]] = []
    for id, broker in nodes.items():
        for near in broker.state.neighbours:
            if frozenset((id, near)) in down:
                orders = broker.handle(LinkWentDown(near), 0)
                said += [(each.to, Received(id, each.message)) for each in orders if isinstance(each, Send)]
    while said:
        to, word = said.pop(0)
        if frozenset((to, word.sender)) not in down:
            orders = nodes[to].handle(word, 0)
            said += [(each.to, Received(to, each.message)) for each in orders if isinstance(each, Send)]


def follow(
    nodes: dict[BrokerId, Broker],
    down: set[frozenset[BrokerId]],
    sender: BrokerId,
    receiver: BrokerId,
    header: Dests,
    hops_max: int,
) -> bool:
    """Follow a copy that a neighbour made up to its end; False where it was refused."""
    on_the_way = [(sender, receiver, header, 0)]
    served, first = 0, True
    while on_the_way:
        came_by, at, carried, hops = on_the_way.pop()
        assert hops <= hops_max
        try:
            (decision,) = nodes[at].receive(came_by, carried, (SEEN,))
        except RemoteProtocolError:
            assert first  # brokers that keep the rules never refuse each other
            return False
        first = False
        me = 1 << list(nodes).index(at)
        parts = [copy.dests for _, copy in decision.copies if isinstance(copy, Dests)]
        # it divides: each destination that can be reached is in one copy, or was served here
        reachable = carried.dests & ~nodes[at].state.unreachable
        assert sum(part.bit_count() for part in parts) == (reachable & ~me).bit_count()
        union = reachable & me
        for part in parts:
            union |= part
        assert union == reachable
        assert not served & carried.dests & me
        served |= carried.dests & me
        for to, copy in decision.copies:
            assert isinstance(copy, Dests)
            if frozenset((at, to)) not in down:
                on_the_way.append((at, to, copy, hops + 1))
    return True
