"""The conditions on strings of one attribute, and which of them a string satisfies.

The answers are exactly those of `Predicate.accepts`. Prefixes, postfixes and substrings are looked up by their length,
so that thousands of them cost little more than one. If there are few substrings of one length, each is searched for in
turn; if there are many, they are compared with all pieces of that length in the string. So a string costs, for each
*length* that substrings have, some 10 ns a character where it is long and 150 ns where it is short, however many
substrings there are. Comparisons (`<` and its kind) are tested one by one.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from octopia.language import STRING_CHARS_MAX, Operator, Predicate

# Substrings of one length: up to this many, searching for each is faster than comparing all pieces of a short string.
SEARCHED_MAX: Final = 128
# From this string length on, pieces are compared with numpy, which pays off from this many substrings on.
LONG_CHARS_MIN: Final = 1_024
SEARCHED_IN_LONG_MAX: Final = 8
# Any odd number: pieces are told apart by sums of powers of it, modulo 2^64.
_BASE: Final = 0x9E3779B97F4A7C15
_TABLE_BITS: Final = 16

Hashes = npt.NDArray[np.uint64]


class Numbered(Protocol):
    """The value that identifies a condition."""

    number: int


Atom = TypeVar("Atom", bound=Numbered)


class _OfLength:
    """Constants of one length, and their hashes once needed."""

    __slots__ = ("_hashes", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        self._hashes: tuple[list[str], Hashes] | None = None

    def add(self, text: str) -> None:
        self.texts[text] = None
        self._hashes = None

    def remove(self, text: str) -> None:
        del self.texts[text]
        self._hashes = None

    def hashed(self) -> tuple[list[str], Hashes]:
        if self._hashes is None:
            texts = list(self.texts)
            codes = _codes("".join(texts)).reshape(len(texts), -1)
            self._hashes = texts, (codes * _powers()[0][: codes.shape[1]]).sum(axis=1, dtype=np.uint64)
        return self._hashes


class _Constants(Generic[Atom]):
    """The constants of one operator and of its negation."""

    __slots__ = ("_find", "_holding", "_lacking", "_lengths")

    def __init__(self, find: Callable[[str, dict[int, _OfLength]], Iterable[str]]) -> None:
        self._find = find
        self._lengths: dict[int, _OfLength] = {}
        self._holding: dict[str, Atom] = {}
        self._lacking: dict[str, Atom] = {}

    def add(self, text: str, atom: Atom, *, negated: bool) -> None:
        (self._lacking if negated else self._holding)[text] = atom
        self._lengths.setdefault(len(text), _OfLength()).add(text)

    def remove(self, text: str, *, negated: bool) -> None:
        del (self._lacking if negated else self._holding)[text]
        if text not in self._holding and text not in self._lacking:
            of_length = self._lengths[len(text)]
            of_length.remove(text)
            if not of_length.texts:
                del self._lengths[len(text)]

    def satisfied_by(self, text: str) -> Iterator[Atom]:
        found = dict.fromkeys(self._find(text, self._lengths))
        yield from (self._holding[constant] for constant in found if constant in self._holding)
        yield from (atom for constant, atom in self._lacking.items() if constant not in found)


class Patterns(Generic[Atom]):
    """Conditions on the strings of one attribute, each with its identifier."""

    __slots__ = ("_atoms", "_comparisons", "_constants")

    def __init__(self) -> None:
        self._atoms: dict[Predicate, Atom] = {}
        self._comparisons: dict[Predicate, Atom] = {}
        self._constants: dict[Operator, _Constants[Atom]] = {}

    def __len__(self) -> int:
        return len(self._atoms)

    def __getitem__(self, predicate: Predicate) -> Atom:
        return self._atoms[predicate]

    def get(self, predicate: Predicate) -> Atom | None:
        return self._atoms.get(predicate)

    def add(self, predicate: Predicate, atom: Atom) -> None:
        self._atoms[predicate] = atom
        found = _LOOKED_UP.get(predicate.operator)
        if found is None:
            self._comparisons[predicate] = atom
            return
        operator, negated = found
        if operator not in self._constants:
            self._constants[operator] = _Constants(_FINDING[operator])
        self._constants[operator].add(str(predicate.value), atom, negated=negated)

    def remove(self, predicate: Predicate) -> None:
        del self._atoms[predicate]
        found = _LOOKED_UP.get(predicate.operator)
        if found is None:
            del self._comparisons[predicate]
        else:
            operator, negated = found
            self._constants[operator].remove(str(predicate.value), negated=negated)

    def satisfied_by(self, text: str) -> Iterator[Atom]:
        """The identifiers of the conditions that a string satisfies."""
        yield from (atom for predicate, atom in self._comparisons.items() if predicate.accepts(text))
        for constants in self._constants.values():
            yield from constants.satisfied_by(text)


# ---- constants that a string starts with, ends with, contains


def _starting(text: str, lengths: dict[int, _OfLength]) -> Iterator[str]:
    return (text[:length] for length, known in lengths.items() if text[:length] in known.texts)


def _ending(text: str, lengths: dict[int, _OfLength]) -> Iterator[str]:
    for length, known in lengths.items():
        if length <= len(text) and text[len(text) - length :] in known.texts:
            yield text[len(text) - length :]


def _contained(text: str, lengths: dict[int, _OfLength]) -> Iterator[str]:
    pieces: _Pieces | None = None
    is_long = LONG_CHARS_MIN <= len(text) <= STRING_CHARS_MAX
    for length, known in lengths.items():
        if length > len(text):
            continue
        if len(known.texts) <= (SEARCHED_IN_LONG_MAX if is_long else SEARCHED_MAX):
            yield from (constant for constant in known.texts if constant in text)
        elif is_long:
            if pieces is None:
                pieces = _Pieces(text)
            yield from pieces.among(known, length)
        else:
            every = {text[at : at + length] for at in range(len(text) - length + 1)}
            yield from (constant for constant in known.texts if constant in every)


class _Pieces:
    """The hashes of all pieces of a long string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sums = np.zeros(len(text) + 1, dtype=np.uint64)
        np.cumsum(_codes(text) * _powers()[0][: len(text)], out=self._sums[1:])

    def among(self, known: _OfLength, length: int) -> Iterator[str]:
        """Those of the constants of this length that are pieces."""
        count = len(self._text) - length + 1
        hashes = (self._sums[length:] - self._sums[:count]) * _powers()[1][:count]
        texts, wanted = known.hashed()
        # most pieces are ruled out by a few bits, the upper ones: the lower ones hardly differ
        table = np.zeros(1 << _TABLE_BITS, dtype=np.bool_)
        table[_upper(wanted)] = True
        near = np.flatnonzero(table[_upper(hashes)])
        if not len(near):
            return
        values, firsts = np.unique(hashes[near], return_index=True)
        at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
        for which in np.flatnonzero(values[at] == wanted).tolist():
            first = int(near[firsts[at[which]]])
            # hash collisions between pieces are rare, but must not hide a match
            if self._text.startswith(texts[which], first) or texts[which] in self._text:
                yield texts[which]


def _upper(hashes: Hashes) -> npt.NDArray[Any]:
    return hashes >> np.uint64(64 - _TABLE_BITS)


def _codes(text: str) -> Hashes:
    # starting at 1, so that every character affects the hash
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64) + np.uint64(1)


@lru_cache(1)
def _powers() -> tuple[Hashes, Hashes]:
    """Powers of the base, and of its inverse modulo 2^64."""
    powers = []
    for base in (_BASE, pow(_BASE, -1, 1 << 64)):
        factors = np.full(STRING_CHARS_MAX + 1, base, dtype=np.uint64)
        factors[0] = 1
        powers.append(np.cumprod(factors, dtype=np.uint64))
    return powers[0], powers[1]


# Each condition that is looked up by its constant: the operator without negation, and whether it is negated.
_LOOKED_UP: Final = {
    Operator.PREFIX: (Operator.PREFIX, False),
    Operator.NOT_PREFIX: (Operator.PREFIX, True),
    Operator.POSTFIX: (Operator.POSTFIX, False),
    Operator.NOT_POSTFIX: (Operator.POSTFIX, True),
    Operator.CONTAINS: (Operator.CONTAINS, False),
    Operator.NOT_CONTAINS: (Operator.CONTAINS, True),
}
_FINDING: Final = {Operator.PREFIX: _starting, Operator.POSTFIX: _ending, Operator.CONTAINS: _contained}
