"""Which rows of a batch conform to advertisements, column by column.

The answers are those of `octopia.language.conforms`. The part that a row's names decide is computed once for each
combination of columns that are not null; a test of values runs over a whole column.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.language import ALWAYS, Filter, Operator, Predicate, left_to_test

Bools = npt.NDArray[np.bool_]
# With more columns than bits, combinations would be long; such a batch is checked row by row.
COLUMNS_MAX: Final = 62
_EXACT_MAX: Final = 2**53
_COMPARISONS: Final[dict[Operator, Callable[[Any, Any], Bools]]] = {
    Operator.EQ: np.equal,
    Operator.NE: np.not_equal,
    Operator.LT: np.less,
    Operator.LE: np.less_equal,
    Operator.GT: np.greater,
    Operator.GE: np.greater_equal,
}


class ConformingRows:
    """Checks the rows of one batch; caches the result of each test on a column."""

    def __init__(self, names: Sequence[str], arrays: Sequence[pa.Array], valid: Sequence[Bools | None]) -> None:
        """`valid`: which rows of a column are not null; None: all."""
        self._names = names
        self._arrays = dict(zip(names, arrays, strict=True))
        self._rows = len(arrays[0]) if arrays else 0
        self._valid = valid
        self._tests: dict[Predicate, Bools] = {}

    def first_refused(self, advertisements: Iterable[Filter]) -> int:
        """The first row that conforms to none; the number of rows if all conform."""
        everything = list(advertisements)
        refused = np.zeros(self._rows, dtype=np.bool_)
        for names, rows in self._combinations():
            fine = self._fine(names, everything)
            if fine is None:
                continue
            if rows is None:
                refused = ~fine
            else:
                refused |= rows & ~fine
        return int(np.argmax(refused)) if refused.any() else self._rows

    def _combinations(self) -> Iterable[tuple[tuple[str, ...], Bools | None]]:
        """The combinations of names, and the rows of each; None: all."""
        if all(there is None for there in self._valid):
            return [(tuple(self._names), None)]
        code = np.zeros(self._rows, dtype=np.int64)
        for place, there in enumerate(self._valid):
            code |= (1 if there is None else there.astype(np.int64)) << place
        found = []
        for bits in np.unique(code).tolist():
            names = tuple(name for place, name in enumerate(self._names) if bits >> place & 1)
            found.append((names, code == bits))
        return found

    def _fine(self, names: tuple[str, ...], advertisements: Sequence[Filter]) -> Bools | None:
        """Of rows with these names, which conform; None: all."""
        fine = np.zeros(self._rows, dtype=np.bool_)
        for advertisement in advertisements:
            alternatives = left_to_test(names, advertisement)
            if alternatives is ALWAYS:
                return None
            for tests in alternatives:
                one = np.ones(self._rows, dtype=np.bool_)
                for predicate in tests:
                    one &= self._test(predicate)
                fine |= one
        return fine

    def _test(self, predicate: Predicate) -> Bools:
        known = self._tests.get(predicate)
        if known is None:
            known = self._tests[predicate] = _accepted(self._arrays[predicate.attribute], predicate)
        return known


def _accepted(array: pa.Array, predicate: Predicate) -> Bools:
    """Which values of a column a predicate accepts; undefined where it is null."""
    compare = _COMPARISONS.get(predicate.operator)
    value = predicate.value
    kind = array.type
    if compare is not None and type(value) in (int, float):
        whole = pa.types.is_signed_integer(kind) and type(value) is int and -(2**63) <= value < 2**63
        if whole or (pa.types.is_floating(kind) and (type(value) is float or abs(value) <= _EXACT_MAX)):  # type: ignore[arg-type]
            # Wide enough for the constant: numpy would round it to the type of a narrow column.
            numbers = pc.fill_null(array.cast(pa.int64() if whole else pa.float64()), 0)
            constant: Any = value if whole else float(value)  # type: ignore[arg-type]
            return compare(numbers.to_numpy(zero_copy_only=False), constant)
    # Columns of strings have few distinct values; for others this costs no more than row by row.
    encoded = array if pa.types.is_dictionary(kind) else array.dictionary_encode()
    accepted = [text is not None and predicate.accepts(text) for text in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    held: Bools = np.array([*accepted, False], dtype=np.bool_)[codes]
    return held
