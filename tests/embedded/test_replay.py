"""Replay: every message of every step, in order, as `octopia replay --json` gives it.

The expected records are written by hand from the rules of the protocol, not taken from a run.
"""

import json
import sys
from typing import Any

import pytest

from octopia import ScenarioError
from octopia.embedded import Replay, check_scenario, civ_string, order_of, parse_scenario, replay, to_jsonable
from octopia.protocol import Stamp
from octopia.topology import Scot, parse_tree

# The example of the interface that others rely on. Do not change it to make a test pass.
EXAMPLE = """
{"tree": [["a","b"],["b","c"]], "clusters": 3, "routing": "idr",
 "steps": [
  {"do":"advertise","client":"P","at":["b",2],"id":"a1","filter":"[class,eq,'STOCK'],[x,>=,0]"},
  {"do":"subscribe","client":"S1","at":["c",0],"id":"s1","filter":"[class,eq,'STOCK'],[x,>,3]"},
  {"do":"overload","link":[["b",2],["b",0]],"queue":50},
  {"do":"publish","client":"P","id":"n1","notification":"[class,'STOCK'],[x,5]"},
  {"do":"relieve","link":[["b",2],["b",0]]},
  {"do":"unsubscribe","client":"S1","id":"s1"}, {"do":"unadvertise","client":"P","id":"a1"}]}
"""

RECORD = """
{"steps": [
  {"step": 0,
   "messages": [
    {"kind": "advertise", "from": ["b", 2], "to": ["b", 0], "civ": null},
    {"kind": "advertise", "from": ["b", 2], "to": ["b", 1], "civ": null}],
   "deliveries": []},
  {"step": 1,
   "messages": [
    {"kind": "subscribe", "from": ["c", 0], "to": ["b", 0], "civ": null},
    {"kind": "subscribe", "from": ["b", 0], "to": ["a", 0], "civ": null},
    {"kind": "cib_set", "from": ["b", 0], "to": ["b", 2], "civ": null}],
   "deliveries": []},
  {"step": 2, "messages": [], "deliveries": []},
  {"step": 3,
   "messages": [
    {"kind": "notify", "from": ["b", 2], "to": ["b", 0], "civ": null},
    {"kind": "notify", "from": ["b", 0], "to": ["c", 0], "civ": null}],
   "deliveries": [{"client": "S1", "notification": "n1", "subscriptions": ["s1"]}]},
  {"step": 4, "messages": [], "deliveries": []},
  {"step": 5,
   "messages": [
    {"kind": "unsubscribe", "from": ["c", 0], "to": ["b", 0], "civ": null},
    {"kind": "unsubscribe", "from": ["b", 0], "to": ["a", 0], "civ": null},
    {"kind": "cib_clear", "from": ["b", 0], "to": ["b", 2], "civ": null}],
   "deliveries": []},
  {"step": 6,
   "messages": [
    {"kind": "unadvertise", "from": ["b", 2], "to": ["b", 0], "civ": null},
    {"kind": "unadvertise", "from": ["b", 2], "to": ["b", 1], "civ": null}],
   "deliveries": []}],
 "tables": [
  {"broker": ["a", 0], "srt": 0, "prt": 0},
  {"broker": ["b", 0], "srt": 0, "prt": 0},
  {"broker": ["c", 0], "srt": 0, "prt": 0},
  {"broker": ["a", 1], "srt": 0, "prt": 0},
  {"broker": ["b", 1], "srt": 0, "prt": 0},
  {"broker": ["c", 1], "srt": 0, "prt": 0},
  {"broker": ["a", 2], "srt": 0, "prt": 0},
  {"broker": ["b", 2], "srt": 0, "prt": 0},
  {"broker": ["c", 2], "srt": 0, "prt": 0}],
 "advertisements": []}
"""

# The same, stopped after the publish step, when everything is in force.
TABLES_MIDWAY = """
[{"broker": ["a", 0], "srt": 0, "prt": 1},
 {"broker": ["b", 0], "srt": 1, "prt": 1},
 {"broker": ["c", 0], "srt": 0, "prt": 1},
 {"broker": ["a", 1], "srt": 0, "prt": 0},
 {"broker": ["b", 1], "srt": 1, "prt": 0},
 {"broker": ["c", 1], "srt": 0, "prt": 0},
 {"broker": ["a", 2], "srt": 0, "prt": 0},
 {"broker": ["b", 2], "srt": 1, "prt": 0},
 {"broker": ["c", 2], "srt": 0, "prt": 0}]
"""
ADVERTISEMENTS_MIDWAY = '[{"id": "a1", "civ": "101", "target_clusters": [0]}]'

Hops = list[tuple[str, str, str, str | None]]


def example(steps: int | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(EXAMPLE)
    document["steps"] = document["steps"][:steps]
    return document


def run(document: dict[str, Any], routing: str | None = None) -> Replay:
    return replay(check_scenario(document), routing)


def hops(result: Replay, step: int) -> Hops:
    """(kind, from, to, civ) of each message in order, brokers as `b2`."""
    clusters = result.scenario.scot.clusters
    return [
        (
            hop.message.kind,
            f"{hop.sender.region}{hop.sender.cluster}",
            f"{hop.receiver.region}{hop.receiver.cluster}",
            civ_string(hop.message, clusters),
        )
        for hop in result.steps[step].messages
    ]


def counts(result: Replay) -> list[int]:
    return [len(record.messages) for record in result.steps]


def deliveries(result: Replay, step: int) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(d.client, d.id, d.subscriptions) for d in result.steps[step].deliveries]


def tables(result: Replay) -> dict[str, tuple[int, int]]:
    """Those that are not empty: (SRT, PRT)."""
    return {f"{t.broker.region}{t.broker.cluster}": (t.srt, t.prt) for t in result.tables if t.srt or t.prt}


# ---- the example ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ["idr", "snr"])
def test_the_whole_record_of_the_example(routing: str) -> None:
    """With one target cluster and no aLink to go by, IDR's last resort is SNR's way."""
    assert to_jsonable(replay(parse_scenario(EXAMPLE), routing)) == json.loads(RECORD)


@pytest.mark.parametrize("routing", ["idr", "snr"])
def test_tables_and_advertisements_while_in_force(routing: str) -> None:
    record = to_jsonable(run(example(4), routing))
    assert record["steps"] == json.loads(RECORD)["steps"][:4]
    assert record["tables"] == json.loads(TABLES_MIDWAY)
    assert record["advertisements"] == json.loads(ADVERTISEMENTS_MIDWAY)


def test_the_files_own_routing_is_used_unless_another_is_named() -> None:
    assert run(example()).routing == "idr"
    assert run(example(), "tid").routing == "tid"


@pytest.mark.parametrize("routing", ["tid", "tid-dynamic"])
def test_the_example_under_tid_routing(routing: str) -> None:
    # 9 brokers and 15 links: a flood takes 2·15 - 8 = 22 messages, its withdrawal 2·15. With links of equal delay (c,0)
    # hears of the advertisement first from (c,2), which hears it from (b,2): that is the way of all that follows.
    result = run(example(), routing)
    assert counts(result) == [22, 2, 0, 2, 0, 2, 30]
    assert {kind for kind, *_ in hops(result, 0)} == {"advertise"}
    assert hops(result, 1) == [("subscribe", "c0", "c2", None), ("subscribe", "c2", "b2", None)]
    assert hops(result, 3) == [("notify", "b2", "c2", None), ("notify", "c2", "c0", None)]
    assert hops(result, 5) == [("unsubscribe", "c0", "c2", None), ("unsubscribe", "c2", "b2", None)]
    assert {kind for kind, *_ in hops(result, 6)} == {"unadvertise"}
    assert deliveries(result, 3) == [("S1", "n1", ("s1",))]
    assert tables(result) == {}

    midway = run(example(4), routing)
    brokers = ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
    assert tables(midway) == {broker: (1, 1 if broker in ("c0", "c2", "b2") else 0) for broker in brokers}
    assert to_jsonable(midway)["advertisements"] == [{"id": "a1", "civ": None, "target_clusters": None}]


# ---- overload and relief -------------------------------------------------------------------------------------------

TWO_TARGETS: list[dict[str, Any]] = [
    {"do": "advertise", "client": "P", "at": ["b", 2], "id": "a1", "filter": "x >= 0"},
    {"do": "subscribe", "client": "S1", "at": ["c", 0], "id": "s1", "filter": "x > 3"},
    {"do": "subscribe", "client": "S2", "at": ["c", 1], "id": "s2", "filter": "x > 3"},
]
STRAIGHT: Hops = [
    ("notify", "b2", "b0", None),
    ("notify", "b2", "b1", None),
    ("notify", "b0", "c0", None),
    ("notify", "b1", "c1", None),
]
AROUND: Hops = [
    ("notify", "b2", "b1", "001"),
    ("notify", "b1", "c1", None),
    ("notify", "b1", "b0", None),
    ("notify", "b0", "c0", None),
]


def publish(id: str, x: int = 5) -> dict[str, Any]:
    return {"do": "publish", "client": "P", "id": id, "notification": {"x": x}}


def overload(queue: int, link: str = "b,2 b,0") -> dict[str, Any]:
    return {"do": "overload", "link": link.split(), "queue": queue}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"tree": "path:3", "clusters": 3, "steps": [*TWO_TARGETS, *steps]} | fields


def test_an_overloaded_link_is_gone_around_until_it_is_relieved() -> None:
    relieve = {"do": "relieve", "link": [["b", 2], ["b", 0]]}
    result = run(document(publish("n1"), overload(50), publish("n2"), relieve, publish("n3")))
    assert [hops(result, step) for step in (3, 5, 7)] == [STRAIGHT, AROUND, STRAIGHT]
    assert deliveries(result, 3) == [("S1", "n1", ("s1",)), ("S2", "n1", ("s2",))]
    assert deliveries(result, 5) == [("S2", "n2", ("s2",)), ("S1", "n2", ("s1",))]
    assert counts(result)[4::2] == [0, 0]


def test_snr_takes_no_notice() -> None:
    assert hops(run(document(overload(50), publish("n1")), "snr"), 4) == STRAIGHT


@pytest.mark.parametrize(
    ("queue", "tau", "way"),
    [(10, None, STRAIGHT), (11, None, AROUND), (11, 11, STRAIGHT), (3, 2.5, AROUND)],
)
def test_a_queue_over_tau_is_overloaded(queue: int, tau: float | None, way: Hops) -> None:
    fields = {} if tau is None else {"tau": tau}
    assert hops(run(document(overload(queue), publish("n1"), **fields)), 4) == way


def test_a_link_has_two_directions() -> None:
    assert hops(run(document(overload(50, "b,0 b,2"), publish("n1"))), 4) == STRAIGHT


def test_a_queue_below_tau_counts_where_the_least_is_sought() -> None:
    """Both iLinks overloaded, two aLinks free: the one with the shorter queue carries both bits (case ii)."""
    near = [
        {"do": "subscribe", "client": "S3", "at": ["a", 2], "id": "s3", "filter": "x > 3"},
        {"do": "subscribe", "client": "S4", "at": ["c", 2], "id": "s4", "filter": "x > 3"},
    ]
    both = [overload(50), overload(50, "b,2 b,1")]
    by_c = run(document(*near, *both, overload(5, "b,2 a,2"), overload(1, "b,2 c,2"), publish("n1")))
    assert hops(by_c, 9) == [
        ("notify", "b2", "a2", None),
        ("notify", "b2", "c2", "011"),
        ("notify", "c2", "c0", None),
        ("notify", "c2", "c1", None),
    ]
    by_a = run(document(*near, *both, overload(1, "b,2 a,2"), overload(5, "b,2 c,2"), publish("n1")))
    assert hops(by_a, 9)[:2] == [("notify", "b2", "a2", "011"), ("notify", "b2", "c2", None)]


# ---- clients -------------------------------------------------------------------------------------------------------


def test_one_delivery_with_all_matching_subscriptions_in_the_order_they_were_made() -> None:
    more: list[dict[str, Any]] = [
        {"do": "subscribe", "client": "S1", "id": "s9", "filter": "x > 100"},
        {"do": "subscribe", "client": "S1", "id": "s0", "filter": "x > 1"},
        {"do": "subscribe", "client": "T", "at": ["c", 0], "id": "t1", "filter": "x > 2"},
        {"do": "subscribe", "client": "S1", "id": "s5", "filter": "x < 9"},
    ]
    for routing in ("snr", "idr", "tid", "tid-dynamic"):
        result = run(document(*more, publish("n1")), routing)
        assert sorted(deliveries(result, 7)) == [
            ("S1", "n1", ("s1", "s0", "s5")),
            ("S2", "n1", ("s2",)),
            ("T", "n1", ("t1",)),
        ]


def test_a_refusal_is_told_with_its_reason_and_nothing_moves() -> None:
    record = to_jsonable(run(document(publish("n1", -1), publish("n2"))))
    assert record["steps"][3] == {
        "step": 3,
        "messages": [],
        "deliveries": [],
        "refused": [
            {
                "client": "P",
                "request": "publish",
                "id": "n1",
                "reason": "P did not advertise this: advertisement 'a1': x >= 0 failed: x is -1",
            }
        ],
    }
    assert [step for step in record["steps"] if "refused" in step] == [record["steps"][3]]


def test_a_client_that_leaves_withdraws_everything() -> None:
    more: list[dict[str, Any]] = [
        {"do": "subscribe", "client": "S1", "id": "s3", "filter": "x > 7"},
        {"do": "leave", "client": "S1"},
        publish("n1", 9),
        {"do": "leave", "client": "P"},
    ]
    result = run(document(*more))
    # Two subscriptions are withdrawn along c0-b0-a0; the second was the last of cluster 0 that overlaps a1.
    assert sorted(hops(result, 4)) == [
        ("cib_clear", "b0", "b2", None),
        ("unsubscribe", "b0", "a0", None),
        ("unsubscribe", "b0", "a0", None),
        ("unsubscribe", "c0", "b0", None),
        ("unsubscribe", "c0", "b0", None),
    ]
    assert hops(result, 5) == [("notify", "b2", "b1", None), ("notify", "b1", "c1", None)]
    assert deliveries(result, 5) == [("S2", "n1", ("s2",))]
    assert hops(result, 6) == [("unadvertise", "b2", "b0", None), ("unadvertise", "b2", "b1", None)]
    assert tables(result) == {"a1": (0, 1), "b1": (0, 1), "c1": (0, 1)}
    assert to_jsonable(result)["advertisements"] == []


def test_a_client_that_comes_back_elsewhere_is_served_there() -> None:
    back = {"do": "subscribe", "client": "S1", "at": ["a", 2], "id": "s1", "filter": "x > 3"}
    result = run(document({"do": "leave", "client": "S1"}, back, publish("n1")))
    assert [(d.client, str(d.broker)) for d in result.steps[5].deliveries] == [("S1", "(a,2)"), ("S2", "(c,1)")]


def test_advertisements_come_client_by_client_with_their_target_clusters() -> None:
    more: list[dict[str, Any]] = [
        {"do": "advertise", "client": "Q", "at": ["c", 1], "id": "a2", "filter": "y > 0"},
        {"do": "advertise", "client": "P", "id": "a3", "filter": "x > 0 and y > 0"},
        {"do": "subscribe", "client": "S2", "id": "s3", "filter": "y > 1"},
    ]
    assert to_jsonable(run(document(*more)))["advertisements"] == [
        {"id": "a1", "civ": "111", "target_clusters": [0, 1]},
        {"id": "a3", "civ": "111", "target_clusters": [0, 1]},
        # Its own cluster, 1, is a target by the subscription table there; nothing of cluster 0 or 2 wants y.
        {"id": "a2", "civ": "010", "target_clusters": [1]},
    ]


def test_the_path_of_a_delivery_can_be_read_off() -> None:
    result = run(document(overload(50), publish("n1")))
    paths = {d.client: [f"{hop.sender}{hop.receiver}" for hop in d.path()] for d in result.steps[4].deliveries}
    assert paths == {
        "S1": ["(b,2)(b,1)", "(b,1)(b,0)", "(b,0)(c,0)"],
        "S2": ["(b,2)(b,1)", "(b,1)(c,1)"],
    }


# ---- the evaluation overlay ----------------------------------------------------------------------------------------


def evaluation(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"tree": "evaluation", "steps": list(steps)}


ADVERTISE_AT_F2 = {"do": "advertise", "client": "P", "at": ["F", 2], "id": "a1", "filter": "x > 0"}


@pytest.mark.parametrize(
    ("routing", "messages", "brokers"), [("snr", 4, 5), ("idr", 4, 5), ("tid", 341, 70), ("tid-dynamic", 341, 70)]
)
def test_what_an_advertisement_costs(routing: str, messages: int, brokers: int) -> None:
    result = run(evaluation(ADVERTISE_AT_F2), routing)
    assert counts(result) == [messages]
    stored = [t for t in result.tables if t.srt]
    assert (len(stored), {t.srt for t in stored}, len(result.tables)) == (brokers, {1}, 70)


def test_the_mean_srt_is_93_per_cent_smaller() -> None:
    entries = {r: sum(t.srt for t in run(evaluation(ADVERTISE_AT_F2), r).tables) for r in ("idr", "tid")}
    assert entries == {"idr": 5, "tid": 70}
    assert round(100 * (1 - entries["idr"] / entries["tid"]), 1) == 92.9


@pytest.mark.parametrize("region", ["A", "F", "J"])
def test_a_subscription_costs_13_messages_wherever_it_is_made(region: str) -> None:
    subscribe = {"do": "subscribe", "client": "S", "at": [region, 3], "id": "s1", "filter": "x > 1"}
    result = run(evaluation(subscribe))
    assert counts(result) == [13]
    assert [str(t.broker) for t in result.tables if t.prt] == [f"({node},3)" for node in "ABCDEFGHIJKLMN"]


def test_a_subscription_turns_its_bit_on_with_one_message_per_publisher_broker() -> None:
    subscribe = {"do": "subscribe", "client": "S", "at": ["A", 3], "id": "s1", "filter": "x > 1"}
    again = {"do": "subscribe", "client": "T", "at": ["J", 3], "id": "s2", "filter": "x > 2"}
    result = run(evaluation(ADVERTISE_AT_F2, subscribe, again))
    assert counts(result) == [4, 13 + 1, 13]
    assert [hop for hop in hops(result, 1) if hop[0] == "cib_set"] == [("cib_set", "F3", "F2", None)]
    assert to_jsonable(result)["advertisements"] == [{"id": "a1", "civ": "01100", "target_clusters": [3]}]


# ---- bounds --------------------------------------------------------------------------------------------------------


def test_more_messages_than_can_be_kept_end_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    # By way of sys.modules: the package's name for it is the function.
    monkeypatch.setattr(sys.modules["octopia.embedded.replay"], "MESSAGES_KEPT_MAX", 340)
    with pytest.raises(ScenarioError) as caught:
        run(evaluation(ADVERTISE_AT_F2), "tid")
    assert str(caught.value) == "steps: they make more than 340 messages, which a replay cannot keep"


def test_an_unknown_routing_is_refused() -> None:
    with pytest.raises(Exception, match="unknown routing 'flood'; the routings are snr, idr, fdr, tid, tid-dynamic"):
        run(example(), "flood")


# ---- links that are down, and destinations -------------------------------------------------------------------------

ADVERTISED_AND_WANTED: list[dict[str, Any]] = [
    {"do": "advertise", "client": "P", "at": "a,0", "id": "a1", "filter": "x >= 0"},
    {"do": "subscribe", "client": "S", "at": "b,1", "id": "s1", "filter": "x > 3"},
]
PUBLISH_N1 = {"do": "publish", "client": "P", "id": "n1", "notification": {"x": 5}}


def last_step(routing: str, *steps: dict[str, Any]) -> dict[str, Any]:
    scenario = check_scenario({"tree": "a-b", "clusters": 2, "steps": [*ADVERTISED_AND_WANTED, *steps, PUBLISH_N1]})
    told: dict[str, Any] = to_jsonable(replay(scenario, routing))["steps"][-1]
    return told


def hop(sender: str, receiver: str, **more: Any) -> dict[str, Any]:
    ends = {"from": [sender[0], int(sender[1])], "to": [receiver[0], int(receiver[1])]}
    return {"kind": "notify", **ends, "civ": None, **more}


def test_copies_that_name_their_destinations_say_so() -> None:
    delivered = [{"client": "S", "notification": "n1", "subscriptions": ["s1"]}]
    b1 = {"destinations": [["b", 1]]}
    assert last_step("fdr") == {
        "step": 2,
        "why": "its own cluster's tree: no queue of (a,0) is longer than 1",
        "messages": [
            hop("a0", "b0", **b1, tree=0, way="along cluster 0's tree"),
            hop("b0", "b1", **b1, tree=0, way="to its destination"),
        ],
        "deliveries": delivered,
    }
    cut = {"do": "cut", "link": ["b,0", "b,1"]}
    told = last_step("fdr", cut)
    assert told["deliveries"] == delivered
    assert "handed over: link (b,0)-(b,1) is down" in [message["way"] for message in told["messages"]]


def test_what_is_put_on_a_link_that_is_down_is_lost_and_said_to_be() -> None:
    cut = {"do": "cut", "link": ["a,1", "b,1"]}
    lost = {"step": 3, "messages": [hop("a0", "a1")], "deliveries": [], "lost": [hop("a1", "b1")]}
    assert last_step("snr", cut) == lost
    mended = last_step("snr", cut, {"do": "mend", "link": ["b,1", "a,1"]})
    assert mended["messages"] == [hop("a0", "a1"), hop("a1", "b1")]
    assert "lost" not in mended


def test_a_routing_that_does_not_recover_cannot_mend() -> None:
    cut = {"do": "cut", "link": ["a,1", "b,1"]}
    with pytest.raises(ScenarioError) as caught:
        last_step("tid", cut, {"do": "mend", "link": ["a,1", "b,1"]})
    assert str(caught.value) == "steps[3].do: tid cannot mend links: it does not resynchronise its tables"


@pytest.mark.parametrize("routing", ["snr", "idr", "fdr", "tid", "tid-dynamic"])
def test_a_dead_broker_says_nothing_and_gets_nothing(routing: str) -> None:
    told = last_step(routing, {"do": "crash", "broker": "b,1"})
    assert told["deliveries"] == []
    assert [m for m in told["messages"] if ["b", 1] in (m["from"], m["to"])] == []


@pytest.mark.parametrize(
    ("sequence", "gaps", "words"),
    [
        (1, (1, 1, 1), None),
        (7, (7, 7, 7), None),
        (7, (1, 1, 1), "number 7: after number 6 for (a,0), (b,0), (b,1)"),
        (7, (7, 1, 3), "number 7: after number 6 for (b,0); after number 4 for (b,1); the first for (a,0)"),
    ],
)
def test_where_a_notification_stands_among_its_publishers(
    sequence: int, gaps: tuple[int, ...], words: str | None
) -> None:
    # brokers by bit: (a,0), (b,0), (a,1), (b,1)
    assert order_of(Scot(parse_tree("a-b"), 2), Stamp(2, sequence, 0b1011, gaps)) == words


@pytest.mark.parametrize(
    ("routing", "covering", "subscribes"),
    [("idr", False, 2), ("idr", True, 1), ("idr", "link", 1), ("idr", "host", 2), ("fdr", True, 2), ("tid", True, 1)],
)
def test_covering_where_the_scenario_asks_for_it(routing: str, covering: bool | str, subscribes: int) -> None:
    """S at (a,0) is covered by T, whose subscription (a,0) passed on before; per host they are two."""
    steps = [
        {"do": "advertise", "client": "P", "at": ["c", 0], "id": "a", "filter": "x is not null"},
        {"do": "subscribe", "client": "T", "at": ["a", 0], "id": "t", "filter": "x > 0"},
        {"do": "subscribe", "client": "S", "at": ["b", 0], "id": "s", "filter": "x > 5"},
        {"do": "publish", "client": "P", "id": "n", "notification": {"x": 7}},
    ]
    document = {"tree": "path:3", "clusters": 1, "routing": routing, "covering": covering, "steps": steps}
    result = replay(check_scenario(document))
    told = [hop for record in result.steps for hop in record.messages if hop.message.kind == "subscribe"]
    assert [hop.receiver.region for hop in told].count("c") == subscribes
    assert sorted(delivery.client for delivery in result.steps[-1].deliveries) == ["S", "T"]
