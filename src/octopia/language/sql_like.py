"""LIKE patterns as string predicates.

Rules of this file: a pattern is accepted only where prefix, postfix, contains and equals say exactly the same; what
they cannot say (`_`, more than one gap) is refused. `'A%B'` is "starts with A and ends with B" only if A and B cannot
share characters: 'ab%bc' wants four characters at least, while 'abc' starts with 'ab' and ends with 'bc'.
"""

from typing import Final

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.predicate import Operator, Predicate

_ANY_RUN: Final = "%"
_ANY_ONE: Final = "_"


def like_predicates(attribute: str, pattern: str, escape: str | None) -> tuple[Predicate, ...]:
    """Predicates that hold together exactly where `attribute like pattern` holds."""
    parts = _literal_parts(pattern, escape)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return (Predicate(attribute, Operator.EQ, first),)
    if len(parts) == 3 and not first and not last:
        return (Predicate(attribute, Operator.CONTAINS, parts[1]),)
    if len(parts) > 2:
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' has too many gaps", expected="'A%', '%A', '%A%', 'A%B' or no % at all"
        )
    if first and last and _can_share(first, last):
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' cannot be told from its ends: an end of '{shortened(first)}'"
            f" is a start of '{shortened(last)}'",
            expected="a prefix and a postfix that cannot overlap",
        )
    ends = [Predicate(attribute, Operator.PREFIX, first)] if first or not last else []
    if last:
        ends.append(Predicate(attribute, Operator.POSTFIX, last))
    return tuple(ends)


def _literal_parts(pattern: str, escape: str | None) -> list[str]:
    """What stands between the runs of `%`, with escapes resolved."""
    parts = [""]
    in_gap = False
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise LanguageError(f"the pattern '{shortened(pattern)}' ends with its escape character")
            parts[-1] += escaped
        elif character == _ANY_ONE:
            raise LanguageError(
                f"the pattern '{shortened(pattern)}' has the wildcard '_'",
                expected="'%' as the only wildcard",
                hint="for a plain underscore write like '…!_…' escape '!'",
            )
        elif character == _ANY_RUN:
            if not in_gap:
                parts.append("")
            in_gap = True
            continue
        else:
            parts[-1] += character
        in_gap = False
    return parts


def _can_share(first: str, last: str) -> bool:
    return any(first.endswith(last[:length]) for length in range(1, min(len(first), len(last)) + 1))
