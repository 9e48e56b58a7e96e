"""LIKE patterns as string predicates.

A pattern is accepted only if prefix, postfix, contains and equals can express it exactly; anything else (`_`, more than
one gap) is refused. `'A%B'` is "starts with A and ends with B" only if A and B cannot share characters: 'ab%bc' needs
at least four characters, while 'abc' starts with 'ab' and ends with 'bc'. Work is proportional to the length of the
pattern.
"""

from typing import Final

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.predicate import Operator, Predicate

_ANY_RUN: Final = "%"
_ANY_ONE: Final = "_"


def like_predicates(attribute: str, pattern: str, escape: str | None) -> list[Predicate]:
    """Predicates whose conjunction is exactly `attribute like pattern`."""
    parts = _literal_parts(pattern, escape)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return [Predicate(attribute, Operator.EQ, first)]
    if len(parts) == 3 and not first and not last:
        return [Predicate(attribute, Operator.CONTAINS, parts[1])]
    if len(parts) > 2:
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' has too many gaps", expected="'A%', '%A', '%A%', 'A%B' or no % at all"
        )
    if _can_share(first, last):
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' cannot be told from its ends: an end of '{shortened(first)}'"
            f" is a start of '{shortened(last)}'",
            expected="a prefix and a postfix that cannot overlap",
        )
    ends = [Predicate(attribute, Operator.PREFIX, first)] if first or not last else []
    if last:
        ends.append(Predicate(attribute, Operator.POSTFIX, last))
    return ends


def _literal_parts(pattern: str, escape: str | None) -> list[str]:
    """The parts between the runs of `%`, with escapes resolved."""
    parts: list[list[str]] = [[]]
    in_gap = False
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise LanguageError(f"the pattern '{shortened(pattern)}' ends with its escape character")
            parts[-1].append(escaped)
        elif character == _ANY_ONE:
            raise LanguageError(
                f"the pattern '{shortened(pattern)}' has the wildcard '_'",
                expected="'%' as the only wildcard",
                hint="for a plain underscore write like '…!_…' escape '!'",
            )
        elif character == _ANY_RUN:
            if not in_gap:
                parts.append([])
            in_gap = True
            continue
        else:
            parts[-1].append(character)
        in_gap = False
    return ["".join(part) for part in parts]


def _can_share(first: str, last: str) -> bool:
    """Whether an end of `first` is a start of `last`: the search of Knuth, Morris and Pratt for `last` in `first`."""
    # borders[n] is the length of the longest part that `last[: n + 1]` both starts and ends with, itself excepted.
    borders: list[int] = []
    matched = 0
    for index, character in enumerate(last):
        while matched and last[matched] != character:
            matched = borders[matched - 1]
        matched += index > 0 and last[matched] == character
        borders.append(matched)
    matched = 0
    for character in first:
        while matched and (matched == len(last) or last[matched] != character):
            matched = borders[matched - 1]
        matched += last[matched : matched + 1] == character
    return matched > 0
