"""Metrics of several systems in one query, against those of each system alone."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.metrics import METRICS, Facts, run
from octopia.pipeline.grouped import SYSTEM, grouped
from octopia.trace import TABLES
from tests.metrics.traces import Trace, random_trace, write_trace

MS = 1_000_000


def without(trace: Trace, *clients: str) -> Trace:
    """As if these clients had another name."""
    renamed = [
        row | {"name": f"c{row['client']}" if row["name"] in clients else row["name"]} for row in trace["clients"]
    ]
    return trace | {"clients": renamed}


# Two that differ, one without a burst, one in which nothing was published, and one of nothing at all.
SYSTEMS: dict[str, tuple[Trace, Facts]] = {
    "one": (random_trace(1), Facts(publish_from_ns=700 * MS, publish_until_ns=5000 * MS, block_notifications=7)),
    "two": (random_trace(3), Facts(publish_from_ns=900 * MS, publish_until_ns=4000 * MS, delay_bound_ns=1990 * MS)),
    "no burst": (without(random_trace(2), "high-rate"), Facts(processor_base_ns=MS, client_delay_ns=2 * MS)),
    "quiet": ({name: rows for name, rows in random_trace(4).items() if name in ("brokers", "clients")}, Facts()),
    "nothing": ({}, Facts(window_ns=MS)),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for system, (trace, _) in SYSTEMS.items():
        folders[system] = tmp_path_factory.mktemp("trace")
        write_trace(folders[system], trace)
    return folders


def with_system(table: pa.Table, system: str) -> pa.Table:
    return table.append_column(SYSTEM, pa.array([system] * table.num_rows, pa.string()))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_every_metric_of_all_systems_at_once(traces: dict[str, Path]) -> None:
    alone = {system: run(folder, facts=SYSTEMS[system][1]) for system, folder in traces.items()}
    with duckdb.connect() as connection:
        for name in TABLES:
            parts = [with_system(pq.read_table(folder / f"{name}.parquet"), at) for at, folder in traces.items()]
            connection.register(name, pa.concat_tables(parts).unify_dictionaries())
        parts = [with_system(facts.table(), system) for system, (_, facts) in SYSTEMS.items()]
        connection.register("facts", pa.concat_tables(parts))
        for name, metric in METRICS.items():
            found = connection.sql(grouped(metric.sql)).to_arrow_table()
            assert found.column_names == [SYSTEM, *alone["one"][name].column_names], name
            expected = pa.concat_tables(
                [with_system(alone[system][name], system).select(found.column_names) for system in SYSTEMS],
                promote_options="permissive",
            )
            assert rows_of(found) == rows_of(expected), name


@pytest.mark.parametrize("text", ["SELECT 1 AS one", "SELECT (SELECT COUNT(*) FROM hops) AS number FROM facts"])
def test_what_cannot_be_grouped_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be grouped: SELECT"):
        grouped(text)
