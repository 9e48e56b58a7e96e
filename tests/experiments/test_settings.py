"""Settings and cells: what can be varied, and what is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopia.errors import InputError
from octopia.experiments import (
    EXPERIMENTS,
    Cell,
    cell_bytes,
    changed,
    experiment_named,
    make_cells,
    parse_value,
    read_settings,
    settings_toml,
)
from octopia.experiments import small as small_settings
from tests.experiments.cells import link_fault, small_cells


def test_the_defaults_are_the_papers() -> None:
    found = {name: experiment.settings for name, experiment in EXPERIMENTS.items()}
    assert list(found) == [
        "publishers", "subscribers", "delivery", "delivery-publishers", "burst", "bursts", "crash", "slow-link",
        "churn", "failures", "sites", "priorities",
    ]  # fmt: skip
    assert [name for name, experiment in EXPERIMENTS.items() if experiment.paper] == list(found)[:6]
    assert found["publishers"].points == (100, 200, 300, 400, 500)
    assert found["subscribers"].points == found["delivery"].points == tuple(range(500, 5001, 500))
    burst = found["burst"]
    assert burst.points == (100_000, 80_000, 60_000, 40_000)
    assert (burst.tau, burst.window_s, burst.subscribers, burst.publishers) == (10, 0.05, 2000, 100)
    assert (burst.notifications_per_publisher, burst.rate_per_minute, burst.burst_notifications) == (2000, 60, 100_000)
    for name, settings in found.items():
        usual = settings.overlay, settings.clusters, settings.selectivity, settings.symbols
        assert usual == ("evaluation", None, 0.02, 500)
        routings = ("snr", "idr", "fdr", "tid", "tid-dynamic")
        assert settings.systems == ((*routings, "bound") if name == "burst" else routings)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_survive_a_file(name: str, tmp_path: Path) -> None:
    faults = [link_fault("slow", "a", "b", 0, factor=2)]
    changes = {"tau": 3, "model.link.delay_ns": 7, "points": [1, 2], "faults": faults}
    settings = changed(EXPERIMENTS[name].settings, changes, "test")
    file = tmp_path / "settings.toml"
    file.write_text(settings_toml(settings), encoding="utf-8")
    assert changed(EXPERIMENTS[name].settings, read_settings(file), str(file)) == settings


def test_a_cell_survives_its_bytes_and_equal_cells_have_equal_bytes() -> None:
    one, other = small_cells("burst"), small_cells("burst")
    assert [msgspec.json.decode(cell_bytes(cell), type=Cell) for cell in one] == one
    assert [cell_bytes(cell) for cell in one] == [cell_bytes(cell) for cell in other]
    assert len({cell.name for cell in one}) == len(one)


@pytest.mark.parametrize(
    ("name", "scaled", "kept"),
    [
        ("publishers", {"publishers": 5}, {"subscribers": 0, "notifications_per_publisher": 2000}),
        ("subscribers", {"subscribers": 25}, {"publishers": 100, "notifications_per_publisher": 2000}),
        ("delivery", {"notifications_per_publisher": 10}, {"publishers": 100, "subscribers": 500}),
        ("burst", {"notifications_per_publisher": 100}, {"publishers": 100, "subscribers": 2000}),
    ],
)
def test_scale_changes_counts_and_never_rates_or_capacities(
    name: str, scaled: dict[str, int], kept: dict[str, int]
) -> None:
    experiment = EXPERIMENTS[name]
    full = make_cells(experiment, changed(experiment.settings, {"seeds": 1}, "test"))
    less = make_cells(experiment, changed(experiment.settings, {"seeds": 1, "scale": 0.05}, "test"))
    assert [cell.run for cell in less] == [cell.run for cell in full]
    assert len(less) == len(full)
    for name_of, value in (scaled | kept).items():
        assert getattr(less[0].workload, name_of) == value
    assert less[0].workload.rate_per_minute == 60
    if name == "burst":
        assert [(c.bursts[0].rate_per_minute, c.bursts[0].notifications) for c in less[::6]] == [
            (rate, 5000) for rate in experiment.settings.points
        ]
    if "publishers" in scaled or "subscribers" in scaled:
        assert [cell.point for cell in less[::5]] == [int(point) // 20 for point in experiment.settings.points]


def test_points_that_scaling_makes_equal_are_one() -> None:
    cells = small_cells("publishers", points=[100, 110, 200], scale=0.01)
    assert [cell.point for cell in cells if cell.system == "snr"] == [1, 2]


def test_anything_can_be_varied() -> None:
    def values(vary: str, points: list[Any], get: Any) -> list[Any]:
        return [get(cell) for cell in small_cells("burst", vary=vary, points=points, systems=["idr"])]

    assert values("tau", [2, 50], lambda c: c.run.tau) == [2, 50]
    assert values("model.link.per_message_ns", [5, 9], lambda c: c.run.model.link.per_message_ns) == [5, 9]
    assert values("overlay", ["path:3", "star:4"], lambda c: c.overlay.broker_count) == [9, 12]
    assert values("clusters", [2, 4], lambda c: c.clusters) == [2, 4]
    assert values("shape", ["symbols", "ranges"], lambda c: c.workload.shape) == ["symbols", "ranges"]


def test_all_systems_at_a_point_and_seed_see_one_workload() -> None:
    cells = small_cells("burst", systems=["snr", "idr", "tid", "tid-dynamic"], seeds=2)
    for first in range(0, len(cells), 4):
        same = cells[first : first + 4]
        assert {(cell.point, cell.seed) for cell in same} == {(same[0].point, same[0].seed)}
        assert all((cell.workload, cell.bursts) == (same[0].workload, same[0].bursts) for cell in same)
        assert all(cell.run.model == same[0].run.model for cell in same), "nothing is tuned per system"


def test_changed_quotes_make_another_cell(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text("date,symbol,open,high,low,close,volume\n2020-01-02,A,1,1,1,1,1\n", encoding="utf-8")
    before = small_cells("delivery", quotes=[str(file)])
    file.write_text("date,symbol,open,high,low,close,volume\n2020-01-02,A,1,2,1,1,1\n", encoding="utf-8")
    after = small_cells("delivery", quotes=[str(file)])
    assert cell_bytes(before[0]) != cell_bytes(after[0])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"taw": 1}, r"no setting is called 'taw' \(did you mean tau\?\)"),
        ({"tau": "x"}, "tau: expected `float`, got `str`"),
        ({"tau": 0}, "tau must be a positive number"),
        ({"window_s": -1}, "window_s must be a positive number"),
        ({"systems": ["snrr"]}, r"unknown routing 'snrr' \(did you mean snr\?\)"),
        ({"systems": ["snr", "snr"]}, "systems: snr is named twice"),
        ({"systems": []}, "systems: expected `array` of length >= 1"),
        ({"seeds": 0}, "seeds: expected `int` >= 1"),
        ({"scale": 0}, "scale: expected `float` > 0"),
        ({"scale": 2}, "scale: expected `float` <= 1"),
        ({"points": []}, "points is empty"),
        ({"points": ["many"]}, "burst_rate_per_minute: expected `float`"),
        ({"vary": "overlay", "points": ["a-b,b-c", "a-b b-c"]}, "the same folder"),
        ({"points": [-5]}, "burst_rate_per_minute is -5"),
        ({"vary": "rates"}, "vary: no setting is called 'rates'"),
        ({"vary": "quotes", "points": ["x.csv"]}, "quotes: expected `array`"),
        ({"overlay": "ring:5"}, "no tree is called 'ring:5'"),
        ({"overlay": "nowhere.toml", "clusters": None}, "nowhere.toml"),
        ({"overlay": "x.toml"}, "gives the number of clusters itself"),
        ({"model": "papr"}, r"no model and no file 'papr' \(did you mean paper\?\)"),
        ({"model.link.speed": 1}, "unknown field `speed`"),
        ({"model.lnk.delay_ns": 1}, r"no such part \(did you mean link\?\)"),
        ({"model.delay_ns": 1}, "model.PART.NAME"),
        ({"selectivity": 2}, "selectivity is 2"),
        ({"shape": "round"}, "shape is 'round'"),
        ({"burst_interested_share": 0.01}, "each of the 3 clusters must have one"),
        ({"quotes": ["/nowhere/q.csv"]}, "there is no such file"),
        ({"faults": [{"what": "link"}]}, "faults"),
        ({"crash": "iner"}, r"crash: no place 'iner' \(did you mean inner\?\); none, host-neighbours"),
        ({"crash": "inner", "clusters": 1}, "crash: k-1 brokers are none with 1 cluster"),
        ({"crash": "next-region", "overlay": "path:1"}, "next-region needs a tree of at least 2 regions"),
        ({"crash_for": 0}, "crash_for: expected `float` > 0"),
        ({"slow_link": "a.0-b.1"}, "slow_link: no link 'a.0-b.1'"),
        ({"slow_link": "nowhere"}, "slow_link: no link 'nowhere'; write it as a.0-b.0"),
        ({"systems": ["bound"], "crash": "inner"}, "bound is worked out for an overlay in which nothing goes wrong"),
        ({"systems": ["bound", "bound"]}, "systems: bound is named twice"),
    ],
)
def test_what_cannot_be_is_refused_by_name_before_anything_runs(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        small_cells("burst", **changes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_small_form(name: str) -> None:
    own = EXPERIMENTS[name].settings
    found = small_settings(own)
    assert (found.systems, found.vary, found.model, found.tau) == (own.systems, own.vary, own.model, own.tau)
    cells = make_cells(EXPERIMENTS[name], found)
    assert {cell.overlay.broker_count for cell in cells} == {9}
    assert all(cell.workload.publishers <= 10 and cell.workload.subscribers <= 60 for cell in cells)
    assert (own.subscribers == 0) == all(cell.workload.subscribers == 0 for cell in cells)


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(InputError, match=r"'brst' \(did you mean burst\?\); choose from publishers, subscribers"):
        experiment_named("brst")


def test_values_on_a_command_line_are_toml_or_text() -> None:
    given = ["5", "2.5", "true", "[1, 2]", "paper", "path:5", "'x'", "1 = 2"]
    assert [parse_value(text) for text in given] == [5, 2.5, True, [1, 2], "paper", "path:5", "x", "1 = 2"]


def test_a_bad_file_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    for content, problem in ((b"x = ", "not TOML"), (b"\xff", "not UTF-8"), (b"#" * (1 << 21), "too large")):
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"s.toml: .*{problem}"):
            read_settings(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")
