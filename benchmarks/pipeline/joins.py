"""`octopia.spark.match` beside joins in plain Spark SQL that give the same pairs.

Two kinds of subscriptions, both expressible in SQL: `symbol and range` (a symbol and an interval of the price: Spark
joins by hash on the symbol and tests the rest) and `ranges` (an interval of the price and one of the volume: Spark has
no index for that and tests every pair). `udf` is what a user writes first: a Python function that goes through the
subscriptions for every row, on as many rows as that takes some seconds for. `identity` sends the same columns to Python
and back, matching nothing: no operation in Python can be faster.

Every system answers with the number of pairs and a checksum over them, and all must agree. SQL gets
the filters as columns, parsed and typed, which costs it nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.pipeline.measure import best, rate, timed
from octopia.pipeline import Session, match
from octopia.workload import notifications_of, synthetic_quotes

ROUNDS = 2
# A join that tests every pair is given no more than this.
NESTED_PAIRS_MAX = 200_000_000
# And a function in Python no more than this.
UDF_PAIRS_MAX = 20_000_000


@dataclass(frozen=True)
class Case:
    """Subscriptions of one kind as filters and as columns, and the condition of the join."""

    kind: str
    table: pa.Table
    condition: str


def cases(notifications: pa.Table, count: int, seed: int) -> list[Case]:
    """Both kinds, cut from the notifications' own values."""
    random = np.random.default_rng(seed)
    close = np.sort(notifications["close"].to_numpy())
    volume = np.sort(notifications["volume"].to_numpy())
    symbols = notifications["symbol"].unique().to_pylist()
    width = len(close) // 2
    start = random.integers(0, len(close) - width, count)
    some = {"id": np.arange(count), "symbol": [symbols[n] for n in random.integers(0, len(symbols), count)]}
    by_symbol = some | {"close_from": close[start], "close_to": close[start + width - 1]}
    narrow = len(close) // 50
    at, too = random.integers(0, len(close) - narrow, count), random.integers(0, len(close) - narrow, count)
    ranges = {
        "id": np.arange(count),
        "close_from": close[at],
        "close_to": close[at + narrow - 1],
        "volume_from": volume[too],
        "volume_to": volume[too + narrow - 1],
    }
    between = "n.close between s.close_from and s.close_to"
    return [
        _case("symbol and range", by_symbol, "symbol = '{symbol}' and close between {close_from} and {close_to}",
              f"n.symbol = s.symbol and {between}"),
        _case("ranges", ranges,
              "close between {close_from} and {close_to} and volume between {volume_from} and {volume_to}",
              f"{between} and n.volume between s.volume_from and s.volume_to"),
    ]  # fmt: skip


def _case(kind: str, columns: dict[str, Any], form: str, condition: str) -> Case:
    table = pa.table(columns)
    texts = [form.format(**{name: _literal(value) for name, value in row.items()}) for row in table.to_pylist()]
    return Case(kind, table.append_column("filter", pa.array(texts)), condition)


def _literal(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def measure_joins(session: Session, rows: int, subscriptions: int, seed: int = 1) -> list[dict[str, Any]]:
    """Events per second of each system on each kind."""
    days = 2000
    made = notifications_of(synthetic_quotes(seed, max(1, rows // days), days))
    table = made.append_column("row", pa.array(np.arange(made.num_rows)))
    frame = session.spark.createDataFrame(table).repartition(8).persist()
    frame.count()
    found = [_measure_case(session, frame, made.num_rows, case) for case in cases(made, subscriptions, seed)]
    frame.unpersist()
    return found


def _measure_case(session: Session, frame: Any, rows: int, case: Case) -> dict[str, Any]:
    subscriptions = session.spark.createDataFrame(case.table).persist()
    subscriptions.count()
    pairs, compiled = timed(lambda: match(frame, subscriptions, keys=["row"]))
    answer, took = best(lambda: _answer(pairs), ROUNDS)
    figures: dict[str, Any] = {
        "kind": case.kind,
        "rows": rows,
        "subscriptions": case.table.num_rows,
        "pairs": answer[0],
        "compile_cpu_s": compiled.cpu_s,
        "octopia": _rates(rows, took),
        "identity": _rates(rows, best(lambda: _identity(frame), ROUNDS)[1]),
    }
    share = min(1.0, NESTED_PAIRS_MAX / (rows * case.table.num_rows)) if case.kind == "ranges" else 1.0
    some = frame if share == 1.0 else frame.where(f"row < {int(rows * share)}")
    joined = _joined(session, some, subscriptions, case.condition)
    sql, took = best(lambda: _answer(joined), 1)
    ours = answer if share == 1.0 else _answer(match(some, subscriptions, keys=["row"]))
    if sql != ours:
        raise AssertionError(f"{case.kind}: SQL gives {sql}, octopia {ours}")
    figures["sql join"] = _rates(int(rows * share), took) | {"rows": int(rows * share)}
    few = min(rows, max(1, UDF_PAIRS_MAX // case.table.num_rows))
    some = frame.where(f"row < {few}")
    by_udf = _by_udf(session, some, case.table)
    udf, took = best(lambda: _answer(by_udf), 1)
    if udf != (ours := _answer(match(some, subscriptions, keys=["row"]))):
        raise AssertionError(f"{case.kind}: the UDF gives {udf}, octopia {ours}")
    figures["udf"] = _rates(few, took) | {"rows": few}
    subscriptions.unpersist()
    return figures


def _joined(session: Session, frame: Any, subscriptions: Any, condition: str) -> Any:
    query = f"select /*+ broadcast(s) */ n.row, s.id as subscription from {{n}} n join {{s}} s on {condition}"  # noqa: S608
    return session.spark.sql(query, n=frame, s=subscriptions)


def _by_udf(session: Session, frame: Any, subscriptions: pa.Table) -> Any:
    """A function in Python that tests one row against all subscriptions."""
    from pyspark.sql import functions as fn

    wanted = session.spark.sparkContext.broadcast(subscriptions.drop_columns(["filter"]).to_pylist())

    def ids(symbol: str, close: float, volume: int) -> list[int]:
        return [
            one["id"]
            for one in wanted.value
            if one.get("symbol", symbol) == symbol
            and one["close_from"] <= close <= one["close_to"]
            and one.get("volume_from", volume) <= volume <= one.get("volume_to", volume)
        ]

    found = fn.udf(ids, "array<bigint>")("symbol", "close", "volume")
    return frame.select("row", fn.explode(found).alias("subscription"))


def _answer(pairs: Any) -> tuple[int, int]:
    row = pairs.selectExpr("count(*) as pairs", "sum(pmod(hash(row, cast(subscription as bigint)), 65536)) as total")
    found = row.collect()[0]
    return found.pairs, found.total


def _identity(frame: Any) -> int:
    same: Callable[[Any], Any] = lambda batches: batches  # noqa: E731
    needed = frame.select("row", "symbol", "close", "volume")
    return int(needed.mapInArrow(same, needed.schema).selectExpr("sum(row)").collect()[0][0])


def _rates(rows: int, took: Any) -> dict[str, float]:
    return {"per_s": rate(rows, took.wall_s), "per_cpu_s": rate(rows, took.cpu_s), **took._asdict()}
