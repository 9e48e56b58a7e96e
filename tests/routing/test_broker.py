"""One broker alone: whole lists of actions for single events, refusals, limits, and peers that break the rules."""

import pytest

from octopia.errors import InputError, LocalProtocolError, RemoteProtocolError
from octopia.language import parse_filter, parse_notification
from octopia.protocol import (
    Advertise,
    CibClear,
    CibSet,
    Key,
    Message,
    Notify,
    Subscribe,
    TreeHeader,
    Unadvertise,
    Unsubscribe,
)
from octopia.routing import (
    POLICIES,
    Accept,
    Action,
    Advertised,
    Broker,
    ClientLeft,
    Deliver,
    Limits,
    LinkSampled,
    Published,
    Received,
    Recipient,
    Refuse,
    Send,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId, Scot, parse_tree

OVERLAY = Scot(parse_tree("path:3"), 3)
HERE = BrokerId("b", 2)
A2, C2, B0, B1 = BrokerId("a", 2), BrokerId("c", 2), BrokerId("b", 0), BrokerId("b", 1)
STOCK = parse_filter("class = 'STOCK' and price > 0")
DEAR = parse_filter("class = 'STOCK' and price > 100")
QUOTE = parse_notification({"class": "STOCK", "price": 120})


def broker(routing: str = "snr", **options: Limits) -> Broker:
    return Broker(HERE, OVERLAY, routing, **options)  # type: ignore[arg-type]


def handle(target: Broker, *events: object) -> list[Action]:
    """The actions of the last of these events."""
    out: list[Action] = []
    for event in events:
        out = target.handle(event, 0.0)  # type: ignore[arg-type]
    return out


def test_advertise_is_accepted_and_sent_to_the_secondary_neighbours_by_cluster() -> None:
    key = Key(HERE, 0)
    assert handle(broker(), Advertised("P", "a", STOCK)) == [
        Accept("P", "advertise", "a"),
        Send(B0, Advertise(key, STOCK)),
        Send(B1, Advertise(key, STOCK)),
    ]


def test_subscribe_is_accepted_and_sent_to_the_primary_neighbours_in_tree_order() -> None:
    key = Key(HERE, 0)
    assert handle(broker(), Subscribed("S", "s", DEAR)) == [
        Accept("S", "subscribe", "s"),
        Send(A2, Subscribe(key, DEAR)),
        Send(C2, Subscribe(key, DEAR)),
    ]


def test_deliveries_come_first_then_a_links_then_i_links() -> None:
    target = broker()
    remote = Key(C2, 0)
    actions = handle(
        target,
        Advertised("P", "a", STOCK),
        Subscribed("S", "s1", STOCK),
        Subscribed("S", "s2", DEAR),
        Subscribed("T", "t1", DEAR),
        Received(C2, Subscribe(remote, STOCK)),
        Received(B0, CibSet((Key(HERE, 0),))),
        Published("P", "n", QUOTE),
    )
    copy = Notify("P", "n", QUOTE)
    assert actions == [
        Deliver("P", "n", QUOTE, (Recipient("S", ("s1", "s2")), Recipient("T", ("t1",)))),
        Send(C2, copy),
        Send(B0, copy),
    ]


def test_a_repeated_request_is_accepted_and_changes_nothing() -> None:
    target = broker()
    again = handle(target, Advertised("P", "a", STOCK), Advertised("P", "a", STOCK))
    assert again == [Accept("P", "advertise", "a")]
    again = handle(target, Subscribed("S", "s", STOCK), Subscribed("S", "s", STOCK))
    assert again == [Accept("S", "subscribe", "s")]
    gone = handle(target, Unsubscribed("S", "s"), Unsubscribed("S", "s"))
    assert gone == [Accept("S", "unsubscribe", "s")]
    assert handle(target, Unadvertised("P", "nothing")) == [Accept("P", "unadvertise", "nothing")]


def test_an_id_in_use_for_another_filter_is_refused_with_the_filter_it_has() -> None:
    actions = handle(broker(), Subscribed("S", "s", STOCK), Subscribed("S", "s", DEAR))
    reason = "subscription id 's' is in use by S for another filter (class = 'STOCK' and price > 0); withdraw it first"
    assert actions == [Refuse("S", "subscribe", "s", reason)]


@pytest.mark.parametrize("routing", sorted(POLICIES))
def test_a_notification_that_was_not_advertised_is_refused_and_its_publisher_told_why(routing: str) -> None:
    target = broker(routing)
    (refused,) = handle(target, Published("P", "n", QUOTE))
    assert refused == Refuse("P", "publish", "n", "P has no advertisement here; advertise before you publish")
    cheap = parse_filter("class = 'STOCK' and price < 50")
    (refused,) = handle(target, Advertised("P", "a", cheap), Published("P", "n", QUOTE))
    assert isinstance(refused, Refuse)
    assert refused.reason == "P did not advertise this: advertisement 'a': price < 50 failed: price is 120"
    (refused,) = handle(target, Advertised("P", "b", cheap), Advertised("P", "c", cheap), Published("P", "n", QUOTE))
    assert isinstance(refused, Refuse)
    assert refused.reason.endswith("price is 120 (nor to any of its 2 others)")
    (refused,) = handle(target, Advertised("Q", "a", STOCK), Published("P", "n", QUOTE))
    assert isinstance(refused, Refuse), "another client's advertisement does not help"


def test_limits_are_kept_at_the_host_broker_and_named() -> None:
    limits = Limits(clients_max=2, advertisements_per_client_max=1, subscriptions_per_client_max=2)
    target = broker(limits=limits)
    (refused,) = handle(target, Advertised("P", "a1", STOCK), Advertised("P", "a2", STOCK))
    assert isinstance(refused, Refuse)
    assert refused.reason == "P has the maximum of 1 advertisements for one client; withdraw one first"
    handle(target, Subscribed("S", "1", STOCK), Subscribed("S", "2", STOCK), Subscribed("T", "1", STOCK))
    (refused,) = handle(target, Subscribed("S", "3", STOCK))
    assert isinstance(refused, Refuse)
    assert refused.reason == "S has the maximum of 2 subscriptions for one client; withdraw one first"
    (refused,) = handle(target, Subscribed("U", "1", STOCK))
    assert isinstance(refused, Refuse)
    assert refused.reason == "this broker has its maximum of 2 clients with subscriptions; use another broker"
    assert handle(target, Unsubscribed("T", "1"), Subscribed("U", "1", STOCK))[0] == Accept("U", "subscribe", "1")


def test_a_client_that_left_leaves_nothing() -> None:
    target = broker()
    actions = handle(
        target, Subscribed("S", "s", STOCK), Advertised("S", "a", STOCK), Subscribed("T", "s", STOCK), ClientLeft("S")
    )
    assert actions == [
        Accept("S", "unsubscribe", "s"),
        Send(A2, Unsubscribe(Key(HERE, 0))),
        Send(C2, Unsubscribe(Key(HERE, 0))),
        Accept("S", "unadvertise", "a"),
        Send(B0, Unadvertise(Key(HERE, 1))),
        Send(B1, Unadvertise(Key(HERE, 1))),
    ]
    assert (len(target.state.srt), len(target.state.prt)) == (0, 1)
    assert handle(target, ClientLeft("S")) == []


def test_one_cib_set_per_neighbour_for_all_its_advertisements_and_one_cib_clear_for_the_last() -> None:
    target = broker()
    theirs = [Key(B0, 0), Key(B0, 1), Key(B1, 0)]
    for key in theirs:
        handle(target, Received(key.host, Advertise(key, STOCK)))
    assert handle(target, Received(C2, Subscribe(Key(C2, 0), DEAR))) == [
        Send(A2, Subscribe(Key(C2, 0), DEAR)),
        Send(B0, CibSet((theirs[0], theirs[1]))),
        Send(B1, CibSet((theirs[2],))),
    ]
    assert handle(target, Subscribed("S", "s", DEAR))[1:] == [
        Send(A2, Subscribe(Key(HERE, 0), DEAR)),
        Send(C2, Subscribe(Key(HERE, 0), DEAR)),
    ], "bits are ON already"
    assert handle(target, Received(C2, Unsubscribe(Key(C2, 0)))) == [Send(A2, Unsubscribe(Key(C2, 0)))]
    assert handle(target, Unsubscribed("S", "s"))[3:] == [
        Send(B0, CibClear((theirs[0], theirs[1]))),
        Send(B1, CibClear((theirs[2],))),
    ]


FORGED: list[tuple[BrokerId, Message, str]] = [
    (A2, Advertise(Key(A2, 0), STOCK), "which is not its secondary neighbour"),
    (B0, Advertise(Key(B1, 0), STOCK), "whose clients it does not host"),
    (B0, Unadvertise(Key(HERE, 0)), "whose clients it does not host"),
    (B0, Subscribe(Key(B0, 0), STOCK), "which is not in its cluster"),
    (A2, CibSet((Key(HERE, 0),)), "which is not its secondary neighbour"),
    (BrokerId("c", 0), CibClear((Key(HERE, 0),)), "which is not a neighbour"),
    (B0, Notify("P", "n", QUOTE, TreeHeader(Key(B0, 0))), "which snr routing has not"),
]


@pytest.mark.parametrize(("sender", "message", "reason"), FORGED)
def test_a_peer_that_breaks_the_rules_is_at_fault_and_changes_nothing(
    sender: BrokerId, message: Message, reason: str
) -> None:
    target = broker()
    handle(target, Advertised("P", "a", STOCK))
    with pytest.raises(RemoteProtocolError, match=reason):
        target.handle(Received(sender, message), 0.0)
    assert (len(target.state.srt), len(target.state.prt)) == (1, 0)


def test_only_the_neighbour_a_subscription_came_from_may_withdraw_it() -> None:
    target = broker()
    handle(target, Received(C2, Subscribe(Key(C2, 0), STOCK)))
    with pytest.raises(RemoteProtocolError, match="did not come from it"):
        target.handle(Received(A2, Unsubscribe(Key(C2, 0))), 0.0)


def test_a_sample_of_a_link_that_is_not_there_is_the_hosts_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match=r"\(b,2\) has no link to \(c,1\)"):
        broker().handle(LinkSampled(BrokerId("c", 1), 1, 1, 0), 0.0)


def test_an_unknown_routing_names_the_ones_there_are() -> None:
    with pytest.raises(InputError, match="unknown routing 'fast'; the routings are snr, idr, fdr, tid, tid-dynamic"):
        broker("fast")


def test_a_restarted_broker_gives_out_new_keys() -> None:
    target = Broker(HERE, OVERLAY, "snr", first_serial=1000)
    actions = handle(target, Advertised("P", "a", STOCK))
    assert actions[1] == Send(B0, Advertise(Key(HERE, 1000), STOCK))


def test_a_cib_message_changes_only_what_this_broker_hosts() -> None:
    """A neighbour that names another broker's advertisement cannot affect our copy of it."""
    target = broker()
    foreign = Key(B1, 0)
    handle(target, Received(B1, Advertise(foreign, STOCK)))
    before = target.state.srt.get(foreign).civ
    for message in (CibSet((foreign,)), CibClear((foreign,))):
        assert handle(target, Received(B0, message)) == []
        assert target.state.srt.get(foreign).civ == before


@pytest.mark.parametrize("routing", POLICIES)
def test_a_client_leaves_in_slices(routing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.routing.broker.DEPARTURE_SLICE_MAX", 3)
    sliced, whole = broker(routing), broker(routing)
    for target in (sliced, whole):
        for n in range(4):
            handle(target, Subscribed("S", f"s{n}", STOCK), Advertised("S", f"a{n}", STOCK))
        handle(target, Subscribed("T", "s0", STOCK))
    slices: list[list[Action]] = []
    while not slices or sliced.is_leaving("S"):
        slices.append(handle(sliced, ClientLeft("S")))
        if sliced.is_leaving("S"):
            (refused,) = handle(sliced, Subscribed("S", "new", STOCK))
            assert isinstance(refused, Refuse)
            assert refused.reason == "S is leaving; its earlier registrations are still being withdrawn"
    done = [[action.id for action in actions if isinstance(action, Accept)] for actions in slices]
    assert done == [["s0", "s1", "s2"], ["s3", "a0", "a1"], ["a2", "a3"]]
    assert [action for actions in slices for action in actions] == whole.handle_whole(ClientLeft("S"), 0.0)
    for target in (sliced, whole):
        assert (len(target.state.srt), len(target.state.prt), target.is_leaving("S")) == (0, 1, False)
        assert handle(target, Subscribed("S", "new", STOCK))[0] == Accept("S", "subscribe", "new")


def test_patterns_and_advertised_conjunctions_of_a_client_are_bounded() -> None:
    target = broker(limits=Limits(patterns_per_client_max=2, advertised_conjunctions_per_client_max=3))
    like, two = parse_filter("name like '%x%'"), parse_filter("name like 'x%' or name > 'y'")
    for request in (Subscribed("S", "1", like), Advertised("S", "1", like), Subscribed("T", "1", two)):
        assert isinstance(handle(target, request)[0], Accept)
    for kind, noun in ((Subscribed, "subscription"), (Advertised, "advertisement")):
        (refused,) = handle(target, kind("S", "2", two))
        assert isinstance(refused, Refuse)
        assert refused.reason == (
            f"with this {noun} S would have 3 conditions on parts or order of strings or huge numbers in its {noun}s, "
            "at most 2 are allowed for one client; withdraw one first"
        )
    assert isinstance(handle(target, Unsubscribed("S", "1"), Subscribed("S", "2", two))[0], Accept)
    assert isinstance(handle(target, Advertised("S", "2", parse_filter("a = 1 or a = 2")))[0], Accept)
    (refused,) = handle(target, Advertised("S", "3", STOCK))
    assert isinstance(refused, Refuse)
    assert "4 conjunctions in its advertisements, at most 3" in refused.reason
