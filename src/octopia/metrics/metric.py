"""What a metric is: a name, a unit, a definition in words, and the one SQL text that computes it.

Rules of this file and of all that build metrics: a text reads the tables of `octopia.trace` by their names, and
`facts`, the one row of `facts.py`; it is run unchanged by DuckDB and by Spark SQL, so it uses what both know and mean
alike: plain joins, `GROUP BY`, windows, `percentile_cont(…) WITHIN GROUP`, `/` for true division. No column whose name
is a keyword (`row`, `left`, `inner`), no quoting, no engine's own functions. Sums and means are taken over whole
numbers, sums as `DECIMAL`, so that no result depends on how the rows were divided; times become seconds at the very
end.

A text answers in one of four shapes:

    row     one row, a column per part of the metric (mean, p50, …), each a number or null
    parts   columns `part` and `value`, for parts that the data name (kinds of message)
    series  columns `part`, `at_s` (seconds since the start of publishing) and `value`, in that order of time
    table   anything else, one row per thing that is measured (links)
"""

from typing import Literal, TypeAlias

from msgspec import Struct

Shape: TypeAlias = Literal["row", "parts", "series", "table"]


class Metric(Struct, frozen=True, kw_only=True):
    """One metric. `less_is_better` is None where neither is."""

    name: str
    title: str
    unit: str
    definition: str
    shape: Shape
    sql: str
    less_is_better: bool | None = True


def spread(column: str, unit: str = "1e9") -> str:
    """The columns that say how a whole-number column is spread, in units of so much."""
    centiles = ",\n  ".join(
        f"percentile_cont({share}) WITHIN GROUP (ORDER BY {column}) / {unit} AS {name}"
        for share, name in (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
    )
    return (
        f"  COUNT({column}) AS number,\n  AVG({column}) / {unit} AS mean,\n  {centiles},\n"
        f"  MAX({column}) / {unit} AS maximum"
    )
