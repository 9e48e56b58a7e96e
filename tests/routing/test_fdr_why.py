"""Which tree a host broker of full dynamic routing would take now, and why: word for word."""

import pytest

from octopia.routing import Broker, LinkSampled, LinkWentDown, policy_named
from octopia.topology import BrokerId, Scot, parse_tree

B2 = BrokerId("b", 2)
A2, C2, B0, B1 = BrokerId("a", 2), BrokerId("c", 2), BrokerId("b", 0), BrokerId("b", 1)
OWN = "its own cluster's tree"


@pytest.mark.parametrize(
    ("queues", "down", "answer"),
    [
        ({}, (), (2, f"{OWN}: no queue of (b,2) is longer than 1")),
        ({A2: 1, B0: 1}, (), (2, f"{OWN}: no queue of (b,2) is longer than 1")),
        ({}, (B0, B1), (2, f"{OWN}: no queue of (b,2) is longer than 1")),
        ({A2: 9}, (B0, B1), (2, f"{OWN}: no iLink of (b,2) is up")),
        (
            {A2: 9, B0: 3},
            (),
            (1, "cluster 1's tree: of the iLinks of (b,2) the one to cluster 1 has the least Q_l, 0"),
        ),
        (
            {A2: 9, B0: 3},
            (B1,),
            (0, "cluster 0's tree: of the iLinks of (b,2) the one to cluster 0 has the least Q_l, 3"),
        ),
        (
            {A2: 2, C2: 1, B0: 8, B1: 7},
            (),
            (
                2,
                (
                    f"{OWN}, around the iLinks of (b,2): the longest queue of its aLinks has 2, "
                    "the shortest of its iLinks 7, more than 2 times as many"
                ),
            ),
        ),
    ],
)
def test_the_tree_and_the_queues_that_speak_for_it(
    queues: dict[BrokerId, int], down: tuple[BrokerId, ...], answer: tuple[int, str]
) -> None:
    broker = Broker(B2, Scot(parse_tree("path:3"), 3), "fdr")
    for neighbour in down:
        broker.handle(LinkWentDown(neighbour), 0.0)
    for neighbour, queue in queues.items():
        broker.handle(LinkSampled(neighbour, queue, 0, 0), 0.0)
    why = policy_named("fdr").why
    assert why is not None
    assert why(broker.state, 0.0) == answer


def test_routings_that_choose_nothing_at_the_host_broker_have_no_why() -> None:
    assert [policy_named(name).why for name in ("snr", "idr", "tid", "tid-dynamic")] == [None] * 4
