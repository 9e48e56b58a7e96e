"""Who may not know whose subscriptions under `fdr`: what is said when a link goes down and comes up, word for word."""

import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_filter
from octopia.protocol import Key, LinkNews, Message, Subscribe, SubscriptionsComplete, SubscriptionsIncomplete
from octopia.routing import Advertised, Broker, LinkCameUp, LinkGivenUp, LinkWentDown, Received, Send
from octopia.topology import BrokerId, Scot, parse_tree

STOCK = parse_filter("x is not null")
PATH = Scot(parse_tree("path:4"), 2)
A0, B0, C0, D0, A1, B1, C1, D1 = sorted(PATH.brokers, key=lambda broker: (broker.cluster, broker.region))


def said(broker: Broker, event: object) -> list[tuple[BrokerId, Message]]:
    """What is sent, but for news of links."""
    actions = broker.handle(event, 0.0)  # type: ignore[arg-type]
    sent = [action for action in actions if isinstance(action, Send)]
    return [(action.to, action.message) for action in sent if not isinstance(action.message, LinkNews)]


def in_doubt(broker: Broker) -> list[BrokerId]:
    state = broker.state
    return sorted(other for other, bit in state.places.brokers.items() if state.in_doubt & bit)


def test_a_link_that_goes_down_leaves_all_beyond_it_in_doubt() -> None:
    b0 = Broker(B0, PATH, "fdr")
    incomplete = SubscriptionsIncomplete((C0, D0))
    assert said(b0, LinkWentDown(C0)) == [(A0, incomplete), (B1, incomplete)]
    assert in_doubt(b0) == [C0, D0]
    assert said(b0, LinkWentDown(C0)) == []
    assert said(b0, LinkGivenUp(C0)) == []
    assert in_doubt(b0) == [C0, D0]


def test_word_of_it_goes_on_along_the_tree_and_over_to_the_region_once() -> None:
    a0, a1 = Broker(A0, PATH, "fdr"), Broker(A1, PATH, "fdr")
    incomplete = SubscriptionsIncomplete((C0, D0))
    assert said(a0, Received(B0, incomplete)) == [(A1, incomplete)]
    assert said(a0, Received(B0, incomplete)) == []
    assert said(a1, Received(A0, incomplete)) == []
    assert (in_doubt(a0), in_doubt(a1)) == ([C0, D0], [C0, D0])
    assert said(a1, Received(A0, SubscriptionsComplete((D0,)))) == []
    assert in_doubt(a1) == [C0]
    assert said(a1, Received(A0, SubscriptionsComplete())) == []
    assert (in_doubt(a1), a1.state.untold) == ([], {})


def test_it_is_taken_back_host_by_host_after_what_was_missed() -> None:
    b0 = Broker(B0, PATH, "fdr")
    said(b0, LinkWentDown(C0))
    assert said(b0, LinkCameUp(C0)) == [(C0, SubscriptionsComplete())]
    subscription = Subscribe(Key(C0, 3), STOCK)
    assert said(b0, Received(C0, subscription)) == [(A0, subscription)]
    some = SubscriptionsComplete((C0,))
    assert said(b0, Received(C0, some)) == [(A0, some), (B1, some)]
    assert in_doubt(b0) == [D0]
    every = SubscriptionsComplete()
    assert said(b0, Received(C0, every)) == [(A0, every), (B1, every)]
    assert in_doubt(b0) == []


def test_a_fresh_connection_that_nobody_saw_break_is_in_doubt_as_well() -> None:
    b0 = Broker(B0, PATH, "fdr")
    incomplete = SubscriptionsIncomplete((C0, D0))
    assert said(b0, LinkCameUp(C0)) == [(A0, incomplete), (B1, incomplete), (C0, SubscriptionsComplete())]
    assert in_doubt(b0) == [C0, D0]


def test_who_is_in_doubt_vouches_for_the_others_only() -> None:
    b0 = Broker(B0, PATH, "fdr")
    said(b0, LinkWentDown(C0))
    said(b0, LinkWentDown(A0))
    assert said(b0, LinkCameUp(A0)) == [(A0, SubscriptionsComplete((B0,)))]


def test_a_region_mate_names_its_doubts_anew_on_a_fresh_connection() -> None:
    a0, a1 = Broker(A0, PATH, "fdr"), Broker(A1, PATH, "fdr")
    said(a0, Received(B0, SubscriptionsIncomplete((D0,))))
    a1.handle(Advertised("p", "a", STOCK), 0.0)
    said(a1, LinkWentDown(A0))
    assert in_doubt(a1) == [A0, B0, C0, D0]
    told = said(a0, LinkCameUp(A1))
    assert (A1, SubscriptionsIncomplete((D0,))) in told
    said(a1, LinkCameUp(A0))
    (entry,) = a1.state.srt
    assert (in_doubt(a1), entry.unknown) == ([], 1)
    for _, message in told:
        said(a1, Received(A0, message))
    assert in_doubt(a1) == [D0]


@pytest.mark.parametrize("kind", [SubscriptionsIncomplete, SubscriptionsComplete])
@pytest.mark.parametrize("host", [D1, BrokerId("x", 0)])
def test_a_region_mate_speaks_for_its_own_cluster_only(
    kind: type[SubscriptionsIncomplete] | type[SubscriptionsComplete], host: BrokerId
) -> None:
    broker = Broker(A1, PATH, "fdr")
    with pytest.raises(RemoteProtocolError, match=r"\(a,0\) spoke for \(.,.\), which is not a broker of its cluster"):
        broker.handle(Received(A0, kind((C0, host))), 0.0)
    assert in_doubt(broker) == []


@pytest.mark.parametrize("host", [A0, B0, D1, BrokerId("x", 0)])
def test_a_primary_neighbour_speaks_for_those_beyond_it_only(host: BrokerId) -> None:
    broker = Broker(B0, PATH, "fdr")
    with pytest.raises(RemoteProtocolError, match=r"\(c,0\) spoke for \(.,.\) to \(b,0\), which does not reach it"):
        broker.handle(Received(C0, SubscriptionsIncomplete((D0, host))), 0.0)
    assert in_doubt(broker) == []
