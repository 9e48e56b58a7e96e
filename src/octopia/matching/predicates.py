"""Predicates as lines of numbers, so that compiled code can test values with them (`predicates_numba.holds`).

A line has all that a test needs: the operator, the kind of its constant, and the constant: a number as a pair
(`tokens.py`), or a string as its UTF-8 bytes, whose order is that of its characters. Which attribute is meant is the
caller's business. Lines are reused; those of a removed predicate must not be tested any more.
"""

import numpy as np

from octopia.language import Operator, Predicate, ValueKind
from octopia.matching.arena import Arena
from octopia.matching.tokens import BOOL, NUMBER, TEXT, pair_of
from octopia.sheets import Sheet

# Lines of the sheet: the predicates, the floats of their constants, and the bytes of strings.
LINES, FLOATS, TEXTS = range(3)
SHEET_LINES = 3
# Columns of `LINES`: the operator, the kind of value that it tests (of `tokens.py`; -1 for any), the rest of a number,
# and where a string begins and how many bytes it has.
OPERATOR, TESTED, REST, TEXT_AT, TEXT_BYTES = range(5)
COLUMNS = 5
# Operators by number.
EQ, NE, LT, LE, GT, GE, PREFIX, POSTFIX, CONTAINS, NOT_PREFIX, NOT_POSTFIX, NOT_CONTAINS, PRESENT = range(len(Operator))

_LINES_MIN = 16
_KINDS = {None: -1, ValueKind.NUMBER: NUMBER, ValueKind.STRING: TEXT, ValueKind.BOOL: BOOL}


class PredicateTable:
    """Predicates by line. `sheet` is what the compiled test reads, and keeps its address."""

    __slots__ = ("_end", "_free", "_texts", "sheet")

    def __init__(self) -> None:
        self.sheet = Sheet(SHEET_LINES)
        self.sheet.put(LINES, np.zeros((_LINES_MIN, COLUMNS), dtype=np.int64))
        self.sheet.put(FLOATS, np.zeros(_LINES_MIN))
        self._texts = Arena(self.sheet, TEXTS)
        self._end = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._end - len(self._free)

    def add(self, predicate: Predicate) -> int:
        """Store a predicate; returns its line."""
        if self._free:
            line = self._free.pop()
        else:
            line = self._end
            self._end += 1
            if self._end > len(self.sheet[LINES]):
                self.sheet.grow(LINES, 2 * line)
                self.sheet.grow(FLOATS, 2 * line)
        bound, rest, at, size = 0.0, 0, 0, 0
        value = predicate.value
        if isinstance(value, str):
            text = value.encode()
            at, size = self._texts.put(text), len(text)
        elif value is not None:
            bound, rest = pair_of(float(value) if isinstance(value, bool) else value)
        self.sheet[LINES][line] = predicate.operator.rank, _KINDS[predicate.kind], rest, at, size
        self.sheet[FLOATS][line] = bound
        return line

    def remove(self, line: int) -> None:
        """Free the line of a predicate."""
        _, kind, _, at, size = self.sheet[LINES][line].tolist()
        if kind == TEXT:
            self._texts.give_back(at, size)
        self._free.append(line)
