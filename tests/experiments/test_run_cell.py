"""Cells: the paper's exact results, checks and metrics of a run, the same result every time."""

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from octopia.experiments import (
    EXPERIMENTS,
    MetricRow,
    changed,
    finished,
    make_cells,
    metrics_table,
    rows_of_table,
    run_cell,
    workload_of,
)
from octopia.experiments.losses import JUDGED
from octopia.metrics import METRICS
from tests.experiments.cells import link_fault, small_cells


def numbers(rows: tuple[MetricRow, ...]) -> dict[tuple[str, str], float | None]:
    return {(row.metric, row.part): row.value for row in rows}


def test_the_structure_gives_the_papers_srt_and_messages_exactly(tmp_path: Path) -> None:
    """On the evaluation overlay: 4 against 341 messages per advertisement, SRTs 92.9 % smaller."""
    experiment = EXPERIMENTS["publishers"]
    settings = changed(experiment.settings, {"points": [30], "seeds": 1, "systems": ["snr", "idr", "tid"]}, "test")
    found = {}
    for cell in make_cells(experiment, settings):
        result = run_cell(cell, tmp_path / cell.name)
        assert not result.broken
        found[cell.system] = numbers(result.rows)
    for system, messages, srt in (("snr", 4, 30 * 5 / 70), ("idr", 4, 30 * 5 / 70), ("tid", 341, 30)):
        assert found[system]["messages_per_request", "advertise"] == messages
        assert found[system]["messages_caused", "advertise"] == 30 * messages
        assert found[system]["srt_entries", "mean"] == pytest.approx(srt, rel=1e-15)
    ours, theirs = found["snr"]["srt_entries", "mean"], found["tid"]["srt_entries", "mean"]
    assert ours is not None
    assert theirs is not None
    assert 1 - ours / theirs == pytest.approx(1 - 5 / 70, rel=1e-12)


def test_a_subscription_costs_as_many_messages_as_its_cluster_has_other_brokers(tmp_path: Path) -> None:
    cell = small_cells("subscribers", systems=["snr"], points=[12])[0]
    found = numbers(run_cell(cell, tmp_path / "run").rows)
    assert found["messages", "subscribe"] == 12 * 2
    # every broker of a cluster stores every subscription of that cluster: 12 × 3 entries over 9 brokers
    assert found["prt_entries", "mean"] == 4.0


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("system", ["snr", "idr", "fdr", "tid", "tid-dynamic"])
def test_every_experiment_runs_under_every_system_and_gives_all_its_metrics(
    name: str, system: str, tmp_path: Path
) -> None:
    cell = small_cells(name, systems=[system])[0]
    shares: list[float] = []
    result = run_cell(cell, tmp_path / "run", on_part=shares.append)
    assert not result.broken
    known = {**METRICS, **JUDGED}
    by_case = set() if system == "idr" else {m for m in cell.metrics if m.startswith("routing_case")}
    measured = {m for m in cell.metrics if known[m].shape in ("row", "parts")} - by_case
    assert {row.metric for row in result.rows} == measured
    shown = {(s.metric, s.part) for s in EXPERIMENTS[name].shown if s.kind != "series" and s.metric in measured}
    # which bursts and which cases there are is for the run to say
    shown = {(metric, part) for metric, part in shown if metric not in ("burst_delay", "routing_cases")}
    assert shown <= set(numbers(result.rows)), "what is to be shown is measured"
    series = pq.read_table(tmp_path / "run" / "series.parquet")
    wanted = {(s.metric, s.part) for s in EXPERIMENTS[name].shown if s.kind == "series"}
    assert wanted <= set(zip(series["metric"].to_pylist(), series["part"].to_pylist(), strict=True))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(0 <= share <= 1 for share in shares)
    if not EXPERIMENTS[name].publishes:
        assert result.run.rows["deliveries"] == 0
    if name in ("subscribers", "delivery"):
        assert result.selectivity == pytest.approx(0.25)


def test_the_same_cell_gives_the_same_bytes_and_is_known_again(tmp_path: Path) -> None:
    cell, other = small_cells("burst", systems=["idr"])
    for folder in ("one", "two"):
        run_cell(cell, tmp_path / folder, keep_trace=folder == "one")
    for file in ("result.json", "series.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    known = finished(cell, tmp_path / "one")
    assert known is not None
    assert known.cell == cell
    assert finished(other, tmp_path / "one") is None, "another point"
    assert finished(msgspec.structs.replace(cell, version="0"), tmp_path / "one") is None, "another version"
    assert (tmp_path / "one" / "trace" / "hops.parquet").exists()
    assert not (tmp_path / "two" / "trace").exists()
    assert finished(cell, tmp_path / "two", with_trace=True) is None, "its trace is wanted and was thrown away"
    (tmp_path / "two" / "result.json").write_text("{", encoding="utf-8")
    assert finished(cell, tmp_path / "two") is None
    assert finished(cell, tmp_path / "three") is None


def test_a_broken_promise_is_found(tmp_path: Path) -> None:
    links = [link_fault("loss", "b", end, cluster) for cluster in range(3) for end in "ac"]
    cell = small_cells("delivery", systems=["snr"], faults=links, points=[12])[0]
    result = run_cell(cell, tmp_path / "run")
    assert {finding.rule for finding in result.broken} >= {"no message is lost between brokers"}


def test_rows_survive_a_table(tmp_path: Path) -> None:
    result = run_cell(small_cells("publishers")[0], tmp_path / "run")
    assert tuple(rows_of_table(metrics_table(result.rows))) == result.rows


def test_real_quotes_take_the_place_of_made_ones(tmp_path: Path) -> None:
    lines = [f"2020-01-{day:02},S{n},{n + 1},{n + 2},{n + 1},{n + 1},{day}" for n in range(6) for day in range(1, 9)]
    file = tmp_path / "q.csv"
    file.write_text("date,symbol,open,high,low,close,volume\n" + "\n".join(lines) + "\n", encoding="utf-8")
    cell = small_cells("delivery", quotes=[str(file)])[0]
    assert set(workload_of(cell).notifications["symbol"].to_pylist()) <= {f"S{n}" for n in range(6)}
    assert not run_cell(cell, tmp_path / "run").broken
