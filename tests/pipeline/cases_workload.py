"""Stages notifications, workload and truth: against one call without Spark, and against filters asked one by one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import octopia
from octopia.experiments import Settings
from octopia.pipeline import Session, match, spread, stage_truth, stage_workload
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.pipeline.whole import STAGES, run_pipeline
from octopia.workload import (
    TABLE_SCHEMAS,
    Workload,
    make_workload,
    synthetic_quotes,
    workload_from_tables,
    workload_tables,
)
from tests.workload.rows import row_notifications

Made = tuple[Path, PipelineSpec]
DATA_STAGES = ["quotes", "notifications", "workload", "truth"]
QUOTES = QuotesSpec(seed=2, symbols=30, days=25)


def settings(
    publishers: int, subscribers: int, selectivity: float, shape: str, notifications: int, seed: int, **more: Any
) -> Settings:
    return pipeline_settings(
        overlay=more.pop("overlay", "path:3"), clusters=3, publishers=publishers, subscribers=subscribers,
        selectivity=selectivity, shape=shape, notifications_per_publisher=notifications, first_seed=seed, **more,
    )  # fmt: skip


FAST = {"burst_rate_per_minute": 1000, "burst_notifications": 60, "burst_interested_share": 0.1}
SPECS = {
    # clients change their minds in one of them
    "ranges": settings(12, 40, 0.1, "ranges", 40, 5, placement="edge", changes_per_minute=300),
    "burst": settings(8, 60, 0.2, "mixed", 10, 6, **FAST),
    "shared": settings(70, 20, 0.05, "symbols", 25, 7, placement="spread"),
}


def pipeline_spec(name: str) -> PipelineSpec:
    return PipelineSpec(QUOTES, SPECS[name], burst=name == "burst")


def drawn(spec: PipelineSpec) -> Workload:
    """The same workload in one call, without Spark."""
    cell = spec.cell
    return make_workload(cell.workload, cell.overlay, synthetic_quotes(2, 30, 25), cell.bursts, churn=cell.churn)


def run(session: Session, out: Path, spec: PipelineSpec, stages: list[str] | None = None) -> list[Event]:
    return Runner(LocalStore(out), spec, lambda: session, STAGES).run(stages or DATA_STAGES)


def workload_of(out: Path) -> Any:
    return workload_from_tables({name: pq.read_table(out / name) for name in TABLE_SCHEMAS})


@pytest.fixture(scope="session")
def makes(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """All data stages of a spec, once, in many pieces; read by several tests and changed by none."""

    @cache
    def make(name: str) -> Made:
        out = tmp_path_factory.mktemp(name) / "out"
        spec = pipeline_spec(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("octopia.pipeline.stage_quotes.MADE_ROWS", 300)
            small_pieces(patch, rows=200, filters=16)
            session.spark.conf.set("spark.sql.shuffle.partitions", "3")
            try:
                run(session, out, spec)
            finally:
                session.spark.conf.set("spark.sql.shuffle.partitions", "1")
        return out, spec

    return make


@pytest.fixture(params=list(SPECS))
def made(request: pytest.FixtureRequest, makes: Callable[[str], Made]) -> Made:
    return makes(request.param)


@pytest.fixture
def made_burst(makes: Callable[[str], Made]) -> Made:
    return makes("burst")


def test_the_workload_is_that_of_one_call_whatever_the_partitions(made: Made) -> None:
    out, spec = made
    assert workload_of(out).equals(drawn(spec))
    for table, schema in TABLE_SCHEMAS.items():
        stored = pq.read_table(out / table)
        assert stored.schema.names == schema.names
        assert stored.schema.types == schema.types
    assert not (out / stage_workload.DRAWN).exists()


def small_pieces(patch: pytest.MonkeyPatch, *, rows: int = 64, filters: int = 7) -> None:
    """Several chunks of rows and several shares of the filters, the last of each shorter than the others."""
    for name, size in (("CHUNK_ROWS_MAX", rows), ("CHUNK_ROWS_MIN", rows - 14), ("SHARE_FILTERS_MIN", filters)):
        patch.setattr(stage_truth, name, size)


def test_work_is_cut_into_enough_pieces_for_any_cluster() -> None:
    """Rows first, then filters; never into crumbs."""
    cut_grid, grid = stage_truth.cut_grid, stage_truth.Grid
    assert cut_grid(1_000_000, 10_000, 2) == grid(65536, 16, 1)
    assert cut_grid(1_000_000, 10_000, 128) == grid(16384, 62, 9)
    assert cut_grid(1_000_000_000, 10_000, 128) == grid(65536, 15259, 1)
    assert cut_grid(1250, 500, 128) == grid(16384, 1, 2)
    assert cut_grid(0, 0, 2) == grid(16384, 1, 1)


@pytest.mark.parametrize("partitions", [1, 2, 7, 62, 558])
def test_every_piece_has_a_partition_of_its_own(session: Session, partitions: int) -> None:
    """As Spark itself divides the keys."""
    keys = spread.spread_keys(partitions)
    frame = session.spark.createDataFrame(pa.table({"key": pa.array(keys, pa.int32())}))
    rows = frame.selectExpr("key", f"pmod(hash(key), {partitions}) as place").collect()
    assert {row.key: row.place for row in rows} == {key: place for place, key in enumerate(keys)}


def test_truth_fills_its_tasks(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece of the grid in each partition, and none without."""
    small_pieces(monkeypatch)
    rows = [(row, float(row)) for row in range(500)]
    notifications = session.spark.createDataFrame(rows, "row int, price double")
    filters = [f"price > {number}" for number in range(40)]
    subscribers = pa.table({"subscriber": pa.array(range(40), pa.int32()), "filter": filters})
    grid = stage_truth.cut_grid(500, 40, session.spark.sparkContext.defaultParallelism)
    assert (grid.chunks, grid.shares) == (8, 1)
    monkeypatch.setattr(stage_truth, "_TASKS_PER_CORE", 8)
    grid = stage_truth.cut_grid(500, 40, session.spark.sparkContext.defaultParallelism)
    assert (grid.chunks, grid.shares) == (10, 2)
    pieces = stage_truth._in_pieces(notifications.select("*", stage_truth._share_column(grid)), grid)
    assert pieces.rdd.getNumPartitions() == grid.tasks
    by_partition = pieces.selectExpr("spark_partition_id() as p", "row div 50 as chunk", "share").distinct().collect()
    assert len(by_partition) == len({row.p for row in by_partition}) == grid.tasks
    found = sorted((row.row, row.subscriber) for row in stage_truth.truth(notifications, subscribers, 500).collect())
    assert found == [(row, number) for row in range(500) for number in range(40) if row > number]


def one_by_one(workload: Any) -> list[tuple[int, int]]:
    """Every notification against every subscription that there ever is, by the definition of the language."""
    notifications = list(row_notifications(workload.notifications))
    filters = {number: subscription.filter for number, subscription in enumerate(workload.subscriptions)}
    later = enumerate(workload.changes, len(filters))
    filters |= {number: each.registration.filter for number, each in later if each.kind == "subscribe"}
    return [
        (row, number)
        for row, seen in enumerate(notifications)
        for number, filter in filters.items()
        if octopia.matches(filter, seen)
    ]


def test_truth_is_that_of_filters_asked_one_by_one(made: Made) -> None:
    out, _ = made
    truth = pq.read_table(out / "truth")
    assert truth.schema.types == [pa.int32(), pa.int32()]
    workload = workload_of(out)
    pairs = sorted(zip(truth["row"].to_pylist(), truth["subscriber"].to_pylist(), strict=True))
    assert pairs == one_by_one(workload)
    # what each subscription matches is what its row says
    counts = pa.table({"s": [number for _, number in pairs]}).group_by("s").aggregate([("s", "count")])
    shares = {row["s"]: row["s_count"] / workload.notifications.num_rows for row in counts.to_pylist()}
    subscribed = [*enumerate(workload.subscriptions)]
    later = enumerate(workload.changes, len(subscribed))
    subscribed += [(n, each.registration) for n, each in later if each.kind == "subscribe"]
    assert shares == {n: each.selectivity for n, each in subscribed if each.selectivity}


def test_truth_and_the_index_agree(session: Session, made_burst: Made) -> None:
    tmp_path, _ = made_burst
    read = session.spark.read.parquet
    subscriptions = read(str(tmp_path / "subscribers"))
    pairs = match(
        read(str(tmp_path / "notifications")), subscriptions, keys=["row"], id="subscriber", pair_id="subscriber"
    )
    truth = read(str(tmp_path / "truth"))
    assert truth.count() == pairs.count() > 0
    assert truth.exceptAll(pairs).count() == pairs.exceptAll(truth).count() == 0


def test_only_what_depends_on_a_setting_runs_again(session: Session, tmp_path: Path) -> None:
    """`run_pipeline` uses the running session, and a second call does nothing."""
    spec = PipelineSpec(QUOTES, settings(12, 40, 0.1, "symbols", 20, 4))
    told: list[Event] = []
    events = run_pipeline(tmp_path, spec, stages=DATA_STAGES, on_event=told.append)
    assert [event.stage for event in events] == DATA_STAGES
    assert [event.state for event in told] == ["started", "finished"] * 4
    again = run_pipeline(tmp_path, spec, stages=DATA_STAGES)
    assert [event.state for event in again] == ["skipped"] * 4
    with pytest.raises(octopia.InputError, match=r"no stage 'truht': there are .* \(did you mean truth\?\)"):
        run_pipeline(tmp_path, stages=["truht"])
    more = PipelineSpec(QUOTES, settings(12, 41, 0.1, "symbols", 20, 4))
    assert [(event.stage, event.state, event.because) for event in run(session, tmp_path, more)] == [
        ("quotes", "skipped", ""),
        ("notifications", "skipped", ""),
        ("workload", "finished", "parameters changed: subscribers"),
        ("truth", "finished", "inputs changed: changes, subscribers"),
    ]
    elsewhere = PipelineSpec(QUOTES, settings(12, 41, 0.1, "symbols", 20, 4, overlay="path:4"))
    assert [event.because for event in run(session, tmp_path, elsewhere)] == [
        "",
        "",
        "parameters changed: brokers, overlay",
        "inputs changed: changes, subscribers",
    ]


def test_what_the_workload_cannot_be_is_told(session: Session, tmp_path: Path) -> None:
    played = settings(2, 10, 0.02, "symbols", 2000, 1, burst_interested_share=0.5)
    few = PipelineSpec(QuotesSpec(seed=1, symbols=1, days=5), played, burst=True)
    with pytest.raises(octopia.InputError, match="the quotes have 1 symbols, at least 2 are needed"):
        run(session, tmp_path, few)


def test_tables_are_the_same_as_stored_without_spark(made_burst: Made) -> None:
    """Row by row: a program that reads the folder finds what `workload_tables` would have given it."""
    tmp_path, spec = made_burst
    for name, table in workload_tables(drawn(spec)).items():
        by = [(column, "ascending") for column in table.schema.names[:2]]
        assert pq.read_table(tmp_path / name).cast(table.schema).sort_by(by).equals(table.sort_by(by)), name
