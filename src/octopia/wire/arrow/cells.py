"""The values of one attribute in many notifications, read by a kernel or decoded one by one, and Arrow arrays of them.

`Cells` knows the kinds of its values and returns them as a plain list. If all are of one kind, a kernel's cells become
an array without creating Python objects.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import InputError
from octopia.wire.arrow.fitting import fit_of, is_text
from octopia.wire.arrow.kernels import kernels
from octopia.wire.arrow.terms import NO_FIT

# Kinds of values; as in `numba_msgpack`, which is loaded with numba only.
ABSENT, BOOL, INT, UINT, FLOAT, TEXT, BIG = range(7)
_KINDS: Final[dict[type, int]] = {bool: BOOL, int: INT, float: FLOAT, str: TEXT, type(None): ABSENT}
_EXACT_MAX: Final = 2**53
_DECIMAL_DIGITS_MAX: Final = 76


class Cells:
    """Decoded values; None if a notification lacks the attribute."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @property
    def kinds(self) -> frozenset[int]:
        """The kinds of values, without `ABSENT`."""
        return frozenset(_KINDS[kind] for kind in set(map(type, self._values))) - {ABSENT}

    def to_list(self) -> list[Any]:
        return self._values

    def array(self, kind: pa.DataType) -> pa.Array | None:
        """An array of this type, if every value has its kind; None if one does not or is out of range."""
        if not self.kinds <= _TAKES(kind):
            return None
        try:
            return pa.array(self._values, kind)
        except (pa.ArrowInvalid, OverflowError):
            return None


def _TAKES(kind: pa.DataType) -> frozenset[int]:  # noqa: N802
    if is_text(kind):
        return frozenset({TEXT})
    if pa.types.is_boolean(kind):
        return frozenset({BOOL})
    if pa.types.is_integer(kind):
        return frozenset({INT})
    return frozenset({INT, FLOAT}) if pa.types.is_float64(kind) else frozenset()


class ReadCells(Cells):
    """Values that a kernel read: a tag and a value for each; for texts, their position in `data`."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        tags: npt.NDArray[np.uint8],
        values: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int32],
    ) -> None:
        self._data = data
        self._tags = tags
        self._bits = values
        self._lengths = lengths
        self._kinds = frozenset(np.flatnonzero(np.bincount(tags, minlength=1)).tolist()) - {ABSENT}

    def __len__(self) -> int:
        return len(self._tags)

    @property
    def kinds(self) -> frozenset[int]:
        return self._kinds

    def to_list(self) -> list[Any]:
        made: list[Any] = []
        reals = self._bits.view(np.float64)
        for row, (tag, value) in enumerate(zip(self._tags.tolist(), self._bits.tolist(), strict=True)):
            if tag == INT:
                made.append(value)
            elif tag == TEXT:
                made.append(self._bytes(row).decode())
            elif tag == FLOAT:
                made.append(float(reals[row]))
            elif tag == BOOL:
                made.append(bool(value))
            elif tag == UINT:
                made.append(value + 2**64)
            else:
                made.append(int.from_bytes(self._bytes(row), "big", signed=True) if tag == BIG else None)
        return made

    def _bytes(self, row: int) -> bytes:
        begin = self._bits[row]
        return self._data[begin : begin + self._lengths[row]].tobytes()

    def array(self, kind: pa.DataType) -> pa.Array | None:
        if not self._kinds <= _TAKES(kind):
            return None
        try:
            if is_text(kind):
                return self._texts().cast(kind)
            if pa.types.is_boolean(kind):
                return self._filled(pa.bool_(), np.packbits(self._bits != 0, bitorder="little"))
            if pa.types.is_integer(kind):
                return self._filled(pa.int64(), self._bits).cast(kind)
            return self._filled(pa.float64(), self._reals())
        except pa.ArrowInvalid:
            return None

    def _reals(self) -> npt.NDArray[np.float64]:
        reals = self._bits.view(np.float64)
        return np.where(self._tags == INT, self._bits.astype(np.float64), reals) if INT in self._kinds else reals

    def _filled(self, kind: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
        return pa.Array.from_buffers(kind, len(self), [self._valid(), pa.py_buffer(np.ascontiguousarray(values))])

    def _valid(self) -> pa.Buffer | None:
        there = self._tags != ABSENT
        return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))

    def _texts(self) -> pa.Array:
        compiled = kernels("read")
        lengths = np.where(self._tags == TEXT, self._lengths, 0)
        offsets = np.zeros(len(self) + 1, dtype=np.int64)
        out = np.empty(int(lengths.sum()), dtype=np.uint8)
        assert compiled is not None  # noqa: S101  they have read these
        compiled.gather_texts(self._data, self._tags, self._bits, self._lengths, offsets, out)
        buffers = [self._valid(), pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)


# -- to arrays


def fitted(cells: Cells, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """An array of this type, and the rows whose value does not fit, which are null there."""
    array = cells.array(kind)
    if array is not None:
        return array, []
    fit = fit_of(kind)
    unfit: list[int] = []
    values: list[Any] = []
    for row, value in enumerate(cells.to_list()):
        made = None if value is None else NO_FIT if fit is None else fit(value)
        if made is NO_FIT:
            unfit.append(row)
            made = None
        values.append(made)
    return pa.array(values, kind), unfit


def natural(cells: Cells, name: str) -> pa.Array:
    """An array of the narrowest type that holds all values exactly: of several kinds, a union."""
    kinds = cells.kinds
    if kinds <= {INT, FLOAT}:
        if kinds == {INT}:
            array = cells.array(pa.int64())
            if array is not None:
                return array
        elif not kinds or kinds == {FLOAT} or _all_exact(cells):
            array = cells.array(pa.float64() if kinds else pa.bool_())
            return pa.nulls(len(cells)) if not kinds or array is None else array
    if kinds == {TEXT}:
        return cells.array(pa.string())
    if kinds == {BOOL}:
        return cells.array(pa.bool_())
    return _mixed(cells.to_list(), name)


def _all_exact(cells: Cells) -> bool:
    return all(abs(value) <= _EXACT_MAX for value in cells.to_list() if type(value) is int)


def _mixed(values: list[Any], name: str) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return _large_integers(values, name)
    members = sorted(kinds, key=lambda kind: kind.__name__)
    children, types, offsets = [], [], []
    lists: dict[type, list[Any]] = {kind: [] for kind in members}
    for value in values:
        # A notification that lacks the attribute is null in the first member.
        kind = members[0] if value is None else type(value)
        types.append(members.index(kind))
        offsets.append(len(lists[kind]))
        lists[kind].append(value)
    for kind in members:
        children.append(_large_integers(lists[kind], name) if kind is int else pa.array(lists[kind]))
    return pa.UnionArray.from_dense(
        pa.array(types, pa.int8()), pa.array(offsets, pa.int32()), children, [kind.__name__ for kind in members]
    )


def _large_integers(values: list[Any], name: str) -> pa.Array:
    there = [value for value in values if value is not None]
    if all(-(2**63) <= value < 2**63 for value in there):
        return pa.array(values, pa.int64())
    if all(0 <= value < 2**64 for value in there):
        return pa.array(values, pa.uint64())
    if max(abs(value) for value in there) >= 10**_DECIMAL_DIGITS_MAX:
        raise InputError(
            f"attribute {name!r} has an integer of more than {_DECIMAL_DIGITS_MAX} digits, which no Arrow type holds; "
            "give a schema without it, or read deliveries()"
        )
    from decimal import Decimal

    return pa.array(
        [None if value is None else Decimal(value) for value in values], pa.decimal256(_DECIMAL_DIGITS_MAX, 0)
    )
