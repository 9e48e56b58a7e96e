"""Record batches to PUBLISH frames: a row is a notification, a column an attribute, null an attribute that is absent.

| Arrow type                                                  | values                                      |
| string, large_string, string_view, dictionaries of these    | strings                                     |
| bool                                                        | booleans                                    |
| int8 … int64, uint8 … uint64, decimals of scale 0           | integers                                    |
| float16, float32, float64                                   | numbers; NaN is refused                     |
| null                                                        | absent                                      |
| unions of these                                             | as their member                             |

Any other type (timestamps, decimals with a fraction, lists, structs, binary) is not in the language: a batch with a
value in such a column is refused before any of its rows becomes a frame.

Rows become frames in slabs, each bounded in rows and in bytes. Compiled kernels write them if numba is installed;
otherwise, and for unions, decimals and very wide batches, each row is published as a dict. The bytes are the same. A
slab ends before a row that cannot be published, with the error that its dict would have raised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InputError, LanguageError, RefusedError
from octopia.language import NOTIFICATION_ATTRIBUTES_MAX, STRING_CHARS_MAX
from octopia.wire.arrow.conforming import COLUMNS_MAX, ConformingRows
from octopia.wire.arrow.kernels import kernels
from octopia.wire.arrow.terms import PublishTerms, Slab
from octopia.wire.encode import publish_frame
from octopia.wire.limits import PARCEL_AROUND_BYTES, PLAIN_OVERHEAD_BYTES
from octopia.wire.parcel import check_parcel
from octopia.wire.shapes import DictFrames
from octopia.wire.values import ENCODER

SLAB_ROWS: Final = 1024
DICT_ROWS: Final = 256
# One row may be longer than this.
SLAB_BYTES: Final = 256 * 1024
_BOOL, _INT, _UINT, _FLOAT, _TEXT = 1, 2, 3, 4, 5  # as in `numba_msgpack`, which is loaded with numba only
_Ints = npt.NDArray[np.int64]
_WORD_BYTES: Final = 8
_NO_BYTES: Final = np.zeros(0, dtype=np.uint8)
_FIX: Final = "cast it to a string, a number or a boolean, or drop it"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column for the kernels: values, or where texts begin and end; one byte per row says whether it is set.

    The arrays are contiguous. The key is followed by room for a word.
    """

    name: str
    key: npt.NDArray[np.uint8]
    kind: int
    first: _Ints
    second: _Ints
    text: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.uint8]


def _column(name: str, key: Any, kind: int, *parts: Any) -> _Column:
    """A column whose arrays may be used by address."""
    return _Column(name, key, kind, *map(np.ascontiguousarray, parts))


class BatchRows:
    """The rows of one record batch, to be written as frames."""

    def __init__(self, batch: pa.RecordBatch, before: int = 0) -> None:
        """`before`: the number of rows before this batch."""
        self._before = before
        self._batch = _checked(batch, before)
        self._columns = _compiled_columns(self._batch)
        self._lines: _Ints | None = None
        self._terms: PublishTerms | None = None
        self._out = _NO_BYTES  # the kernels' output; reused, since new memory costs as much as writing to it
        # For rows that are published as dicts.
        self._dict_terms: PublishTerms | None = None
        self._dicts = DictFrames((), 0)
        self._dict_start, self._dict_rows = 0, list[dict[str, Any]]()
        # Rows from here on are checked one by one: the first of them cannot be published.
        self._sound = len(self._batch)

    def __len__(self) -> int:
        return len(self._batch)

    def slab(self, start: int, publisher: str, sequence: int, terms: PublishTerms) -> Slab:
        """Frames for rows from `start` on, the first of which gets this number."""
        if self._columns is None:
            return self._row_by_row(start, publisher, sequence, terms)
        if terms != self._terms:
            self._terms = terms
            self._sound = self._first_unsound(self._columns, terms)
        if start >= self._sound:
            return self._row_by_row(start, publisher, sequence, terms)
        return self._compiled(self._columns, start, publisher, sequence, terms)

    # -- one by one

    def _row_by_row(self, start: int, publisher: str, sequence: int, terms: PublishTerms) -> Slab:
        if terms != self._dict_terms:
            self._dict_terms = terms
            self._dicts = DictFrames(terms.advertisements, terms.frame_bytes_max)
        frames: list[bytes] = []
        size = 0
        for row in range(start, min(start + SLAB_ROWS, len(self._batch))):
            try:
                frame = self._frame(row, publisher, sequence + len(frames), terms)
            except (LanguageError, InputError, RefusedError, TypeError) as error:
                kind = InputError if isinstance(error, LanguageError | TypeError) else type(error)
                return Slab(b"".join(frames), len(frames), kind(f"row {self._before + row}: {error}"))
            frames.append(frame)
            size += len(frame)
            if size >= SLAB_BYTES:
                break
        return Slab(b"".join(frames), len(frames), None)

    def _frame(self, row: int, publisher: str, sequence: int, terms: PublishTerms) -> bytes:
        attributes = self._attributes(row)
        dicts = self._dicts
        quick = dicts.frame(attributes, publisher, sequence) or dicts.frame_of_another(attributes, publisher, sequence)
        if quick is not None:
            return quick
        parcel, seen = check_parcel(attributes, publisher, sequence)
        if not any(promise.holds(seen) for promise in terms.promises):
            raise RefusedError(terms.why_not(seen))
        if len(parcel) + PARCEL_AROUND_BYTES > terms.frame_bytes_max:
            most = terms.frame_bytes_max - PARCEL_AROUND_BYTES
            raise InputError(f"the notification is {len(parcel):,} bytes, at most {most:,} travel")
        dicts.learn(attributes)
        return publish_frame(parcel)

    def _attributes(self, row: int) -> dict[str, Any]:
        """One row as a dict. Rows are converted in chunks, which is faster."""
        if not self._dict_start <= row < self._dict_start + len(self._dict_rows):
            self._dict_start, self._dict_rows = row, self._some_rows(row, DICT_ROWS)
        return self._dict_rows[row - self._dict_start]

    def _some_rows(self, row: int, count: int) -> list[dict[str, Any]]:
        part = self._batch.slice(row, count)
        try:
            columns = [_values(array) for array in part.columns]
        except UnicodeDecodeError:
            if count > 1:
                # It may be another row.
                return self._some_rows(row, 1)
            raise InputError(f"column {_not_utf8(part)!r} is not valid UTF-8") from None
        names = part.schema.names
        if all(array.null_count == 0 and not pa.types.is_union(array.type) for array in part.columns):
            return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        return [
            {name: value for name, value in zip(names, values, strict=True) if value is not None}
            for values in zip(*columns, strict=True)
        ]

    # -- compiled

    def _first_unsound(self, columns: Sequence[_Column], terms: PublishTerms) -> int:
        """The first row with a value that cannot be sent, without any value, or that was not advertised."""
        names = [column.name for column in columns]
        arrays = [self._batch.column(name) for name in names]
        valid = [
            None if array.null_count == 0 else column.valid.astype(np.bool_)
            for array, column in zip(arrays, columns, strict=True)
        ]
        first = ConformingRows(names, arrays, valid).first_refused(terms.advertisements)
        if all(there is not None for there in valid):
            empty = ~np.logical_or.reduce([there for there in valid if there is not None])
            first = min(first, _first(empty))
        for column in columns:
            if column.kind == _FLOAT:
                wrong = np.isnan(column.first.view(np.float64))
            elif column.kind == _TEXT:
                wrong = column.second - column.first > STRING_CHARS_MAX
            else:
                continue
            first = min(first, _first(wrong & (column.valid != 0)))
        return first

    def _compiled(
        self, columns: Sequence[_Column], start: int, publisher: str, sequence: int, terms: PublishTerms
    ) -> Slab:
        compiled = kernels("write")
        if compiled is None:
            return self._row_by_row(start, publisher, sequence, terms)
        name = np.frombuffer(ENCODER.encode(publisher), dtype=np.uint8)
        table, most = self._table(columns), min(SLAB_ROWS, self._sound - start)
        counts, starts = np.empty(most, dtype=np.int64), np.empty(most + 1, dtype=np.int64)
        compiled.place_rows(table, start, sequence, len(name), counts, starts)
        too_long = np.diff(starts) - PLAIN_OVERHEAD_BYTES + PARCEL_AROUND_BYTES > terms.frame_bytes_max
        rows = min(max(int(np.searchsorted(starts, SLAB_BYTES)), 1), most, _first(too_long))
        if len(self._out) < starts[rows] + _WORD_BYTES:
            self._out = np.empty(int(starts[rows]) + _WORD_BYTES, dtype=np.uint8)
        wrong = compiled.write_rows(table, start, sequence, name, counts[:rows], starts[: rows + 1], self._out)
        rows = rows if wrong < 0 else wrong
        if not rows:
            return self._row_by_row(start, publisher, sequence, terms)
        return Slab(self._out[: starts[rows]].tobytes(), rows, None)

    def _table(self, columns: Sequence[_Column]) -> _Ints:
        """The columns, as the kernels take them: by address. They are kept as long as this object."""
        if self._lines is None:
            lines = [
                (each.kind, *(_address(array) for array in (each.first, each.second, each.valid, each.text, each.key)))
                for each in columns
            ]
            sizes = [len(each.key) - _WORD_BYTES for each in columns]
            self._lines = np.array([(*line, size) for line, size in zip(lines, sizes, strict=True)], dtype=np.int64)
        return self._lines


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def _values(array: pa.Array) -> list[Any]:
    """The values of a column; decimals, which are whole here, as integers."""
    values: list[Any] = array.to_pylist()
    if pa.types.is_decimal(array.type):
        return [None if value is None else int(value) for value in values]
    return values


def _not_utf8(row: pa.RecordBatch) -> str:
    for name, array in zip(row.schema.names, row.columns, strict=True):
        try:
            array.to_pylist()
        except UnicodeDecodeError:
            return str(name)
    return ""


def _first(wrong: npt.NDArray[np.bool_]) -> int:
    """The first invalid row; the number of rows if all are valid."""
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)


def batches_of(data: object) -> Iterable[pa.RecordBatch]:
    """The record batches of the argument of `publish_batch`."""
    if isinstance(data, pa.RecordBatch):
        return [data]
    if isinstance(data, pa.Table):
        return list(data.to_batches())
    raise TypeError(f"publish_batch takes a pyarrow.RecordBatch or a pyarrow.Table, not {type(data).__name__}")


# -- columns


def _checked(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """The batch with columns of plain types only; `InputError` if one holds values that notifications cannot carry."""
    names: dict[str, int] = {}
    arrays = []
    for place, name in enumerate(batch.schema.names):
        if not name:
            raise InputError(f"column {place} has no name; an attribute needs one")
        if name in names:
            raise InputError(f"columns {names[name]} and {place} are both {name!r}; an attribute has one value")
        names[name] = place
        array = _plain(batch.column(place), name, before)
        if array is not None:
            arrays.append((name, array))
    if len(arrays) > NOTIFICATION_ATTRIBUTES_MAX:
        raise InputError(
            f"the batch has {len(arrays)} columns; a notification has at most {NOTIFICATION_ATTRIBUTES_MAX} attributes"
        )
    if not arrays and len(batch):
        raise InputError(f"row {before}: all columns are null; a notification has at least one attribute")
    return pa.RecordBatch.from_arrays([array for _, array in arrays], names=[name for name, _ in arrays])


def _plain(array: pa.Array, name: str, before: int) -> pa.Array | None:
    """A column in one of the types read below; None if all its values are null."""
    kind = array.type
    if pa.types.is_null(kind) or (len(array) and array.null_count == len(array)):
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage, name, before)
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array), name, before)
    if pa.types.is_dictionary(kind):
        return array if _is_text(kind.value_type) else _plain(array.dictionary_decode(), name, before)
    if pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    if _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array
    if pa.types.is_union(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return array
    row = int(np.argmax(array.is_valid().to_numpy(zero_copy_only=False))) if len(array) else 0
    raise InputError(f"column {name!r}, row {before + row}: {kind} is not a type that a notification carries; {_FIX}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _compiled_columns(batch: pa.RecordBatch) -> list[_Column] | None:
    """The columns for the kernels; None if kernels are not loaded or do not support these columns."""
    if kernels("write") is None or batch.num_columns > COLUMNS_MAX:
        return None
    columns = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        column = _compiled_column(name, array)
        if column is None:
            return None
        columns.append(column)
    return columns


def _compiled_column(name: str, array: pa.Array) -> _Column | None:
    key = np.frombuffer(ENCODER.encode(name) + bytes(_WORD_BYTES), dtype=np.uint8)
    kind = array.type
    if array.null_count == 0:
        valid = np.ones(len(array), dtype=np.uint8)
    else:
        valid = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    if pa.types.is_dictionary(kind):
        return _dictionary_column(name, key, array, valid)
    if _is_text(kind):
        begins, ends, text = _texts(array)
        return _column(name, key, _TEXT, begins, ends, text, valid)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
        tag = _BOOL
    elif pa.types.is_integer(kind):
        tag = _UINT if pa.types.is_uint64(kind) else _INT
    elif pa.types.is_floating(kind):
        tag = _FLOAT
    else:
        return None
    plain = (pc.fill_null(array, 0) if array.null_count else array).to_numpy(zero_copy_only=False)
    if tag == _FLOAT:
        values = plain.astype(np.float64, copy=False).view(np.int64)
    elif tag == _UINT:
        values = plain.view(np.int64)
    else:
        values = plain.astype(np.int64, copy=False)
    return _column(name, key, tag, values, values, _NO_BYTES, valid)


def _texts(array: pa.Array) -> tuple[_Ints, _Ints, npt.NDArray[np.uint8]]:
    """Where each text of a column begins and ends, and the bytes."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    array.validate()
    _, offsets, content = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array), dtype=np.int64), np.zeros(len(array), dtype=np.int64), _NO_BYTES
    edges = np.frombuffer(offsets, dtype=width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    text = _NO_BYTES if content is None else np.frombuffer(content, dtype=np.uint8)
    if edges[0] < 0 or edges[-1] > len(text) or (np.diff(edges) < 0).any():
        raise InputError("a column of strings is damaged: its offsets do not rise")
    return edges[:-1], edges[1:], text


def _dictionary_column(
    name: str, key: npt.NDArray[np.uint8], array: pa.DictionaryArray, valid: npt.NDArray[np.uint8]
) -> _Column | None:
    begins, ends, text = _texts(array.dictionary)
    codes = pc.fill_null(array.indices.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if not len(begins):
        return _column(name, key, _TEXT, codes * 0, codes * 0, text, np.zeros(len(codes), dtype=np.uint8))
    if len(codes) and (codes.min() < 0 or codes.max() >= len(begins)):
        raise InputError(f"column {name!r} is damaged: an index points outside its dictionary")
    if array.dictionary.null_count:
        there = array.dictionary.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        valid = valid & there[codes]
    return _column(name, key, _TEXT, begins[codes], ends[codes], text, valid)
