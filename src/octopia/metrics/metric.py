"""The definition of a metric: a name, a unit, a description, and the one SQL text that computes it.

In this file and in all that build metrics, a text reads the tables of `octopia.trace` by their names, and `facts`, the
one row of `facts.py`; it is run unchanged by DuckDB and by Spark SQL, so it uses only features with the same meaning in
both: plain joins, `GROUP BY`, windows, `/` for true division. No column whose name is a keyword (`row`, `left`,
`inner`), no quoting, no engine's own functions. Sums and means are taken over whole numbers, sums as `DECIMAL`, so no
result depends on how the rows are partitioned; times become seconds at the very end.

A text returns one of four shapes:

    row     one row, a column per part of the metric (mean, p50, …), each a number or null
    parts   columns `part` and `value`, for parts that the data name (kinds of message)
    series  columns `part`, `at_s` (seconds since the start of publishing) and `value`, in that order of time
    table   anything else, one row per thing that is measured (links)
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Shape: TypeAlias = Literal["row", "parts", "series", "table"]


# Parts with a unit of their own, whatever the metric measures, and those that count what takes seconds.
_PART_UNITS: Final = {"share": "share", "links": "links"}
_COUNTED: Final = "number"


class Metric(Struct, frozen=True, kw_only=True):
    """One metric. `unit_of` gives the unit of each part; `less_is_better` is None if neither is better.

    A metric without a text is not SQL over one trace: `octopia.experiments` judges it.
    """

    name: str
    title: str
    unit: str
    definition: str
    shape: Shape = "row"
    sql: str = ""
    less_is_better: bool | None = True

    def unit_of(self, part: str) -> str:
        """The unit of a part: of a delay in seconds, `number` is a count all the same."""
        if self.shape != "row":
            return self.unit
        return "count" if part == _COUNTED and self.unit == "s" else _PART_UNITS.get(part, self.unit)


# Of the values from one to e times as far from the least; 64-bit numbers have fewer than 3,000 buckets then.
_BUCKETS_PER_E: Final = 64
_CENTILES = (("p50", "0.5e0"), ("p95", "0.95e0"), ("p99", "0.99e0"))


def spread(column: str, source: str, unit: str = "1e9") -> str:
    """The end of a text: the distribution of a whole-number column, in a given unit; `source` may have a condition.

    Centiles are those of `percentile_cont`, between two values in proportion. Spark's own keeps every distinct value in
    the memory of one task, and a rank over all rows sorts them in one task. Here equal values are counted together, and
    the values put into some thousand buckets that are narrow near the least value and wider away from it; how many rows
    come before a bucket is a sum over buckets. Only the buckets that hold a wanted rank are sorted, each separately. So
    all that is large is shared out among tasks, and the answer is exact. Every step after `amounts` asks for both of
    its columns, so that Spark can use its shuffles again.
    """
    places = {name: f"((number - 1) * {share})" for name, share in _CENTILES}
    wanted = " OR ".join(
        f"({end}({place}) >= earlier AND {end}({place}) < earlier + held)"
        for place in places.values()
        for end in ("FLOOR", "CEIL")
    )
    values = ",\n    ".join(
        f"{_value_at(f'{end}({place})')} AS {name}_{end.lower()}"
        for name, place in places.items()
        for end in ("FLOOR", "CEIL")
    )
    centiles = ",\n  ".join(
        f"({name}_floor + ({name}_ceil - {name}_floor) * ({place} - FLOOR({place}))) / {unit} AS {name}"
        for name, place in places.items()
    )
    return f"""\
, measured AS (
  SELECT {column} AS amount FROM {source}
), amounts AS (
  SELECT amount, COUNT(*) AS times FROM measured WHERE amount IS NOT NULL GROUP BY amount
), totals AS (
  SELECT
    MIN(amount) AS least, MAX(amount) AS most, CAST(SUM(times) AS BIGINT) AS number,
    CAST(SUM(CAST(amount AS DECIMAL(18, 0)) * times) AS DOUBLE) AS total
  FROM amounts
), sorted AS (
  SELECT amount, times, CAST(FLOOR(LN(amount - least + 1) * {_BUCKETS_PER_E}) AS BIGINT) AS bucket
  FROM amounts CROSS JOIN totals
), buckets AS (
  SELECT bucket, CAST(SUM(times) AS BIGINT) AS held FROM sorted GROUP BY bucket
), counted AS (
  SELECT bucket, held, SUM(held) OVER (ORDER BY bucket) - held AS earlier FROM buckets
), chosen AS (
  SELECT bucket, earlier FROM counted CROSS JOIN totals WHERE {wanted}
), placed AS (
  SELECT
    sorted.amount, sorted.times,
    chosen.earlier + SUM(sorted.times) OVER (PARTITION BY sorted.bucket ORDER BY sorted.amount) AS until_place
  FROM sorted JOIN chosen ON chosen.bucket = sorted.bucket
), picked AS (
  SELECT
    {values}
  FROM placed CROSS JOIN totals
)
SELECT
  COALESCE(number, 0) AS number,
  total / number / {unit} AS mean,
  {centiles},
  most / {unit} AS maximum
FROM totals CROSS JOIN picked"""  # noqa: S608


def _value_at(place: str) -> str:
    return f"MAX(CASE WHEN until_place > {place} AND until_place - times <= {place} THEN amount END)"
