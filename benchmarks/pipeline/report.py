"""The figures as tables, on the screen and as a page of the documentation."""

import json
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import Figures

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pipeline-figures.md"
RESULTS = Path(__file__).parents[1] / "results" / "pipeline.json"
_HEAD = """\
# Figures of the pipeline

This page is written by `python -m benchmarks pipeline`, which measures everything again;
`python -m benchmarks.pipeline --help` lists its parts. The figures are also in
`benchmarks/results/pipeline.json`. Seconds are wall time unless they are called CPU: the time of all
processes together, which are the driver, the JVM and the Python workers.

Tables may come from different runs, on a machine that was more or less busy, so compare figures only
within a table, and CPU rather than wall time. The machine has two cores. A second core therefore
gives at most 2 ×, and the JVM already uses it with `local[1]` for compilation and garbage
collection. Small tables do not gain from it, because they spend their time starting tasks. A
simulation is one task: a sweep of several uses all cores, a single one does not.

"""
_TAIL = """
## At a hundred times the size

This follows from Spark's plans (`explain`, with large tables where the traces are large) and from how
the work is divided, stage by stage:

- `quotes`: plain CSV is split into parts of 32 MB, so 100 × the data means 100 × the tasks; a gzip
  file stays one task. Then there is one shuffle by ranges of symbol and date. The driver holds one
  row per file.
- `notifications`: one shuffle by symbol, and a broadcast table with one row per published symbol.
  One task sorts the quotes of a symbol: more symbols mean more tasks, more days of one symbol do
  not.
- `workload`: drawn in one task, at about 120 bytes per notification. As for a simulation, more than
  50 million notifications are refused. Counting the matches of its filters is divided like `truth`.
- `truth`: pieces of 16,384 to 65,536 rows × at least 200 filters, each in its own partition.
  1,000,000 rows × 10,000 filters on 128 cores are 558 tasks; with 100 × the rows there are 1,526
  tasks, no longer divided by filters. Rows are sent once for each share of the filters: up to nine
  times there, once at 100 ×. All filters go to every worker.
- `simulate`: one task per run, whatever its size. More cores serve more systems, points and seeds,
  not a larger run.
- `audit` by Spark SQL: eleven shuffles by hash, all of them by at least the row or the request, and
  one by ranges, for the order of the findings. Nothing runs in a single partition. `hops`,
  `deliveries` and `truth` are read once, `requests` three times with different columns. The wanted
  and the received pairs are joined twice, from reused shuffles: for the findings, and for the
  requests whose hops are counted. Clients, brokers and subscribers are broadcast. What does not scale
  is a run that went wrong: the requests of all findings are broadcast, too. Up to 3 million rows,
  DuckDB runs the audit on the driver.
- `audit` where registrations change: 44 shuffles by hash, 14 of them used again; `requests` is read
  twelve times and `hops` five times. The registrations of a system, but not its notifications, are
  put in order by one task.
- `metrics` by Spark SQL: one query per metric for all systems, so 39 queries, and 183, 182 and 180
  Spark jobs for one, two and five systems. Delays read `deliveries` and `requests` once and shuffle
  them by request; `hops` is read once, or up to five times for the queues of the bursts. Shuffles by
  system alone come after aggregation: a row per task, a row per second, or a row per bucket of a
  percentile, of which a system has fewer than 3,000. The tables with a row per system are broadcast.
  A percentile counts equal values first, and only the few buckets that hold a wanted rank are sorted,
  each by one task: at 100 × they have 100 × the rows. Up to 30 million rows of a trace, DuckDB
  computes the metrics in the task of the simulation; 100 × the paper's burst goes to Spark.
"""


def show(figures: dict[str, Any]) -> None:
    """All parts that were measured, on the screen."""
    tables.show(_tables(figures))


def keep(figures: dict[str, Any]) -> None:
    """Put some parts in the place of those that are kept, and write the page anew."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    kept["figures"] |= figures
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write(kept["figures"])


def write(figures: dict[str, Any]) -> None:
    """The page."""
    # what a reader must know of parts that are older than the code; a full run has none
    note = f"{figures['note']}\n\n" if figures.get("note") else ""
    PAGE.write_text(_HEAD + note + tables.markdown(_tables(figures)) + _TAIL, encoding="utf-8")


def _tables(figures: dict[str, Any]) -> list[Figures]:
    found = []
    if "start" in figures:
        rows = [[name.removesuffix("_s").replace("_", " "), f"{value:.2f}"] for name, value in figures["start"].items()]
        found.append(Figures("Start of a session, seconds", ["", "s"], rows))
    if "demo" in figures:
        rows = [[name, f"{value:.1f}"] for name, value in figures["demo"].items()]
        found.append(Figures("The demo after set-up, seconds", ["", "s"], rows))
    if "joins" in figures:
        head = ["subscriptions", "rows", "pairs", "system", "rows/s", "rows/CPU s", "CPU against SQL"]
        rows = [row for case in figures["joins"] for row in _join_rows(case)]
        found.append(Figures("Matching on Spark, beside joins in Spark SQL", head, rows))
    if "stages" in figures:
        cells = figures["stages"]
        title = (
            f"Stages before a simulation (truth: pairs of a row and one of {cells[0]['subscribers']:,} subscriptions)"
        )
        found.append(_stages(title, "rows", cells))
    if "cluster" in figures:
        cells = figures["cluster"]
        title = (
            f"A standalone cluster, {cells[0]['rows']:,} quotes, {cells[0]['subscribers']:,} subscriptions: "
            "the largest of Spark's stages in each of ours"
        )
        head = ["stage", "workers", "s", "CPU s", "tasks", "longest task s", "skew", "workers busy", "busiest has"]
        found.append(Figures(title, head, [_cluster_row(cell) for cell in cells]))
    if "traces" in figures:
        found.append(_stages("Traces of the paper's burst, rows of all their tables", "rows", figures["traces"]))
    if "streams" in figures:
        head = [
            "killed",
            "published",
            "came",
            "missing",
            "again, same id",
            "repeated",
            "restarts",
            "rows/s",
            "median s",
            "p99 s",
        ]
        rows = [_stream_row(one) for one in figures["streams"]]
        found.append(Figures("Broker to Spark to broker, with parts of it killed", head, rows))
    if "recording" in figures:
        rows = [
            [f"{one['share']:.0%}", f"{one['cpu_us']:.1f}", f"{one['ratio']:.2f} ×", f"{one['bytes_per_row']:,.0f}"]
            for one in figures["recording"]
        ]
        title = "Recording on two brokers: CPU per notification of brokers and clients together"
        found.append(Figures(title, ["share recorded", "µs", "against none", "bytes on disk"], rows))
    if "increments" in figures:
        found.append(_increments(figures["increments"]))
    if "plans" in figures:
        head = ["workload", "routing", "proposal", "messages", "mean delay", "verdict", "plan s", "plan CPU s"]
        rows = [_plan_row(one) for one in figures["plans"]]
        found.append(Figures("Plans: replays of the proposals against what is there", head, rows))
    return found


def _increments(one: dict[str, Any]) -> Figures:
    added, whole = one["added"], one["whole"]
    rows = [
        [name, f"{took['wall_s']:.1f}", f"{took['cpu_s']:.1f}", f"{took['cpu_s'] / whole['cpu_s']:.2f} ×"]
        for name, took in (("one more file", added), ("all files", whole))
    ]
    title = f"Quotes of one day more: {one['rows']:,} rows in {one['files']} files"
    return Figures(title, ["read", "s", "CPU s", "CPU against all files"], rows)


def _plan_row(one: dict[str, Any]) -> list[str]:
    verdict = "recommended" if one["recommended"] else "rejected" if one["rejected"] else ""
    changes = ["" if one[name] is None else f"{one[name]:+.0%}" for name in ("messages", "delay")]
    times = [f"{one['plan_wall_s']:.1f}", f"{one['plan_cpu_s']:.1f}"]
    return [one.get("workload", "demo"), one["system"].upper(), one["proposal"], *changes, verdict, *times]


def _cluster_row(cell: dict[str, Any]) -> list[str]:
    return [
        cell["stage"],
        f"{cell['workers']}",
        f"{cell['wall_s']:,.1f}",
        f"{cell['cpu_s']:,.1f}",
        f"{cell['tasks']:,}",
        f"{cell['longest_task_s']:,.2f}",
        f"{cell['skew']:.1f} ×",
        f"{cell['executors']}",
        f"{cell['busiest_executor_share']:.0%}",
    ]


def _stream_row(one: dict[str, Any]) -> list[str]:
    counts = [f"{one[name]:,}" for name in ("published", "came", "missing", "again", "repeated", "restarts")]
    times = ["" if one[name] is None else f"{one[name]:.2f}" for name in ("median_s", "p99_s")]
    return [one["kill"], *counts, f"{one['rows_per_s']:,.0f}", *times]


def _join_rows(case: dict[str, Any]) -> list[list[str]]:
    rows = []
    for system in (name for name in ("octopia", "sql join", "udf", "identity") if name in case):
        one = case[system]
        times = one["per_cpu_s"] / case["sql join"]["per_cpu_s"]
        label = f"{case['subscriptions']:,} {case['kind']}" if system == "octopia" else ""
        counts = [f"{one.get('rows', case['rows']):,}", f"{case['pairs']:,}" if system == "octopia" else ""]
        ratio = f"{times:,.1f} ×" if times >= 1 else f"1/{1 / times:,.0f}"
        rows.append([label, *counts, system, f"{one['per_s']:,.0f}", f"{one['per_cpu_s']:,.0f}", ratio])
    return rows


def _stages(title: str, unit: str, cells: list[dict[str, Any]]) -> Figures:
    """A row per stage and size, all numbers of cores in it."""
    cores = sorted({cell["cores"] for cell in cells})
    by_place: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
    for cell in cells:
        by_place.setdefault((cell["stage"], cell["rows"]), {})[cell["cores"]] = cell
    head = ["stage", unit, *(f"s, {count} core{'s' * (count > 1)}" for count in cores), "speed-up", "CPU s", "per s"]
    rows = []
    for (stage, size), found in by_place.items():
        walls = [found[count]["wall_s"] if count in found else None for count in cores]
        best = found[max(found)]
        gain = f"{walls[0] / walls[-1]:.2f} ×" if walls[0] and walls[-1] and len(walls) > 1 else ""
        shown = [f"{wall:,.1f}" if wall is not None else "" for wall in walls]
        rows.append(
            [
                stage,
                f"{size:,}",
                *shown,
                gain,
                f"{best['cpu_s']:,.1f}" if "cpu_s" in best else "",
                f"{best['per_s']:,.0f}",
            ]
        )
    return Figures(title, head, rows)
