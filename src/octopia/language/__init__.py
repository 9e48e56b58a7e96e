"""The subscription language: filters and notifications, and how they relate.

Two text forms, PADRES (`[class,eq,'STOCK'],[price,>,10]`) and SQL where-clauses (`price > 10 or symbol in ('A','B')`),
become one set of frozen values. This package knows nothing of brokers or messages; docs/reference/language.md is its
manual.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.language.conformity import ALWAYS, Alternatives, Conformity, all_hold, left_to_test, one_holds
    from octopia.language.explain import (
        why_can_get_nothing,
        why_not_conforms,
        why_not_matches,
        why_not_overlaps,
        why_subscription_misses,
    )
    from octopia.language.filter import PATTERN_CHARS, Conjunction, Filter, pattern_count, unequal_count
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
    from octopia.language.parse import FilterLike, NotificationLike, parse_filter, parse_notification, to_padres
    from octopia.language.predicate import Operator, Predicate
    from octopia.language.relations import conforms, contradictory, covers, matches, overlaps
    from octopia.language.sat import Extremes, extremes, impossible, predecessor, successor
    from octopia.language.values import Value, ValueKind

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
    "Extremes",
    "Filter",
    "FilterLike",
    "Notification",
    "NotificationLike",
    "Operator",
    "Predicate",
    "Value",
    "ValueKind",
    "all_hold",
    "conforms",
    "contradictory",
    "covers",
    "extremes",
    "impossible",
    "left_to_test",
    "matches",
    "one_holds",
    "overlaps",
    "parse_filter",
    "parse_notification",
    "pattern_count",
    "predecessor",
    "successor",
    "to_padres",
    "unequal_count",
    "why_can_get_nothing",
    "why_not_conforms",
    "why_not_matches",
    "why_not_overlaps",
    "why_subscription_misses",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.language.conformity": "ALWAYS Alternatives Conformity all_hold left_to_test one_holds",
        "octopia.language.explain": (
            "why_can_get_nothing why_not_conforms why_not_matches why_not_overlaps why_subscription_misses"
        ),
        "octopia.language.sat": "Extremes extremes impossible predecessor successor",
        "octopia.language.filter": "PATTERN_CHARS Conjunction Filter pattern_count unequal_count",
        "octopia.language.limits": (
            "COVER_STEPS_MAX COVER_WORK_MAX DISJUNCTS_MAX FILTER_TEXT_CHARS_MAX INTEGER_BITS_MAX NESTING_LEVELS_MAX "
            "NOTIFICATION_ATTRIBUTES_MAX NOTIFICATION_TEXT_CHARS_MAX PREDICATES_MAX STRING_CANDIDATES_MAX "
            "STRING_CHARS_MAX STRING_TESTS_MAX"
        ),
        "octopia.language.notification": "Notification",
        "octopia.language.parse": "FilterLike NotificationLike parse_filter parse_notification to_padres",
        "octopia.language.predicate": "Operator Predicate",
        "octopia.language.relations": "conforms contradictory covers matches overlaps",
        "octopia.language.values": "ValueKind Value",
    },
)
