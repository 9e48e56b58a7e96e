"""Parcels to record batches, with a schema or with the columns and types that the notifications themselves have."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import InputError
from octopia.hints import shortened
from octopia.wire.arrow.cells import Cells, ReadCells, fitted, natural
from octopia.wire.arrow.fitting import fit_of
from octopia.wire.arrow.kernels import kernels
from octopia.wire.delivered import Deliveries
from octopia.wire.parcel import read_parcel

PUBLISHER: Final = "_publisher"
ID: Final = "_id"
UNFIT: Final = ("error", "null")
# Room for the values of one kernel call; further rows are read by the next call.
CELLS_MAX: Final = 1 << 21
NAMES_MAX: Final = 4096
_NAME_BYTES: Final = 64 * 1024
_HOW: Final = "use string, bool, an integer, a float or a decimal type"


class Seen(NamedTuple):
    """Notifications column by column: attributes by name, publishers, numbers."""

    columns: dict[str, Cells]
    publishers: Cells
    sequences: npt.NDArray[np.int64]


def cells_of_parcels(parcels: Sequence[bytes], names: Sequence[str] | None = None) -> Seen:
    """Parcels, which were checked on arrival, as columns: of these attributes, or of all that occur."""
    sizes = np.fromiter(map(len, parcels), dtype=np.int64, count=len(parcels))
    stops = np.cumsum(sizes)
    return _cells(b"".join(parcels), stops - sizes, stops, names)


def cells_of(chunks: Sequence[Deliveries], names: Sequence[str] | None = None) -> Seen:
    """The same for the deliveries of a subscription."""
    parts = [chunk.joined() for chunk in chunks]
    if len(parts) == 1:
        return _cells(parts[0].data, parts[0].starts, parts[0].stops, names)
    offsets = np.cumsum([0, *(len(part.data) for part in parts)])
    starts = np.concatenate([part.starts + offset for part, offset in zip(parts, offsets, strict=False)])
    stops = np.concatenate([part.stops + offset for part, offset in zip(parts, offsets, strict=False)])
    return _cells(b"".join([part.data for part in parts]), starts, stops, names)


def _cells(
    data: bytes, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], names: Sequence[str] | None
) -> Seen:
    compiled = kernels("read")
    if compiled is not None:
        read = _compiled(compiled, np.frombuffer(data, dtype=np.uint8), starts, stops, names)
        if read is not None:
            return read
    seen = [read_parcel(data[a:b]) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    wanted = list(dict.fromkeys(name for each in seen for name in each)) if names is None else names
    columns = {name: Cells([each.get(name) for each in seen]) for name in wanted}
    sequences = np.array([each.sequence for each in seen], dtype=np.int64)
    return Seen(columns, Cells([each.publisher for each in seen]), sequences)


def _compiled(
    compiled: Any,
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    names: Sequence[str] | None,
) -> Seen | None:
    """Columns by kernels; None if there are more names or values than fit."""
    if names is None:
        text, edges = np.empty(_NAME_BYTES, dtype=np.uint8), np.zeros(NAMES_MAX + 1, dtype=np.int64)
        count = compiled.collect_names(data, starts, stops, text, edges)
        if count < 0:
            return None
        edges = edges[: count + 1].copy()
        names = [text[a:b].tobytes().decode() for a, b in zip(edges.tolist(), edges[1:].tolist(), strict=False)]
    else:
        encoded = [name.encode() for name in names]
        edges = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        text = np.frombuffer(b"".join(encoded) or b"\0", dtype=np.uint8).copy()
    shape = (len(names) + 1, len(starts))
    if shape[0] * shape[1] > CELLS_MAX:
        return None
    tags, values = np.zeros(shape, dtype=np.uint8), np.zeros(shape, dtype=np.int64)
    lengths, sequences = np.zeros(shape, dtype=np.int32), np.empty(len(starts), dtype=np.int64)
    compiled.read_columns(data, starts, stops, text, edges, tags, values, lengths, sequences)
    cells = [ReadCells(data, *parts) for parts in zip(tags, values, lengths, strict=True)]
    return Seen(dict(zip(names, cells, strict=False)), cells[-1], sequences)


class BatchMaker:
    """Makes the record batches of one `batches()`."""

    def __init__(self, schema: pa.Schema | None, *, metadata: bool, unfit: str) -> None:
        if unfit not in UNFIT:
            raise InputError(f"unfit is {unfit!r}; choose from {', '.join(UNFIT)}")
        self._schema = schema
        self._metadata = metadata
        self._unfit = unfit
        if schema is not None:
            _check_schema(schema, metadata)

    def batch(self, chunks: Sequence[Deliveries]) -> pa.RecordBatch:
        """One batch of all of these."""
        schema = self._schema
        seen = cells_of(chunks, None if schema is None else schema.names)
        arrays: dict[str, pa.Array] = {}
        if self._metadata:
            arrays[PUBLISHER] = seen.publishers.array(pa.string())
            arrays[ID] = pa.array(seen.sequences)
        if schema is None:
            arrays |= {name: natural(cells, name) for name, cells in seen.columns.items() if name not in arrays}
            return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        for field in schema:
            array, unfit = fitted(seen.columns[field.name], field.type)
            if unfit and self._unfit == "error":
                raise _does_not_fit(field, seen, unfit[0])
            arrays[field.name] = array
        extra = [pa.field(PUBLISHER, pa.string()), pa.field(ID, pa.int64())] if self._metadata else []
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema([*extra, *schema], schema.metadata))


def _check_schema(schema: pa.Schema, metadata: bool) -> None:
    seen: Mapping[str, int] = {name: schema.names.count(name) for name in schema.names}
    for field in schema:
        if fit_of(field.type) is None:
            raise InputError(f"column {field.name!r} is {field.type}, which no notification carries: {_HOW}")
        if not field.nullable:
            raise InputError(f"column {field.name!r} is not nullable, and any notification may lack it")
        if seen[field.name] > 1:
            raise InputError(f"the schema has column {field.name!r} twice")
        if metadata and field.name in (PUBLISHER, ID):
            raise InputError(f"column {field.name!r} comes with metadata=True; leave it out of the schema")


def _does_not_fit(field: pa.Field, seen: Seen, row: int) -> InputError:
    value = shortened(repr(seen.columns[field.name].to_list()[row]))
    return InputError(
        f"notification {seen.sequences[row]} of {seen.publishers.to_list()[row]}: {field.name!r} is {value}, which "
        f"does not fit a column of type {field.type}; unfit='null' makes it null"
    )
