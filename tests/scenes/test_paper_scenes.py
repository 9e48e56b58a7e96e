"""The paper's scenes, message by message, as the notes on the paper state them (section 3)."""

import json
from collections import Counter

import pytest

from octopia.embedded import Replay, StepRecord, check_scenario, civ_string, parse_scenario, replay
from octopia.scenes import scene_text

Hops = list[tuple[str, str, str | None]]


def run(name: str, routing: str) -> Replay:
    return replay(parse_scenario(scene_text(name)), routing)


def hops(record: StepRecord, kind: str = "notify") -> Hops:
    return sorted(
        (f"{h.sender.region}{h.sender.cluster}", f"{h.receiver.region}{h.receiver.cluster}", civ_string(h.message, 3))
        for h in record.messages
        if h.message.kind == kind
    )


def published(result: Replay) -> list[StepRecord]:
    return [record for record in result.steps if record.step.do == "publish"]


def receivers(record: StepRecord) -> list[str]:
    return sorted(delivery.client for delivery in record.deliveries)


def test_fig5_each_advertisement_goes_to_its_two_secondary_neighbours_only() -> None:
    result = run("fig5", "snr")
    assert [hops(record, "advertise") for record in result.steps] == [
        [("a0", "a1", None), ("a0", "a2", None)],
        [("d0", "d1", None), ("d0", "d2", None)],
        [("f1", "f0", None), ("f1", "f2", None)],
        [("a2", "a0", None), ("a2", "a1", None)],
    ]
    assert [len(record.messages) for record in result.steps] == [2, 2, 2, 2]
    assert {t.broker.region: t.srt for t in result.tables} == {"a": 2, "b": 0, "c": 0, "d": 1, "e": 0, "f": 1}


def test_fig6_each_subscription_is_broadcast_in_its_own_cluster_only() -> None:
    result = run("fig6", "snr")
    edges = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("e", "f")]
    from_a = edges
    from_f = [("f", "e"), ("e", "d"), ("d", "b"), ("b", "a"), ("b", "c")]
    for record, (tree, cluster) in zip(result.steps, [(from_a, 0), (from_f, 0), (from_f, 1), (from_a, 2)], strict=True):
        assert hops(record, "subscribe") == sorted((f"{u}{cluster}", f"{v}{cluster}", None) for u, v in tree)
        assert len(record.messages) == 5
    assert {t.broker.cluster: t.prt for t in result.tables} == {0: 2, 1: 1, 2: 1}


# ---- Fig. 1: brokers by the paper's numbers, 1 to 3 above 4 to 6; the trees as its text states them (203 to 207)

PAPER_NUMBERS = {"R10": 1, "R20": 2, "R30": 3, "R11": 4, "R21": 5, "R31": 6}
Edges = list[tuple[int, int]]


def numbered(record: StepRecord, kind: str) -> Edges:
    return sorted((PAPER_NUMBERS[u], PAPER_NUMBERS[v]) for u, v, _ in hops(record, kind))


def advertisement_trees(name: str) -> list[Edges]:
    """Of each advertisement the first copy that each broker got, found by who a subscription there goes back to.

    A subscriber at every broker shows the tree: its subscription goes to the broker's way to the root first.
    """
    document = json.loads(scene_text(name))
    advertising = [step for step in document["steps"] if step["do"] in ("overload", "relieve", "advertise")]
    trees = []
    for id in [step["id"] for step in advertising if step["do"] == "advertise"]:
        tree = []
        for broker, number in PAPER_NUMBERS.items():
            withdrawn = [
                {"do": "unadvertise", "client": step["client"], "id": step["id"]}
                for step in advertising
                if step["do"] == "advertise" and step["id"] != id
            ]
            asking = {"do": "subscribe", "client": "Q", "at": [broker[:2], int(broker[2])], "id": "q", "filter": "true"}
            result = replay(check_scenario({**document, "steps": [*advertising, *withdrawn, asking]}), "tid")
            first = [hop for hop in result.steps[-1].messages if hop.cause is None]
            tree += [(PAPER_NUMBERS[f"{hop.receiver.region}{hop.receiver.cluster}"], number) for hop in first]
        trees.append(sorted(tree))
    return trees


def test_fig1a_the_tree_is_as_short_as_can_be() -> None:
    # 5 takes the copy of 4 and discards that of 2; 6 takes that of 5 and discards that of 3.
    assert advertisement_trees("fig1a") == [[(1, 2), (1, 4), (2, 3), (4, 5), (5, 6)]]
    result = run("fig1a", "tid")
    sent = numbered(next(r for r in result.steps if r.step.do == "advertise"), "advertise")
    assert {(2, 5), (3, 6)} <= set(sent), "the duplicates were sent"
    assert len(sent) == 9, "2|E| - (n - 1)"
    (record,) = published(result)
    assert (numbered(record, "notify"), receivers(record)) == ([(1, 4), (4, 5), (5, 6)], ["S"])


def test_fig1b_load_while_advertising_makes_a_long_tree_that_stays() -> None:
    # 5 takes the copy of 6 and discards that of 2; 4 discards that of 1.
    assert advertisement_trees("fig1b") == [[(1, 2), (2, 3), (3, 6), (5, 4), (6, 5)]]
    (record,) = published(run("fig1b", "tid"))
    # P and S are in one region, and each notification passes the other two.
    assert numbered(record, "notify") == [(1, 2), (2, 3), (3, 6), (5, 4), (6, 5)]
    (direct,) = published(run("fig1b", "snr"))
    assert numbered(direct, "notify") == [(1, 4)]


def test_fig1c_a_subscription_follows_both_trees_and_comes_twice_by_different_hops() -> None:
    # Both trees share (1, 2) and (2, 3); 6 has the advertisement of P1 from 3, and that of P2 from 5.
    first, second = advertisement_trees("fig1c")
    assert first == [(1, 2), (2, 3), (3, 6), (5, 4), (6, 5)]
    assert second == [(1, 2), (2, 3), (2, 5), (4, 1), (5, 6)]
    result = run("fig1c", "tid")
    subscribed = next(record for record in result.steps if record.step.do == "subscribe")
    assert numbered(subscribed, "subscribe") == [(1, 4), (2, 1), (2, 1), (3, 2), (5, 2), (6, 3), (6, 5)]
    one, two = published(result)
    assert (numbered(one, "notify"), receivers(one)) == ([(1, 2), (2, 3), (3, 6)], ["S"])
    assert (numbered(two, "notify"), receivers(two)) == ([(1, 2), (2, 5), (4, 1), (5, 6)], ["S"])


# SNR goes the same way in scenes (a), (b) and (c), which have the same clients, whatever is overloaded.
SNR_ABC: Hops = [
    ("b2", "a2", None),
    ("b2", "c2", None),
    ("b2", "b1", None),
    ("b1", "c1", None),
    ("b2", "b0", None),
    ("b0", "c0", None),
]

# Fig. 7: scene -> (hops under IDR, hops under SNR)
FIG7: dict[str, tuple[Hops, Hops]] = {
    "fig7a": (
        [
            ("b2", "a2", None),
            ("b2", "c2", None),
            ("b2", "b1", "001"),
            ("b1", "c1", None),
            ("b1", "b0", None),
            ("b0", "c0", None),
        ],
        SNR_ABC,
    ),
    "fig7b": (
        [("b2", "a2", None), ("b2", "c2", "011"), ("c2", "c0", None), ("c2", "c1", None)],
        SNR_ABC,
    ),
    "fig7c": (
        [
            ("b2", "a2", None),
            ("b2", "c2", None),
            ("b2", "b1", "001"),
            ("b1", "c1", "001"),
            ("c1", "c0", None),
        ],
        SNR_ABC,
    ),
    "fig7d": (
        [
            ("b2", "c2", None),
            ("b2", "b1", "001"),
            ("b1", "c1", None),
            ("b1", "b0", None),
            ("b0", "a0", None),
        ],
        [
            ("b2", "c2", None),
            ("b2", "b1", None),
            ("b1", "c1", None),
            ("b2", "b0", None),
            ("b0", "a0", None),
        ],
    ),
}


@pytest.mark.parametrize("scene", sorted(FIG7))
@pytest.mark.parametrize("routing", ["idr", "snr"])
def test_fig7_every_hop_and_every_civ(scene: str, routing: str) -> None:
    (record,) = published(run(scene, routing))
    expected = FIG7[scene][0 if routing == "idr" else 1]
    assert hops(record) == sorted(expected)
    assert receivers(record) == ["S1", "S2", "S3", "S4"]


def test_fig7_message_counts_of_the_notes() -> None:
    counts = {s: tuple(len(published(run(s, r))[0].messages) for r in ("idr", "snr")) for s in FIG7}
    assert counts == {"fig7a": (6, 6), "fig7b": (4, 6), "fig7c": (5, 6), "fig7d": (5, 5)}


def test_fig8_counts_deliveries_and_target_clusters() -> None:
    result = run("fig8", "snr")
    p1, p2, p3 = published(result)
    assert [len(p.messages) for p in (p1, p2, p3)] == [4, 6, 8]
    assert [receivers(p) for p in (p1, p2, p3)] == [["S4"], ["S1", "S4"], ["S1", "S2", "S3", "S4"]]
    assert hops(p1) == [("a2", "b2", None), ("b2", "d2", None), ("d2", "e2", None), ("e2", "f2", None)]
    assert hops(p2) == sorted(
        [("a1", "a0", None), ("a1", "a2", None)]
        + [("a2", "b2", None), ("b2", "d2", None), ("d2", "e2", None), ("e2", "f2", None)]
    )
    assert hops(p3) == sorted(
        [("e1", "f1", None), ("e1", "e0", None), ("e1", "e2", None), ("e2", "f2", None)]
        + [("e0", "f0", None), ("e0", "d0", None), ("d0", "b0", None), ("b0", "a0", None)]
    )
    # the host cluster's bit is the context bit of the CIV; target clusters come from CIV and PRT
    assert [(a.id, a.civ, a.target_clusters) for a in result.advertisements] == [
        ("a1", "100", [2]),
        ("a2", "111", [0, 2]),
        ("a3", "111", [0, 1, 2]),
    ]


def test_fig8_one_cib_set_per_neighbour_and_advertisement() -> None:
    result = run("fig8", "snr")
    by_step = {r.step.number: Counter(h.message.kind for h in r.messages) for r in result.steps}
    # S1 at (a,0): tells P2's host (a,1) from (a,0) and P3's host (e,1) from (e,0); S2 finds both bits of C0 ON already
    assert by_step[3] == {"subscribe": 5, "cib_set": 2}
    assert by_step[4] == {"subscribe": 5}
    # S3 is in P3's own cluster and overlaps nothing hosted elsewhere; S4 turns on C2 for P2 and P3, not for its own P1
    assert by_step[5] == {"subscribe": 5}
    assert by_step[6] == {"subscribe": 5, "cib_set": 2}


@pytest.mark.parametrize("routing", ["tid", "tid-dynamic"])
@pytest.mark.parametrize("scene", [*FIG7, "fig8"])
def test_tid_routing_delivers_the_same_to_the_same(scene: str, routing: str) -> None:
    wanted = [receivers(record) for record in published(run(scene, "snr"))]
    assert [receivers(record) for record in published(run(scene, routing))] == wanted
