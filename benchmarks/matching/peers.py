"""The same question put to DuckDB, Polars and plain Python, on one core, as well as we know how to put it.

Subscriptions are sorted by *shape*: which conditions they have. A join per shape names its own conditions only, so that
the planners see equalities (hash join) and pairs of inequalities (range join); the alternative, one join over one table
with ±inf for absent bounds, is kept as `by_shape=False`, and the benchmark reports whichever was faster.

Answers are complete, as Arrow tables of (event, id), since that is what the matcher gives; the
events and the tables of subscriptions are in the peer's own form before the clock starts. One thread each.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # read by polars when it is imported, so before

from collections.abc import Iterator
from typing import Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from benchmarks.matching.workloads import NUMBERS, SOMETIMES_ABSENT, TEXTS, Table
from octopia.language import Filter, Notification, matches

Shape = tuple[str, ...]
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Peer(Protocol):
    """Events are given first, then `run` joins them, again and again."""

    def load(self, batch: pa.RecordBatch) -> None: ...

    def run(self) -> pa.Table: ...


class NotExpressible(Exception):  # noqa: N818 - a state of affairs, not an error
    """The peer cannot express this."""


def shapes(table: Table) -> dict[Shape, npt.NDArray[np.int64]]:
    """Rows by the conditions they have, each named by its column: `symbol`, `present`, `close_low`, …"""
    columns = conditions(table)
    names = list(columns)
    marks = np.zeros(len(table), dtype=np.int64)
    for bit, column in enumerate(columns.values()):
        marks |= column.astype(np.int64) << bit
    return {
        tuple(names[bit] for bit in range(len(names)) if mark >> bit & 1): np.flatnonzero(marks == mark)
        for mark in np.unique(marks).tolist()
    }


def conditions(table: Table) -> dict[str, npt.NDArray[np.bool_]]:
    """For each condition, which rows have it."""
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for name in TEXTS:
        found[name] = table.texts[name] != None  # noqa: E711
    found["present"] = table.present
    for name in NUMBERS:
        found[f"{name}_low"] = np.isfinite(table.lows[name])
        found[f"{name}_high"] = np.isfinite(table.highs[name])
    return {name: rows for name, rows in found.items() if rows.any()}


def optional(table: Table) -> set[str]:
    """The conditions that some rows have and others lack."""
    return {name for name, rows in conditions(table).items() if not rows.all()}


def column_of(table: Table, condition: str) -> pa.Array:
    """The column of a condition; without it, null for strings and false or ±inf for the others."""
    if condition in TEXTS:
        return pa.array(table.texts[condition], type=pa.string())
    if condition == "present":
        return pa.array(table.present)
    name, _, side = condition.rpartition("_")
    return pa.array((table.lows if side == "low" else table.highs)[name])


def split(table: Table, *, by_shape: bool) -> Iterator[tuple[Shape, pa.Table]]:
    """A table of `id` and its own conditions for each shape, or one table of all conditions."""
    whole = {tuple(conditions(table)): np.arange(len(table))}
    for shape, rows in (shapes(table) if by_shape else whole).items():
        part = table.pick(rows)
        columns = {"id": pa.array(rows), **{condition: column_of(part, condition) for condition in shape}}
        yield shape, pa.table(columns)


# -- DuckDB


class DuckDB:
    """One statement: the union of a join per shape, or one join."""

    def __init__(self, table: Table, *, by_shape: bool) -> None:
        self._db = connect()
        parts = []
        for number, (shape, part) in enumerate(split(table, by_shape=by_shape)):
            self._db.register("part", part)
            self._db.execute(f"create table subscriptions_{number} as select * from part")  # noqa: S608 - own names
            self._db.unregister("part")
            parts.append(join_sql(shape, f"subscriptions_{number}", set() if by_shape else optional(table)))
        self._sql = " union all ".join(parts)

    def load(self, batch: pa.RecordBatch) -> None:
        numbered = pa.Table.from_batches([batch]).append_column("event", pa.array(np.arange(batch.num_rows)))
        self._db.register("numbered", numbered)
        self._db.execute("create or replace table events as select * from numbered")
        self._db.unregister("numbered")

    def run(self) -> pa.Table:
        return self._db.sql(self._sql).to_arrow_table()


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that uses one core."""
    return duckdb.connect(config={"threads": 1})


def join_sql(shape: Shape, table: str, optional: set[str]) -> str:
    """The join of one table of subscriptions with the events; `optional` are the conditions that a row may lack."""
    tests = [_sql_test(condition, optional=condition in optional) for condition in shape]
    return f"select e.event, s.id from events e join {table} s on {' and '.join(tests)}"  # noqa: S608 - own names


_SQL_TEXTS = {
    "symbol": "e.class = 'STOCK' and e.symbol = s.symbol",
    "prefix": "e.class = 'STOCK' and starts_with(e.symbol, s.prefix)",
    "part": "contains(e.symbol, s.part)",
    "other": "e.symbol <> s.other",
}


def _sql_test(condition: str, *, optional: bool) -> str:
    if condition in TEXTS:
        test = _SQL_TEXTS[condition]
        return f"(s.{condition} is null or ({test}))" if optional else test
    if condition == "present":
        there = f"e.{SOMETIMES_ABSENT} is not null"
        return f"(not s.present or {there})" if optional else there
    name, _, side = condition.rpartition("_")
    test = f"e.{name} >= s.{condition}" if side == "low" else f"e.{name} <= s.{condition}"
    if optional and name == SOMETIMES_ABSENT:
        # an absent value satisfies no bound, and is not asked for where there is none
        return f"coalesce({test}, isinf(s.{condition}))"
    return test


# -- Polars


class Polars:
    """A lazy query: `join_where` per shape, or an equi-join on the symbol and a filter."""

    def __init__(self, table: Table, *, by_shape: bool) -> None:
        self._parts = []
        for shape, part in split(table, by_shape=by_shape):
            if any(condition in shape for condition in ("prefix", "part")):
                raise NotExpressible("join_where takes comparisons, no prefix or contains")
            if not by_shape and optional(table) & {"present", "other", "symbol"}:
                raise NotExpressible("join_where takes no condition that a row may lack")
            frame = pl.from_arrow(part)
            assert isinstance(frame, pl.DataFrame)
            self._parts.append((shape, frame.rename({name: f"s_{name}" for name in frame.columns})))
        self._query = pl.LazyFrame()

    def load(self, batch: pa.RecordBatch) -> None:
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        events = frame.with_columns(event=pl.int_range(pl.len(), dtype=pl.Int64)).lazy()
        self._query = pl.concat([_polars_join(events, shape, part.lazy()) for shape, part in self._parts])

    def run(self) -> pa.Table:
        return self._query.collect().to_arrow()


def _polars_join(events: pl.LazyFrame, shape: Shape, part: pl.LazyFrame) -> pl.LazyFrame:
    tests = [_polars_test(condition) for condition in shape if condition not in ("symbol", "present")]
    if "present" in shape:
        events = events.filter(pl.col(SOMETIMES_ABSENT).is_not_null())
    if "symbol" in shape:
        joined = events.filter(pl.col("class") == "STOCK").join(part, left_on="symbol", right_on="s_symbol")
        joined = joined.filter(*tests)
    else:
        joined = events.join_where(part, *tests)
    return joined.select("event", id="s_id")


def _polars_test(condition: str) -> pl.Expr:
    if condition == "other":
        return pl.col("symbol") != pl.col("s_other")
    name, _, side = condition.rpartition("_")
    bound = pl.col(f"s_{condition}")
    return pl.col(name).cast(pl.Float64) >= bound if side == "low" else pl.col(name).cast(pl.Float64) <= bound


# -- plain Python


def scan(filters: list[Filter], notifications: list[Notification]) -> list[tuple[int, int]]:
    """Every filter tested with `octopia.matches`: the work that the index avoids."""
    return [
        (event, id)
        for event, notification in enumerate(notifications)
        for id, filter in enumerate(filters)
        if matches(filter, notification)
    ]
