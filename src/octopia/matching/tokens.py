"""Notifications as columns of numbers, as a reader of bytes produces them, independent of any filters.

A *token* is one attribute of one notification. Strings stay in the bytes they came in, as a place and a length, so only
those that some filter names are ever read. A reader numbers attribute names as it meets them, over all its batches, so
that whatever follows from a name is worked out once (`Names`). The combinations of names that notifications have
(signatures) and the publishers are numbered within one batch, in the order in which they appear.

**A number is a pair**: the greatest float that is not above it, and the rest, an integer that is not negative. The rest
of a float is 0, and so is that of an integer up to 2^53. That of any other integer of 64 bits, signed or not, is below
2,048. So two numbers compare as their pairs do, and no integer of 64 bits is confused with another. Longer integers
are never read as tokens; as constants of conditions they have the rest `REST_MAX`, with which they compare rightly with
all numbers that tokens have (`pair_of`).

The arrays belong to the reader that fills them and are longer than their content; the counts say how much is filled.
"""

from math import inf, nextafter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Columns of `Tokens.notes`, one line per notification: where the forwarded part begins (its stamp, or else its parcel),
# where its parcel begins and ends, its publisher's sequence number, its first token and the number of tokens, and the
# numbers of its signature, its publisher and the header of its frame.
TAIL, PARCEL, STOP, SEQUENCE, FIRST, WIDTH, SIGNATURE, PUBLISHER, HEADER = range(9)
NOTE_COLUMNS = 9
# Columns of `Tokens.tokens`: the number of its name, the kind of its value, and for a string where it begins and ends.
# For a number, AT is its rest.
NAME, KIND, AT, END = range(4)
TOKEN_COLUMNS = 4
# Kinds of values. The last two are in tokens that are made of other things than bytes (`columns.py`): a string whose
# code for the matcher is in `numbers`, and no value at all.
NUMBER, TEXT, BOOL, CODED, ABSENT = range(5)
# Columns of `Tokens.publishers`: where one begins and how many bytes it has.
TEXT_AT, TEXT_BYTES = range(2)
# Cached combinations of names; a full cache is cleared.
COMBINATIONS_MAX = 1_024
# The rest of an integer of more than 64 bits that is not a float.
REST_MAX = 2**31 - 1
_WORD_MAX = 2**64


class Counts(NamedTuple):
    """How much of the arrays is filled, and what is known of the whole batch.

    `names`: how many the reader has met so far. `breaks`: how often a sequence number does not follow the previous one;
    `first` and `last` are the first and the last of them. `timed`: whether the notifications have a time.
    """

    notes: int
    tokens: int
    names: int
    signatures: int
    publishers: int
    breaks: int
    first: int
    last: int
    timed: int


class Names:
    """Attribute names by number. Names are added and never change; a reader that has met too many begins a new one."""

    __slots__ = ("_combinations", "words")

    def __init__(self) -> None:
        self.words: list[str] = []
        self._combinations: dict[bytes, tuple[str, ...]] = {}

    def combination(self, numbers: bytes) -> tuple[str, ...]:
        """The names of these numbers, which are written as 32-bit integers; the same tuple every time."""
        known = self._combinations.get(numbers)
        if known is None:
            if len(self._combinations) >= COMBINATIONS_MAX:
                self._combinations.clear()
            chosen = [self.words[number] for number in np.frombuffer(numbers, dtype=np.int32).tolist()]
            known = self._combinations[numbers] = tuple(chosen)
        return known


class Tokens:
    """A batch, in arrays that are filled again and again.

    `numbers` has the value of each token that is a boolean, and the float of each that is a number. `heads`: per
    signature, the first notification that has it. `raw` is the same as `data`.
    """

    __slots__ = ("counts", "data", "heads", "names", "notes", "numbers", "publishers", "raw", "tokens")

    raw: bytes
    data: npt.NDArray[np.uint8]
    names: Names
    counts: Counts

    def __init__(self, notes_max: int, tokens_max: int, signatures_max: int, publishers_max: int) -> None:
        self.notes: npt.NDArray[np.int64] = np.empty((notes_max, NOTE_COLUMNS), dtype=np.int64)
        self.tokens: npt.NDArray[np.int32] = np.empty((tokens_max, TOKEN_COLUMNS), dtype=np.int32)
        self.numbers: npt.NDArray[np.float64] = np.empty(tokens_max, dtype=np.float64)
        self.heads: npt.NDArray[np.int64] = np.empty(signatures_max, dtype=np.int64)
        self.publishers: npt.NDArray[np.int64] = np.empty((publishers_max, 2), dtype=np.int64)

    def publisher(self, number: int) -> str:
        at, size = self.publishers[number].tolist()
        return self.raw[at : at + size].decode()

    @property
    def signatures(self) -> npt.NDArray[np.int64]:
        """The signature number of each notification."""
        return self.notes[: self.counts.notes, SIGNATURE]

    def names_of(self, signature: int) -> tuple[str, ...]:
        """The names of a signature, in their order."""
        first, width = self.notes[self.heads[signature], FIRST : WIDTH + 1].tolist()
        return self.names.combination(self.tokens[first : first + width, NAME].tobytes())


def floats_around(number: int) -> tuple[float, float]:
    """The greatest float not above and the least not below an integer; equal if the integer is a float itself."""
    try:
        near = float(number)
    except OverflowError:
        return (nextafter(inf, 0.0), inf) if number > 0 else (-inf, nextafter(-inf, 0.0))
    if near == number:
        return near, near
    return (nextafter(near, -inf), near) if near > number else (near, nextafter(near, inf))


def pair_of(number: int | float) -> tuple[float, int]:
    """A number as a pair."""
    if isinstance(number, float):
        return number, 0
    below, above = floats_around(number)
    if below == above:
        return below, 0
    return below, number - int(below) if -_WORD_MAX < number < _WORD_MAX else REST_MAX
