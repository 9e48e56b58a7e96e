"""Links that break and brokers that restart, one hard case at a time, on the path a - b - c with two or three clusters.

The property tests find such histories by chance; here each stands alone, so that a reader sees what must hold and why.
"""

import pytest

from octopia.language import parse_filter
from octopia.protocol import Key, Subscribe, SubscriptionsComplete
from octopia.routing import (
    Advertised,
    Broker,
    LinkCameUp,
    LinkGivenUp,
    Published,
    Received,
    Send,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.breaking import SERIALS_PER_LIFE
from tests.routing.recovery_scene import A0, A1, B0, B1, BOND, C0, QUOTE, STOCK, Scene


def wanted_from_the_other_end(routing: str = "snr", clusters: int = 2) -> Scene:
    """P advertises at (a,1), S subscribes at (c,0): the bit at (a,1) is there because of (a,0), two hops from S."""
    scene = Scene(routing=routing, clusters=clusters)
    scene.do(C0, Subscribed("S", "s", STOCK))
    scene.do(A1, Advertised("P", "a", STOCK))
    assert scene.civ(A1) == 0b11
    scene.hops.clear()
    return scene


# -- a broker restarts


def test_a_restarted_broker_makes_nobody_forget_what_lies_beyond_it() -> None:
    scene = wanted_from_the_other_end()
    scene.die(B0)
    scene.mend(A0, B0)  # its other links are still down, and it knows nothing
    assert (scene.subscribers(A0), scene.subscribers(B0)) == ([Key(C0, 0)], [])
    scene.reconnect(B0, C0)
    scene.mend(B0, B1)
    assert [scene.subscribers(x) for x in (A0, B0, C0)] == [[Key(C0, 0)]] * 3
    assert [scene.sent(kind) for kind in ("unsubscribe", "cib_set", "cib_clear")] == [[], [], []]
    assert scene.sent("subscribe") == [(C0, B0), (B0, A0)]
    assert scene.publish(A1) == ["S"]


def test_a_restarted_broker_names_first_itself_and_then_whom_it_has_had_word_of() -> None:
    overlay = Scot(parse_tree("star:4"), 1)
    centre, one, two, three = (BrokerId(region, 0) for region in overlay.tree.nodes)
    broker = Broker(centre, overlay, "snr", first_serial=9, links_up=False)
    assert broker.handle(LinkCameUp(one), 0.0) == [Send(one, SubscriptionsComplete((centre,)))]
    assert broker.handle(Received(one, Subscribe(Key(one, 0), STOCK)), 0.0) == []
    assert broker.handle(Received(one, SubscriptionsComplete()), 0.0) == []
    assert broker.handle(LinkCameUp(two), 0.0) == [
        Send(two, Subscribe(Key(one, 0), STOCK)),
        Send(two, SubscriptionsComplete((centre, one))),
    ]
    assert broker.handle(LinkCameUp(three), 0.0) == [
        Send(three, Subscribe(Key(one, 0), STOCK)),
        Send(three, SubscriptionsComplete((centre, one))),
    ]
    assert broker.handle(Received(three, SubscriptionsComplete()), 0.0) == [
        Send(one, SubscriptionsComplete((three,))),
        Send(two, SubscriptionsComplete()),
    ], "for the second there is nothing left to learn"
    assert broker.handle(Received(two, SubscriptionsComplete()), 0.0) == [
        Send(one, SubscriptionsComplete()),
        Send(three, SubscriptionsComplete()),
    ]
    assert broker.handle(Received(two, SubscriptionsComplete()), 0.0) == []


def test_subscriptions_of_a_dead_life_go_with_the_first_word_although_another_link_stays_down() -> None:
    scene = Scene()
    scene.do(A1, Advertised("P", "a", STOCK))
    scene.do(B0, Subscribed("S", "s", STOCK))
    scene.do(C0, Subscribed("T", "t", BOND))
    scene.die(B0)
    scene.mend(A0, B0)
    assert scene.subscribers(A0) == [Key(C0, 0)], "S went with its broker, T may live on beyond the broken link"
    assert scene.civ(A1) == 0b10


def test_a_client_that_registers_again_before_the_links_are_back_costs_no_cib_message() -> None:
    scene = Scene()
    scene.do(A1, Advertised("P", "a", STOCK))
    scene.do(B0, Subscribed("S", "s", STOCK))
    scene.hops.clear()
    scene.die(B0)
    scene.do(B0, Subscribed("S", "s", STOCK))
    scene.mend(A0, B0)
    assert scene.subscribers(A0) == [Key(B0, SERIALS_PER_LIFE)], "a new key, above those of the first life"
    assert [scene.sent(kind) for kind in ("cib_set", "cib_clear")] == [[], []]


def test_the_advertisements_of_a_dead_life_go_and_those_of_the_new_one_get_their_bits() -> None:
    scene = wanted_from_the_other_end()
    scene.die(A1)
    scene.come_back(A1)
    assert len(scene.brokers[A0].state.srt) == 0
    scene.do(A1, Advertised("P", "a", STOCK))
    assert (len(scene.brokers[A0].state.srt), scene.civ(A1)) == (1, 0b11)
    assert scene.publish(A1) == ["S"]


def test_a_restarted_neighbour_does_not_turn_a_bit_off_that_it_has_yet_to_learn_the_reason_for() -> None:
    scene = wanted_from_the_other_end()
    scene.do(A1, Advertised("P", "b", BOND))
    scene.do(A0, Subscribed("T", "t", BOND))
    scene.die(A0)
    scene.hops.clear()
    scene.mend(A0, A1)
    assert (scene.sent("cib_clear"), scene.civ(A1, id="a"), scene.civ(A1, id="b")) == ([], 0b11, 0b11)
    scene.mend(A0, B0)
    assert (scene.civ(A1, id="a"), scene.civ(A1, id="b")) == (0b11, 0b10), "T is gone, S is not"
    assert (scene.sent("cib_set"), scene.sent("cib_clear")) == ([(A0, A1)], [(A0, A1)])


def test_a_bit_that_lost_its_last_subscription_while_learning_goes_off_when_all_is_learnt() -> None:
    scene = Scene()
    scene.do(A1, Advertised("P", "a", STOCK))
    scene.die(A0)
    scene.mend(A0, A1)
    scene.do(A0, Subscribed("S", "s", STOCK), Unsubscribed("S", "s"))
    assert scene.civ(A1) == 0b11, "held back"
    scene.mend(A0, B0)
    assert scene.civ(A1) == 0b10


def test_two_neighbours_that_restart_at_once_learn_from_both_sides() -> None:
    scene = Scene("path:4")
    a, b, c, d = (BrokerId(region, 0) for region in "abcd")
    for at, client in ((a, "SA"), (b, "SB"), (c, "SC"), (d, "SD")):
        scene.do(at, Subscribed(client, "s", STOCK))
    scene.restart(b)
    scene.restart(c)
    scene.hops.clear()
    for x, y in ((b, c), (c, d), (a, b)):
        scene.mend(x, y)
    assert [scene.subscribers(x) for x in (a, b, c, d)] == [[Key(a, 0), Key(d, 0)]] * 4
    assert scene.sent("unsubscribe") == [], "each stale entry was swept at its edge by the word for its own host"


def test_the_whole_overlay_starts_without_a_link_and_in_any_order() -> None:
    scene = Scene(clusters=3)
    for broker in scene.overlay.brokers:
        scene.restart(broker)
    scene.do(C0, Subscribed("S", "s", STOCK))
    scene.do(A1, Advertised("P", "a", STOCK))
    for a, b in reversed(scene.overlay.links):
        scene.mend(b, a)
    assert scene.civ(A1) == 0b011
    assert [broker.state.unlearnt for broker in scene.brokers.values()] == [{}] * 9
    assert scene.publish(A1) == ["S"]


# -- notifications meanwhile


@pytest.mark.parametrize("routing", ["snr", "idr"])
def test_a_broker_that_is_still_learning_passes_notifications_on_to_those_who_know(routing: str) -> None:
    scene = wanted_from_the_other_end(routing)
    scene.do(A0, Advertised("Q", "a", STOCK))
    scene.die(B0)
    scene.reconnect(A0, B0)
    scene.mend(B0, B1)
    scene.connect(B0, C0)
    scene.tell_end((B0, C0))  # (c,0) has not said anything yet
    assert scene.subscribers(B0) == []
    scene.tell(A1, Published("P", "n1", QUOTE))
    scene.tell(A0, Published("Q", "n2", QUOTE))
    scene.do(B0, Advertised("R", "a", STOCK), Published("R", "n3", QUOTE))
    scene.tell_end((C0, B0))
    scene.run_until_quiet()
    assert sorted(scene.deliveries) == [("S", "n1"), ("S", "n2"), ("S", "n3")]


def test_a_learner_sends_superfluous_copies_only_until_it_has_learnt() -> None:
    scene = Scene()
    scene.die(B0)
    scene.mend(A0, B0)
    scene.do(B0, Advertised("P", "a", STOCK))
    assert scene.publish(B0) == []
    assert scene.sent("notify") == [(B0, C0), (B0, B1)], "to those it has not heard yet, and not to the other"
    scene.come_back(B0)
    scene.hops.clear()
    assert scene.publish(B0) == []
    assert scene.sent("notify") == []


@pytest.mark.parametrize(("keeps", "delivered"), [(False, []), (True, [("S", "n")])])
def test_a_notification_for_a_link_that_is_down_is_the_hosts_to_keep_or_to_drop(
    keeps: bool, delivered: list[tuple[str, str]]
) -> None:
    scene = Scene(keeps=keeps)
    scene.do(C0, Subscribed("S", "s", STOCK))
    scene.do(A0, Advertised("P", "a", STOCK))
    scene.lose(B0, C0)
    scene.do(A0, Published("P", "n", QUOTE))
    assert scene.deliveries == []
    scene.mend(B0, C0)
    assert scene.deliveries == delivered


# -- a link goes down and comes up between brokers that live on


def test_a_link_that_only_flapped_changes_nothing_beyond_its_ends() -> None:
    scene = wanted_from_the_other_end()
    scene.lose(A0, B0)
    scene.mend(A0, B0)
    assert scene.hops == [
        (A0, B0, "subscriptions_complete"),
        (B0, A0, "subscribe"),
        (B0, A0, "subscriptions_complete"),
    ]


def test_what_changed_while_an_a_link_was_down_is_told_beyond_it() -> None:
    scene = wanted_from_the_other_end()
    scene.do(A1, Advertised("P", "b", BOND))
    scene.lose(A0, B0)
    scene.do(C0, Unsubscribed("S", "s"))
    scene.do(C0, Subscribed("S", "s", BOND))
    scene.do(A0, Subscribed("T", "t", BOND))
    assert (scene.civ(A1, id="a"), scene.civ(A1, id="b")) == (0b11, 0b11)
    scene.mend(A0, B0)
    assert [scene.subscribers(x) for x in (A0, B0, C0)] == [[Key(A0, 0), Key(C0, 1)]] * 3
    assert (scene.civ(A1, id="a"), scene.civ(A1, id="b")) == (0b10, 0b11)


def test_every_bit_is_exact_again_after_an_i_link_was_down() -> None:
    scene = Scene()
    for id, filter in (("stays on", STOCK), ("goes off", BOND), ("goes on", parse_filter("class = 'FUND'"))):
        scene.do(A1, Advertised("P", id, filter))
    scene.do(A1, Advertised("P", "withdrawn", STOCK))
    scene.do(B0, Subscribed("S", "stock", STOCK), Subscribed("S", "bond", BOND))
    scene.lose(A0, A1)
    scene.do(B0, Unsubscribed("S", "bond"), Subscribed("S", "fund", parse_filter("class = 'FUND'")))
    scene.do(A1, Unadvertised("P", "withdrawn"), Advertised("P", "new", STOCK), Advertised("P", "unwanted", BOND))
    scene.mend(A1, A0)
    bits = {id: scene.civ(A1, id=id) & 1 for id in ("stays on", "goes off", "goes on", "new", "unwanted")}
    assert bits == {"stays on": 1, "goes off": 0, "goes on": 1, "new": 1, "unwanted": 0}
    assert len(scene.brokers[A0].state.srt) == 5


def test_a_resync_that_is_interrupted_starts_over() -> None:
    scene = Scene()
    for id in ("1", "2", "3"):
        scene.do(C0, Subscribed("S", id, STOCK))
    scene.lose(B0, C0)
    scene.do(C0, Unsubscribed("S", "1"), Subscribed("S", "4", STOCK))
    scene.connect(B0, C0)
    scene.tell_end((C0, B0))
    scene.tell_end((B0, C0))
    (hop,) = [hop for hop in scene.oldest_of_each_link() if hop.sender == C0]
    scene.receive(hop)  # the first subscription is told again, the rest is lost
    scene.lose(B0, C0)
    scene.do(C0, Unsubscribed("S", "2"))
    assert scene.subscribers(A0) == [Key(C0, 0), Key(C0, 1), Key(C0, 2)]
    scene.mend(B0, C0)
    assert [scene.subscribers(x) for x in (A0, B0, C0)] == [[Key(C0, 2), Key(C0, 3)]] * 3


def test_a_withdrawal_during_a_resync_is_not_undone_by_it() -> None:
    scene = wanted_from_the_other_end()
    scene.lose(B0, C0)
    scene.reconnect(C0, B0)
    scene.tell(C0, Unsubscribed("S", "s"))  # behind its own re-announcement
    scene.run_until_quiet()
    assert [scene.subscribers(x) for x in (A0, B0, C0)] == [[]] * 3
    assert scene.civ(A1) == 0b10


def test_a_broker_tells_what_it_doubts_itself_and_takes_it_back_when_it_knows() -> None:
    """(b,0) has yet to hear from (c,0) when (a,0) asks: S is told to (a,0), and withdrawn when (c,0) denies it."""
    scene = wanted_from_the_other_end()
    scene.lose(A0, B0)
    scene.lose(B0, C0)
    scene.do(C0, Unsubscribed("S", "s"))
    scene.mend(A0, B0)
    assert scene.subscribers(A0) == [Key(C0, 0)]
    scene.mend(B0, C0)
    assert (scene.subscribers(A0), scene.civ(A1)) == ([], 0b10)


def test_a_link_that_goes_down_while_a_broker_learns_from_it_is_learnt_from_when_it_is_back() -> None:
    scene = Scene()
    scene.do(C0, Subscribed("S", "1", STOCK), Subscribed("S", "2", STOCK))
    scene.die(B0)
    scene.reconnect(A0, B0)
    scene.connect(B0, C0)
    scene.tell_end((C0, B0))
    scene.tell_end((B0, C0))
    (hop,) = [hop for hop in scene.oldest_of_each_link() if hop.sender == C0]
    scene.receive(hop)
    scene.lose(B0, C0)
    scene.run_until_quiet()
    assert [scene.subscribers(x) for x in (A0, B0)] == [[Key(C0, 0), Key(C0, 1)], [Key(C0, 0)]]
    scene.do(C0, Unsubscribed("S", "1"))
    scene.mend(B0, C0)
    assert [scene.subscribers(x) for x in (A0, B0)] == [[Key(C0, 1)]] * 2


def test_a_link_that_came_up_anew_unnoticed_before_is_a_fresh_one_all_the_same() -> None:
    scene = wanted_from_the_other_end()
    scene.cut_link(B0, C0)  # neither end is told
    scene.do(C0, Unsubscribed("S", "s"))  # lost with the connection
    scene.do(A0, Subscribed("T", "t", STOCK))  # stops at (b,0)
    scene.mend(B0, C0)
    assert [scene.subscribers(x) for x in (A0, B0, C0)] == [[Key(A0, 0)]] * 3


# -- giving up


def test_after_giving_a_neighbour_up_what_lies_beyond_is_forgotten_and_comes_back_with_it() -> None:
    scene = wanted_from_the_other_end()
    scene.die(B0)
    scene.mend(A0, B0)
    scene.do(B0, LinkGivenUp(C0))
    assert (scene.subscribers(A0), scene.civ(A1)) == ([], 0b10)
    scene.mend(B0, C0)
    assert (scene.subscribers(A0), scene.civ(A1)) == ([Key(C0, 0)], 0b11)


def test_giving_up_means_nothing_for_a_link_that_is_up_or_was_learnt_from() -> None:
    scene = wanted_from_the_other_end()
    scene.do(B0, LinkGivenUp(C0))
    scene.lose(B0, C0)
    scene.do(B0, LinkGivenUp(C0), LinkGivenUp(B1))
    assert (scene.hops, scene.subscribers(A0)) == ([], [Key(C0, 0)])
    broker = Broker(B0, scene.overlay, "snr", links_up=False)
    broker.handle(LinkCameUp(A0), 0.0)
    assert broker.handle(LinkGivenUp(A0), 0.0) == []
    assert set(broker.state.unlearnt) == {A0, C0}
