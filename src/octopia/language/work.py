"""What a filter costs whoever holds it, counted before it is taken in.

Rules of this file: counted from the filter alone, without a clock, so that every broker gives the same answer.
Intervals and equal strings are cheap: thousands of them are searched together. What is counted are *patterns*:
conditions that are held against values, and against other filters, one by one.
"""

from typing import Final

from octopia.language.filter import Filter
from octopia.language.predicate import Operator, Predicate
from octopia.language.values import Kind

# A pattern of so many characters counts as one, of twice as many as two, and so on.
PATTERN_CHARS: Final = 64
# Up to here every integer is a float, and comparing with it is an interval.
_EXACT_MAX: Final = 2**53


def pattern_count(filter: Filter) -> int:
    """The patterns of a filter: `like`, the order of strings, and numbers past 2^53; a long string counts several."""
    return sum(_patterns(predicate) for conjunction in filter.conjunctions for predicate in conjunction.predicates)


def unequal_count(filter: Filter) -> int:
    """The conjunctions of a filter that leave values out (`<>`, `not in`)."""
    return sum(any(p.operator is Operator.NE for p in conjunction) for conjunction in filter.conjunctions)


def _patterns(predicate: Predicate) -> int:
    value = predicate.value
    if predicate.kind is Kind.STRING:
        if predicate.operator is Operator.EQ or predicate.operator is Operator.NE:
            return 0
        return -(-len(str(value)) // PATTERN_CHARS) or 1
    if predicate.kind is Kind.NUMBER:
        return int(not -_EXACT_MAX < value < _EXACT_MAX)  # type: ignore[operator]
    return 0
