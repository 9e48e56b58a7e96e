"""A record batch as points: one row per event, one column per dimension, and the kinds that each event opens.

Columns are read as arrays; a loop in Python runs over the distinct strings of a column, never over
its rows, except for types that Arrow cannot give as plain arrays (unions and the like), which are read value by value.
Null is absent. NaN is refused, with its column and row, as everywhere.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import LanguageError
from octopia.language import Value
from octopia.matching.batch import Room
from octopia.matching.boxes import EXACT_MAX, floats_around
from octopia.matching.coordinates import Points, Sides
from octopia.matching.openings import Key
from octopia.matching.points import nowhere
from octopia.matching.space import Space

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_Named = tuple[tuple[str, str | None], ...]


class _Column(NamedTuple):
    """One attribute: numbers, booleans and strings apart, each with its mask; strings as indices into distinct."""

    present: Bools
    above: Floats
    below: Floats
    is_number: Bools
    is_true: Bools
    is_bool: Bools
    string: npt.NDArray[np.int64]
    strings: list[str]


def points(batch: pa.RecordBatch, space: Space) -> Points:
    """The events of a batch in a space. Columns that no filter names are not read."""
    columns = {name: _read(batch.column(name), name) for name in space.attributes if name in batch.schema.names}
    sides = nowhere(space.size, batch.num_rows)
    for name, column in columns.items():
        _fill(sides, space, name, column)
    combination, chosen = _combinations(space, columns, batch.num_rows)
    numbers = np.array(space.openings.numbers_of(chosen), dtype=np.int64)
    return Points(numbers[combination], space.openings.starts, space.openings.probes, sides)


class ArrowRoom(Room):
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


def _fill(sides: Sides, space: Space, name: str, column: _Column) -> None:
    axes = space.axes_of(name)
    if axes is None:
        return
    number, string, boolean, present = axes
    if number is not None:
        _put_where(sides, number, column.is_number, column.above, column.below)
    if string is not None and column.strings:
        codes = np.array([space.known_code(name, text) for text in column.strings])[column.string]
        _put_where(sides, string, column.string >= 0, codes, codes)
    if boolean is not None:
        truth = column.is_true.astype(np.float64)
        _put_where(sides, boolean, column.is_bool, truth, truth)
    if present is not None:
        sides[:, present, column.present] = 1.0


def _put_where(sides: Sides, place: int, there: Bools, above: Floats, below: Floats) -> None:
    np.copyto(sides[0, place], above, where=there)
    np.copyto(sides[1, place], below, where=there)


def _combinations(space: Space, columns: dict[str, _Column], count: int) -> tuple[npt.NDArray[np.int64], Sequence[Key]]:
    """The combinations of strings in the attributes that open kinds: a number per event, and the strings of each."""
    names = space.atom_attributes
    if space.opens_by_name:
        return _named_combinations(space, columns, count)
    combination = np.zeros(count, dtype=np.int64)
    known: list[tuple[str | None, ...]] = [()]
    for name in names:
        column = columns.get(name)
        index = np.full(count, -1, dtype=np.int64) if column is None else column.string
        strings = [] if column is None else column.strings
        pairs, combination = np.unique(combination * (len(strings) + 1) + index + 1, return_inverse=True)
        before, at = np.divmod(pairs, len(strings) + 1)
        known = [
            (*known[b], None if i == 0 else strings[i - 1]) for b, i in zip(before.tolist(), at.tolist(), strict=True)
        ]
    return combination.reshape(count), known


def _named_combinations(
    space: Space, columns: dict[str, _Column], count: int
) -> tuple[npt.NDArray[np.int64], list[Key]]:
    """The same for many attributes: which of the batch's attributes are present, and with which string."""
    combination = np.zeros(count, dtype=np.int64)
    known: list[_Named] = [()]
    with_atoms = frozenset(space.atom_attributes)
    for name, column in columns.items():
        if not space.decides_openings(name):
            continue
        # absent, present, and present with a string that matters
        choices: list[_Named] = [(), ((name, None),)]
        index = column.present.astype(np.int64)
        if name in with_atoms:
            choices += [((name, text),) for text in column.strings]
            index = np.where(column.string >= 0, column.string + 2, index)
        pairs, combination = np.unique(combination * len(choices) + index, return_inverse=True)
        before, at = np.divmod(pairs, len(choices))
        known = [(*known[b], *choices[i]) for b, i in zip(before.tolist(), at.tolist(), strict=True)]
    return combination.reshape(count), list(known)


def _read(array: pa.Array, name: str) -> _Column:
    kind = array.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type):
            return _read_strings(array)
        return _read(array.dictionary_decode(), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _read_strings(array.dictionary_encode())
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _read_numbers(array, name)
    if pa.types.is_boolean(kind):
        return _read_bools(array)
    return _read_objects(array, name)


def _nothing(count: int) -> _Column:
    no, zero = np.zeros(count, dtype=np.bool_), np.zeros(count)
    return _Column(no, zero, zero, no, no, no, np.full(count, -1, dtype=np.int64), [])


def _read_strings(array: pa.DictionaryArray) -> _Column:
    strings = array.dictionary.to_pylist()
    index = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    # a dictionary may hold null itself, and the same string twice
    place = {text: i for i, text in reversed(list(enumerate(strings))) if text is not None}
    if len(place) < len(strings):
        again = np.array([-1 if text is None else place[text] for text in strings] + [-1], dtype=np.int64)
        index = again[index]
    texts = ["" if text is None else text for text in strings]
    return _nothing(len(array))._replace(present=index >= 0, string=index, strings=texts)


def _read_numbers(array: pa.Array, name: str) -> _Column:
    present = array.is_valid().to_numpy(zero_copy_only=False)
    whole = pa.types.is_integer(array.type)
    plain = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    values = plain.astype(np.float64)
    if not whole and np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise LanguageError(f"column {name!r}, row {row} is NaN", expected="a number that can be compared, or null")
    below = values
    if whole and (large := np.flatnonzero(np.abs(values) >= EXACT_MAX)).size:
        values, below = values.copy(), values.copy()
        for row in large.tolist():
            values[row], below[row] = floats_around(int(plain[row]))
    return _nothing(len(array))._replace(present=present, above=values, below=below, is_number=present)


def _read_bools(array: pa.Array) -> _Column:
    present = array.is_valid().to_numpy(zero_copy_only=False)
    truth = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return _nothing(len(array))._replace(present=present, is_true=truth, is_bool=present)


def _read_objects(array: pa.Array, name: str) -> _Column:
    """Any other type, value by value: only unions of our types and nulls are accepted."""
    count = len(array)
    # arrays of its own: `_nothing` shares them between fields
    flags = [np.zeros(count, dtype=np.bool_) for _ in range(4)]
    column = _Column(
        flags[0], np.zeros(count), np.zeros(count), flags[1], flags[2], flags[3], np.full(count, -1, dtype=np.int64), []
    )
    places: dict[str, int] = {}
    for row, value in enumerate(array.to_pylist()):
        if value is not None:
            column.present[row] = True
            _put(column, places, row, value, name)
    return column._replace(strings=list(places))


def _put(column: _Column, places: dict[str, int], row: int, value: Value, name: str) -> None:
    if isinstance(value, bool):
        column.is_bool[row], column.is_true[row] = True, value
    elif isinstance(value, str):
        column.string[row] = places.setdefault(value, len(places))
    elif isinstance(value, int | float):
        if value != value:
            raise LanguageError(f"column {name!r}, row {row} is NaN", expected="a number that can be compared, or null")
        column.is_number[row] = True
        around = floats_around(value) if isinstance(value, int) else (value, value)
        column.above[row], column.below[row] = around
    else:
        raise LanguageError(
            f"column {name!r}, row {row} holds a {type(value).__name__}", expected="strings, numbers, booleans or nulls"
        )
