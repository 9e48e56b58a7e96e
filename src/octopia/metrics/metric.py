"""What a metric is: a name, a unit, a definition in words, and the one SQL text that computes it.

Rules of this file and of all that build metrics: a text reads the tables of `octopia.trace` by their names, and
`facts`, the one row of `facts.py`; it is run unchanged by DuckDB and by Spark SQL, so it uses what both know and mean
alike: plain joins, `GROUP BY`, windows, `/` for true division. No column whose name
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


_CENTILES = (("p50", "0.5e0"), ("p95", "0.95e0"), ("p99", "0.99e0"))


def spread(column: str, source: str, unit: str = "1e9") -> str:
    """The end of a text: how a whole-number column is spread, in units of so much; `source` may have a condition.

    Centiles are those of `percentile_cont`, between two values in proportion. Spark's own keeps every distinct value in
    the memory of one task, which ends at some millions; so values are put in order and numbered, which spills to disk,
    and the two around each wanted place are picked. The source is read once: Spark would work it out again for each
    name that a text gives it.
    """
    centiles = ",\n  ".join(
        f"({_value_at(f'FLOOR({place})')} + ({_value_at(f'CEIL({place})')} - {_value_at(f'FLOOR({place})')})\n"
        f"    * (MAX({place}) - FLOOR(MAX({place})))) / {unit} AS {name}"
        for name, place in ((name, f"((number - 1) * {share})") for name, share in _CENTILES)
    )
    return f"""\
, measured AS (
  SELECT {column} AS amount FROM {source}
), placed AS (
  SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) - 1 AS place, COUNT(*) OVER () AS number
  FROM measured
  WHERE amount IS NOT NULL
)
SELECT
  COUNT(amount) AS number,
  AVG(amount) / {unit} AS mean,
  {centiles},
  MAX(amount) / {unit} AS maximum
FROM placed"""  # noqa: S608


def _value_at(place: str) -> str:
    return f"MAX(CASE WHEN place = {place} THEN amount END)"
