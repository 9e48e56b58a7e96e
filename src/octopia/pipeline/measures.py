"""The metrics of one run, computed by DuckDB next to the trace, in the task that simulated it.

Spark SQL runs the same queries (`stage_metrics.py`), but each takes about a second before it reads a row, and there are
some forty of them for each system. DuckDB processes 1.7 million rows of a trace a second on one core, so up to
`DUCKDB_ROWS_MAX` rows it adds less to the task than the simulation took; beyond that, many machines are faster than one
core. Results are kept beside the trace under a key of everything they depend on, so changing a definition takes seconds
and not another simulation.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from octopia import metrics
from octopia.errors import InputError
from octopia.experiments import (
    METRICS_SCHEMA,
    SERIES_SCHEMA,
    Cell,
    Result,
    facts_of_cell,
    metric_rows,
    metrics_table,
    series_table,
)
from octopia.pipeline.manifest import code_version, digest, library_version
from octopia.pipeline.tasks import task_scratch
from octopia.pipeline.worker_files import copy_from, copy_to, read_arrow
from octopia.sim import Run
from octopia.trace import TABLES

DUCKDB_ROWS_MAX: Final = 30_000_000
# A metric with a table of its own: one row per system and link.
LINKS: Final = "link_queues"
LINKS_SCHEMA: Final = pa.schema(
    [
        pa.field("system", pa.string()),
        *(pa.field(name, pa.int32()) for name in ("sender", "receiver")),
        pa.field("messages", pa.int64()),
        pa.field("mean_queue", pa.float64()),
        pa.field("longest", pa.int32()),
    ]
)
CODE: Final = ("octopia.metrics", "octopia.experiments.run_cell", "octopia.pipeline.measures")
_SCHEMAS: Final = {"metrics": METRICS_SCHEMA, "series": SERIES_SCHEMA, LINKS: LINKS_SCHEMA}


class Measures(NamedTuple):
    """All measurements of one run."""

    metrics: pa.Table
    series: pa.Table
    links: pa.Table


def measures_key() -> str:
    """A digest of what measures depend on besides the trace; part of their files' names."""
    return digest([code_version(CODE), library_version("duckdb")])[:16]


def files_of(key: str) -> dict[str, str]:
    """The file of each table."""
    return {name: f"{name}-{key}.parquet" for name in _SCHEMAS}


def is_small(run: Run) -> bool:
    """Whether a trace is small enough for DuckDB."""
    return sum(run.rows.values()) <= DUCKDB_ROWS_MAX


def has_duckdb() -> bool:
    """DuckDB is an extra, which a cluster's workers may not have."""
    return find_spec("duckdb") is not None


def measures_of(cell: Cell, tables: dict[str, pa.Table]) -> Measures:
    """The answers to all metrics, from either engine, as rows of the pipeline's tables."""
    links = tables[LINKS]
    system = pa.array([cell.system] * links.num_rows, pa.string())
    return Measures(
        metrics_table(metric_rows(cell, tables)),
        series_table(cell, tables),
        links.add_column(0, "system", system).cast(LINKS_SCHEMA),
    )


def measure(trace: Path, result: Result, key: str) -> None:
    """Write the files of a run's measures into the folder of its trace."""
    found = measures_of(result.cell, metrics.run(trace, facts=facts_of_cell(result)))
    for file, table in zip(files_of(key).values(), found, strict=True):
        pq.write_table(table, trace / file, compression="zstd")


def read_measures(place: str, folder: str, key: str) -> Measures:
    """Read what `measure` wrote, from the store."""
    files = files_of(key)
    return Measures(*(read_arrow(place, f"{folder}/{files[name]}").cast(schema) for name, schema in _SCHEMAS.items()))


class MeasureOrder(msgspec.Struct, frozen=True):
    """A run whose trace is kept in a folder of a place, and the key of its measures."""

    place: str
    folder: str
    result: Result
    key: str


def measure_order(payload: bytes) -> bytes:
    """In a worker: measure an earlier run from its kept trace."""
    if not has_duckdb():
        raise InputError("this worker has no DuckDB")
    order = msgspec.json.decode(payload, type=MeasureOrder)
    with task_scratch(), tempfile.TemporaryDirectory(prefix="octopia-metrics-") as scratch:
        trace, made = Path(scratch) / "trace", Path(scratch) / "made"
        made.mkdir()
        copy_from(order.place, order.folder, [f"{table}.parquet" for table in TABLES], trace)
        measure(trace, order.result, order.key)
        for file in files_of(order.key).values():
            (trace / file).rename(made / file)
        copy_to(made, order.place, order.folder, "")
    return order.folder.encode()
