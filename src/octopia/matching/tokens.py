"""Notifications as columns of numbers, as a reader of bytes produces them, independent of any filters.

A *token* is one attribute of one notification. Strings stay in the bytes they came in, as a place and a length, so only
those that some filter names are ever read. A reader numbers attribute names as it meets them, over all its batches, so
that whatever follows from a name is worked out once (`Names`).

**A number is a pair**: the greatest float that is not above it, and the rest, an integer that is not negative. The rest
of a float is 0, and so is that of an integer up to 2^53. That of any other integer of 64 bits, signed or not, is below
2,048. So two numbers compare as their pairs do, and no integer of 64 bits is confused with another. Longer integers
are never read as tokens; as constants of conditions they have the rest `REST_MAX`, with which they compare rightly with
all numbers that tokens have (`pair_of`).

The arrays belong to the reader that fills them (`wire/scanner.py`, `own_tokens.py`), and are longer than their content.
"""

from math import inf, nextafter

# Columns of a notification: where the forwarded part begins (its stamp, or else its parcel), where its parcel begins
# and ends, its publisher's sequence number, its first token and the number of tokens, and the numbers of its signature,
# its publisher and the header of its frame.
TAIL, PARCEL, STOP, SEQUENCE, FIRST, WIDTH, SIGNATURE, PUBLISHER, HEADER = range(9)
NOTE_COLUMNS = 9
# Columns of a token: the number of its name, the kind of its value, and for a string where it begins and ends.
# For a number, AT is its rest.
NAME, KIND, AT, END = range(4)
TOKEN_COLUMNS = 4
# Kinds of values. The last two are in tokens that are made of other things than bytes (`columns.py`): a string whose
# code for the matcher is in `numbers`, and no value at all.
NUMBER, TEXT, BOOL, CODED, ABSENT = range(5)
# The rest of an integer of more than 64 bits that is not a float.
REST_MAX = 2**31 - 1
_WORD_MAX = 2**64


class Names:
    """Attribute names by number. Names are added and never change; a reader that has met too many begins a new one."""

    __slots__ = ("words",)

    def __init__(self) -> None:
        self.words: list[str] = []


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
