"""Covering, one case at a time, on the path a - b - c: the messages sent, their order, and the effect of a resync."""

from collections.abc import Sequence

import pytest

from octopia.errors import InputError
from octopia.language import Filter, parse_filter, parse_notification
from octopia.protocol import Key, Subscribe, Unsubscribe
from octopia.routing import Advertised, Broker, ClientLeft, Published, Received, Send, Subscribed, Unsubscribed
from octopia.routing import covering as module
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.recovery_scene import A0, A1, B0, C0, STOCK, Scene

PATH = Scot(parse_tree("path:3"), 2)
WIDE, NARROW, NARROWER = (parse_filter(f"x > {bound}") for bound in (0, 5, 9))


def broker(covering: str = "link", routing: str = "snr", id: BrokerId = B0) -> Broker:
    return Broker(id, PATH, routing, covering=covering)


def told(actions: Sequence[object], neighbour: BrokerId = A0) -> list[Subscribe | Unsubscribe]:
    """The messages to a neighbour about subscriptions, in order."""
    sends = [action for action in actions if isinstance(action, Send) and action.to == neighbour]
    return [send.message for send in sends if isinstance(send.message, Subscribe | Unsubscribe)]


def subscribed(at: Broker, id: str, filter: Filter, priority: int = 0) -> list[Subscribe | Unsubscribe]:
    return told(at.handle(Subscribed("S", id, filter, priority=priority), 0.0))


def unsubscribed(at: Broker, id: str) -> list[Subscribe | Unsubscribe]:
    return told(at.handle(Unsubscribed("S", id), 0.0))


@pytest.mark.parametrize(("routing", "kind"), [("snr", "host"), ("snr", "link"), ("idr", "link"), ("fdr", "host")])
def test_what_is_covered_is_neither_sent_nor_withdrawn(routing: str, kind: str) -> None:
    at = broker(kind, routing)
    assert subscribed(at, "1", WIDE) == [Subscribe(Key(B0, 0), WIDE)]
    assert subscribed(at, "2", NARROW) == []
    assert unsubscribed(at, "2") == []
    assert subscribed(at, "3", WIDE) == []
    assert unsubscribed(at, "3") == []


def test_without_covering_everything_is_sent() -> None:
    at = broker("none")
    sent = [subscribed(at, "1", WIDE), subscribed(at, "2", NARROW), unsubscribed(at, "2")]
    assert sent == [[Subscribe(Key(B0, 0), WIDE)], [Subscribe(Key(B0, 1), NARROW)], [Unsubscribe(Key(B0, 1))]]


def test_a_wider_one_takes_the_place_of_what_was_sent() -> None:
    at = broker()
    assert subscribed(at, "1", NARROW) == [Subscribe(Key(B0, 0), NARROW)]
    assert subscribed(at, "2", WIDE) == [Subscribe(Key(B0, 1), WIDE), Unsubscribe(Key(B0, 0))]
    # and gives it back: what is sent comes before what is withdrawn
    assert unsubscribed(at, "2") == [Subscribe(Key(B0, 0), NARROW), Unsubscribe(Key(B0, 1))]


def test_a_withdrawal_uncovers_the_widest_only() -> None:
    at = broker()
    for id, filter in (("1", WIDE), ("2", NARROWER), ("3", NARROW)):
        subscribed(at, id, filter)
    assert unsubscribed(at, "1") == [Subscribe(Key(B0, 2), NARROW), Unsubscribe(Key(B0, 0))]
    assert unsubscribed(at, "3") == [Subscribe(Key(B0, 1), NARROWER), Unsubscribe(Key(B0, 2))]
    assert unsubscribed(at, "2") == [Unsubscribe(Key(B0, 1))]


def test_of_a_union_only_the_part_that_lost_its_cover_needs_another() -> None:
    at = broker()
    for id, symbols in (("1", "'A', 'B'"), ("2", "'C', 'D'"), ("3", "'A', 'E'")):
        assert len(subscribed(at, id, parse_filter(f"s in ({symbols})"))) == 1
    assert subscribed(at, "4", parse_filter("s in ('A', 'C')")) == []
    assert unsubscribed(at, "1") == [Unsubscribe(Key(B0, 0))]
    assert unsubscribed(at, "3") == [
        Subscribe(Key(B0, 3), parse_filter("s in ('A', 'C')")),
        Unsubscribe(Key(B0, 2)),
    ]
    assert unsubscribed(at, "2") == [Unsubscribe(Key(B0, 1))]


def test_another_with_the_same_filter_takes_over() -> None:
    at = broker()
    for id, filter in (("1", WIDE), ("2", WIDE), ("3", NARROW)):
        subscribed(at, id, filter)
    assert unsubscribed(at, "1") == [Subscribe(Key(B0, 1), WIDE), Unsubscribe(Key(B0, 0))]


def test_per_link_what_came_from_there_covers_nothing_that_goes_there() -> None:
    at = broker("link")
    came = at.handle(Received(A0, Subscribe(Key(A0, 0), WIDE)), 0.0)
    assert (told(came, A0), told(came, C0)) == ([], [Subscribe(Key(A0, 0), WIDE)])
    sent = at.handle(Subscribed("S", "1", NARROW), 0.0)
    assert (told(sent, A0), told(sent, C0)) == ([Subscribe(Key(B0, 0), NARROW)], [])
    gone = at.handle(Received(A0, Unsubscribe(Key(A0, 0))), 0.0)
    assert told(gone, C0) == [Subscribe(Key(B0, 0), NARROW), Unsubscribe(Key(A0, 0))]


def test_per_host_only_own_subscriptions_cover_each_other() -> None:
    at = broker("host")
    at.handle(Received(A0, Subscribe(Key(A0, 0), WIDE)), 0.0)
    assert told(at.handle(Subscribed("S", "1", NARROW), 0.0), C0) == [Subscribe(Key(B0, 0), NARROW)]
    assert told(at.handle(Received(A0, Subscribe(Key(A0, 1), NARROW)), 0.0), C0) == [Subscribe(Key(A0, 1), NARROW)]


def test_a_cover_is_at_least_as_urgent() -> None:
    at = broker()
    assert subscribed(at, "1", WIDE) == [Subscribe(Key(B0, 0), WIDE)]
    assert subscribed(at, "2", NARROW, priority=2) == [Subscribe(Key(B0, 1), NARROW, priority=2)]
    assert subscribed(at, "3", NARROWER, priority=1) == []
    assert subscribed(at, "4", WIDE, priority=2) == [
        Subscribe(Key(B0, 3), WIDE, priority=2),
        Unsubscribe(Key(B0, 0)),
        Unsubscribe(Key(B0, 1)),
    ]
    assert unsubscribed(at, "4") == [
        Subscribe(Key(B0, 0), WIDE),
        Subscribe(Key(B0, 1), NARROW, priority=2),
        Unsubscribe(Key(B0, 3)),
    ]


def test_one_subscription_covers_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a withdrawal sends at most so many subscriptions, and so does a newcomer that supersedes."""
    monkeypatch.setattr(module, "COVERED_MAX", 3)
    at = broker()
    everything = parse_filter("x is not null")
    subscribed(at, "wide", everything)
    apart = [parse_filter(f"x between {n} and {n}.5") for n in range(5)]
    sent = [subscribed(at, str(number), filter) for number, filter in enumerate(apart)]
    assert sent == [[], [], [], [Subscribe(Key(B0, 4), apart[3])], [Subscribe(Key(B0, 5), apart[4])]]
    # what is not covered any more makes room for the next
    unsubscribed(at, "0")
    assert subscribed(at, "again", apart[0]) == []
    gone = unsubscribed(at, "wide")
    assert gone == [Subscribe(Key(B0, n), at.state.prt.get(Key(B0, n)).filter) for n in (2, 3, 6)] + [
        Unsubscribe(Key(B0, 0))
    ]
    # five are sent now, and a wider one takes the place of three
    assert subscribed(at, "wide", everything) == [Subscribe(Key(B0, 7), everything)] + [
        Unsubscribe(Key(B0, n)) for n in (4, 5, 2)
    ]


def test_a_client_that_leaves_takes_along_all_it_covered() -> None:
    at = broker()
    for number in range(3):
        at.handle(Subscribed("S", str(number), parse_filter(f"x > {number}")), 0.0)
    at.handle(Subscribed("T", "t", NARROW), 0.0)
    messages = told(at.handle_whole(ClientLeft("S"), 0.0))
    assert messages[-2:] == [Subscribe(Key(B0, 3), NARROW), Unsubscribe(Key(B0, 2))]


@pytest.mark.parametrize(
    ("routing", "kind", "reason"),
    [
        (
            "fdr",
            "link",
            (
                "fdr routing cannot cover per link "
                "since its copies name their destinations; use none or host, or another routing"
            ),
        ),
        ("snr", "hosts", "unknown covering 'hosts' (did you mean host?); choose from none, host, link"),
    ],
)
def test_what_a_routing_cannot_do_is_refused(routing: str, kind: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        broker(kind, routing)
    assert str(caught.value) == reason


# -- links and restarts


def scene_with_a_cover(kind: str) -> Scene:
    """W at (b,0) covers S at (c,0) towards (a,0), where P's cluster learns of both by one subscription."""
    scene = Scene(coverings=dict.fromkeys(PATH.brokers, kind))
    scene.do(B0, Subscribed("W", "w", STOCK))
    scene.do(C0, Subscribed("S", "s", parse_filter("class = 'STOCK' and x > 3")))
    scene.do(A1, Advertised("P", "a", parse_filter("class = 'STOCK' and x is not null")))
    return scene


def test_the_word_of_a_restarted_host_does_not_sweep_what_stood_for_others() -> None:
    scene = scene_with_a_cover("link")
    assert (scene.subscribers(A0), scene.civ(A1)) == ([Key(B0, 0)], 0b11)
    scene.die(B0)
    scene.mend(A0, B0)
    # W is gone with its broker; but S, of whom (b,0) has yet to learn, is known here by W's subscription alone
    assert (scene.subscribers(A0), scene.civ(A1)) == ([Key(B0, 0)], 0b11)
    scene.mend(B0, C0)
    assert ([scene.subscribers(x) for x in (A0, B0, C0)], scene.civ(A1)) == ([[Key(C0, 0)]] * 3, 0b11)
    scene.deliveries.clear()
    scene.do(A1, Published("P", "n", parse_notification({"class": "STOCK", "x": 4})))
    assert [name for name, _ in scene.deliveries] == ["S"]


def test_a_fresh_connection_is_told_what_is_in_force_then() -> None:
    scene = scene_with_a_cover("link")
    scene.lose(A0, B0)
    scene.do(B0, Unsubscribed("W", "w"))
    scene.do(B0, Subscribed("W", "w2", STOCK), Unsubscribed("W", "w2"))
    assert scene.subscribers(A0) == [Key(B0, 0)]
    scene.mend(A0, B0)
    assert ([scene.subscribers(x) for x in (A0, B0, C0)], scene.civ(A1)) == ([[Key(C0, 0)]] * 3, 0b11)
