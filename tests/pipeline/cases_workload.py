"""Stages notifications, workload and truth: against one call without Spark, and against filters asked one by one."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import octopia
from octopia.pipeline import Session, match, stage_notifications, stage_truth
from octopia.pipeline.run import STAGES, run_pipeline
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.topology import Scot, parse_tree
from octopia.workload import (
    TABLE_SCHEMAS,
    BurstSpec,
    WorkloadSpec,
    make_workload,
    row_notifications,
    synthetic_quotes,
    workload_from_tables,
    workload_tables,
)

DATA_STAGES = ["quotes", "notifications", "workload", "truth"]
QUOTES = QuotesSpec(seed=2, symbols=30, days=25)
OVERLAY = Scot(parse_tree("path:3"), 3)
SPECS = {
    "symbols": (WorkloadSpec(12, 40, 0.1, "symbols", 20, seed=4), None),
    "ranges": (WorkloadSpec(12, 40, 0.1, "ranges", 40, placement="edge", seed=5), None),
    "burst": (WorkloadSpec(8, 60, 0.2, "mixed", 10, seed=6), BurstSpec(1000, 60, 0.1)),
    "shared": (WorkloadSpec(70, 20, 0.05, "mixed", 25, placement="spread", seed=7), None),
}


def pipeline_spec(name: str) -> PipelineSpec:
    workload, burst = SPECS[name]
    return PipelineSpec(QUOTES, workload, burst, OVERLAY)


def run(session: Session, out: Path, spec: PipelineSpec, stages: list[str] | None = None) -> list[Event]:
    return Runner(LocalStore(out), spec, lambda: session, STAGES).run(stages or DATA_STAGES)


def workload_of(out: Path) -> Any:
    return workload_from_tables({name: pq.read_table(out / name) for name in TABLE_SCHEMAS})


@pytest.mark.parametrize("name", list(SPECS))
@pytest.mark.parametrize(("stretch", "partitions"), [(10**6, 1), (60, 3)])
def test_the_workload_is_that_of_one_call_whatever_the_partitions(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, stretch: int, partitions: int
) -> None:
    spec = pipeline_spec(name)
    monkeypatch.setattr(stage_notifications, "STRETCH_ROWS", stretch)
    monkeypatch.setattr("octopia.pipeline.stage_quotes.MADE_ROWS", stretch)
    session.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    try:
        run(session, tmp_path, spec, ["quotes", "notifications", "workload"])
    finally:
        session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    expected = make_workload(spec.workload, spec.overlay, synthetic_quotes(2, 30, 25), spec.burst)
    assert workload_of(tmp_path).equals(expected)
    for table, schema in TABLE_SCHEMAS.items():
        stored = pq.read_table(tmp_path / table)
        assert stored.schema.names == schema.names
        assert stored.schema.types == schema.types


def one_by_one(workload: Any) -> list[tuple[int, int]]:
    """Every notification against every subscription, by the definition of the language."""
    notifications = list(row_notifications(workload.notifications))
    return [
        (row, number)
        for row, seen in enumerate(notifications)
        for number, subscription in enumerate(workload.subscriptions)
        if octopia.matches(subscription.filter, seen)
    ]


@pytest.mark.parametrize("name", list(SPECS))
def test_truth_is_that_of_filters_asked_one_by_one(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec = pipeline_spec(name)
    # several chunks, and tasks without any
    monkeypatch.setattr(stage_truth, "BATCH_ROWS", 64)
    run(session, tmp_path, spec)
    truth = pq.read_table(tmp_path / "truth")
    assert truth.schema.types == [pa.int32(), pa.int32()]
    workload = workload_of(tmp_path)
    pairs = sorted(zip(truth["row"].to_pylist(), truth["subscriber"].to_pylist(), strict=True))
    assert pairs == one_by_one(workload)
    # what each subscription matches is what its row says
    counts = pa.table({"s": [number for _, number in pairs]}).group_by("s").aggregate([("s", "count")])
    shares = {row["s"]: row["s_count"] / workload.notifications.num_rows for row in counts.to_pylist()}
    assert shares == {n: s.selectivity for n, s in enumerate(workload.subscriptions) if s.selectivity}


def test_truth_and_the_index_agree(session: Session, tmp_path: Path) -> None:
    spec = pipeline_spec("burst")
    run(session, tmp_path, spec)
    read = session.spark.read.parquet
    subscriptions = read(str(tmp_path / "subscribers"))
    pairs = match(
        read(str(tmp_path / "notifications")), subscriptions, keys=["row"], id="subscriber", pair_id="subscriber"
    )
    truth = read(str(tmp_path / "truth"))
    assert truth.count() == pairs.count() > 0
    assert truth.exceptAll(pairs).count() == pairs.exceptAll(truth).count() == 0


def test_only_what_depends_on_a_setting_runs_again(session: Session, tmp_path: Path) -> None:
    spec = pipeline_spec("symbols")
    assert [event.state for event in run(session, tmp_path, spec)] == ["finished"] * 4
    assert [event.state for event in run(session, tmp_path, spec)] == ["skipped"] * 4
    more = PipelineSpec(QUOTES, WorkloadSpec(12, 41, 0.1, "symbols", 20, seed=4), None, OVERLAY)
    assert [(event.stage, event.state, event.because) for event in run(session, tmp_path, more)] == [
        ("quotes", "skipped", ""),
        ("notifications", "skipped", ""),
        ("workload", "finished", "parameters changed: subscribers"),
        ("truth", "finished", "inputs changed: subscribers"),
    ]
    elsewhere = PipelineSpec(QUOTES, more.workload, None, Scot(parse_tree("path:4"), 3))
    assert [event.because for event in run(session, tmp_path, elsewhere)] == [
        "",
        "",
        "parameters changed: overlay",
        "inputs changed: subscribers",
    ]


def test_what_the_workload_cannot_be_is_told(session: Session, tmp_path: Path) -> None:
    few = PipelineSpec(QuotesSpec(seed=1, symbols=1, days=5), WorkloadSpec(2, 10), BurstSpec(), OVERLAY)
    with pytest.raises(octopia.InputError, match="the quotes have 1 symbols, at least 2 are needed"):
        run(session, tmp_path, few)


def test_the_whole_pipeline_in_one_call(session: Session, tmp_path: Path) -> None:
    """`run_pipeline` uses the running session; a second call does nothing."""
    told: list[Event] = []
    events = run_pipeline(tmp_path, pipeline_spec("symbols"), stages=DATA_STAGES, on_event=told.append)
    assert [event.stage for event in events] == DATA_STAGES
    assert [event.state for event in told] == ["started", "finished"] * 4
    again = run_pipeline(tmp_path, pipeline_spec("symbols"), stages=DATA_STAGES)
    assert [event.state for event in again] == ["skipped"] * 4
    with pytest.raises(octopia.InputError, match=r"no stage 'truht': there are .* \(did you mean truth\?\)"):
        run_pipeline(tmp_path, stages=["truht"])


def test_tables_are_the_same_as_stored_without_spark(session: Session, tmp_path: Path) -> None:
    """Row by row: a program that reads the folder finds what `workload_tables` would have given it."""
    spec = pipeline_spec("burst")
    run(session, tmp_path, spec, ["quotes", "notifications", "workload"])
    expected = workload_tables(make_workload(spec.workload, spec.overlay, synthetic_quotes(2, 30, 25), spec.burst))
    for name, table in expected.items():
        by = [(column, "ascending") for column in table.schema.names[:2]]
        assert pq.read_table(tmp_path / name).cast(table.schema).sort_by(by).equals(table.sort_by(by)), name
