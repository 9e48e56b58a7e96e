"""Any brokers and links dead under `fdr`: whoever can be reached is reached, exactly once, whenever he registered.

By brute force over sets of dead brokers and over all pairs that live; `benchmarks/deadsets/trial.py` says what happens
in a trial and what must hold. With at most k - 1 dead, all who live can be reached. All sets on the larger overlays:
`python -m benchmarks deadsets --exhaustive`.
"""

from itertools import chain, combinations
from random import Random

import pytest
from benchmarks.deadsets.command import sets_of
from benchmarks.deadsets.overlay import FailingOverlay
from benchmarks.deadsets.ranges import EVERYTHING, FILTERS, NOTIFICATIONS
from benchmarks.deadsets.trial import Failures, Trials

from octopia.protocol import Dests, Message, Notify
from octopia.routing import Advertised, Published, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases

# All sets of dead brokers of these are tried, in a long run; of larger overlays, as many as drawn.
SMALL = [("path:3", 2), ("path:3", 3), ("star:4", 2), ("star:4", 3), ("balanced:2,2", 2)]
ALL_MAX = 24
LARGE = [("path:3", 4, 150), ("star:4", 4, 80), ("balanced:2,2", 3, 60), ("balanced:2,2", 4, 30)]


def check(scot: Scot, all_failures: list[Failures], seed: int) -> None:
    """Of many sets, some in an ordinary run."""
    if len(all_failures) > ALL_MAX:
        all_failures = Random(seed).sample(all_failures, max(ALL_MAX, cases(len(all_failures))))
    trials = Trials(scot, Random(seed))
    for failures in all_failures:
        try:
            trials.run(failures)
        except Exception as error:
            error.add_note(f"dead: {failures}")
            raise
    assert trials.pairs > 0


@pytest.mark.parametrize(("tree", "clusters"), SMALL)
def test_every_set_of_dead_brokers(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    check(scot, [Failures(dead) for dead in sets_of(scot.brokers, clusters - 1)], 0)


@pytest.mark.parametrize(("tree", "clusters", "number"), LARGE)
def test_drawn_sets_of_dead_brokers(tree: str, clusters: int, number: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(1)
    check(scot, [Failures(tuple(draw.sample(scot.brokers, clusters - 1))) for _ in range(cases(number))], 1)


@pytest.mark.parametrize(("tree", "clusters"), [("path:1", 3), ("path:2", 3), ("path:3", 2), ("path:3", 3)])
def test_every_set_of_dead_links(tree: str, clusters: int) -> None:
    """Both ends live: a dead link is not a dead broker."""
    scot = Scot(parse_tree(tree), clusters)
    sets = chain.from_iterable(combinations(scot.links, count) for count in range(1, scot.connectivity))
    check(scot, [Failures((), links) for links in sets], 2)


@pytest.mark.parametrize(("tree", "clusters"), [("path:3", 2), ("path:3", 3), ("star:4", 3), ("balanced:2,2", 2)])
def test_more_than_that(tree: str, clusters: int) -> None:
    """Whatever can be reached is reached, in an overlay that fell apart as well."""
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(3)
    drawn = []
    for _ in range(cases(60)):
        brokers = draw.sample(scot.brokers, draw.randint(0, len(scot.brokers) // 2))
        links = draw.sample(scot.links, draw.randint(clusters, len(scot.links) // 2))
        drawn.append(Failures(tuple(brokers), tuple(links)))
    check(scot, drawn, 3)


class Recording(FailingOverlay):
    """Keeps who sent which copy to whom."""

    def __init__(self, scot: Scot, rng: Random) -> None:
        self.hops: list[tuple[BrokerId, BrokerId, int]] = []
        super().__init__(scot, rng, lambda broker, deliver: None)
        for broker in scot.brokers:
            self.register(broker)
        self.become_quiet()

    def register(self, broker: BrokerId) -> None:
        self.tell(broker, Subscribed("s", "1", FILTERS[EVERYTHING]))
        self.tell(broker, Advertised("p", "1", FILTERS[EVERYTHING]))

    def _send(self, end: tuple[BrokerId, BrokerId], message: Message) -> None:
        super()._send(end, message)
        if isinstance(message, Notify):
            assert isinstance(message.header, Dests)
            self.hops.append((*end, message.header.dests))

    def publish_all(self) -> list[tuple[BrokerId, BrokerId, int]]:
        self.hops.clear()
        for broker in [broker for broker in self.scot.brokers if broker not in self.dead]:
            self.tell(broker, Published("p", "1", NOTIFICATIONS[0]))
            self.become_quiet()
        return sorted(self.hops)


@pytest.mark.parametrize("dead", [("b",), ("b", "a"), ("c", "b")])
def test_who_is_back_carries_its_share_again(dead: tuple[str, ...]) -> None:
    scot = Scot(parse_tree("path:3"), 3)
    overlay = Recording(scot, Random(4))
    before = overlay.publish_all()
    gone = [BrokerId(region, cluster) for cluster, region in enumerate(dead)]
    for broker in gone:
        overlay.kill(broker)
    overlay.notice_all()
    overlay.become_quiet()
    during = overlay.publish_all()
    assert not [hop for hop in during if hop[0] in gone or hop[1] in gone]
    for broker in gone:
        overlay.revive(broker)
        overlay.register(broker)
    while links := overlay.links_to_mend():
        overlay.mend_link(*links[0])
    overlay.become_quiet()
    assert overlay.publish_all() == before
