"""Tests of conditions on values for many notifications at once, read as tokens.

The conditions are alternatives, each a conjunction of predicates (`language.left_to_test`). They are put into a matcher
like subscriptions, so that one search answers for all notifications of a batch. Publishers of one kind of data
advertise alike: equal conditions share a matcher.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from octopia.language import Alternatives, Conjunction, Filter, Notification
from octopia.matching import Matcher, Tokens

# Cached matchers for different conditions; each takes 10 to 50 KB if the conditions are few.
REMEMBERED_MAX: Final = 256
# More conditions than this are tested the ordinary way.
TESTED_MAX: Final = 64

Words = npt.NDArray[np.uint64]


def satisfied(tests: Sequence[Alternatives], tokens: Tokens, seen: Callable[[int], Notification]) -> Words:
    """A word per notification of a batch; bit n is set if it satisfies one of the alternatives of test n."""
    words: Words = _matcher(tuple(tests)).match_tokens_groups(tokens, seen)[:, 0]
    return words


@lru_cache(maxsize=REMEMBERED_MAX)
def _matcher(tests: tuple[Alternatives, ...]) -> Matcher[int]:
    matcher: Matcher[int] = Matcher()
    for number, alternatives in enumerate(tests):
        matcher.add(number, Filter(Conjunction(predicates) for predicates in alternatives), group=number)
    matcher.settle()
    return matcher
