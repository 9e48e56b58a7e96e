"""Priorities under every routing: each copy is as urgent as the most urgent subscription it is on its way to.

The oracle follows every copy to the clients it reached and knows, by set arithmetic (`model.py`), which subscriptions
overlap what was advertised. It asks no broker.
"""

from random import Random
from typing import Any

import pytest

from octopia.embedded import Hop
from octopia.language import parse_filter
from octopia.protocol import PRIORITY_MAX, Civ, Notify
from octopia.routing import POLICIES, Accept, Action, Broker, Deliver, Refuse, Subscribed
from octopia.routing.fdr import interest
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.breaking import BreakingHarness
from tests.routing.harness import Harness, Which, filter_of
from tests.routing.histories import BREAKING_WEIGHTS, RECOVERING, ROUTINGS, WEIGHTS, play_histories
from tests.routing.model import Sample, draw_spec, overlapping
from tests.routing.test_decide import run_histories


class Urgent(Harness):
    """Subscriptions have priorities; copies are recorded with what made them and whom they reached."""

    def __init__(self, routing: str, draw: Random) -> None:
        self.priorities: dict[Which, int] = {}
        self.copies: dict[str, list[Hop]] = {}
        self.reached: dict[int, list[str]] = {}
        super().__init__(routing, draw)
        told = self.network._on_hop

        def sent(hop: Hop) -> None:
            if isinstance(hop.message, Notify):
                self.copies.setdefault(hop.message.id, []).append(hop)
            if told is not None:
                told(hop)

        self.network._on_hop = sent

    def subscribe(self, draw: Random) -> None:
        (name, home), id, spec = self.client(draw), draw.choice("123"), draw_spec(draw)
        priority = draw.choice((0, 0, 1, 2, 3))
        self.network.tell(home, Subscribed(name, id, filter_of(spec), priority=priority))
        if (name, id) not in self.world.subscriptions:
            self.world.subscriptions[name, id] = spec
            self.priorities[name, id] = priority
            self.since[name, id] = len(self.published)

    def observe(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        super().observe(broker, action, cause)
        if isinstance(action, Deliver) and cause is not None:
            self.reached.setdefault(cause.number, []).extend(client for client, _ in action.recipients)

    def quiet_then_publish(self, draw: Random) -> None:
        self.become_quiet(draw)
        before = len(self.published)
        super().quiet_then_publish(draw)
        for id in list(self.published)[before:]:
            self.check_copies(id)

    def most_urgent(self, wanted: list[Which]) -> int:
        return max((self.priorities[which] for which in wanted), default=0)

    def overlapping_in(self, cluster: int, which: Which) -> int:
        """The most urgent subscription of a cluster that overlaps an advertisement."""
        homes, spec = self.world.homes, self.world.advertisements[which]
        subscriptions = self.world.subscriptions.items()
        return self.most_urgent(
            [s for s, f in subscriptions if homes[s[0]].cluster == cluster and overlapping(spec, f)]
        )

    def check_copies(self, id: str) -> None:
        sample, copies = self.published[id], self.copies.get(id, [])
        for hop in copies:
            if self.routing == "fdr" and hop.cause is not None:
                # nothing is matched on the way: what is made of a copy is as urgent as that was
                assert hop.priority == hop.cause.priority
            elif not POLICIES[self.routing].keeps_civ or self.routing == "fdr":
                assert hop.priority == self.most_urgent(self.matching_beyond(hop, copies, sample, None))
            else:
                self.check_civ_copy(hop, copies, sample)

    def matching_beyond(self, hop: Hop, copies: list[Hop], sample: Sample, cluster: int | None) -> list[Which]:
        """Matching subscriptions of clients that this copy, or one made of it, reached; of one cluster, or all."""
        ahead, clients = [hop], list[str]()
        while ahead:
            one = ahead.pop()
            clients += self.reached.get(one.number, [])
            ahead += [each for each in copies if each.cause is one]
        here = [client for client in clients if cluster is None or self.world.homes[client].cluster == cluster]
        return [(client, sub) for client in here for sub in self.world.matching(client, sample)]

    def check_civ_copy(self, hop: Hop, copies: list[Hop], sample: Sample) -> None:
        """Where it is matched it is exact; for clusters beyond an iLink it goes by what overlaps the advertisements."""
        message, cluster = hop.message, hop.receiver.cluster
        assert isinstance(message, Notify)
        assert isinstance(message.header, Civ)
        carried = [each for each in range(self.scot.clusters) if message.header.civ >> each & 1]
        across = hop.sender.cluster != cluster
        if hop.cause is None:
            advertised = [
                which
                for which, spec in self.world.advertisements.items()
                if which[0] == message.publisher and spec.allows(sample)
            ]
            said = {to: max(self.overlapping_in(to, which) for which in advertised) for to in (*carried, cluster)}
            assert message.header.priority == max((said[each] for each in carried), default=0)
        else:
            assert isinstance(hop.cause.message, Notify)
            assert isinstance(hop.cause.message.header, Civ)
            said = dict.fromkeys((*carried, cluster), hop.cause.message.header.priority)
            assert message.header.priority == (hop.cause.message.header.priority if carried else 0)
        served = [*carried, cluster] if across else carried
        expected = max((said[each] for each in served), default=0)
        if not across:
            expected = max(expected, self.most_urgent(self.matching_beyond(hop, copies, sample, cluster)))
        assert hop.priority == expected

    def check_tables(self) -> None:
        super().check_tables()
        if POLICIES[self.routing].keeps_civ:
            self.check_urgent()

    def check_urgent(self) -> None:
        """A host broker's knowledge of the urgency of each cluster's interest."""
        for client, name in self.world.advertisements:
            home = self.world.homes[client]
            state = self.network.brokers[home].state
            entry = state.srt.get(state.advertisements.of(client)[name].key)
            for cluster in set(range(self.scot.clusters)) - {home.cluster}:
                known = sum(members >> cluster & 1 for members in entry.urgent or ())
                expected = self.overlapping_in(cluster, (client, name))
                if self.routing == "fdr" and not entry.unknown >> cluster & 1:
                    assert known == 0
                    borrowed = [
                        each for each in state.prt.borrowed.values()
                        if entry.key in each.advertisements and each.key.host.cluster == cluster
                    ]  # fmt: skip
                    known = max((each.priority for each in borrowed), default=0)
                assert known == expected


class UrgentBreaking(Urgent, BreakingHarness):
    """The same with faults."""

    def quiet_then_publish(self, draw: Random) -> None:
        self.make_whole(draw)
        Urgent.quiet_then_publish(self, draw)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_copy_is_as_urgent_as_what_it_is_for(routing: str) -> None:
    play_histories(lambda draw: Urgent(routing, draw), WEIGHTS, range(cases(120)))


@pytest.mark.parametrize("routing", RECOVERING)
def test_urgency_comes_back_in_line_after_faults(routing: str) -> None:
    play_histories(lambda draw: UrgentBreaking(routing, draw), BREAKING_WEIGHTS, range(cases(60)))


class Doubtful(Urgent):
    """Host brokers hold at most two subscriptions of a cluster for an advertisement, and know less."""

    def check_tables(self) -> None:
        self.check_urgent()

    def check_copies(self, id: str) -> None:
        sample, copies = self.published[id], self.copies.get(id, [])
        for hop in copies:
            assert hop.priority >= self.most_urgent(self.matching_beyond(hop, copies, sample, None))


def test_a_cluster_with_too_many_subscriptions_says_how_urgent_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "LENT_MAX", 2)
    play_histories(lambda draw: Doubtful("fdr", draw), WEIGHTS, range(cases(90)))


def broker(routing: str = "idr") -> Broker:
    return Broker(BrokerId("a", 0), Scot(parse_tree("path:2"), 2), routing)


WANTED = parse_filter("x > 1")


def subscribed(to: Broker, id: str, priority: int) -> list[Any]:
    actions = to.handle(Subscribed("c", id, WANTED, priority=priority), 0.0)
    return [action for action in actions if isinstance(action, Accept | Refuse)]


@pytest.mark.parametrize("priority", [-1, PRIORITY_MAX + 1])
def test_a_priority_that_there_is_not_is_refused(priority: int) -> None:
    made = broker()
    said = f"priority {priority}: it is a number from 0 (ordinary) to 3 (most urgent)"
    assert subscribed(made, "s", priority) == [Refuse("c", "subscribe", "s", said)]
    assert len(made.state.prt) == 0


def test_a_subscription_keeps_its_priority() -> None:
    made = broker()
    assert subscribed(made, "s", 2) == [Accept("c", "subscribe", "s")]
    assert subscribed(made, "s", 2) == [Accept("c", "subscribe", "s")]
    said = "subscription id 's' is in use by c with priority 2; withdraw it first"
    assert subscribed(made, "s", 1) == [Refuse("c", "subscribe", "s", said)]


@pytest.mark.parametrize("routing", ROUTINGS)
def test_what_is_remembered_is_as_urgent_as_what_is_decided_anew(routing: str) -> None:
    run_histories(Urgent, routing, WEIGHTS, range(5000, 5000 + cases(9)), 50)
