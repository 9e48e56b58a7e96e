"""The scenes of the demo: the cost of each notification, against the notes on the paper, and the drawings."""

import pytest

from octopia import BrokerId
from octopia.drawing import DrawnClient, DrawnMessage, Scene
from octopia.embedded import check_scenario, parse_scenario, replay
from octopia.experiments.scenes import PAPER_MESSAGES, PAPER_NOTES, ROUTINGS, SCENES, run_scene, scene_of
from octopia.scenes import FDR_NAMES, NAMES, PAPER_NAMES, TID_NAMES, scene_text

# scene -> routing -> per notification: messages, the paper's count, deliveries, hops of the longest way, CIVs carried,
# copies over an overloaded link. Worked out by hand from the hops in the notes (section 3).
FIGURES: dict[str, dict[str, list[tuple[int, int | None, int, int, tuple[str, ...], int]]]] = {
    "fig7a": {"snr": [(6, 6, 4, 2, (), 1)], "idr": [(6, 6, 4, 3, ("001",), 0)]},
    "fig7b": {"snr": [(6, 5, 4, 2, (), 2)], "idr": [(4, 4, 4, 2, ("011",), 0)]},
    "fig7c": {"snr": [(6, 6, 4, 2, (), 1)], "idr": [(5, 5, 4, 3, ("001", "001"), 1)]},
    "fig7d": {"snr": [(5, 5, 4, 2, (), 3)], "idr": [(5, 5, 4, 3, ("001",), 2)]},
    "fig8": {
        "snr": [(4, 4, 1, 4, (), 0), (6, 6, 2, 5, (), 0), (8, 8, 4, 4, (), 0)],
        "idr": [(4, None, 1, 4, (), 0), (6, None, 2, 5, (), 0), (8, None, 4, 4, (), 0)],
    },
}


@pytest.mark.parametrize("scene", sorted(FIGURES))
@pytest.mark.parametrize("routing", ["snr", "idr"])
def test_what_each_notification_cost(scene: str, routing: str) -> None:
    figures = run_scene(scene, routing)
    assert [
        (f.messages, f.paper_messages, f.deliveries, f.hops_max, f.civs, f.overloaded_used) for f in figures
    ] == FIGURES[scene][routing]
    assert [(f.scene, f.routing) for f in figures] == [(scene, routing)] * len(figures)


@pytest.mark.parametrize("scene", sorted(FIGURES))
def test_tid_routing_reaches_as_many_and_carries_no_civ(scene: str) -> None:
    figures = run_scene(scene, "tid")
    assert [f.deliveries for f in figures] == [row[2] for row in FIGURES[scene]["snr"]]
    assert [(f.civs, f.paper_messages) for f in figures] == [((), None)] * len(figures)


# Full dynamic routing, worked out by hand: messages, deliveries, hops of the longest way, copies over an overloaded
# link. In (a), (c) and (d) another cluster's tree is taken, one hop away; in (b) the own one, as both iLinks are full.
FDR_FIGURES = {
    "fig7a": [(6, 4, 3, 0)],
    "fig7b": [(4, 4, 2, 0)],
    "fig7c": [(6, 4, 3, 1)],
    "fig7d": [(5, 4, 3, 1)],
    "fig8": [(4, 1, 4, 0), (6, 2, 5, 0), (7, 4, 4, 0)],
    "fdr-idle": [(5, 4, 2, 0)],
    "fdr-load": [(6, 4, 3, 0)],
}


@pytest.mark.parametrize("scene", sorted(FDR_FIGURES))
def test_what_each_notification_cost_under_full_dynamic_routing(scene: str) -> None:
    figures = run_scene(scene, "fdr")
    assert [(f.messages, f.deliveries, f.hops_max, f.overloaded_used) for f in figures] == FDR_FIGURES[scene]
    assert [(f.civs, f.paper_messages) for f in figures] == [((), None)] * len(figures)


def test_with_two_brokers_dead_full_dynamic_routing_reaches_all_and_the_others_do_not() -> None:
    deliveries = {routing: run_scene("fdr-dead", routing)[0].deliveries for routing in ROUTINGS}
    assert deliveries == {"snr": 2, "idr": 2, "tid": 1, "fdr": 4}


def test_every_difference_to_the_paper_has_a_note() -> None:
    assert set(SCENES) == {scene for scene, _ in PAPER_MESSAGES} | set(FDR_NAMES) == set(FIGURES) | set(FDR_NAMES)
    different = {
        (f.scene, f.routing)
        for scene in SCENES
        for routing in ROUTINGS
        for f in run_scene(scene, routing)
        if f.paper_messages not in (None, f.messages)
    }
    assert different == set(PAPER_NOTES) == {("fig7b", "snr")}


@pytest.mark.parametrize("name", [*TID_NAMES, *PAPER_NAMES])
def test_every_scene_of_the_paper_is_a_scenario_with_a_title(name: str) -> None:
    scenario = parse_scenario(scene_text(name))
    figure, part = name[3], name[4:]
    assert scenario.title.startswith(f"Fig. {figure}({part}): " if part else f"Fig. {figure}: ")
    assert (scenario.scot.clusters, scenario.routing == "tid") == ((2, True) if name in TID_NAMES else (3, False))


def test_our_scenes_are_scenarios_of_full_dynamic_routing_with_a_title() -> None:
    assert set(NAMES) == {*TID_NAMES, *PAPER_NAMES, *FDR_NAMES}
    for name in FDR_NAMES:
        scenario = parse_scenario(scene_text(name))
        assert (scenario.routing, scenario.title[:5]) == ("fdr", "FDR, ")


def test_what_is_drawn_of_a_scene() -> None:
    (figures,) = run_scene("fig7b", "idr")
    a2, b0, b1, b2 = BrokerId("a", 2), BrokerId("b", 0), BrokerId("b", 1), BrokerId("b", 2)
    c0, c1, c2 = BrokerId("c", 0), BrokerId("c", 1), BrokerId("c", 2)
    # The queues of 5 and 1 on the aLinks are below τ: not overloaded.
    assert scene_of(figures.result, figures.record) == Scene(
        clients=(
            DrawnClient("P", b2, "publisher"),
            DrawnClient("S1", c0, "subscriber"),
            DrawnClient("S2", c1, "subscriber"),
            DrawnClient("S3", a2, "subscriber"),
            DrawnClient("S4", c2, "subscriber"),
        ),
        messages=(
            DrawnMessage(b2, a2, "", "plain"),
            DrawnMessage(b2, c2, "011", "civ"),
            DrawnMessage(c2, c0, "", "plain"),
            DrawnMessage(c2, c1, "", "plain"),
        ),
        overloaded=((b2, b0), (b2, b1)),
    )


def test_a_step_other_than_publish_is_drawn_as_control_messages() -> None:
    result = replay(parse_scenario(scene_text("fig5")))
    d0 = BrokerId("d", 0)
    assert scene_of(result, result.steps[1]).messages == (
        DrawnMessage(d0, BrokerId("d", 1), "", "control"),
        DrawnMessage(d0, BrokerId("d", 2), "", "control"),
    )


def test_a_client_is_drawn_where_it_was_at_that_step() -> None:
    subscribe = {"do": "subscribe", "client": "S", "id": "s1", "filter": "x > 0"}
    publish = {"do": "publish", "client": "P", "notification": {"x": 1}}
    steps = [
        {"do": "advertise", "client": "P", "at": "b,0", "id": "a1", "filter": "x > 0"},
        {**publish, "id": "n0"},
        {**subscribe, "at": "a,0"},
        {**publish, "id": "n1"},
        {"do": "leave", "client": "S"},
        {**subscribe, "at": "c,1"},
        {**publish, "id": "n2"},
    ]
    result = replay(check_scenario({"tree": "path:3", "clusters": 3, "steps": steps}))
    publisher = DrawnClient("P", BrokerId("b", 0), "publisher")
    drawn = [scene_of(result, result.steps[number]).clients for number in (1, 3, 6)]
    assert drawn == [
        (publisher, DrawnClient("S", BrokerId("a", 0), "subscriber")),
        (publisher, DrawnClient("S", BrokerId("a", 0), "subscriber")),
        (publisher, DrawnClient("S", BrokerId("c", 1), "subscriber")),
    ]
