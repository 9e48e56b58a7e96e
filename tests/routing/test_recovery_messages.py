"""The messages of a resync: whole lists of actions at one broker, bounds, and peers and hosts that make mistakes."""

import pytest

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.protocol import (
    Advertise,
    AdvertisementsComplete,
    CibClear,
    CibSet,
    Key,
    Message,
    Subscribe,
    SubscriptionsComplete,
    Unadvertise,
    Unsubscribe,
)
from octopia.routing import Advertised, Broker, Event, LinkCameUp, LinkGivenUp, LinkWentDown, Received, Send, Subscribed
from octopia.routing.scot import interest
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.recovery_scene import A0, B0, B1, BOND, C0, C1, STOCK


def test_an_i_link_that_came_up_tells_own_advertisements_and_is_answered_with_all_bits() -> None:
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "snr")
    broker.handle(Advertised("P", "a", STOCK), 0.0)
    broker.handle(Subscribed("S", "s", STOCK), 0.0)
    for serial, filter in ((0, STOCK), (1, BOND), (2, STOCK)):
        broker.handle(Received(B1, Advertise(Key(B1, serial), filter)), 0.0)
    assert broker.handle(LinkCameUp(B1), 0.0) == [
        Send(B1, Advertise(Key(B0, 0), STOCK)),
        Send(B1, AdvertisementsComplete()),
    ]
    assert broker.handle(Received(B1, Advertise(Key(B1, 1), BOND)), 0.0) == []
    assert broker.handle(Received(B1, Advertise(Key(B1, 2), STOCK)), 0.0) == []
    assert broker.handle(Received(B1, AdvertisementsComplete()), 0.0) == [
        Send(B1, CibSet((Key(B1, 2),))),
        Send(B1, CibClear((Key(B1, 1),))),
    ]
    assert broker.handle(Received(B1, AdvertisementsComplete()), 0.0) == []


def test_long_answers_are_cut_into_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "NAMED_PER_MESSAGE_MAX", 2)
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "snr")
    broker.handle(LinkCameUp(B1), 0.0)
    keys = [Key(B1, serial) for serial in range(3)]
    for key in keys:
        broker.handle(Received(B1, Advertise(key, STOCK)), 0.0)
    assert broker.handle(Received(B1, AdvertisementsComplete()), 0.0) == [
        Send(B1, CibClear((keys[0], keys[1]))),
        Send(B1, CibClear((keys[2],))),
    ]
    long = Scot(parse_tree("path:6"), 1)
    *_, d, e, f = long.brokers
    learner = Broker(d, long, "snr", links_up=False)
    c, b, a = long.brokers[2::-1]
    learner.handle(LinkCameUp(c), 0.0)
    learner.handle(Received(c, SubscriptionsComplete((b, a))), 0.0)
    assert learner.handle(LinkCameUp(e), 0.0) == [
        Send(e, SubscriptionsComplete((d, b))),
        Send(e, SubscriptionsComplete((a,))),
    ]
    assert set(learner.state.unlearnt) == {c, e, f}


def test_a_host_has_a_say_in_its_own_side_only() -> None:
    """(c,0) vouches for (a,0), which lies on the other side: nothing of (a,0) is swept and nothing of it is learnt."""
    broker = Broker(B0, Scot(parse_tree("path:3"), 1), "snr", links_up=False)
    for neighbour in (A0, C0):
        broker.handle(LinkCameUp(neighbour), 0.0)
    broker.handle(Received(A0, Subscribe(Key(A0, 0), STOCK)), 0.0)
    broker.handle(LinkCameUp(A0), 0.0)
    assert broker.handle(Received(C0, SubscriptionsComplete((A0, C0))), 0.0) == [Send(A0, SubscriptionsComplete())]
    assert (set(broker.state.unlearnt), len(broker.state.prt)) == ({A0}, 1)
    assert broker.handle(Received(A0, SubscriptionsComplete()), 0.0) == [
        Send(C0, Unsubscribe(Key(A0, 0))),
        Send(C0, SubscriptionsComplete()),
    ]


def test_a_peer_that_withdraws_what_it_never_told_again_does_no_harm() -> None:
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "snr")
    broker.handle(Received(A0, Subscribe(Key(A0, 0), STOCK)), 0.0)
    broker.handle(Received(B1, Advertise(Key(B1, 0), STOCK)), 0.0)
    broker.handle(LinkCameUp(A0), 0.0)
    broker.handle(LinkCameUp(B1), 0.0)
    broker.handle(Received(A0, Unsubscribe(Key(A0, 0))), 0.0)
    broker.handle(Received(B1, Unadvertise(Key(B1, 0))), 0.0)
    assert broker.handle(Received(A0, SubscriptionsComplete()), 0.0) == []
    assert broker.handle(Received(B1, AdvertisementsComplete()), 0.0) == []
    assert (len(broker.state.prt), len(broker.state.srt)) == (0, 0)


FORGED: list[tuple[BrokerId, Message, str]] = [
    (B1, SubscriptionsComplete(), "which is not in its cluster"),
    (A0, AdvertisementsComplete(), "which is not its secondary neighbour"),
    (C1, AdvertisementsComplete(), "which is not a neighbour"),
]


@pytest.mark.parametrize(("sender", "message", "reason"), FORGED)
def test_a_last_word_on_the_wrong_kind_of_link_is_the_peers_fault(
    sender: BrokerId, message: Message, reason: str
) -> None:
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "snr")
    with pytest.raises(RemoteProtocolError, match=reason):
        broker.handle(Received(sender, message), 0.0)


def test_a_message_from_a_link_that_is_down_is_the_hosts_own_fault() -> None:
    broker = Broker(B0, Scot(parse_tree("path:3"), 2), "snr")
    broker.handle(LinkWentDown(A0), 0.0)
    reason = r"\(b,0\) was handed subscribe from \(a,0\), whose link is down; tell LinkCameUp first"
    with pytest.raises(LocalProtocolError, match=reason):
        broker.handle(Received(A0, Subscribe(Key(A0, 0), STOCK)), 0.0)
    assert len(broker.state.prt) == 0


@pytest.mark.parametrize("event", [LinkWentDown(C1), LinkCameUp(C1), LinkGivenUp(C1)])
def test_an_event_of_a_link_that_is_not_there_is_the_hosts_own_fault(event: Event) -> None:
    with pytest.raises(LocalProtocolError, match=r"\(b,0\) has no link to \(c,1\)"):
        Broker(B0, Scot(parse_tree("path:3"), 2), "snr").handle(event, 0.0)


@pytest.mark.parametrize("routing", ["tid", "tid-dynamic"])
def test_tid_routing_says_that_it_does_not_recover(routing: str) -> None:
    overlay = Scot(parse_tree("path:3"), 2)
    reason = f"{routing} routing cannot resynchronise its tables"
    broker = Broker(B0, overlay, routing)
    assert broker.handle(LinkWentDown(A0), 0.0) == []
    for event in (LinkCameUp(A0), LinkGivenUp(A0)):
        with pytest.raises(LocalProtocolError, match=reason):
            broker.handle(event, 0.0)
    with pytest.raises(LocalProtocolError, match=reason):
        Broker(B0, overlay, routing, links_up=False)
