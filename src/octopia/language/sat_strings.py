"""Strings that could satisfy a set of string predicates.

The candidates are complete. If any string satisfies the predicates, one of those yielded does;
when there would be too many to try, `GaveUp` is raised instead. Strings are ordered by code point, as Python's `<`.

Why it is complete. Comparisons and prefixes leave intervals [low, high) of strings; excluded prefixes cut holes into
them. Take a string s that satisfies everything, in one of the intervals. Either s is itself a prefix of `high` (their
number is finite: all are candidates), or some prefix u of s is *free*: every extension of u lies in the interval. Then
u + x + piece + x + piece + x + postfix is another solution, where the pieces are the required substrings and x is a
character that occurs in no constant: it cannot complete any forbidden substring or postfix, nor equal an excluded
string. So it is enough to try the shortest free prefixes, which branch off `low` or `high` by one character; and of the
characters that can stand there, x again, or when x does not fit, all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from octopia.language.limits import STRING_CANDIDATES_MAX
from octopia.language.predicate import Operator, Predicate

_CODE_POINT_MAX: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
# Where the search for an unused character starts: letters read better in an explanation than control characters.
_UNUSED_FROM: Final = ord("a")


# Each negated operator: the required parts it may lie in (prefixes, postfixes, all), and how.
_WITHIN: Final[dict[Operator, Callable[[str, str], bool]]] = {
    Operator.NOT_PREFIX: str.startswith,
    Operator.NOT_POSTFIX: str.endswith,
    Operator.NOT_CONTAINS: str.__contains__,
}
_PART_OF: Final = {Operator.NOT_PREFIX: 0, Operator.NOT_POSTFIX: 1, Operator.NOT_CONTAINS: 2}
_PLAIN_TESTS_MAX: Final = 256


class GaveUp(Exception):  # noqa: N818 (not an error: an answer that never leaves the package)
    """There are more candidates than the limit."""


class _Interval(NamedTuple):
    """All strings s with low <= s, and s < high where there is a high."""

    low: str
    high: str | None

    @property
    def empty(self) -> bool:
        return self.high is not None and self.low >= self.high


def plainly_possible(predicates: Sequence[Predicate]) -> bool:
    """Whether the patterns alone show that some string satisfies them, which settles nearly all questions.

    The string is prefix + x + pieces, with x between them, + x + postfix, where x occurs in no constant. A forbidden
    substring does not contain x, so it lies within one of the parts or is absent.
    """
    required: dict[Operator, list[str]] = {Operator.PREFIX: [], Operator.POSTFIX: [], Operator.CONTAINS: []}
    forbidden: list[tuple[Operator, str]] = []
    for predicate in predicates:
        operator, value = predicate.operator, predicate.value
        if operator is Operator.PRESENT:
            continue
        if type(value) is not str:
            return False
        if operator in required:
            required[operator].append(value)
        elif operator in _WITHIN:
            if not value:
                return False
            forbidden.append((operator, value))
        elif operator is not Operator.NE:
            return False
    prefixes, postfixes, pieces = required.values()
    if len(prefixes) > 1 or len(postfixes) > 1 or len(forbidden) * (len(pieces) + 1) > _PLAIN_TESTS_MAX:
        return False
    parts = (prefixes, postfixes, (*prefixes, *postfixes, *pieces))
    return not any(_WITHIN[operator](part, text) for operator, text in forbidden for part in parts[_PART_OF[operator]])


def candidates(predicates: Sequence[Predicate]) -> Iterator[str]:
    """Strings among which there is one that satisfies all predicates, if any string does."""
    postfix = max(_constants(predicates, Operator.POSTFIX), key=len, default="")
    pieces = _constants(predicates, Operator.CONTAINS)
    forbidden = _constants(predicates, Operator.NOT_CONTAINS)
    used = frozenset(chain.from_iterable(str(p.value) for p in predicates))
    fresh = _unused(used)
    tail = "".join(fresh + piece for piece in pieces) + fresh + postfix
    tried = 0
    for interval in _intervals(predicates):
        free = (prefix + tail for prefix in _free_prefixes(interval, fresh, used, forbidden))
        for candidate in chain(free, _prefixes_of_high(interval)):
            tried += 1
            if tried > STRING_CANDIDATES_MAX:
                raise GaveUp
            yield candidate


def _constants(predicates: Iterable[Predicate], operator: Operator) -> list[str]:
    return [str(p.value) for p in predicates if p.operator is operator]


# ---- intervals


def _intervals(predicates: Sequence[Predicate]) -> Iterator[_Interval]:
    """The intervals left by comparisons, prefixes and excluded prefixes, in order."""
    low, high = "", None
    for predicate in predicates:
        bounds = _bounds(predicate)
        low = max(low, bounds.low)
        if bounds.high is not None:
            high = bounds.high if high is None else min(high, bounds.high)
    rest = _Interval(low, high)
    for hole in sorted(_constants(predicates, Operator.NOT_PREFIX)):
        before = _Interval(rest.low, hole if rest.high is None else min(rest.high, hole))
        if not before.empty:
            yield before
        end = _after_prefix(hole)
        if end is None:
            return
        rest = _Interval(max(rest.low, end), rest.high)
    if not rest.empty:
        yield rest


def _bounds(predicate: Predicate) -> _Interval:
    value = str(predicate.value)
    match predicate.operator:
        case Operator.GE:
            return _Interval(value, None)
        case Operator.GT:
            return _Interval(value + "\0", None)
        case Operator.LT:
            return _Interval("", value)
        case Operator.LE:
            return _Interval("", value + "\0")
        case Operator.PREFIX:
            return _Interval(value, _after_prefix(value))
        case _:
            return _Interval("", None)


def _after_prefix(prefix: str) -> str | None:
    """The least string above all that start with `prefix`; None when there is none above."""
    kept = prefix.rstrip(chr(_CODE_POINT_MAX))
    return kept[:-1] + chr(_next_code_point(ord(kept[-1]))) if kept else None


def _next_code_point(code: int) -> int:
    return _SURROGATES.stop if code + 1 == _SURROGATES.start else code + 1


# ---- candidates


def _free_prefixes(interval: _Interval, fresh: str, used: frozenset[str], forbidden: Sequence[str]) -> Iterator[str]:
    """The shortest free prefixes, with an unused character where one can stand.

    A stem with a forbidden substring ends the walk along its bound: all longer ones have it too.
    """
    low, high = interval
    shared = _shared_length(interval)
    if shared < len(low) or high is None:
        yield low
    for i in range(shared, _clean_length(low, forbidden)):
        stop = ord(high[i]) if high is not None and i == shared else _CODE_POINT_MAX + 1
        yield from (low[:i] + character for character in _characters(ord(low[i]) + 1, stop, fresh, used))
    if high is not None:
        for j in range(_first_inside(interval), _clean_length(high, forbidden)):
            yield from (high[:j] + character for character in _characters(0, ord(high[j]), fresh, used))


def _prefixes_of_high(interval: _Interval) -> Iterator[str]:
    """The strings in the interval without a free prefix: the prefixes of `high`."""
    if interval.high is not None:
        yield from (interval.high[:j] for j in range(_first_inside(interval), len(interval.high)))


def _shared_length(interval: _Interval) -> int:
    """The length of the common prefix of `low` and `high`; 0 without a `high`."""
    pairs = enumerate(zip(interval.low, interval.high or "", strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(interval.low), len(interval.high or "")))


def _first_inside(interval: _Interval) -> int:
    """The length of the shortest prefix of `high` that is not below `low`."""
    shared = _shared_length(interval)
    return shared if shared == len(interval.low) else shared + 1


def _clean_length(text: str, forbidden: Iterable[str]) -> int:
    """How many stems text[:0], text[:1], … hold no forbidden substring, not counting `text` itself."""
    ends = [text.find(piece) + len(piece) for piece in forbidden if piece in text]
    return min([*ends, len(text)])


def _characters(start: int, stop: int, fresh: str, used: frozenset[str]) -> Iterable[str]:
    """The characters worth trying with start <= code < stop: one that is unused or, when all are used, all."""
    if start <= ord(fresh) < stop:
        return (fresh,)
    tried: list[str] = []
    for code in chain(range(start, min(stop, _SURROGATES.start)), range(max(start, _SURROGATES.stop), stop)):
        if chr(code) not in used:
            return (chr(code),)
        tried.append(chr(code))
    return tried


def _unused(used: frozenset[str]) -> str:
    for code in chain(range(_UNUSED_FROM, _SURROGATES.start), range(_SURROGATES.stop, _CODE_POINT_MAX + 1)):
        if chr(code) not in used:
            return chr(code)
    raise GaveUp
