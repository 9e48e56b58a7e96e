"""One predicate on one whole column, from the definition of the language, in array arithmetic.

This module judges the index, so it does not share code with it. Null is absent: it satisfies no predicate and no
negation. Numbers are compared by value, exactly: the constant is brought to the type of the column (the next integer
below or above for a column of integers, the nearest float and which side it lies on for a column of floats), never the
column to the type of the constant. Strings are compared on the distinct values of the column; the order of UTF-8 bytes
is the order of code points. Types that are not a plain column of values (unions and the like) are read value by value.
NaN and values outside the language are refused with their column and row.
"""

from collections.abc import Callable
from math import ceil, floor
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import LanguageError
from octopia.language import Operator, Predicate, Value, ValueKind

Mask = npt.NDArray[np.bool_]

_COMPARE: Final[dict[Operator, Callable[..., Any]]] = {
    Operator.EQ: np.equal,
    Operator.NE: np.not_equal,
    Operator.LT: np.less,
    Operator.LE: np.less_equal,
    Operator.GT: np.greater,
    Operator.GE: np.greater_equal,
}
_COMPARE_STRINGS: Final[dict[Operator, Callable[..., Any]]] = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}
_PATTERNS: Final[dict[Operator, tuple[Callable[..., Any], bool]]] = {
    Operator.PREFIX: (pc.starts_with, True),
    Operator.POSTFIX: (pc.ends_with, True),
    Operator.CONTAINS: (pc.match_substring, True),
    Operator.NOT_PREFIX: (pc.starts_with, False),
    Operator.NOT_POSTFIX: (pc.ends_with, False),
    Operator.NOT_CONTAINS: (pc.match_substring, False),
}


class Column:
    """A column of one kind of values; `holds` answers a predicate for all rows."""

    def __init__(self, kind: ValueKind | None, present: Mask) -> None:
        self._kind = kind
        self._present = present

    def holds(self, predicate: Predicate) -> Mask:
        """Which rows satisfy the predicate."""
        if predicate.value is None:
            return self._present
        if predicate.kind is not self._kind:
            return np.zeros(len(self._present), dtype=np.bool_)
        return self._present & self._test(predicate.operator, predicate.value)

    def _test(self, operator: Operator, constant: Any) -> Mask:
        raise NotImplementedError


class _Integers(Column):
    def __init__(self, array: pa.Array) -> None:
        super().__init__(ValueKind.NUMBER, _valid(array))
        self._values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)

    def _test(self, operator: Operator, constant: Any) -> Mask:
        bounds = np.iinfo(self._values.dtype)
        if operator in (Operator.EQ, Operator.NE):
            if not bounds.min <= constant <= bounds.max or constant != floor(constant):
                return self._all(operator is Operator.NE)
            return self._compare(operator, int(constant))
        # x < 2.5 is x < 3, x > 2.5 is x > 2; the constant may lie beyond every value of the column's type.
        if constant > bounds.max or constant < bounds.min:
            return self._all((constant > 0) == (operator in (Operator.LT, Operator.LE)))
        bound = floor(constant) if operator in (Operator.LE, Operator.GT) else ceil(constant)
        if not bounds.min <= bound <= bounds.max:
            return self._all(operator is Operator.LT)
        return self._compare(operator, bound)

    def _compare(self, operator: Operator, bound: int) -> Mask:
        compared: Mask = _COMPARE[operator](self._values, self._values.dtype.type(bound))
        return compared

    def _all(self, answer: bool) -> Mask:
        return np.full(len(self._values), answer, dtype=np.bool_)


class _Floats(Column):
    def __init__(self, array: pa.Array, name: str, first: int) -> None:
        super().__init__(ValueKind.NUMBER, _valid(array))
        self._values = pc.fill_null(array.cast(pa.float64()), 0).to_numpy(zero_copy_only=False)
        if np.isnan(self._values).any():
            raise _nan(name, first + int(np.flatnonzero(np.isnan(self._values))[0]))

    def _test(self, operator: Operator, constant: Any) -> Mask:
        try:
            near = float(constant)
        except OverflowError:
            near = float("inf") if constant > 0 else float("-inf")
        if near == constant:
            compared: Mask = _COMPARE[operator](self._values, near)
            return compared
        # No float equals the constant; `near` is the next one on one side of it.
        if operator in (Operator.EQ, Operator.NE):
            return np.full(len(self._values), operator is Operator.NE, dtype=np.bool_)
        below: Mask = self._values <= near if near < constant else self._values < near
        return below if operator in (Operator.LT, Operator.LE) else ~below


class _Bools(Column):
    def __init__(self, array: pa.Array) -> None:
        super().__init__(ValueKind.BOOL, _valid(array))
        self._values = pc.fill_null(array, False).to_numpy(zero_copy_only=False)

    def _test(self, operator: Operator, constant: Any) -> Mask:
        compared: Mask = _COMPARE[operator](self._values, constant)
        return compared


class _Strings(Column):
    def __init__(self, array: pa.Array) -> None:
        super().__init__(ValueKind.STRING, _valid(array))
        encoded = array.cast(pa.large_string()).dictionary_encode()
        self._distinct = encoded.dictionary
        self._codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        self._code_of = {text: code for code, text in enumerate(self._distinct.to_pylist())}

    def _test(self, operator: Operator, constant: Any) -> Mask:
        if not len(self._distinct):
            return np.zeros(len(self._codes), dtype=np.bool_)
        if operator is Operator.EQ:
            equal: Mask = self._codes == self._code_of.get(constant, -1)
            return equal
        if operator in _COMPARE_STRINGS:
            chosen = _COMPARE_STRINGS[operator](self._distinct, pa.scalar(constant, pa.large_string()))
        else:
            function, wanted = _PATTERNS[operator]
            chosen = function(self._distinct, constant)
            chosen = chosen if wanted else pc.invert(chosen)
        answers: Mask = chosen.to_numpy(zero_copy_only=False)[self._codes]
        return answers


class _Objects(Column):
    """Values of several kinds in one column, one by one."""

    def __init__(self, array: pa.Array, name: str, first: int) -> None:
        self._values: list[Value | None] = array.to_pylist()
        for row, value in enumerate(self._values, first):
            if value is not None and not isinstance(value, str | int | float | bool):
                raise LanguageError(
                    f"column {name!r}, row {row} holds a {type(value).__name__}",
                    expected="strings, numbers, booleans or nulls",
                )
            if value != value:
                raise _nan(name, row)
        super().__init__(None, np.array([value is not None for value in self._values], dtype=np.bool_))

    def holds(self, predicate: Predicate) -> Mask:
        if predicate.value is None:
            return self._present
        found = np.zeros(len(self._values), dtype=np.bool_)
        for row, value in enumerate(self._values):
            found[row] = value is not None and _column_of(value).holds(predicate)[0]
        return found


def read_column(array: pa.Array | pa.ChunkedArray, name: str, first: int = 0) -> Column:
    """The column of an attribute, checked; `first` is the number of its first row, for the error."""
    plain = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = plain.type
    if pa.types.is_dictionary(kind):
        return read_column(plain.dictionary_decode(), name, first)
    if pa.types.is_null(kind):
        return absent_column(len(plain))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _Strings(plain)
    if pa.types.is_integer(kind):
        return _Integers(plain)
    if pa.types.is_floating(kind):
        return _Floats(plain, name, first)
    if pa.types.is_boolean(kind):
        return _Bools(plain)
    return _Objects(plain, name, first)


def absent_column(count: int) -> Column:
    """The column of an attribute that no row has."""
    return Column(None, np.zeros(count, dtype=np.bool_))


def _column_of(value: Value) -> Column:
    # Every value here came out of Arrow, so it fits a column of its own.
    whole = type(value) is int and value > 2**63 - 1
    return read_column(pa.array([value], pa.uint64() if whole else None), "")


def _valid(array: pa.Array) -> Mask:
    present: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return present


def _nan(name: str, row: int) -> LanguageError:
    return LanguageError(f"column {name!r}, row {row} is NaN", expected="a number that can be compared, or null")
