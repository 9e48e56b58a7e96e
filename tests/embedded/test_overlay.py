"""`octopia.Overlay`: a whole overlay in one process, as a program uses it."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import octopia.embedded.overlay
from octopia import (
    BrokerId,
    InputError,
    LanguageError,
    Overlay,
    Publisher,
    RefusedError,
    Scot,
    Subscriber,
    TopologyError,
    Tree,
    parse_filter,
    parse_notification,
)
from octopia.embedded import Delivery
from octopia.routing import CongestionParameters, Limits

ROUTINGS = ("snr", "idr", "fdr", "tid", "tid-dynamic")


def test_the_docstrings_are_true() -> None:
    results = doctest.testmod(octopia.embedded.overlay)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("routing", ROUTINGS)
def test_hello_world(routing: str) -> None:
    overlay = Overlay("path:3", clusters=3, routing=routing)
    subscriber = overlay.subscriber(("c", 0), "symbol = 'AAPL' and price > 100")
    publisher = overlay.publisher(("b", 2), "symbol is not null and price > 0")
    assert publisher.publish({"symbol": "AAPL", "price": 120}) == "n1"
    assert publisher.publish({"symbol": "AAPL", "price": 90}) == "n2"
    assert [n.to_dict() for n in subscriber.received()] == [{"symbol": "AAPL", "price": 120}]
    assert subscriber.received() == []


def test_a_delivery_says_from_whom_and_for_which_subscriptions() -> None:
    overlay = Overlay()
    subscriber = overlay.subscriber("c,0", "x > 1", name="Zoë")
    assert subscriber.subscribe(parse_filter("x > 2")) == "s2"
    assert subscriber.subscribe("x > 9") == "s3"
    publisher = overlay.publisher("b,2", parse_filter("x > 0"), name="feed")
    publisher.publish(parse_notification({"x": 5}), id="first")
    assert subscriber.deliveries() == [Delivery(parse_notification({"x": 5}), "feed", "first", ("s1", "s2"))]
    assert repr(subscriber) == "<Subscriber Zoë at (c,0)>"
    assert repr(publisher) == "<Publisher feed at (b,2)>"


def test_order_is_kept() -> None:
    overlay = Overlay()
    subscriber = overlay.subscriber("c,0", "x >= 0")
    publisher = overlay.publisher("b,2", "x >= 0")
    for x in range(50):
        publisher.publish({"x": x})
    assert [n["x"] for n in subscriber.received()] == list(range(50))


# ---- placing clients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [("b", 2), BrokerId("b", 2), "b,2", "(b,2)", " ( b , 2 ) ", ["b", 2]])
def test_at_as_pair_and_as_text(at: Any) -> None:
    assert Overlay().subscriber(at).broker == BrokerId("b", 2)
    assert type(Overlay().publisher(at).broker) is BrokerId


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("z", 0), "no broker (z,0): no region 'z'"),
        (("b", 3), "no broker (b,3): clusters are 0..2"),
        ("b", "'b' is not a broker: write region,cluster, for example b,2 or (b,2)"),
        (("b",), "('b',) is not a broker: write ('b', 2) or 'b,2'"),
        (("b", "2"), "('b', '2') is not a broker: write ('b', 2) or 'b,2'"),
        (("b", True), "('b', True) is not a broker: write ('b', 2) or 'b,2'"),
        ((["b"], 2), "(['b'], 2) is not a broker: write ('b', 2) or 'b,2'"),
        (5, "5 is not a broker: write ('b', 2) or 'b,2'"),
        (None, "None is not a broker: write ('b', 2) or 'b,2'"),
    ],
)
def test_a_place_that_is_none(at: Any, line: str) -> None:
    overlay = Overlay()
    for place in (overlay.subscriber, overlay.publisher, lambda at: overlay.overload(at, "b,0", 1)):
        with pytest.raises(TopologyError) as caught:
            place(at)
        assert str(caught.value) == line


def test_names_are_given_and_unique() -> None:
    overlay = Overlay()
    assert overlay.subscriber("a,0").name == "subscriber1"
    assert overlay.publisher("a,0").name == "publisher2"
    assert overlay.subscriber("a,0", name="subscriber3").name == "subscriber3"
    assert overlay.subscriber("a,0").name == "subscriber4"
    for connect in (overlay.subscriber, overlay.publisher):
        with pytest.raises(InputError) as caught:
            connect("b,1", name="subscriber1")
        assert str(caught.value) == "a client named 'subscriber1' is connected already; names are unique"


@pytest.mark.parametrize(("filter", "error"), [("x >", LanguageError), (5, TypeError)])
def test_a_client_that_could_not_begin_is_not_left_behind(filter: Any, error: type[Exception]) -> None:
    overlay = Overlay()
    for connect in (overlay.subscriber, overlay.publisher):
        with pytest.raises(error):
            connect("a,0", filter, name="X")
        connect("b,0", name="X").close()


# ---- the overlay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "clusters", "shape"),
    [
        ("path:3", None, "3 regions × 3 clusters"),
        ("h", None, "6 regions × 3 clusters"),
        ("evaluation", None, "14 regions × 5 clusters"),
        ("evaluation", 2, "14 regions × 2 clusters"),
        ("a-b,b-c", 4, "3 regions × 4 clusters"),
        (Tree.from_edges([("x", "y")]), 2, "2 regions × 2 clusters"),
        (Tree.from_edges([("x", "y")]), None, "2 regions × 3 clusters"),
        ([("a", "b"), ("b", "c")], None, "3 regions × 3 clusters"),
        ((edge for edge in [("a", "b")]), 1, "2 regions × 1 clusters"),
        (Scot(Tree.from_edges([("x", "y")]), 7), None, "2 regions × 7 clusters"),
        (Scot(Tree.from_edges([("x", "y")]), 7), 7, "2 regions × 7 clusters"),
    ],
)
def test_forms_of_a_tree(tree: Any, clusters: int | None, shape: str) -> None:
    assert str(Overlay(tree, clusters).scot) == shape


def test_the_default_is_a_path_of_three() -> None:
    assert Overlay().scot == Scot(Tree.from_edges([("a", "b"), ("b", "c")]), 3)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"tree": "pat:3"},
            (
                "no tree is called 'pat:3' (did you mean path?); the names are path:N, star:N, balanced:R,H, h, "
                "evaluation, or give edges such as a-b,b-c"
            ),
        ),
        ({"tree": [("a", "b"), ("b", "c"), ("c", "a")]}, "the tree has a cycle: a-b-c-a"),
        ({"tree": ["ab"]}, "bad edge 'ab': an edge is a pair of labels, for example ['a', 'b']"),
        ({"tree": 5}, "5 is not a tree: give a name such as 'path:3', a Tree, edges, or a Scot"),
        ({"clusters": 0}, "0 clusters: between 1 and 1,024 are allowed"),
        ({"clusters": "3"}, "the number of clusters must be a whole number, not '3'"),
        ({"clusters": 1000}, "3 regions × 1000 clusters make 1,500,500 links, at most 1,000,000 fit into one process"),
        (
            {"tree": Scot(Tree.from_edges([("x", "y")]), 7), "clusters": 3},
            "the overlay has 7 clusters; leave out clusters=3",
        ),
        (
            {"routing": "flood"},
            "unknown routing 'flood'; the routings are snr, idr, fdr, tid, tid-dynamic, or MODULE:NAME of your own",
        ),
        ({"inbox_max": 0}, "inbox_max is 0: an inbox holds at least 1 delivery"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        Overlay(**arguments)
    assert str(caught.value) == line


# ---- requests ------------------------------------------------------------------------------------------------------


def test_a_refusal_says_why_and_changes_nothing() -> None:
    overlay = Overlay()
    subscriber = overlay.subscriber("c,0", "x > 0")
    publisher = overlay.publisher("b,2", name="P")
    with pytest.raises(RefusedError) as caught:
        publisher.publish({"x": 1})
    assert str(caught.value) == "P has no advertisement here; advertise before you publish"
    publisher.advertise("x > 0")
    with pytest.raises(RefusedError) as caught:
        publisher.publish({"x": 0})
    assert str(caught.value) == "P did not advertise this: advertisement 'a1': x > 0 failed: x is 0"
    before = overlay.messages
    with pytest.raises(RefusedError) as caught:
        publisher.advertise("x > 5", id="a1")
    assert str(caught.value) == "advertisement id 'a1' is in use by P for another filter (x > 0); withdraw it first"
    assert overlay.messages == before
    publisher.publish({"x": 1})
    assert len(subscriber.received()) == 1


def test_limits_are_the_brokers() -> None:
    overlay = Overlay(limits=Limits(subscriptions_per_client_max=1))
    subscriber = overlay.subscriber("c,0", "x > 0", name="S")
    with pytest.raises(RefusedError) as caught:
        subscriber.subscribe("x > 1")
    assert str(caught.value) == "S has the maximum of 1 subscriptions for one client; withdraw one first"
    subscriber.unsubscribe("s1")
    assert subscriber.subscribe("x > 1") == "s3"


def test_ids_that_are_made_up_pass_over_those_in_force() -> None:
    subscriber = Overlay().subscriber("a,0")
    assert subscriber.subscribe("x > 1", id="s2") == "s2"
    assert [subscriber.subscribe(f"x > {x}") for x in (2, 3)] == ["s1", "s3"]
    publisher = Overlay().publisher("a,0")
    assert publisher.advertise("x > 1", id="a1") == "a1"
    assert publisher.advertise("y > 1") == "a2"
    assert [publisher.publish({"x": 5}), publisher.publish({"x": 5}, id="q"), publisher.publish({"x": 5})] == [
        "n1",
        "q",
        "n2",
    ]


@pytest.mark.parametrize("routing", ROUTINGS)
def test_withdrawal_ends_it_and_twice_does_no_harm(routing: str) -> None:
    overlay = Overlay(routing=routing)
    subscriber = overlay.subscriber("c,0", "x > 0")
    publisher = overlay.publisher("b,2", "x > 0")
    subscriber.unsubscribe("s1")
    subscriber.unsubscribe("s1")
    before = overlay.messages
    publisher.publish({"x": 1})
    assert (subscriber.received(), overlay.messages) == ([], before)
    publisher.unadvertise("a1")
    publisher.unadvertise("a1")
    with pytest.raises(RefusedError):
        publisher.publish({"x": 1})


def test_close_withdraws_everything_and_frees_the_name() -> None:
    overlay = Overlay()
    publisher = overlay.publisher("b,2", "x > 0", name="P")
    with overlay.subscriber("c,0", "x > 0", name="S") as subscriber:
        publisher.publish({"x": 1})
    assert [n["x"] for n in subscriber.received()] == [1]
    before = overlay.messages
    publisher.publish({"x": 2})
    assert (subscriber.received(), overlay.messages) == ([], before)
    assert repr(subscriber) == "<Subscriber S at (c,0), closed>"

    successor = overlay.subscriber("a,0", "x > 0", name="S")
    subscriber.close()
    publisher.publish({"x": 3})
    assert [n["x"] for n in successor.received()] == [3]


@pytest.mark.parametrize(
    "request_of",
    [
        lambda p, s: p.publish({"x": 1}),
        lambda p, s: p.advertise("y > 0"),
        lambda p, s: p.unadvertise("a1"),
        lambda p, s: s.subscribe("y > 0"),
        lambda p, s: s.unsubscribe("s1"),
    ],
)
def test_a_closed_client_asks_for_nothing_more(request_of: Any) -> None:
    overlay = Overlay()
    publisher, subscriber = overlay.publisher("b,2", "x > 0", name="X"), overlay.subscriber("c,0", "x > 0", name="Y")
    publisher.close()
    subscriber.close()
    with pytest.raises(InputError, match=r"^[XY] has left the overlay; connect a new client$"):
        request_of(publisher, subscriber)


# ---- inboxes -------------------------------------------------------------------------------------------------------


def test_a_full_inbox_drops_its_oldest_and_counts() -> None:
    overlay = Overlay(inbox_max=3)
    subscriber = overlay.subscriber("c,0", "x > 0")
    publisher = overlay.publisher("b,2", "x > 0")
    for x in range(1, 6):
        publisher.publish({"x": x})
    assert ([n["x"] for n in subscriber.received()], subscriber.dropped) == ([3, 4, 5], 2)
    publisher.publish({"x": 6})
    assert ([n["x"] for n in subscriber.received()], subscriber.dropped) == ([6], 2)


# ---- congestion ----------------------------------------------------------------------------------------------------


def scene_7b(routing: str, **options: Any) -> tuple[Overlay, Publisher, list[Subscriber]]:
    overlay = Overlay("path:3", 3, routing=routing, **options)
    publisher = overlay.publisher("b,2", "x > 0")
    return overlay, publisher, [overlay.subscriber(at, "x > 0") for at in ("c,0", "c,1", "a,2", "c,2")]


def cost(overlay: Overlay, publisher: Publisher) -> int:
    before = overlay.messages
    publisher.publish({"x": 1})
    return overlay.messages - before


@pytest.mark.parametrize(("routing", "costs"), [("idr", [6, 6, 4, 6]), ("snr", [6, 6, 6, 6])])
def test_overload_and_relieve_change_the_way(routing: str, costs: list[int]) -> None:
    """The notes' Fig. 7(a) and (b): 6 messages, 6 around one overloaded iLink, 4 around both, 6 once relieved."""
    overlay, publisher, subscribers = scene_7b(routing)
    seen = [cost(overlay, publisher)]
    overlay.overload(("b", 2), ("b", 0), 50)
    seen.append(cost(overlay, publisher))
    overlay.overload("b,2", "b,1", 50)
    overlay.overload("b,2", "a,2", 5)
    seen.append(cost(overlay, publisher))
    overlay.relieve("b,2", "b,0")
    overlay.relieve("b,2", "b,1")
    seen.append(cost(overlay, publisher))
    assert seen == costs
    assert [len(subscriber.received()) for subscriber in subscribers] == [4, 4, 4, 4]


def test_tau_decides() -> None:
    overlay, publisher, _ = scene_7b("idr", congestion=CongestionParameters(tau=100))
    for to in ("b,0", "b,1"):
        overlay.overload("b,2", to, 100)
    assert cost(overlay, publisher) == 6
    for to in ("b,0", "b,1"):
        overlay.overload("b,2", to, 101)
    # Both aLinks are empty and the first, (a,2), carries the bits: 2 from there, and the way back to c in two clusters.
    assert cost(overlay, publisher) == 2 + 2 + 4


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("a,0", "c,0", 5), "there is no link from (a,0) to (c,0)"),
        (("a,0", "b,1", 5), "there is no link from (a,0) to (b,1)"),
        (("a,0", "a,0", 5), "there is no link from (a,0) to (a,0)"),
        (("a,0", "b,0", -1), "a queue of length -1: between 0 and 1,000,000,000 are allowed"),
        (("a,0", "b,0", 10**10), "a queue of length 10000000000: between 0 and 1,000,000,000 are allowed"),
    ],
)
def test_what_cannot_be_overloaded(arguments: tuple[str, str, int], line: str) -> None:
    with pytest.raises(InputError) as caught:
        Overlay().overload(*arguments)
    assert str(caught.value) == line


# ---- determinism ---------------------------------------------------------------------------------------------------

SCRIPT = """
import json
from octopia.embedded import check_scenario, replay, to_jsonable

REGIONS = "ABCDEFGHIJKLMN"
steps = []
for i in range(20):
    at = [REGIONS[i * 5 % 14], i % 5]
    steps.append({"do": "advertise", "client": f"P{i}", "at": at, "id": f"a{i}", "filter": f"x >= {i % 4} and y >= 0"})
for i in range(60):
    at = [REGIONS[i * 3 % 14], i * 2 % 5]
    steps.append({"do": "subscribe", "client": f"S{i % 40}", "id": f"s{i}", "filter": f"x > {i % 7} or y > {i % 5}"}
                 | ({"at": at} if i < 40 else {}))
for i in range(10):
    link = [["F", i % 5], ["F", (i + 1 + i // 5) % 5]]
    steps.append({"do": "overload", "link": link, "queue": 7 * i})
for i in range(40):
    steps.append({"do": "publish", "client": f"P{i % 20}", "id": f"n{i}", "notification": {"x": 3 + i % 5, "y": i % 6}})
for i in range(0, 40, 3):
    steps.append({"do": "leave", "client": f"S{i}"})
for i in range(0, 20, 3):
    steps.append({"do": "unadvertise", "client": f"P{i}", "id": f"a{i}"})
scenario = check_scenario({"tree": "evaluation", "steps": steps})
for routing in ("snr", "idr", "tid", "tid-dynamic"):
    print(json.dumps(to_jsonable(replay(scenario, routing))))
"""


def _output(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return done.stdout


def test_the_same_scenario_gives_the_same_record_whatever_the_hash_seed() -> None:
    first, second = _output("1"), _output("4242")
    assert first == second
    records = [json.loads(line) for line in first.splitlines()]
    # All four did something, and the comparison was not one of nothing with nothing.
    assert len(records) == 4
    assert all(sum(len(step["messages"]) for step in record["steps"]) > 1000 for record in records)
    assert all(sum(len(step["deliveries"]) for step in record["steps"]) > 500 for record in records)


def test_the_same_calls_give_the_same_messages() -> None:
    def run() -> list[tuple[int, list[Delivery]]]:
        overlay, publisher, subscribers = scene_7b("idr")
        overlay.overload("b,2", "b,0", 50)
        publisher.publish({"x": 1})
        return [(overlay.messages, subscriber.deliveries()) for subscriber in subscribers]

    assert run() == run()
