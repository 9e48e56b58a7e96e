"""Metrics of one run, computed by DuckDB over its Parquet files.

DuckDB is an extra and is imported on first use. It gets a bound on memory and threads, spills to its own temporary
folder, and installs nothing. Results are ordered, and equal traces give equal results, to the last digit. A missing
table of the trace is an error that names it.
"""

from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from octopia.errors import InputError
from octopia.extras import missing
from octopia.metrics.facts import Facts, facts_of
from octopia.metrics.metric import Metric
from octopia.metrics.registry import METRICS, metrics_named
from octopia.sim import load_run
from octopia.trace import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

MEMORY_MAX: Final = "1GB"
THREADS: Final = 1


class Value(NamedTuple):
    """One number of a metric: `part` says which (mean, p99, a kind of message). None if it has no value."""

    metric: str
    part: str
    value: float | None


def run(
    folder: Path,
    names: Iterable[str] | None = None,
    *,
    facts: Facts | None = None,
    memory_max: str = MEMORY_MAX,
    threads: int = THREADS,
) -> dict[str, pa.Table]:
    """The named metrics (all, unless told) of the run in a folder, each a table of its shape."""
    wanted = list(METRICS.values()) if names is None else metrics_named(names)
    known = facts if facts is not None else facts_of(load_run(folder))
    with _with_trace(folder, known, memory_max, threads) as connection:
        return {metric.name: _result(connection, metric) for metric in wanted}


def values_of(tables: dict[str, pa.Table]) -> list[Value]:
    """The numbers of all metrics among these that are numbers and not tables or series, in order."""
    found = []
    for name, table in tables.items():
        shape = METRICS[name].shape
        if shape == "row":
            found += [Value(name, part, _number(table.column(part)[0].as_py())) for part in table.column_names]
        elif shape == "parts":
            pairs = zip(table.column("part").to_pylist(), table.column("value").to_pylist(), strict=True)
            found += [Value(name, part, _number(value)) for part, value in pairs]
    return found


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def ask(tables: Mapping[str, pa.Table], sql: str, *, memory_max: str = MEMORY_MAX, threads: int = THREADS) -> pa.Table:
    """The answer to one query over tables in memory."""
    with _connected(memory_max, threads) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


@contextmanager
def _with_trace(folder: Path, facts: Facts, memory_max: str, threads: int) -> "Iterator[DuckDBPyConnection]":
    with _connected(memory_max, threads) as connection:
        import duckdb

        for table in TABLES:
            file = folder / f"{table}.parquet"
            try:
                # By name, not in SQL text: a path may contain any character.
                connection.read_parquet(str(file)).create_view(table)
            except duckdb.Error as error:
                raise InputError(f"{file}: cannot be read: {_first_line(error)}") from None
        connection.register("facts", facts.table())
        yield connection


@contextmanager
def _connected(memory_max: str, threads: int) -> "Iterator[DuckDBPyConnection]":
    try:
        import duckdb
    except ImportError:
        raise missing("duckdb", "metrics of a run") from None
    with TemporaryDirectory(prefix="octopia-metrics-") as spill:
        config: dict[str, Any] = {
            "memory_limit": memory_max,
            "threads": threads,
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            connection = duckdb.connect(config=config)
        except duckdb.Error as error:
            raise InputError(f"DuckDB does not take these settings: {_first_line(error)}") from None
        with connection:
            # Without a script, DuckDB believes that it runs interactively, and draws a progress bar.
            connection.execute("SET enable_progress_bar = false")
            yield connection


def _result(connection: "DuckDBPyConnection", metric: Metric) -> pa.Table:
    return connection.sql(metric.sql).to_arrow_table()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]
