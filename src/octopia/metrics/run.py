"""Metrics of one run, computed by DuckDB over its Parquet files.

Rules of this file: DuckDB is an extra and is imported when it is asked for. It gets a bound on memory and threads,
spills to a folder of its own that is gone afterwards, and installs nothing. Results are ordered, and equal traces give
equal results, to the last digit. A table of the trace that is not there is an error that names it.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from octopia.errors import InputError, OctopiaError
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
    """One number of a metric: `part` says which (mean, p99, a kind of message). None where there is none."""

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
    with _connected(folder, known, memory_max, threads) as connection:
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


@contextmanager
def _connected(folder: Path, facts: Facts, memory_max: str, threads: int) -> "Iterator[DuckDBPyConnection]":
    try:
        import duckdb
    except ImportError:
        raise OctopiaError("metrics of a run need DuckDB: pip install octopia[sim]") from None
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
            # In a process without a script of its own DuckDB takes itself to be asked by a person, and draws one.
            connection.execute("SET enable_progress_bar = false")
            for table in TABLES:
                file = folder / f"{table}.parquet"
                try:
                    # By name, not in SQL text: a path may hold anything.
                    connection.read_parquet(str(file)).create_view(table)
                except duckdb.Error as error:
                    raise InputError(f"{file}: cannot be read: {_first_line(error)}") from None
            connection.register("facts", facts.table())
            yield connection


def _result(connection: "DuckDBPyConnection", metric: Metric) -> pa.Table:
    return connection.sql(metric.sql).to_arrow_table()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]
