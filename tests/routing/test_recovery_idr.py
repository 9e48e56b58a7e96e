"""IDR with links down: every step of the last resort, and paths around over links that are not targets."""

import pytest

from octopia.protocol import CibSet, Civ, Key, Notify, Subscribe
from octopia.routing import (
    Advertised,
    Broker,
    LinkCameUp,
    LinkSampled,
    LinkWentDown,
    Published,
    Received,
    Send,
    Subscribed,
)
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.recovery_scene import A0, A1, B0, B1, C0, QUOTE, STOCK, Scene


def everyone_subscribes(clusters: int = 3) -> Scene:
    """A subscriber and a publisher at every broker of path:3."""
    scene = Scene(clusters=clusters, routing="idr")
    for broker in scene.overlay.brokers:
        scene.do(broker, Subscribed(f"S{broker}", "s", STOCK), Advertised(f"P{broker}", "a", STOCK))
    return scene


def test_idr_goes_around_any_one_i_link_that_is_down() -> None:
    scene = everyone_subscribes()
    everyone = sorted(f"S{broker}" for broker in scene.overlay.brokers)
    for a, b in scene.overlay.links[scene.overlay.a_link_count :]:
        scene.lose(a, b)
        for broker in scene.overlay.brokers:
            assert scene.publish(broker, f"P{broker}") == everyone
        scene.mend(a, b)


@pytest.mark.parametrize("clusters", [2, 3])
def test_idr_finds_a_way_for_a_lone_subscriber_by_links_that_are_no_targets(clusters: int) -> None:
    """Nobody else wants it, so that no other target link is there to carry the bit."""
    overlay = Scot(parse_tree("path:3"), clusters)
    for at in overlay.brokers:
        scene = Scene(clusters=clusters, routing="idr")
        scene.do(at, Subscribed("S", "s", STOCK))
        for broker in overlay.brokers:
            scene.do(broker, Advertised(f"P{broker}", "a", STOCK))
        for a, b in overlay.links[overlay.a_link_count :]:
            scene.lose(a, b)
            for broker in overlay.brokers:
                assert scene.publish(broker, f"P{broker}") == ["S"], (at, (a, b), broker)
            scene.mend(a, b)


def test_idr_loses_nothing_but_its_clients_when_an_edge_broker_dies() -> None:
    for dead in (A0, C0, BrokerId("c", 2)):
        scene = everyone_subscribes()
        scene.die(dead)
        living = [broker for broker in scene.overlay.brokers if broker != dead]
        for broker in living:
            assert scene.publish(broker, f"P{broker}") == sorted(f"S{other}" for other in living)


def test_idr_in_one_region_takes_an_i_link_that_is_no_target_but_only_at_the_host_broker() -> None:
    """From elsewhere it could enter a cluster for the second time."""
    scene = Scene("path:1", clusters=4, routing="idr")
    x0, x1, _, x3 = scene.overlay.brokers
    scene.do(x0, Subscribed("S", "s", STOCK))
    scene.do(x3, Advertised("P", "a", STOCK))
    scene.lose(x3, x0)
    scene.hops.clear()
    assert scene.publish(x3) == ["S"]
    assert scene.hops == [(x3, x1, "notify"), (x1, x0, "notify")]
    scene.lose(x1, x0)
    scene.hops.clear()
    assert scene.publish(x3) == []
    assert scene.hops == [(x3, x1, "notify"), (x1, x0, "notify")], "the last resort, and lost there"


def copies(broker: Broker) -> list[tuple[BrokerId, int]]:
    actions = broker.handle(Published("P", "n", QUOTE), 0.0)
    sends = [(action.to, action.message) for action in actions if isinstance(action, Send)]
    return [(to, message.civ) for to, message in sends if isinstance(message, Notify)]


def centre_of_a_star(queues: dict[BrokerId, int], down: list[BrokerId]) -> Broker:
    """(a,2) of a star with three leaves and three clusters; (b,2) and both other clusters want what P publishes."""
    broker = Broker(BrokerId("a", 2), Scot(parse_tree("star:4"), 3), "idr")
    broker.handle(Advertised("P", "a", STOCK), 0.0)
    broker.handle(Received(BrokerId("b", 2), Subscribe(Key(BrokerId("b", 2), 0), STOCK)), 0.0)
    for secondary in (A0, A1):
        broker.handle(Received(secondary, CibSet((Key(BrokerId("a", 2), 0),))), 0.0)
    for neighbour in down:
        broker.handle(LinkWentDown(neighbour), 0.0)
    for neighbour, length in queues.items():
        broker.handle(LinkSampled(neighbour, length, 0, 0), 0.0)
    return broker


B2, C2, D2 = (BrokerId(region, 2) for region in "bcd")


@pytest.mark.parametrize(
    ("queues", "down", "expected"),
    [
        ({}, [A0], [(B2, 0), (A1, 0b001)]),
        ({A1: 90}, [A0], [(B2, 0b011)]),
        ({A1: 90, B2: 20}, [A0], [(B2, 0), (A1, 0b001)]),
        ({A0: 0, A1: 90, B2: 20}, [A0], [(B2, 0), (A1, 0b001)]),
        ({B2: 90}, [A0, A1], [(B2, 0b011)]),
        ({C2: 5}, [A0, A1, B2], [(B2, 0), (D2, 0b011)]),
        ({C2: 90, D2: 99}, [A0, A1, B2], [(B2, 0), (C2, 0b011)]),
        ({}, [A0, A1, B2, C2, D2], [(B2, 0), (A0, 0), (A1, 0)]),
    ],
    ids=[
        "a free iLink carries the bit of the one that is down",
        "else a free target aLink",
        "else an overloaded iLink that is up",
        "a sample does not bring a link up",
        "else an overloaded target aLink",
        "else any aLink, the least loaded",
        "be it overloaded",
        "else each its own copy, for the host to keep",
    ],
)
def test_a_link_that_is_down_is_the_last_resort(
    queues: dict[BrokerId, int], down: list[BrokerId], expected: list[tuple[BrokerId, int]]
) -> None:
    assert copies(centre_of_a_star(queues, down)) == expected


def test_a_link_that_came_up_is_free_and_its_totals_start_anew() -> None:
    broker = centre_of_a_star({A0: 90}, [])
    broker.handle(LinkWentDown(A0), 0.0)
    broker.handle(LinkCameUp(A0), 0.0)
    assert copies(broker) == [(B2, 0), (A0, 0), (A1, 0)]
    broker.handle(LinkSampled(A0, 5, 5, 0), 0.0)
    broker.handle(LinkSampled(A0, 5, 5, 0), 0.05)  # CE = 1 / 1: with the totals of before it would be none
    assert copies(broker) == [(B2, 0), (A0, 0), (A1, 0)]


def test_no_copy_goes_back_by_the_a_link_it_came_by_even_as_a_last_resort() -> None:
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "idr")
    broker.handle(LinkWentDown(B1), 0.0)
    broker.handle(LinkWentDown(C0), 0.0)
    copy = Notify("P", "n", QUOTE, Civ(0b10))
    assert broker.handle(Received(A0, copy), 0.0) == [Send(B1, Notify("P", "n", QUOTE))]
