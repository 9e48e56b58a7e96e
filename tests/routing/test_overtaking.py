"""Links that let notifications overtake each other, as the lanes of an output queue do, under every routing.

The rule is that of `octopia.net.outbox`: between two other messages notifications may arrive in any order, and no
message of another kind overtakes or is overtaken by one. All that the harness promises must hold all the same. That the
rule is needed is shown by breaking it: a routing then loses what it must deliver.
"""

from random import Random

import pytest

from octopia.embedded import Hop, Network
from octopia.protocol import AskConfirm, Confirm, LinkNews, Notify, Waits
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.breaking import BreakingHarness, BreakingNetwork
from tests.routing.everyone import Everyone
from tests.routing.harness import Harness
from tests.routing.histories import PATIENT, RECOVERING, ROUTINGS, WEIGHTS, play_histories

Link = tuple[BrokerId, BrokerId]
# Frames that are not fences.
FREE = (Notify, Confirm, AskConfirm, Waits)


def may_be_next(network: Network, *, fences: bool = True) -> list[Hop]:
    """Of each link what may arrive next: its oldest message, and notifications that nothing stops before them."""
    allowed: list[Hop] = []
    stopped: set[Link] = set()
    overtakes: set[Link] = set()
    for hop in network.in_flight:
        link = (hop.sender, hop.receiver)
        if link in stopped:
            continue
        is_first = link not in overtakes
        if is_first or isinstance(hop.message, Notify) or not fences:
            allowed.append(hop)
        overtakes.add(link)
        if fences and not isinstance(hop.message, FREE):
            stopped.add(link)
    return allowed


class Overtaking(Harness):
    """As the harness, on links whose notifications overtake each other."""

    fences = True

    def __init__(self, routing: str, draw: Random) -> None:
        super().__init__(routing, draw)
        self.network.oldest_of_each_link = lambda: may_be_next(self.network, fences=self.fences)  # type: ignore[method-assign]


class OvertakingBreaking(BreakingHarness):
    """The same with faults."""

    # one at a time, since each may make way for others
    let_all_arrive = Harness.let_all_arrive

    def __init__(self, routing: str, draw: Random) -> None:
        super().__init__(routing, draw)
        network = self.network
        assert isinstance(network, BreakingNetwork)
        network.oldest_of_each_link = lambda: [  # type: ignore[method-assign]
            hop for hop in may_be_next(network) if (hop.receiver, hop.sender) not in network.untold
        ]


class WithoutFences(Overtaking):
    """Whatever overtakes whatever."""

    fences = False


class ControlFirst(Overtaking):
    """Other messages keep their order, and overtake notifications."""

    def __init__(self, routing: str, draw: Random) -> None:
        super().__init__(routing, draw)
        self.network.oldest_of_each_link = lambda: control_first(self.network)  # type: ignore[method-assign]


def control_first(network: Network) -> list[Hop]:
    allowed: list[Hop] = []
    stopped: set[Link] = set()
    for hop in network.in_flight:
        link = (hop.sender, hop.receiver)
        if link not in stopped:
            allowed.append(hop)
            if not isinstance(hop.message, FREE):
                stopped.add(link)
    return allowed


def histories(kind: type[Harness], routing: str, weights: dict[str, int], seeds: range) -> None:
    play_histories(lambda draw: kind(routing, draw), weights, seeds)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_notifications_may_overtake_notifications(routing: str) -> None:
    histories(Overtaking, routing, WEIGHTS, range(cases(45)))


@pytest.mark.parametrize("routing", RECOVERING)
def test_they_may_while_links_break_and_brokers_restart(routing: str) -> None:
    histories(OvertakingBreaking, routing, PATIENT, range(cases(18)))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_other_messages_may_not_overtake_each_other(routing: str) -> None:
    """Without any fence every routing breaks a promise within a few histories."""
    with pytest.raises(Exception, match=r".*"):
        histories(WithoutFences, routing, WEIGHTS, range(30))


def test_nor_may_they_overtake_notifications() -> None:
    """A tree that is withdrawn before the last notification on it has come loses that: one history shows it."""
    with pytest.raises(AssertionError, match="was settled and missed"):
        histories(ControlFirst, "tid", WEIGHTS, range(1098, 1099))
    histories(Overtaking, "tid", WEIGHTS, range(1098, 1099))


@pytest.mark.parametrize("overtakes", [False, True])
def test_nor_may_notifications_overtake_them(overtakes: bool) -> None:
    """A copy that overtakes news of a link is lost for good under `fdr`.

    (a,0) has heard that (c,0) is dead, and hands what is for (d,0) to (b,0), together with that news. Without it (b,0)
    believes that (c,0) can still be reached: news from elsewhere is slower. No further news of a link that is down
    comes to (a,0), so nothing makes it send the notification again.
    """
    scot = Scot(parse_tree("path:4"), 2)
    home, between, dead, far = (BrokerId(region, 0) for region in "abcd")
    network = Everyone(scot)
    for near in scot.neighbours(dead):
        network.cut_link(dead, near)
    for near in scot.neighbours(dead):
        network.notice((near, dead))
    while not network.brokers[home].state.links.any_down:
        on_time = [hop for hop in network.in_flight if hop.receiver != between]
        if on_time:
            network.receive(on_time[0])
        else:
            network.let_time_pass()
    assert not network.brokers[between].state.links.any_down
    network.publish(home)
    news, copy = (hop for hop in network.in_flight if (hop.sender, hop.receiver) == (home, between))
    assert isinstance(news.message, LinkNews)
    assert isinstance(copy.message, Notify)
    for hop in (copy, news) if overtakes else (news, copy):
        network.receive(hop)
    network.run_until_quiet()
    missed = set(scot.brokers) - {dead} - set(network.got)
    assert (far in missed) if overtakes else not missed
