"""Assignment of brokers to processes: all of them, each once, neighbours apart; and errors name the problem."""

from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.experiments import changed, experiment_named, make_cells
from octopia.testbed import Group, Place, Testbed, groups_of, places_of
from octopia.testbed.workers import Workers
from octopia.topology import BrokerId, Scot, parse_tree
from tests.testbed.worlds import OVERLAY, overlay_file

EVALUATION = Scot(parse_tree("evaluation"), 5)


@pytest.mark.parametrize("processes", [1, 2, 3, 6, 70, 500])
def test_every_broker_runs_once_and_processes_have_even_shares(processes: int) -> None:
    groups = groups_of(EVALUATION, processes)
    brokers = [BrokerId.parse(id) for group in groups for id in group.brokers]
    assert sorted(brokers) == sorted(EVALUATION.brokers)
    sizes = [len(group.brokers) for group in groups]
    assert len(groups) == min(processes, 70)
    assert max(sizes) - min(sizes) <= 1
    assert {group.machine for group in groups} == {"here"}


def test_a_file_with_machines_places_brokers_and_their_processes(tmp_path: Path) -> None:
    file = overlay_file(tmp_path, 'open = true\nmachines = { m1 = "10.0.0.1", m2 = "10.0.0.2" }')
    places = places_of(str(file), OVERLAY)
    groups = groups_of(OVERLAY, 0, places)
    assert groups == (
        Group("m1", {"(a,0)": "10.0.0.1:7400", "(b,1)": "10.0.0.1:7403"}),
        Group("m2", {"(b,0)": "10.0.0.2:7401", "(a,1)": "10.0.0.2:7402"}),
    )
    assert not groups[0].is_here
    assert sorted(len(group.brokers) for group in groups_of(OVERLAY, 2, places)) == [1, 1, 1, 1]


def test_a_file_without_machines_runs_here(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text('[overlay]\ntree = "path:2"\nclusters = 2\n', encoding="utf-8")
    assert places_of(str(file), OVERLAY) == ()


def test_a_live_cell_knows_where_it_runs_and_a_simulated_one_does_not_care(tmp_path: Path) -> None:
    file = overlay_file(tmp_path, 'machines = { m1 = "127.0.0.1", m2 = "127.0.0.2" }')
    experiment = experiment_named("burst")
    settings = changed(experiment.settings, {"overlay": str(file), "seeds": 1, "points": [1000]}, "test")
    live = make_cells(experiment, changed(settings, {"host": "live", "processes": 3}, "test"))
    simulated = make_cells(experiment, changed(settings, {"processes": 3}, "test"))
    assert {cell.host for cell in live} == {"live"}
    assert {cell.processes for cell in live} == {3}
    assert {place.machine for cell in live for place in cell.places} == {"m1", "m2"}
    assert {(cell.host, cell.processes, cell.places) for cell in simulated} == {("simulated", 0, ())}
    # what is worked out for one tree that is k times as fast has no brokers to run
    assert {cell.system for cell in simulated} - {cell.system for cell in live} == {"bound"}


@pytest.mark.parametrize(
    ("machines", "more", "words"),
    [
        ('open = true\nmachines = { m1 = "127.0.0.1", m2 = "10.0.0.2" }', "", "machine m1 is at a loopback address"),
        ('machines = { m3 = "127.0.0.1" }', "", "m3"),
        ("", '[links]\ntoken = "sixteen-letters!"', "without TLS, tokens"),
    ],
)
def test_a_bad_placement_is_named(tmp_path: Path, machines: str, more: str, words: str) -> None:
    file = overlay_file(tmp_path, machines, more)
    experiment = experiment_named("delivery")
    settings = changed(experiment.settings, {"overlay": str(file), "host": "live"}, "test")
    with pytest.raises(InputError, match=words):
        make_cells(experiment, settings)


def test_places_that_do_not_fit_the_overlay_are_named() -> None:
    places = [Place(str(id), "m1", "127.0.0.1:0") for id in OVERLAY.brokers]
    with pytest.raises(InputError, match=r"\(b,1\) has no machine"):
        groups_of(OVERLAY, 0, places[:-1])
    with pytest.raises(InputError, match="is placed wrongly"):
        groups_of(OVERLAY, 0, [*places, Place("(c,0)", "m1", "127.0.0.1:0")])
    with pytest.raises(InputError, match="machine m1 has addresses here and elsewhere"):
        groups_of(OVERLAY, 0, [*places[:-1], Place(places[-1].broker, "m1", "10.0.0.1:0")])


def test_other_machines_must_be_told_where_this_one_is() -> None:
    groups = [Group("m1", {"(a,0)": "10.0.0.1:7400"})]
    with pytest.raises(
        InputError, match="m1 is another one: give the address at which it reaches this one, with --listen"
    ):
        Workers(groups, Testbed())


LOSS = {"what": "link", "sender": ["A", 0], "receiver": ["F", 0], "kind": "loss", "from_ns": 0, "until_ns": 1}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"host": "real"}, "host"),
        ({"host": "live", "faults": [LOSS]}, "loss is for the simulator only"),
        ({"host": "live", "processes": -1}, "processes"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_runs(values: dict[str, object], words: str) -> None:
    experiment = experiment_named("slow-link")
    with pytest.raises(InputError, match=words):
        make_cells(experiment, changed(experiment.settings, {**values, "points": ["A.0-F.0"]}, "test"))
