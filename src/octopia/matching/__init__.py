"""Indexes of filters: which does a notification match, an advertisement overlap, another filter cover?"""

from octopia.matching.answers import Answers
from octopia.matching.arena import Arena
from octopia.matching.cover_query import CoverQuery
from octopia.matching.covers import CoverIndex
from octopia.matching.kernels import chosen_kernels, kernels_in_use, use_kernels
from octopia.matching.matcher import Matcher
from octopia.matching.predicates import PredicateTable
from octopia.matching.tokens import Names
from octopia.matching.warm_up import warm_up

__all__ = [
    "Answers",
    "Arena",
    "CoverIndex",
    "CoverQuery",
    "Matcher",
    "Names",
    "PredicateTable",
    "chosen_kernels",
    "kernels_in_use",
    "use_kernels",
    "warm_up",
]
