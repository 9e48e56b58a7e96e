"""A record batch as columns, and answers as arrays of Arrow.

Columns are read as arrays; a loop in Python runs over the distinct strings of a column, never over its rows, except for
types that Arrow cannot give as plain arrays (unions and the like), which are read value by value. Null is absent. NaN
is refused, with its column and row, as everywhere.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import LanguageError
from octopia.matching.answers import AnswerRoom
from octopia.matching.boxes import EXACT_MAX
from octopia.matching.columns import Column, Columns
from octopia.matching.space import Attribute, Space
from octopia.matching.tokens import ABSENT, BOOL, CODED, NUMBER, pair_of

Bools = npt.NDArray[np.bool_]


def columns_of_batch(batch: pa.RecordBatch, space: Space) -> Columns:
    """The events of a batch. Columns that no filter names are not read."""
    named = [
        (batch.column(name), attribute) for name, attribute in space.attributes.items() if name in batch.schema.names
    ]
    return Columns(batch.num_rows, [(attribute, _read(array, attribute)) for array, attribute in named])


class ArrowRoom(AnswerRoom):
    """Memory from Arrow's pool, which reuses freed blocks: new pages from the system cost a tenth of a search."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        self._buffer = pa.allocate_buffer(count * np.dtype(dtype).itemsize, resizable=True)
        self.array = np.frombuffer(self._buffer, dtype=dtype)

    def cut(self, count: int) -> npt.NDArray[Any]:
        dtype = self.array.dtype
        # nothing may read the memory while it is moved
        del self.array
        self._buffer.resize(count * dtype.itemsize)
        return np.frombuffer(self._buffer, dtype=dtype)


def plain_column(values: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> pa.Array:
    """Integers as an Arrow array, without a copy. `pa.array` does the same, but loads pandas to check their type."""
    kind = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _read(array: pa.Array, attribute: Attribute) -> Column:
    kind = array.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type):
            return _read_strings(array, attribute)
        return _read(array.dictionary_decode(), attribute)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _read_strings(array.dictionary_encode(), attribute)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _read_numbers(array, attribute.name)
    if pa.types.is_boolean(kind):
        truth = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return Column(_kinds(array, BOOL), truth.astype(np.float64))
    return _read_objects(array, attribute)


def _kinds(array: pa.Array, kind: int) -> Any:
    """The kinds of values that are all of one kind, or null."""
    if not array.null_count:
        return kind
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), kind, ABSENT).astype(np.int8)


def _read_strings(array: pa.DictionaryArray, attribute: Attribute) -> Column:
    strings = array.dictionary.to_pylist()
    index = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    # null, in the array or in its dictionary, has the last code
    codes = np.array([-1.0 if text is None else attribute.code(text) for text in strings] + [-1.0])
    kinds: Any = CODED
    if array.null_count or None in strings:
        absent = np.array([text is None for text in strings] + [True])
        kinds = np.where(absent[index], ABSENT, CODED).astype(np.int8)
    return Column(kinds, codes[index], strings=strings, string_of=index)


def _read_numbers(array: pa.Array, name: str) -> Column:
    plain = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    numbers = plain.astype(np.float64)
    kinds = _kinds(array, NUMBER)
    if not pa.types.is_integer(array.type):
        if np.isnan(numbers).any():
            raise _nan(name, int(np.flatnonzero(np.isnan(numbers))[0]))
        return Column(kinds, numbers)
    large = np.flatnonzero(np.abs(numbers) >= EXACT_MAX)
    if not large.size:
        return Column(kinds, numbers)
    rests = np.zeros(len(array), dtype=np.int64)
    for row in large.tolist():
        numbers[row], rests[row] = pair_of(int(plain[row]))
    return Column(kinds, numbers, rests)


def _nan(name: str, row: int) -> LanguageError:
    return LanguageError(f"column {name!r}, row {row} is NaN", expected="a number that can be compared, or null")


def _read_objects(array: pa.Array, attribute: Attribute) -> Column:
    """Any other type, value by value: only unions of our types and nulls are accepted."""
    kinds = np.full(len(array), ABSENT, dtype=np.int8)
    numbers, rests = np.zeros(len(array)), np.zeros(len(array), dtype=np.int64)
    strings: list[str | None] = [None] * len(array)
    for row, value in enumerate(array.to_pylist()):
        if value is None:
            continue
        if isinstance(value, bool):
            kinds[row], numbers[row] = BOOL, value
        elif isinstance(value, str):
            kinds[row], numbers[row], strings[row] = CODED, attribute.code(value), value
        elif isinstance(value, int | float):
            if value != value:
                raise _nan(attribute.name, row)
            kinds[row] = NUMBER
            numbers[row], rests[row] = pair_of(value)
        else:
            raise LanguageError(
                f"column {attribute.name!r}, row {row} holds a {type(value).__name__}",
                expected="strings, numbers, booleans or nulls",
            )
    return Column(kinds, numbers, rests, strings)
