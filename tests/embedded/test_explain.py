"""Explain: each kind of answer, word for word."""

import sys
from typing import Any

import msgspec
import pytest

from octopia import InputError
from octopia.embedded import Answer, Replay, check_scenario, explain, overloaded_links, parse_scenario, replay
from octopia.scenes import scene_text

STEPS: list[dict[str, Any]] = [
    {"do": "advertise", "client": "P", "at": "b,2", "id": "a1", "filter": "x >= 0 and symbol is not null"},
    {"do": "subscribe", "client": "S1", "at": "c,0", "id": "s1", "filter": "x > 3"},
    {"do": "publish", "client": "P", "id": "n1", "notification": {"x": 5, "symbol": "AAPL"}},
]


def run(*more: dict[str, Any], routing: str = "idr") -> Replay:
    return replay(check_scenario({"tree": "path:3", "clusters": 3, "steps": [*STEPS, *more]}), routing)


def subscribe(client: str, id: str, filter: str, at: str = "a,1") -> dict[str, Any]:
    return {"do": "subscribe", "client": client, "at": at, "id": id, "filter": filter}


def publish(id: str, **attributes: Any) -> dict[str, Any]:
    return {"do": "publish", "client": "P", "id": id, "notification": attributes}


def reasons(result: Replay, client: str, notification: str = "n2") -> list[str]:
    (answer,) = explain(result, client=client, notification=notification)
    assert not answer.delivered
    return answer.reasons


# ---- delivered -----------------------------------------------------------------------------------------------------


def test_delivered_with_its_path() -> None:
    assert explain(run()) == [
        Answer(
            notification="n1",
            publisher="P",
            client="S1",
            delivered=True,
            reasons=[
                "matches subscription s1",
                "published at (b,2), delivered at (c,0), 2 hops",
                "(b,2) → (b,0) by iLink",
                "(b,0) → (c,0) by aLink",
            ],
        )
    ]


def test_delivered_for_several_subscriptions_one_hop_away() -> None:
    result = run(
        subscribe("S2", "s2", "x > 1", "b,1"), subscribe("S2", "s3", "x > 2", "b,1"), publish("n2", x=5, symbol="A")
    )
    (answer,) = explain(result, client="S2", notification="n2")
    assert answer.reasons == [
        "matches subscriptions s2, s3",
        "published at (b,2), delivered at (b,1), 1 hop",
        "(b,2) → (b,1) by iLink",
    ]


def test_delivered_at_the_publishers_own_broker() -> None:
    result = run(subscribe("S2", "s2", "x > 1", "b,2"), publish("n2", x=5, symbol="A"))
    (answer,) = explain(result, client="S2", notification="n2")
    assert answer.reasons == [
        "matches subscription s2",
        "published at (b,2), delivered at (b,2), no hops: both are clients of one broker",
    ]


def test_delivered_by_a_copy_that_carried_a_civ() -> None:
    result = replay(parse_scenario(scene_text("fig7c")))
    (answer,) = explain(result, client="S1")
    assert answer.reasons == [
        "matches subscription s1",
        "published at (b,2), delivered at (c,0), 3 hops",
        "(b,2) → (b,1) by iLink, carrying CIV 001 for the clusters behind overloaded iLinks",
        "(b,1) → (c,1) by aLink, carrying CIV 001 for the clusters behind overloaded iLinks",
        "(c,1) → (c,0) by iLink",
    ]


def test_delivered_under_tid_routing() -> None:
    (answer,) = explain(run(routing="tid"))
    assert answer.reasons == [
        "matches subscription s1",
        "published at (b,2), delivered at (c,0), 2 hops",
        "(b,2) → (c,2) by aLink",
        "(c,2) → (c,0) by iLink",
    ]


# ---- not delivered -------------------------------------------------------------------------------------------------


def test_the_predicate_that_failed_of_each_subscription() -> None:
    result = run(subscribe("S1", "s2", "symbol = 'IBM' and x > 0", "c,0"), publish("n2", x=3, symbol="AAPL"))
    assert reasons(result, "S1") == [
        "subscription s1 does not match: x > 3 failed: x is 3",
        "subscription s2 does not match: symbol = 'IBM' failed: symbol is 'AAPL'",
    ]


def test_an_attribute_that_is_absent() -> None:
    result = run(subscribe("S2", "s2", "volume > 3"), publish("n2", x=5, symbol="AAPL"))
    assert reasons(result, "S2") == [
        "subscription s2 does not match: volume is absent",
        (
            "subscription s2 can get nothing: no advertisement in force overlaps it; "
            "a1 of P: the advertisement does not name 'volume'"
        ),
    ]


def test_not_subscribed_yet() -> None:
    result = run(publish("n2", x=5, symbol="A"), subscribe("S2", "s2", "x > 1"), subscribe("S2", "s3", "x > 1"))
    assert reasons(result, "S2") == ["S2 had not subscribed yet: its first subscription comes in steps[4]"]


def test_unsubscribed_before() -> None:
    result = run(
        subscribe("S1", "s2", "x > 1", "c,0"),
        {"do": "unsubscribe", "client": "S1", "id": "s1"},
        {"do": "unsubscribe", "client": "S1", "id": "s2"},
        publish("n2", x=5, symbol="A"),
        {"do": "subscribe", "client": "S1", "id": "s1", "filter": "x > 1"},
    )
    assert reasons(result, "S1") == ["S1 had withdrawn its last subscription before, in steps[5]"]
    assert explain(result, client="S1", notification="n1")[0].delivered


def test_left_before() -> None:
    result = run({"do": "leave", "client": "S1"}, publish("n2", x=5, symbol="A"))
    assert reasons(result, "S1") == ["S1 had left before, in steps[3]"]


def test_never_subscribes() -> None:
    assert reasons(run(), "P", "n1") == ["P never subscribes"]


def test_refused_because_it_was_not_advertised() -> None:
    result = run(publish("n2", x=-5, symbol="A"), publish("n3", x=5, colour="red"))
    assert reasons(result, "S1", "n2") == [
        "the notification was refused: P did not advertise this: advertisement 'a1': x >= 0 failed: x is -5"
    ]
    assert reasons(result, "S1", "n3") == [
        (
            "the notification was refused: P did not advertise this: advertisement 'a1': "
            "the advertisement does not name 'colour'"
        )
    ]


def test_a_lost_notification_would_be_called_one() -> None:
    """No routing loses one, so the record is made to look as if."""
    whole = run()
    lost = [msgspec.structs.replace(record, deliveries=[]) for record in whole.steps]
    assert reasons(msgspec.structs.replace(whole, steps=lost), "S1", "n1") == [
        "subscription s1 matches, and nothing came: a notification was lost, please report this"
    ]


# ---- which ---------------------------------------------------------------------------------------------------------


def test_all_notifications_by_all_who_ever_subscribe_in_order() -> None:
    result = run(publish("n2", x=1, symbol="A"), subscribe("S2", "s2", "x > 0"), publish("n3", x=1, symbol="A"))
    assert [(a.notification, a.client, a.delivered) for a in explain(result)] == [
        ("n1", "S1", True),
        ("n1", "S2", False),
        ("n2", "S1", False),
        ("n2", "S2", False),
        ("n3", "S1", False),
        ("n3", "S2", True),
    ]


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ({"client": "s1"}, "no client 's1' in this scenario (did you mean S1?)"),
        ({"client": "zoe"}, "no client 'zoe' in this scenario; there are P, S1"),
        ({"notification": "N1"}, "no notification 'N1' in this scenario (did you mean n1?)"),
        ({"notification": "quote"}, "no notification 'quote' in this scenario; there is n1"),
    ],
)
def test_unknown_names_get_a_hint(named: dict[str, str], line: str) -> None:
    with pytest.raises(InputError) as caught:
        explain(run(), **named)
    assert str(caught.value) == line


def test_an_unknown_name_among_many_lists_a_few() -> None:
    more = [subscribe(f"client{number:02}", f"t{number}", "x > 1") for number in range(12)]
    with pytest.raises(InputError) as caught:
        explain(run(*more), client="zoe")
    assert str(caught.value) == (
        "no client 'zoe' in this scenario; there are P, S1, client00, client01, client02, client03, client04, "
        "client05, client06, client07, client08, client09 and 2 more"
    )


def test_a_scenario_without_notifications_has_nothing_to_explain() -> None:
    result = replay(parse_scenario(scene_text("fig6")))
    assert explain(result) == []
    with pytest.raises(InputError) as caught:
        explain(result, notification="n1")
    assert str(caught.value) == "no notification 'n1' in this scenario; there are none"


def test_the_number_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["octopia.embedded.explain"], "ANSWERS_MAX", 1)
    result = run(subscribe("S2", "s2", "x > 1"))
    with pytest.raises(InputError) as caught:
        explain(result)
    assert str(caught.value) == (
        "1 notifications × 2 clients: at most 1 answers are given at once; name a notification or a client"
    )
    assert len(explain(result, client="S2")) == 1


def test_as_json() -> None:
    (answer,) = explain(run(), client="P")
    assert answer.to_jsonable() == {
        "notification": "n1",
        "publisher": "P",
        "client": "P",
        "delivered": False,
        "reasons": ["P never subscribes"],
    }


def test_the_links_that_were_overloaded_at_a_step() -> None:
    result = run(
        {"do": "overload", "link": ["b,2", "b,0"], "queue": 50},
        {"do": "overload", "link": ["b,2", "b,1"], "queue": 10},
        {"do": "overload", "link": ["a,0", "b,0"], "queue": 11},
        {"do": "relieve", "link": ["b,2", "b,0"]},
    )
    links = [[f"{one}{other}" for one, other in overloaded_links(result, number)] for number in range(3, 8)]
    assert links == [[], ["(b,2)(b,0)"], ["(b,2)(b,0)"], ["(b,2)(b,0)", "(a,0)(b,0)"], ["(a,0)(b,0)"]]


# ---- full dynamic routing, and links that are down -------------------------------------------------------------------

S2 = subscribe("S2", "s2", "x > 3", "a,2")
N2 = publish("n2", x=5, symbol="A")


def held(**queues: int) -> list[dict[str, Any]]:
    """Queues of the publisher's broker (b,2), by neighbour."""
    return [{"do": "overload", "link": ["b,2", f"{to[0]},{to[1]}"], "queue": queue} for to, queue in queues.items()]


def reasons_of(client: str, *steps: dict[str, Any], routing: str = "fdr") -> list[str]:
    (answer,) = explain(run(S2, *steps, N2, routing=routing), client=client, notification="n2")
    return answer.reasons[1:] if answer.delivered else answer.reasons


def test_which_tree_and_why_while_queues_are_short() -> None:
    assert reasons_of("S1", *held(a2=1, b0=1)) == [
        "published at (b,2), delivered at (c,0), 2 hops",
        "takes its own cluster's tree: no queue of (b,2) is longer than 1",
        "(b,2) → (c,2) by aLink, for (c,0): along cluster 2's tree",
        "(c,2) → (c,0) by iLink, for (c,0): to its destination",
    ]


def test_another_clusters_tree_and_why() -> None:
    assert reasons_of("S2", *held(a2=20, c2=20, b0=20, b1=3)) == [
        "published at (b,2), delivered at (a,2), 3 hops",
        "takes cluster 1's tree: of the iLinks of (b,2) the one to cluster 1 has the least Q_l, 3",
        "(b,2) → (b,1) by iLink, for (c,0), (a,2): to cluster 1's tree",
        "(b,1) → (a,1) by aLink, for (a,2): along cluster 1's tree",
        "(a,1) → (a,2) by iLink, for (a,2): to its destination",
    ]


def test_around_the_own_i_links_and_why() -> None:
    near = subscribe("S3", "s3", "x > 3", "b,1")
    assert reasons_of("S3", near, *held(a2=2, c2=1, b0=20, b1=30)) == [
        "published at (b,2), delivered at (b,1), 3 hops",
        (
            "takes its own cluster's tree, around the iLinks of (b,2): the longest queue of its aLinks has 2, "
            "the shortest of its iLinks 20, more than 2 times as many"
        ),
        "(b,2) → (a,2) by aLink, for (b,1), (a,2): along cluster 2's tree, and around to (b,1)",
        "(a,2) → (a,1) by iLink, for (b,1): back on cluster 1's tree",
        "(a,1) → (b,1) by aLink, for (b,1): along cluster 1's tree",
    ]


def test_handed_over_where_a_link_is_down() -> None:
    assert reasons_of("S2", {"do": "cut", "link": ["a,2", "b,2"]}) == [
        "published at (b,2), delivered at (a,2), 3 hops",
        "takes its own cluster's tree: no queue of (b,2) is longer than 1",
        "(b,2) → (b,0) by iLink, for (a,2): handed over: link (b,2)-(a,2) is down",
        "(b,0) → (a,0) by aLink, for (a,2): along cluster 0's tree",
        "(a,0) → (a,2) by iLink, for (a,2): to its destination",
    ]


def test_a_region_without_mates_is_left() -> None:
    cut = [{"do": "cut", "link": ["b,2", to]} for to in ("b,0", "b,1", "a,2")]
    line = reasons_of("S2", *cut)[2]
    assert line.startswith("(b,2) → (c,2) by aLink, for ")
    assert "handed over: link (b,2)-(a,2) " in line


def test_nothing_came_because_the_way_is_down() -> None:
    cut = {"do": "cut", "link": ["b,0", "c,0"]}
    assert reasons_of("S1", cut, routing="snr") == [
        "subscription s1 matches, and nothing came: copies could not go on where links are down: (b,0) → (c,0)"
    ]
    assert len(reasons_of("S1", cut, {"do": "mend", "link": ["c,0", "b,0"]}, routing="snr")) == 3


def test_nothing_came_because_the_broker_is_dead() -> None:
    crash = {"do": "crash", "broker": "c,0"}
    for routing in ("snr", "idr", "fdr", "tid"):
        assert reasons_of("S1", crash, routing=routing) == [
            "subscription s1 matches, and nothing came: its broker (c,0) is dead"
        ]
