"""The figures as tables on the screen."""

from typing import Any

from rich.console import Console
from rich.table import Table

Row = list[str]


def show(figures: dict[str, Any]) -> None:
    """All parts that were measured."""
    console = Console(width=140)
    for title, head, rows in _tables(figures):
        grid = Table(title=title)
        for number, column in enumerate(head):
            grid.add_column(column, justify="left" if number == 0 else "right")
        for row in rows:
            grid.add_row(*row)
        console.print(grid)


def _tables(figures: dict[str, Any]) -> list[tuple[str, Row, list[Row]]]:
    found = []
    if "start" in figures:
        rows = [[name.removesuffix("_s").replace("_", " "), f"{value:.2f}"] for name, value in figures["start"].items()]
        found.append(("Start of a session, seconds", ["", "s"], rows))
    if "joins" in figures:
        head = ["subscriptions", "rows", "pairs", "system", "rows/s", "rows/CPU s", "CPU against SQL"]
        found.append(("Matching on Spark", head, [row for case in figures["joins"] for row in _join_rows(case)]))
    if "stages" in figures:
        head = ["stage", "rows", "cores", "wall s", "CPU s", "per s", "per CPU s"]
        found.append(("Stages (truth in pairs tested)", head, [_stage_row(cell) for cell in figures["stages"]]))
    if "traces" in figures:
        head = ["stage", "rows of the trace", "cores", "wall s", "CPU s", "per s", "per CPU s"]
        found.append(("Traces of the paper's burst", head, [_stage_row(cell) for cell in figures["traces"]]))
    return found


def _join_rows(case: dict[str, Any]) -> list[Row]:
    rows = []
    for system in ("octopia", "sql join", "identity"):
        one = case[system]
        times = one["per_cpu_s"] / case["sql join"]["per_cpu_s"]
        label = f"{case['subscriptions']:,} {case['kind']}" if system == "octopia" else ""
        counts = [f"{one.get('rows', case['rows']):,}", f"{case['pairs']:,}" if system == "octopia" else ""]
        rows.append([label, *counts, system, f"{one['per_s']:,.0f}", f"{one['per_cpu_s']:,.0f}", f"{times:,.1f} ×"])
    return rows


def _stage_row(cell: dict[str, Any]) -> Row:
    seconds = [f"{cell['wall_s']:.1f}", f"{cell['cpu_s']:.1f}"]
    return [
        cell["stage"],
        f"{cell['rows']:,}",
        str(cell["cores"]),
        *seconds,
        *(f"{cell[key]:,.0f}" for key in ("per_s", "per_cpu_s")),
    ]
