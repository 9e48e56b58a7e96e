"""Stages simulate, audit, metrics and figures on a 3 × 3 overlay: against runs without Spark, and faults planted in
traces.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from octopia import metrics
from octopia.errors import InputError
from octopia.pipeline import PipelineError, Session, simulations, spark_errors, stage_figures
from octopia.pipeline.arrow import plain_schema
from octopia.pipeline.simulations import Order, run_order
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
from octopia.pipeline.stage_audit import INPUTS, audit_sql
from octopia.pipeline.stage_run import results_of_runs
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import HadoopStore, LocalStore
from octopia.pipeline.tasks import Task, TaskEnd, run_tasks
from octopia.pipeline.views import session_with
from octopia.pipeline.whole import STAGES, run_pipeline
from octopia.sim import RunSpec, load_model, load_run, simulate
from octopia.topology import Scot, parse_tree
from octopia.trace import TABLES
from octopia.workload import BurstSpec, WorkloadSpec, make_workload, synthetic_quotes

OVERLAY = Scot(parse_tree("path:3"), 3)
SYSTEMS = ("tid", "snr")
PLAYED: dict[str, Any] = {
    "overlay": "path:3",
    "clusters": 3,
    "publishers": 6,
    "subscribers": 30,
    "selectivity": 0.2,
    "shape": "mixed",
    "notifications_per_publisher": 5,
    "first_seed": 4,
    "burst_rate_per_minute": 60_000,
    "burst_notifications": 60,
    "burst_interested_share": 0.2,
    "block_notifications": 50,
}
WORKLOAD = make_workload(
    WorkloadSpec(6, 30, 0.2, "mixed", 5, seed=4), OVERLAY, synthetic_quotes(2, 12, 25), (BurstSpec(60_000, 60, 0.2),)
)


def spec_of(*systems: str, late_after_s: float | None = None, **changes: Any) -> PipelineSpec:
    played = pipeline_settings(systems=systems, **{**PLAYED, **changes})
    return PipelineSpec(QuotesSpec(seed=2, symbols=12, days=25), played, burst=True, late_after_s=late_after_s)


SPEC = spec_of(*SYSTEMS, late_after_s=100)


@pytest.fixture(scope="session")
def whole(session: Session, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """All stages except the last two, once; the results are read by many tests and changed by none."""
    out = tmp_path_factory.mktemp("whole") / "out"
    told: list[Event] = []
    run_pipeline(out, SPEC, stages=[stage.name for stage in STAGES[:-2]], on_event=told.append)
    return out, told


@pytest.fixture(scope="session")
def measured(whole: tuple[Path, list[Event]]) -> Path:
    """The last two stages, too."""
    events = run_pipeline(whole[0], SPEC)
    assert [event.state for event in events] == ["skipped"] * (len(STAGES) - 2) + ["finished"] * 2
    return whole[0]


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same runs without Spark."""
    top = tmp_path_factory.mktemp("traces")
    for system in SYSTEMS:
        simulate(WORKLOAD, OVERLAY, RunSpec(routing=system, model=load_model("paper"), seed=4), top / system, None)
    return {system: top / system for system in SYSTEMS}


def plain(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: [str(value) for value in row.values()])


def test_the_tables_of_the_traces_are_those_of_runs_without_spark(
    whole: tuple[Path, list[Event]], traces: dict[str, Path]
) -> None:
    for name in TABLES:
        expected = [
            {"system": system, **row}
            for system in SYSTEMS
            for row in pq.read_table(traces[system] / f"{name}.parquet").to_pylist()
        ]
        assert plain(pq.read_table(whole[0] / name)) == plain(pa.Table.from_pylist(expected)), name
    done = results_of_runs(pq.read_table(whole[0] / "runs"))
    assert [one.cell.system for one in done] == list(SYSTEMS)
    assert [one.run for one in done] == [load_run(traces[system]) for system in SYSTEMS]
    assert [finding for one in done for finding in one.findings if not finding.passed] == []


@pytest.fixture(scope="session")
def asked_of_spark(measured: Path, session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with traces that are too large for DuckDB by decree: the stage asks Spark, about all at once."""
    out = tmp_path_factory.mktemp("asked") / "out"
    shutil.copytree(measured, out, ignore=shutil.ignore_patterns("metrics", "series", "link_queues", "report"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("octopia.pipeline.stage_metrics.is_small", lambda run: False)
        Runner(LocalStore(out), SPEC, lambda: session, STAGES).run(["metrics"])
    return out


def test_measures_are_taken_by_the_simulation_and_again_when_definitions_change(
    measured: Path, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(measured.glob(".runs/*/metrics-*.parquet"))) == len(SYSTEMS)
    out = tmp_path / "out"
    shutil.copytree(measured, out)
    monkeypatch.setattr("octopia.pipeline.stage_metrics.measures_key", lambda: "other")
    monkeypatch.setattr("octopia.pipeline.stage_metrics._by_spark", lambda work, runs: dict.fromkeys(runs))
    Runner(LocalStore(out), SPEC, lambda: session, STAGES).run(["metrics"], force=True)
    assert len(list(out.glob(".runs/*/metrics-other.parquet"))) == len(SYSTEMS)
    for name in ("metrics", "series", "link_queues"):
        assert pq.read_table(out / name).equals(pq.read_table(measured / name)), name


def test_both_engines_give_the_same_tables(measured: Path, asked_of_spark: Path) -> None:
    for name, keys in (("metrics", 7), ("series", 7), ("link_queues", 3)):
        one, other = pq.read_table(measured / name), pq.read_table(asked_of_spark / name)
        assert one.schema.names == other.schema.names
        assert one.schema.types == other.schema.types
        rows, more = ([tuple(row.values()) for row in table.to_pylist()] for table in (one, other))
        assert sorted(map(str, (row[:keys] for row in rows))) == sorted(map(str, (row[:keys] for row in more)))
        numbers = {row[:-1]: row[-1] for row in rows}
        assert {row[:-1]: row[-1] for row in more} == pytest.approx(numbers, rel=1e-12), name


def test_the_metrics_are_those_of_duckdb(measured: Path, traces: dict[str, Path]) -> None:
    numbers = {
        (row["system"], row["metric"], row["part"]): row for row in pq.read_table(measured / "metrics").to_pylist()
    }
    series = pq.read_table(measured / "series").to_pylist()
    expected: dict[tuple[str, str, str], float | None] = {}
    for system, trace in traces.items():
        facts = metrics.facts_of(load_run(trace), block_notifications=50)
        tables = metrics.run(trace, facts=facts)
        expected |= {(system, name, part): value for name, part, value in metrics.values_of(tables)}
        for name, table in tables.items():
            if metrics.METRICS[name].shape == "series":
                mine = [row for row in series if row["system"] == system and row["metric"] == name]
                found = sorted((row["part"], row["at_s"], row["value"]) for row in mine)
                theirs = [(row["part"], row["at_s"], row["value"]) for row in table.to_pylist()]
                assert close(found, sorted(theirs)), name
    assert numbers.keys() == expected.keys()
    assert {key: row["value"] for key, row in numbers.items()} == pytest.approx(expected, rel=1e-9)
    units = {key[2]: row["unit"] for key, row in numbers.items() if key[1] == "notification_delay"}
    assert units == {"number": "count"} | dict.fromkeys(("mean", "p50", "p95", "p99", "maximum"), "s")
    links = pq.read_table(measured / "link_queues")
    assert links.filter(pc.equal(links["system"], "snr")).num_rows > 0


def close(found: list[Any], expected: list[Any]) -> bool:
    return [row[0] for row in found] == [row[0] for row in expected] and [
        number for row in found for number in row[1:]
    ] == pytest.approx([number for row in expected for number in row[1:]], rel=1e-9)


def test_the_audit_passes_and_the_report_stands_alone(whole: tuple[Path, list[Event]], measured: Path) -> None:
    out, told = whole
    assert pq.read_table(out / "audit").num_rows == 0
    assert [event.notes for event in told if event.stage == "audit" and event.state == "finished"] == [
        ("the audit passed",)
    ]
    page = (out / "report" / "index.html").read_text(encoding="utf-8").replace("&nbsp;", " ")
    assert "Passed: no notification was lost, duplicated, unwanted or late (after more than 100 s)" in page
    assert "All checks passed in all 2 runs." in page
    assert page.count("<svg") == len(list((out / "report" / "figures").glob("*.svg"))) == 13
    assert len(list((out / "report" / "figures").glob("*.png"))) == 13
    body = page.partition("<body>\n")[2]
    assert re.match(r"<h1>(SNR|TID) delivers after [\d.]+ m?s on average; (SNR|TID) takes .*</h1>\n<figure", body)
    assert "`" not in body
    # a count is a count, whatever the unit of its metric
    assert re.search(r'<td>notification_delay number</td><td class="n">30</td>(<td class="n">[\d,]+</td>){2}', body)
    assert re.findall(r"<script|<link|<iframe|<img|<object|@import|\bsrc=", page) == []
    rows = dict(re.findall(r'<tr><td>(\w+)</td><td>\w+</td><td class="n">([\d,]+)</td>', page))
    assert rows["deliveries"] == f"{pq.read_table(out / 'deliveries').num_rows:,}"


def test_a_run_that_the_audit_finds_fault_with_has_broken_a_promise(whole: tuple[Path, list[Event]]) -> None:
    """Only the audit looks at deliveries, so the page must take its word for it."""
    for one in results_of_runs(pq.read_table(whole[0] / "runs")):
        judged = stage_figures.with_audit(one, {("tid", "lost"): 3, ("tid", "late"): 1})
        rules = [(finding.rule, finding.cases) for finding in judged.broken]
        expected = [("every notification reaches every interested client", 3)]
        assert rules == (expected if one.cell.system == "tid" else [])
        assert len(judged.findings) == len(one.findings) + 3


def test_nothing_is_run_again_and_a_system_more_is_one_run_more(
    measured: Path, tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(measured, out)
    assert {event.state for event in run_pipeline(out, SPEC)} == {"skipped"}
    ran: list[str] = []

    def seen(*arguments: Any, **options: Any) -> Any:
        ran.extend(Path(task.name).name.partition("-")[0] for task in arguments[2])
        return run_tasks(*arguments, **options)

    monkeypatch.setattr(simulations, "run_tasks", seen)
    # The runs are known by what they follow from, wherever the folder is; their tables are those of its own place.
    spec = spec_of(*SYSTEMS, "idr")
    (event,) = Runner(LocalStore(out), spec, lambda: session, STAGES).run(["simulate"])
    assert ran == ["idr"]
    assert event.because == "parameters changed: systems"
    assert event.notes == ("2 of 3 runs were finished before",)
    assert pq.read_table(out / "runs")["system"].to_pylist().count("idr") == 1


# ---- faults planted in traces


def planted(out: Path, folder: Path, change: Callable[[pa.Table], pa.Table]) -> dict[str, str]:
    """The tables that an audit reads, the deliveries changed."""
    folder.mkdir()
    for name in INPUTS:
        table = pq.read_table(out / name)
        pq.write_table(change(table) if name == "deliveries" else table, folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in INPUTS}


def told(session: Session, urls: dict[str, str], late_after_s: float | None = None) -> list[tuple[Any, ...]]:
    """What Spark finds, which must be what DuckDB finds, to the type of each column."""
    text = audit_sql(late_after_s)
    with spark_errors("audit"):
        found = session_with(session.spark, urls).sql(text).toArrow()
    other = metrics.ask({name: pq.read_table(url) for name, url in urls.items()}, text)
    assert other.cast(found.schema).equals(found)
    assert plain_schema(other.schema).types == found.schema.types
    return [
        (row["system"], row["finding"], row["request"], row["client"], row["broker"], row["copies"])
        for row in found.to_pylist()
    ]


def names_of(out: Path, system: str) -> dict[int, tuple[str, int]]:
    rows = pq.read_table(out / "clients").to_pylist()
    return {row["client"]: (row["name"], row["broker"]) for row in rows if row["system"] == system}


def test_the_audit_finds_what_was_removed_doubled_and_added(
    whole: tuple[Path, list[Event]], session: Session, tmp_path: Path
) -> None:
    out = whole[0]
    first = pq.read_table(out / "deliveries").slice(0, 1).to_pylist()[0]
    name, broker = names_of(out, first["system"])[first["client"]]
    case = (first["system"], first["request"], name, broker)

    urls = planted(out, tmp_path / "lost", lambda table: table.slice(1))
    assert told(session, urls) == [(case[0], "lost", *case[1:], 0)]
    urls = planted(out, tmp_path / "doubled", lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    assert told(session, urls) == [(case[0], "duplicated", *case[1:], 2)]

    # to a client that is a publisher, and so wants nothing
    stranger = WORKLOAD.advertisements[0].client
    number, at = next(
        (client, place) for client, (who, place) in names_of(out, first["system"]).items() if who == stranger
    )
    row = {**first, "client": number, "broker": at}

    def add(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table, pa.Table.from_pylist([row], table.schema)])

    urls = planted(out, tmp_path / "added", add)
    assert told(session, urls) == [(case[0], "unwanted", first["request"], stranger, at, 1)]


def test_the_audit_finds_all_that_is_later_than_promised(
    whole: tuple[Path, list[Event]], session: Session, tmp_path: Path
) -> None:
    out = whole[0]
    issued = {(row["system"], row["request"]): row["issued_ns"] for row in pq.read_table(out / "requests").to_pylist()}
    deliveries = pq.read_table(out / "deliveries").to_pylist()
    delays = sorted(row["delivered_ns"] - issued[row["system"], row["request"]] for row in deliveries)
    bound_ns = delays[-5]
    late = sum(delay > bound_ns for delay in delays)
    urls = planted(out, tmp_path / "late", lambda table: table)
    found = told(session, urls, bound_ns / 1e9)
    assert (len(found), {row[1] for row in found}) == (late, {"late"})


# ---- tasks that fail, runs that are stopped


def odd_work(payload: bytes) -> bytes:
    """Fails as often as the payload says, counting in a file."""
    folder, _, rest = payload.decode().partition("|")
    name, _, fails = rest.partition("|")
    seen = Path(folder) / name
    count = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (count + 1))
    if name == "input":
        raise InputError("no such thing")
    if count < int(fails):
        raise RuntimeError(f"attempt {count + 1}")
    return name.encode()


def test_a_task_that_fails_is_tried_again_and_takes_no_other_with_it(session: Session, tmp_path: Path) -> None:
    tasks = [
        Task(name, f"{tmp_path}|{name}|{fails}".encode(), cost)
        for name, fails, cost in (("good", 0, 1), ("second", 1, 5), ("never", 9, 9), ("input", 9, 2))
    ]
    told: list[TaskEnd] = []
    ends = run_tasks(session, odd_work, tasks, retries=2, on_end=told.append)
    assert sorted(told, key=lambda end: end.name) == sorted(ends.values(), key=lambda end: end.name)
    assert ends == {
        "good": TaskEnd("good", b"good", "", 1),
        "second": TaskEnd("second", b"second", "", 2),
        "never": TaskEnd("never", None, "RuntimeError: attempt 3", 3),
        # invalid input stays invalid the next time
        "input": TaskEnd("input", None, "no such thing", 1, wrong_input=True),
    }
    assert {file.name: len(file.read_text()) for file in tmp_path.iterdir()} == {
        "good": 1, "second": 2, "never": 3, "input": 1,
    }  # fmt: skip


def dies_once(payload: bytes) -> bytes:
    """Its whole process is killed the first time."""
    import os
    import signal

    seen = Path(payload.decode())
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return b"lives"


def test_a_worker_that_is_killed_costs_one_attempt(session: Session, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    ends = run_tasks(session, dies_once, [Task("dies", str(seen).encode())], retries=1)
    assert ends["dies"] == TaskEnd("dies", b"lives", "", 2)


def test_a_sweep_that_was_stopped_goes_on_where_it_was(
    whole: tuple[Path, list[Event]], session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SNR's run cannot be finished, then the others are kept; then all is well, and only SNR is run."""
    out = tmp_path / "out"
    shutil.copytree(whole[0], out, ignore=shutil.ignore_patterns(".runs", "runs", *TABLES))

    def no_snr(payload: bytes) -> bytes:
        if msgspec.json.decode(payload, type=Order).cell.system == "snr":
            raise RuntimeError("the power went off")
        return run_order(payload)

    with monkeypatch.context() as patch:
        patch.setattr(simulations, "run_order", no_snr)
        with pytest.raises(
            PipelineError,
            match=r"1 of 2 runs failed, the others are kept: snr: RuntimeError: the power went off \(2 attempts\)",
        ):
            Runner(LocalStore(out), SPEC, lambda: session, STAGES).run(["simulate"])
    assert not (out / "runs").exists()
    kept = {file.parent.name: file.stat().st_mtime_ns for file in (out / ".runs").glob("*/result.json")}
    assert sorted(name.partition("-")[0] for name in kept) == ["tid"]
    (event,) = Runner(LocalStore(out), SPEC, lambda: session, STAGES).run(["simulate"])
    assert event.notes == ("1 of 2 runs were finished before",)
    now = {file.parent.name: file.stat().st_mtime_ns for file in (out / ".runs").glob("*/result.json")}
    assert len(now) == 2
    assert {name: now[name] for name in kept} == kept


def test_a_folder_as_an_address(whole: tuple[Path, list[Event]], session: Session, tmp_path: Path) -> None:
    """Workers read and write it through Arrow's file systems."""
    out = tmp_path / "out"
    shutil.copytree(whole[0], out, ignore=shutil.ignore_patterns(".runs", "hops", "runs"))
    store = HadoopStore(f"file://{out}", lambda: session.spark)
    (event,) = Runner(store, spec_of("snr"), lambda: session, STAGES).run(["simulate"])
    hops = pq.read_table(whole[0] / "hops")
    assert event.rows["hops"] == hops.filter(pc.equal(hops["system"], "snr")).num_rows


def test_the_queries_of_the_page_run_and_the_page_names_every_table_and_column(
    measured: Path, session: Session
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    described = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", page.partition("## Tables")[2], re.MULTILINE))
    tables = [table for stage in STAGES for table in stage.outputs if table != "figures"]
    assert list(described) == tables
    for table in set(tables) - {"runs", "notifications"}:
        assert re.findall(r"`(\w+)`", described[table]) == pq.read_table(measured / table).column_names, table
    queries = re.findall(r"^```text\n(SELECT .*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(queries) == 3
    own = session_with(session.spark, {name: str(measured / name) for name in tables})
    for query in queries:
        assert own.sql(query).count() > 0, query


def test_the_example_of_matching_on_the_page_runs(
    measured: Path, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```text\n(from octopia.spark .*?)^```$", page, re.MULTILINE | re.DOTALL)
    opened = 'with open_session(SparkSettings(master="local[*]")) as session:'
    assert opened in example
    # there is one session already, and a process has no room for two
    exec(example.replace(opened, "if True:").replace("DIR", str(measured)), {"session": session})  # noqa: S102
    assert capsys.readouterr().out.splitlines()[1] == "|row|subscription|"
