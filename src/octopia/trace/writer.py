"""A trace on disk: one Parquet file per table, written batch by batch.

At most one batch of a table is in memory. A file gets its final name only when it is complete, so an existing
`hops.parquet` is always whole; a killed run leaves files that end in `.partial`. Equal batches give equal bytes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.trace.schema import OPTIONAL_TABLES, TABLES

ROWS_PER_BATCH: Final = 131_072
_PARTIAL: Final = ".partial"


class TraceWriter:
    """Writes the tables of one run into a folder. Use it as a context manager: leaving it completes the files."""

    def __init__(self, folder: Path, optional: Iterable[str] = ()) -> None:
        """`optional` names those of `OPTIONAL_TABLES` that this run has."""
        self.folder = folder
        self._tables = {**TABLES, **{name: OPTIONAL_TABLES[name] for name in optional}}
        self.rows = dict.fromkeys(self._tables, 0)
        folder.mkdir(parents=True, exist_ok=True)
        self._writers: dict[str, pq.ParquetWriter] = {}

    def write(self, table: str, columns: Mapping[str, Any]) -> None:
        """Append rows: for every column of the table an array or a list, all of one length."""
        schema = self._tables[table]
        arrays = [_as_array(columns[field.name], field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self.rows[table] += batch.num_rows
        self._writer(table).write_batch(batch)

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete all files, also after an error: rows written so far are facts."""
        for table in self._tables:
            self._writer(table).close()
            self._path(table, _PARTIAL).replace(self._path(table))

    def _writer(self, table: str) -> pq.ParquetWriter:
        if table not in self._writers:
            schema = self._tables[table]
            times = [field.name for field in schema if pa.types.is_int64(field.type)]
            self._writers[table] = pq.ParquetWriter(
                self._path(table, _PARTIAL),
                schema,
                compression="zstd",
                use_dictionary=[field.name for field in schema if field.name not in times],
                column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
                write_statistics=True,
            )
        return self._writers[table]

    def _path(self, table: str, ending: str = "") -> Path:
        return self.folder / f"{table}.parquet{ending}"


def _as_array(values: Any, wanted: pa.DataType) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(wanted)
    if pa.types.is_dictionary(wanted):
        # Arrow infers the dictionary from plain strings and then fits it to the declared width
        return pa.array(values, type=pa.string()).dictionary_encode().cast(wanted)
    return pa.array(values, type=wanted)
