"""Tokens that a matcher makes itself, of notifications and of columns, for compiled code.

Their names are the numbers of attributes (`space.Attribute.line`), and only attributes that filters name are among
them. A string has its code; its bytes are there only if something else than the code matters.
"""

from collections.abc import Iterable, Mapping
from struct import pack_into
from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.language import Value
from octopia.matching.boxes import EXACT_MAX, Axis
from octopia.matching.columns import Column, Columns
from octopia.matching.space import Space
from octopia.matching.tokens import (
    AT,
    BOOL,
    CODED,
    END,
    FIRST,
    KIND,
    NOTE_COLUMNS,
    NUMBER,
    REST_MAX,
    TOKEN_COLUMNS,
    WIDTH,
    pair_of,
)
from octopia.sheets import Sheet

NOTES, TOKENS, NUMBERS, DATA = range(4)
_NOTES_MIN, _TOKENS_MIN, _BYTES_MIN = 1, 16, 256
# Tokens of columns that are made at a time: as many as stay in the processor's cache.
_TOGETHER_MAX = 1 << 14
_EXACT = Axis.EXACT


class OwnTokens:
    """The tokens of some events, which are replaced by those of the next."""

    __slots__ = ("_sheet",)

    def __init__(self) -> None:
        self._sheet = Sheet(4)
        self._sheet.put(NOTES, np.zeros((_NOTES_MIN, NOTE_COLUMNS), dtype=np.int64))
        self._sheet.put(TOKENS, np.zeros((_TOKENS_MIN, TOKEN_COLUMNS), dtype=np.int32))
        self._sheet.put(NUMBERS, np.zeros(_TOKENS_MIN))
        self._sheet.put(DATA, np.zeros(_BYTES_MIN, dtype=np.uint8))

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Where the bytes, the notes, the tokens and the numbers are."""
        sheet = self._sheet
        return sheet.address_of(DATA), sheet.address_of(NOTES), sheet.address_of(TOKENS), sheet.address_of(NUMBERS)

    def _room(self, line: int, length: int) -> npt.NDArray[Any]:
        """An array that is at least so long; what was in it does not matter any more."""
        array = self._sheet[line]
        if len(array) < length:
            array = self._sheet.grow(line, 2 * length)
        return array

    # -- of notifications

    def write(self, events: Iterable[Mapping[str, Value]], space: Space) -> bool:
        """Make the tokens of some notifications; returns False if an integer is too long for a token."""
        tokens: list[int] = []
        numbers: list[float] = []
        texts: list[bytes] = []
        ends = []
        size = 0
        for values in events:
            for attribute, value in space.named(values):
                kind = type(value)
                if kind is float:
                    tokens += (attribute.line, NUMBER, 0, 0)
                    numbers.append(value)  # type: ignore[arg-type]
                elif kind is str:
                    start = size
                    if attribute.reads_strings:
                        texts.append(value.encode())  # type: ignore[union-attr]
                        size += len(texts[-1])
                    tokens += (attribute.line, CODED, start, size)
                    numbers.append(attribute.code(value))  # type: ignore[arg-type]
                elif kind is bool:
                    tokens += (attribute.line, BOOL, 0, 0)
                    numbers.append(value)  # type: ignore[arg-type]
                elif -EXACT_MAX <= value <= EXACT_MAX:  # type: ignore[operator]
                    tokens += (attribute.line, NUMBER, 0, 0)
                    numbers.append(value)  # type: ignore[arg-type]
                else:
                    below, rest = pair_of(value)  # type: ignore[arg-type]
                    if rest == REST_MAX and attribute.places[_EXACT] >= 0:
                        return False
                    tokens += (attribute.line, NUMBER, rest, 0)
                    numbers.append(below)
            ends.append(len(numbers))
        count = len(numbers)
        pack_into(f"{4 * count}i", self._room(TOKENS, count).data, 0, *tokens)
        pack_into(f"{count}d", self._room(NUMBERS, count).data, 0, *numbers)
        if size:
            self._room(DATA, size)[:size] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        notes = self._room(NOTES, len(ends))
        if len(ends) == 1:
            notes[0, FIRST : WIDTH + 1] = 0, count
        else:
            notes[: len(ends), WIDTH] = np.diff(ends, prepend=0)
            notes[: len(ends), FIRST] = np.array(ends) - notes[: len(ends), WIDTH]
        return True

    # -- of columns

    @staticmethod
    def together(columns: Columns) -> int:
        """How many events of columns are written at a time."""
        return max(1, _TOGETHER_MAX // max(1, len(columns.of)))

    def write_columns(self, columns: Columns, first: int, count: int) -> None:
        """Make the tokens of some events of columns."""
        width = len(columns.of)
        notes = self._room(NOTES, count)
        notes[:count, FIRST] = np.arange(0, count * width, width) if width else 0
        notes[:count, WIDTH] = width
        tokens = self._room(TOKENS, count * width)[: count * width].reshape(count, width, TOKEN_COLUMNS)
        numbers = self._room(NUMBERS, count * width)[: count * width].reshape(count, width)
        for at, (attribute, column) in enumerate(columns.of):
            tokens[:, at] = attribute.line, column.kinds if isinstance(column.kinds, int) else 0, 0, 0
        events = slice(first, first + count)
        texts: list[bytes] = []
        size = 0
        for at, (attribute, column) in enumerate(columns.of):
            numbers[:, at] = column.numbers[events]
            if not isinstance(column.kinds, int):
                tokens[:, at, KIND] = column.kinds[events]
            if column.rests is not None:
                tokens[:, at, AT] = column.rests[events]
            if attribute.reads_strings and len(column.strings):
                size = _write_strings(tokens[:, at], column, events, texts, size)
        if size:
            self._room(DATA, size)[:size] = np.frombuffer(b"".join(texts), dtype=np.uint8)


def _write_strings(tokens: npt.NDArray[np.int32], column: Column, events: slice, texts: list[bytes], size: int) -> int:
    """The places of the strings of a column, which come after `size` bytes; returns how many bytes there are then."""
    if column.string_of is None:
        used, which = column.strings[events], None
    else:
        distinct, which = np.unique(column.string_of[events], return_inverse=True)
        used = ["" if at < 0 else column.strings[at] for at in distinct.tolist()]
    mine = [b"" if text is None else text.encode() for text in used]
    texts += mine
    ends = size + np.cumsum([len(text) for text in mine])
    starts = ends - [len(text) for text in mine]
    coded = np.flatnonzero(tokens[:, KIND] == CODED)
    at = coded if which is None else which[coded]
    tokens[coded, AT], tokens[coded, END] = starts[at], ends[at]
    return int(ends[-1]) if len(mine) else size
