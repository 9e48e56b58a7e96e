"""Brokers that nobody can reach for a while under `fdr`: who is back alive gets what waited for it, in order, once.

Random histories: brokers are cut off and come back, link by link, or restart meanwhile, while all publish. The oracle
is a list of what each has published. A subscriber at a broker that never restarted must get all of what was published
at brokers that never restarted. One at a broker that restarted gets nothing of what they published for its earlier
life, while it was out of reach; a host broker that restarted, too, cannot know of that life.
"""

from random import Random

import pytest

from octopia.embedded import Hop
from octopia.language import parse_filter, parse_notification
from octopia.routing import Action, Advertised, Deliver, LinkGivenUp, Published, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.breaking import BreakingNetwork

STOCK = parse_filter("x is not null")
QUOTE = parse_notification({"x": 1})
# Nobody stays away for as long as others wait in vain.
SOON_S = 1.0
SHAPES = [("path:1", 3), ("path:2", 2), ("path:3", 2), ("path:3", 3), ("star:4", 2)]


class Coming(BreakingNetwork):
    """A client at every broker that publishes and subscribes; `away` are the brokers without any link, and whether they
    restarted since.
    """

    def __init__(self, scot: Scot, draw: Random) -> None:
        super().__init__(scot, "fdr", self._act, keeps=False)
        self.scot = scot
        self.draw = draw
        self.away: dict[BrokerId, bool] = {}
        self.restarted: dict[BrokerId, None] = {}
        self.published: dict[BrokerId, list[str]] = {broker: [] for broker in scot.brokers}
        # by broker and publisher's broker, what was delivered in this life, and what must not come
        self.got: dict[tuple[BrokerId, BrokerId], list[str]] = {}
        self.unwanted: dict[BrokerId, set[str]] = {broker: set() for broker in scot.brokers}
        # by broker that is away, what was published by those who knew
        self.away_from: dict[BrokerId, set[str]] = {}
        for broker in scot.brokers:
            self.register(broker)
        self.run_until_quiet()

    def register(self, broker: BrokerId) -> None:
        self.tell(broker, Subscribed("c", "s", STOCK))
        self.tell(broker, Advertised("c", "a", STOCK))

    def _act(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            home = BrokerId(*parse(action.id))
            assert action.id not in self.unwanted[broker], f"{broker} restarted, and got {action.id} all the same"
            self.got.setdefault((broker, home), []).append(action.id)

    def publish(self) -> None:
        home = self.draw.choice(self.scot.brokers)
        id = f"{home.region} {home.cluster} {len(self.published[home])}"
        self.published[home].append(id)
        unreachable = self.brokers[home].state.unreachable
        for place, broker in enumerate(self.scot.brokers):
            if unreachable >> place & 1 and broker in self.away and home not in self.restarted:
                self.away_from.setdefault(broker, set()).add(id)
        self.tell(home, Published("c", id, QUOTE))

    def leave(self) -> BrokerId:
        broker = self.draw.choice(self.scot.brokers)
        self.away.setdefault(broker, False)
        ends = [(broker, near) for near in self.scot.neighbours(broker) if (broker, near) not in self.cut]
        for a, b in self.draw.sample(ends, len(ends)):
            self.lose(a, b)
            self.some_arrive()
        return broker

    def restart_one(self) -> None:
        """Somebody leaves, restarts, and does not know what was published for its earlier life.

        All is quiet before, so that others know who it was: what is published while a broker comes and goes may be for
        either life, and is kept.
        """
        self.make_whole()
        broker = self.leave()
        for _ in range(self.draw.choice((0, 3, 9))):
            self.publish()
            self.some_arrive()
        self.restart(broker)
        for near in self.scot.neighbours(broker):
            self.tell(broker, LinkGivenUp(near))
        self.restarted[broker] = None
        self.away[broker] = True
        for stream in [stream for stream in self.got if stream[0] == broker]:
            del self.got[stream]
        self.register(broker)

    def come_back(self) -> None:
        if not self.away:
            return
        broker = self.draw.choice(list(self.away))
        waited = self.away_from.pop(broker, set())
        if self.away.pop(broker):
            self.unwanted[broker] |= waited
        links = [near for near in self.scot.neighbours(broker) if near not in self.away]
        for near in self.draw.sample(links, len(links)):
            self.reconnect(broker, near)
            self.some_arrive()
            self.publish()

    def some_arrive(self) -> None:
        for _ in range(self.draw.choice((0, 1, 5, 30))):
            if heads := self.oldest_of_each_link():
                self.receive(self.draw.choice(heads))
            elif not self.let_time_pass(SOON_S):
                return

    def make_whole(self) -> None:
        while self.away:
            self.come_back()
        self.run_until_quiet()

    def finish(self) -> None:
        self.make_whole()
        steady = [broker for broker in self.scot.brokers if broker not in self.restarted]
        for home in steady:
            for broker in steady:
                assert self.got.get((broker, home), []) == self.published[home], f"{broker} of {home}"
        for (broker, home), ids in self.got.items():
            assert ids == [id for id in self.published[home] if id in ids], f"{broker} of {home}: twice, or disordered"
        streams = [broker.state.streams for broker in self.brokers.values()]
        assert [len(each.log) for each in streams] == [0] * len(streams)
        if not self.restarted:
            assert not any(each.missed for each in streams)


def parse(id: str) -> tuple[str, int]:
    region, cluster, _ = id.split()
    return region, int(cluster)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", range(cases(60)))
def test_who_is_back_alive_gets_what_waited(seed: int, restarts: bool) -> None:
    draw = Random(seed)
    tree, clusters = draw.choice(SHAPES)
    network = Coming(Scot(parse_tree(tree), clusters), draw)
    does = [network.publish] * 12 + [network.some_arrive] * 6 + [network.leave] * 2 + [network.come_back] * 3
    if restarts:
        does.append(network.restart_one)
    for _ in range(80):
        draw.choice(does)()
    network.finish()
