"""What it costs the peers to keep subscriptions: add, remove, memory, and overlap, beside the matcher's own figures.

Each peer does what its users would do for one subscription at a time. DuckDB: prepared statements
in one transaction on a table with a key. Polars, whose frames do not change: a frame with one line more or less. Plain
Python: a dictionary. Bulk loading, which the peers are better at, is in the tables of `compare` as `load_per_s`.
"""

import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.matching.measure import Cell, advertisements, best
from benchmarks.matching.peers import connect, split
from octopia.language import Conjunction, Filter, Operator, Value

DUCKDB_CHANGES = 1_000
POLARS_CHANGES = 100


def upkeep(cell: Cell) -> dict[str, dict[str, Any]]:
    """Figures by peer. Overlap is asked of workloads without patterns."""
    ((_, table),) = split(cell.workload.table, by_shape=False)
    return {"duckdb": _duckdb(table, cell), "polars": _polars(table, cell), "python": _python(cell)}


def _duckdb(table: pa.Table, cell: Cell) -> dict[str, Any]:
    db = connect()
    names = ", ".join(f"{field.name} {_SQL_TYPES[str(field.type)]}" for field in table.schema)
    db.execute(f"create table subscriptions ({names}, primary key (id))")
    db.register("loaded", table)
    db.execute("insert into subscriptions select * from loaded")
    db.unregister("loaded")
    (memory,) = db.execute("select sum(memory_usage_bytes) from duckdb_memory()").fetchall()[0]
    lines = [tuple(line.values()) for line in table.slice(0, DUCKDB_CHANGES).to_pylist()]
    fresh = [(table.num_rows + i, *line[1:]) for i, line in enumerate(lines)]
    insert = f"insert into subscriptions values ({', '.join('?' * table.num_columns)})"  # noqa: S608 - own names
    db.begin()
    add_s = best(lambda: [db.execute(insert, line) for line in fresh], 1)
    remove_s = best(lambda: [db.execute("delete from subscriptions where id = ?", line[:1]) for line in fresh], 1)
    db.commit()
    figures = {
        "add_per_s": len(fresh) / add_s,
        "remove_per_s": len(fresh) / remove_s,
        "bytes_per_subscription": memory / table.num_rows,
    }
    if _has_patterns(table):
        return figures
    where = " and ".join(_overlap_tests(table))
    query = f"select id from subscriptions where {where}"  # noqa: S608 - own names
    asked = [_question(advertisement) for advertisement in advertisements()]
    for one in asked:
        if "symbol" not in table.column_names:
            del one["symbol"]

    def ask() -> list[list[int]]:
        return [db.sql(query, params=one).to_arrow_table().column("id").to_pylist() for one in asked]

    _check(cell, ask())
    return figures | {"overlap_per_s": len(asked) / best(ask, 2)}


_SQL_TYPES = {"int64": "bigint", "double": "double", "string": "varchar", "bool": "boolean"}


def _has_patterns(table: pa.Table) -> bool:
    return bool({"prefix", "part", "other"} & set(table.column_names))


def _overlap_tests(table: pa.Table) -> list[str]:
    """The advertisements name every attribute, and restrict the symbol and the close alone."""
    tests = {
        "symbol": "(symbol is null or symbol = $symbol)",
        "close_low": "close_low <= $high",
        "close_high": "close_high >= $low",
    }
    return [test for name, test in tests.items() if name in table.column_names]


def _question(advertisement: Filter) -> dict[str, Value]:
    (conjunction,) = advertisement.conjunctions
    return {"symbol": _constant(conjunction, "symbol", Operator.EQ)} | _span(conjunction)


def _span(conjunction: Conjunction) -> dict[str, Value]:
    return {
        "low": _constant(conjunction, "close", Operator.GE),
        "high": _constant(conjunction, "close", Operator.LE),
    }


def _constant(conjunction: Conjunction, attribute: str, operator: Operator) -> Value:
    (found,) = (p.value for p in conjunction.by_attribute[attribute] if p.operator is operator)
    assert found is not None
    return found


def _check(cell: Cell, found: list[list[int]]) -> None:
    for advertisement, ids in zip(advertisements(), found, strict=True):
        assert sorted(ids) == sorted(cell.matcher.overlapping(advertisement)), "a peer's overlaps differ"


def _polars(table: pa.Table, cell: Cell) -> dict[str, Any]:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    lines = [frame.slice(i, 1) for i in range(POLARS_CHANGES)]
    figures: dict[str, Any] = {
        "add_per_s": len(lines) / best(lambda: [frame.vstack(line) for line in lines], 2),
        "remove_per_s": len(lines) / best(lambda: [frame.filter(pl.col("id") != i) for i in range(len(lines))], 2),
        "bytes_per_subscription": frame.estimated_size() / frame.height,
    }
    if _has_patterns(table):
        return figures
    asked = [_question(advertisement) for advertisement in advertisements()]

    def ask() -> list[list[int]]:
        return [frame.filter(*_polars_tests(table, one))["id"].to_list() for one in asked]

    _check(cell, ask())
    return figures | {"overlap_per_s": len(asked) / best(ask, 2)}


def _polars_tests(table: pa.Table, asked: dict[str, Value]) -> list[pl.Expr]:
    tests = {
        "symbol": pl.col("symbol").is_null() | (pl.col("symbol") == asked["symbol"]),
        "close_low": pl.col("close_low") <= asked["high"],
        "close_high": pl.col("close_high") >= asked["low"],
    }
    return [test for name, test in tests.items() if name in table.column_names]


def _python(cell: Cell) -> dict[str, Any]:
    ids, filters = cell.workload.ids, cell.workload.filters
    stored: dict[int, Filter] = {}

    def add() -> None:
        for id in ids:
            stored[id] = filters[id]

    order = np.random.default_rng(1).permutation(len(ids)).tolist()

    def remove() -> None:
        for id in order:
            del stored[id]

    add_s = best(add, 1)
    size = sys.getsizeof(stored)
    return {
        "add_per_s": len(ids) / add_s,
        "remove_per_s": len(ids) / best(remove, 1),
        "bytes_per_subscription": size / len(ids),
    }
