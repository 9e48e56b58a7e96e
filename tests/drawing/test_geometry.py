"""Lengths: nothing lies on anything else, and everything is on the sheet."""

from itertools import combinations

import pytest
from hypothesis import given, settings

from octopia.drawing import DrawnClient, DrawnMessage, Scene
from octopia.drawing.arrows import arrows_of
from octopia.drawing.geometry import Geometry
from octopia.topology import BrokerId, Scot, parse_tree
from tests.topology.trees import scots

FIGURE_7 = Scene(
    title="a scene",
    clients=(
        DrawnClient("P", BrokerId("b", 2), "publisher"),
        DrawnClient("S1", BrokerId("c", 0), "subscriber"),
        DrawnClient("S2", BrokerId("c", 1), "subscriber"),
        DrawnClient("S3", BrokerId("a", 2), "subscriber"),
        DrawnClient("S4", BrokerId("a", 2), "subscriber"),
    ),
    messages=(
        DrawnMessage(BrokerId("b", 2), BrokerId("a", 2), "n1"),
        DrawnMessage(BrokerId("b", 2), BrokerId("c", 2), "n1"),
        DrawnMessage(BrokerId("b", 2), BrokerId("b", 1), "n1 001", "civ"),
        DrawnMessage(BrokerId("b", 1), BrokerId("b", 0), "n1"),
        DrawnMessage(BrokerId("b", 0), BrokerId("b", 2), "cib_set", "control"),
        DrawnMessage(BrokerId("b", 2), BrokerId("b", 0), "cib_clear", "control"),
    ),
    overloaded=((BrokerId("b", 2), BrokerId("b", 0)),),
)


@settings(max_examples=40)
@given(scots(nodes_max=12))
def test_brokers_lie_in_their_bands_and_apart(scot: Scot) -> None:
    geometry = Geometry(scot)
    width, height = geometry.size
    boxes = {broker: geometry.box(broker) for broker in scot.brokers}
    for broker, box in boxes.items():
        band = geometry.band(broker.cluster)
        assert abs(box.x - band.x) + box.width / 2 <= band.width / 2
        assert abs(box.y - band.y) + box.height / 2 <= band.height / 2
        assert box.x - box.width / 2 > 0
        assert box.x + box.width / 2 < width
        assert box.y - box.height / 2 > 0
        assert box.y + box.height / 2 < height
    assert all(one.overlap(other) == 0 for one, other in combinations(boxes.values(), 2))


def test_cluster_0_is_on_top() -> None:
    geometry = Geometry(Scot(parse_tree("path:2"), 3))
    heights = [geometry.centre(BrokerId("a", index))[1] for index in range(3)]
    assert heights == sorted(heights, reverse=True)


@settings(max_examples=40)
@given(scots(nodes_max=8))
def test_links_join_their_brokers_either_way(scot: Scot) -> None:
    geometry = Geometry(scot)
    for one, other in scot.links:
        line = geometry.link(one, other)
        assert line[0] == pytest.approx(geometry.centre(one))
        assert line[-1] == pytest.approx(geometry.centre(other))
        assert geometry.link(other, one) == line[::-1]


@pytest.mark.parametrize(("tree", "clusters"), [("path:3", 3), ("h", 3), ("evaluation", 5), ("star:9", 4)])
def test_i_links_pass_no_broker(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    geometry = Geometry(scot)
    for one, other in scot.links[scot.a_link_count :]:
        others = [geometry.box(broker) for broker in scot.brokers if broker not in (one, other)]
        for x, y in geometry.link(one, other):
            assert not any(abs(x - box.x) < box.width / 2 and abs(y - box.y) < box.height / 2 for box in others)


def test_words_and_clients_of_a_scene_cover_nothing() -> None:
    scot = Scot(parse_tree("path:3"), 3)
    geometry = Geometry(scot, FIGURE_7)
    labels = [arrow.label for arrow in arrows_of(geometry)]
    clients = geometry.client_boxes()
    brokers = [geometry.box(broker) for broker in scot.brokers]
    for one, other in combinations([*labels, *clients, *brokers], 2):
        assert one.overlap(other) == 0


def test_arrows_end_at_their_brokers_and_keep_apart() -> None:
    scot = Scot(parse_tree("path:3"), 3)
    geometry = Geometry(scot, FIGURE_7)
    arrows = arrows_of(geometry)
    assert [arrow.message for arrow in arrows] == list(FIGURE_7.messages)
    for arrow in arrows:
        target = geometry.box(arrow.message.target)
        x, y = arrow.line[-1]
        assert abs(x - target.x) <= target.width / 2 + 0.1
        assert abs(y - target.y) <= target.height / 2 + 0.1
    there, back = arrows[4].line, arrows[5].line
    assert min(abs(a[0] - b[0]) for a, b in zip(there, back[::-1], strict=False)) > 0.05


def test_clients_avoid_the_links_of_their_broker() -> None:
    scot = Scot(parse_tree("evaluation"), 5)
    scene = Scene(clients=tuple(DrawnClient(f"S{n}", broker, "subscriber") for n, broker in enumerate(scot.brokers)))
    geometry = Geometry(scot, scene)
    boxes = geometry.client_boxes()
    for link in scot.links[: scot.a_link_count]:
        for x, y in geometry.link(*link):
            assert not any(abs(x - box.x) < box.width / 2 and abs(y - box.y) < box.height / 2 for box in boxes)
