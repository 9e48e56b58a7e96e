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


# Into how many parts of equal width a column is cut, to find its centiles.
_SLOTS = 4096
_CENTILES = (("p50", "0.5e0"), ("p95", "0.95e0"), ("p99", "0.99e0"))


def spread(column: str, source: str, unit: str = "1e9") -> str:
    """The end of a text: how a whole-number column is spread, in units of so much; `source` may have a condition.

    Centiles are those of `percentile_cont`, between two values in proportion. Spark's own keeps every distinct value in
    the memory of one task, which ends at some millions; so values are counted by slots, and only the slots that hold a
    wanted place are put in order.
    """
    shares = " UNION ALL ".join(f"SELECT '{name}' AS name, {share} AS share" for name, share in _CENTILES)
    centiles = ",\n  ".join(
        f"MAX(CASE WHEN name = '{name}' THEN centile END) / {unit} AS {name}" for name, _ in _CENTILES
    )
    return f"""\
, measured AS (
  SELECT {column} AS amount FROM {source}
), bounds AS (
  SELECT COUNT(amount) AS number, AVG(amount) AS mean, MIN(amount) AS lowest, MAX(amount) AS highest FROM measured
), cut AS (
  SELECT amount, CAST(FLOOR((amount - lowest) / ((highest - lowest) / {_SLOTS}e0 + 1)) AS BIGINT) AS slot
  FROM measured CROSS JOIN bounds
  WHERE amount IS NOT NULL
), slots AS (
  SELECT slot, COUNT(*) AS rows_in FROM cut GROUP BY slot
), before AS (
  SELECT slot, rows_in, SUM(rows_in) OVER (ORDER BY slot) - rows_in AS rows_before FROM slots
), wanted AS (
  SELECT name, (number - 1) * share AS place FROM bounds CROSS JOIN ({shares}) AS shares WHERE number > 0
), around AS (
  SELECT name, place, CAST(FLOOR(place) AS BIGINT) AS low, CAST(CEIL(place) AS BIGINT) AS high FROM wanted
), opened AS (
  SELECT DISTINCT before.slot, before.rows_before FROM before JOIN around
    ON before.rows_before <= around.high AND around.low < before.rows_before + before.rows_in
), ranked AS (
  SELECT cut.amount, opened.rows_before - 1 + ROW_NUMBER() OVER (PARTITION BY cut.slot ORDER BY cut.amount) AS place
  FROM cut JOIN opened ON opened.slot = cut.slot
), centiles AS (
  SELECT around.name, under.amount + (above.amount - under.amount) * (around.place - around.low) AS centile
  FROM around JOIN ranked AS under ON under.place = around.low JOIN ranked AS above ON above.place = around.high
)
SELECT
  MAX(number) AS number,
  MAX(mean) / {unit} AS mean,
  {centiles},
  MAX(highest) / {unit} AS maximum
FROM bounds LEFT JOIN centiles ON 1 = 1"""  # noqa: S608
