"""The subscription language: filters and notifications, and how they relate.

Two text forms, PADRES (`[class,eq,'STOCK'],[price,>,10]`) and SQL where-clauses (`price > 10 or symbol in ('A','B')`),
become one set of frozen values. This package knows nothing of brokers or messages; docs/reference/language.md is its
manual.
"""

from octopia.language.conformity import (
    ALWAYS,
    Alternatives,
    Conformity,
    all_hold,
    left_to_test,
    one_holds,
)
from octopia.language.explain import why_not_conforms, why_not_matches, why_not_overlaps
from octopia.language.filter import Conjunction, Filter
from octopia.language.limits import (
    COVER_STEPS_MAX,
    COVER_WORK_MAX,
    DISJUNCTS_MAX,
    FILTER_TEXT_CHARS_MAX,
    INTEGER_BITS_MAX,
    NESTING_LEVELS_MAX,
    NOTIFICATION_ATTRIBUTES_MAX,
    NOTIFICATION_TEXT_CHARS_MAX,
    PREDICATES_MAX,
    STRING_CANDIDATES_MAX,
    STRING_CHARS_MAX,
    STRING_TESTS_MAX,
)
from octopia.language.notification import Notification
from octopia.language.padres_writer import to_padres
from octopia.language.parse import FilterLike, NotificationLike, parse_filter, parse_notification
from octopia.language.predicate import Operator, Predicate
from octopia.language.relations import conforms, covers, matches, overlaps
from octopia.language.sat import impossible
from octopia.language.values import Kind, Value
from octopia.language.work import PATTERN_CHARS, pattern_count, unequal_count

__all__ = [
    "ALWAYS",
    "COVER_STEPS_MAX",
    "COVER_WORK_MAX",
    "DISJUNCTS_MAX",
    "FILTER_TEXT_CHARS_MAX",
    "INTEGER_BITS_MAX",
    "NESTING_LEVELS_MAX",
    "NOTIFICATION_ATTRIBUTES_MAX",
    "NOTIFICATION_TEXT_CHARS_MAX",
    "PATTERN_CHARS",
    "PREDICATES_MAX",
    "STRING_CANDIDATES_MAX",
    "STRING_CHARS_MAX",
    "STRING_TESTS_MAX",
    "Alternatives",
    "Conformity",
    "Conjunction",
    "Filter",
    "FilterLike",
    "Kind",
    "Notification",
    "NotificationLike",
    "Operator",
    "Predicate",
    "Value",
    "all_hold",
    "conforms",
    "covers",
    "impossible",
    "left_to_test",
    "matches",
    "one_holds",
    "overlaps",
    "parse_filter",
    "parse_notification",
    "pattern_count",
    "to_padres",
    "unequal_count",
    "why_not_conforms",
    "why_not_matches",
    "why_not_overlaps",
]
