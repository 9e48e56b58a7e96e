"""The result of a cell: its metrics, findings of the checkers, and series over time; and the tables of many.

Plain rows, so they can come from a folder, from another process or from a Spark table. `point` is text, since a point
may be a word; `x` is the same as a number, or null.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from octopia.experiments.cell import Cell
from octopia.sim import Finding, Run

METRICS_SCHEMA: Final = pa.schema(
    [
        pa.field("experiment", pa.string(), nullable=False),
        pa.field("system", pa.string(), nullable=False),
        pa.field("point", pa.string(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("seed", pa.int32(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
    ]
)
SERIES_SCHEMA: Final = pa.schema(
    [
        pa.field("experiment", pa.string(), nullable=False),
        pa.field("system", pa.string(), nullable=False),
        pa.field("point", pa.string(), nullable=False),
        pa.field("seed", pa.int32(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("at_s", pa.float64(), nullable=False),
        pa.field("value", pa.float64()),
    ]
)


# Places and values: seconds and a metric over time, or any other line of a plot.
Line = tuple[Sequence[float], Sequence[float]]
NO_LINE: Final[Line] = ((), ())


class MetricRow(Struct, frozen=True):
    """One number measured in one cell. `value` is None if the metric has none there."""

    experiment: str
    system: str
    point: str
    x: float | None
    seed: int
    metric: str
    part: str
    unit: str
    value: float | None


class Result(Struct, frozen=True, kw_only=True):
    """A finished cell. `selectivity` is measured: the mean share of notifications that a subscription matches."""

    cell: Cell
    rows: tuple[MetricRow, ...]
    findings: tuple[Finding, ...]
    selectivity: float
    run: Run

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Promises that the run broke."""
        return tuple(finding for finding in self.findings if not finding.passed)


def broken_promises(results: Iterable[Result]) -> list[tuple[Result, Finding]]:
    """The promises that runs broke, the gravest first: the findings of each run are in that order."""
    found = [(at, result, finding) for result in results for at, finding in enumerate(result.findings)]
    return [(result, finding) for _, result, finding in sorted(found, key=itemgetter(0)) if not finding.passed]


def lines_of(series: pa.Table, metric: str, part: str) -> dict[tuple[str, int, str], Line]:
    """A part of a metric over time, from series of many cells: by point, seed and system."""
    wanted = series.filter(pc.and_(pc.equal(series["metric"], metric), pc.equal(series["part"], part)))
    lines: dict[tuple[str, int, str], tuple[list[float], list[float]]] = {}
    columns = (wanted[name].to_pylist() for name in ("point", "seed", "system", "at_s", "value"))
    for point, seed, system, at, value in zip(*columns, strict=True):
        moments, values = lines.setdefault((point, seed, system), ([], []))
        moments.append(at)
        values.append(value)
    return dict(lines)


def metrics_table(rows: Iterable[MetricRow]) -> pa.Table:
    """The rows as one table."""
    listed = list(rows)
    columns = {name: [getattr(row, name) for row in listed] for name in METRICS_SCHEMA.names}
    return pa.table(columns, schema=METRICS_SCHEMA)


def rows_of_table(table: Any) -> list[MetricRow]:
    """Undo `metrics_table`."""
    return [MetricRow(**row) for row in table.select(METRICS_SCHEMA.names).to_pylist()]
