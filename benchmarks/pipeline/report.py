"""The figures as tables, on the screen and as a page of the documentation."""

from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import Figures

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pipeline-figures.md"
_HEAD = """\
# Figures of the pipeline

Written by `python -m benchmarks pipeline`, which measures everything anew; parts of it:
`python -m benchmarks.pipeline --help`. The figures themselves are in `benchmarks/results/pipeline.json`. Seconds are on
the wall unless they are called CPU, which is that of all processes together: driver, JVM and Python workers. The
machine has two cores, so a second one cannot give more than 2 ×, and what the JVM does beside the tasks (compiling,
collecting garbage) runs on it already with `local[1]`. Small tables gain nothing from it: starting tasks is all they
do. The workload is drawn by the driver, and measuring the selectivity of its filters is most of that; a second core
does not help there. A simulation is one task: a sweep of several uses all cores, one of them does not.

"""


def show(figures: dict[str, Any]) -> None:
    """All parts that were measured, on the screen."""
    tables.show(_tables(figures))


def write(figures: dict[str, Any]) -> None:
    """The page."""
    PAGE.write_text(_HEAD + tables.markdown(_tables(figures)), encoding="utf-8")


def _tables(figures: dict[str, Any]) -> list[Figures]:
    found = []
    if "start" in figures:
        rows = [[name.removesuffix("_s").replace("_", " "), f"{value:.2f}"] for name, value in figures["start"].items()]
        found.append(Figures("Start of a session, seconds", ["", "s"], rows))
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
    if "traces" in figures:
        found.append(_stages("Traces of the paper's burst, rows of all their tables", "rows", figures["traces"]))
    return found


def _join_rows(case: dict[str, Any]) -> list[list[str]]:
    rows = []
    for system in ("octopia", "sql join", "identity"):
        one = case[system]
        times = one["per_cpu_s"] / case["sql join"]["per_cpu_s"]
        label = f"{case['subscriptions']:,} {case['kind']}" if system == "octopia" else ""
        counts = [f"{one.get('rows', case['rows']):,}", f"{case['pairs']:,}" if system == "octopia" else ""]
        rows.append([label, *counts, system, f"{one['per_s']:,.0f}", f"{one['per_cpu_s']:,.0f}", f"{times:,.1f} ×"])
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
