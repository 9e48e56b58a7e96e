"""Compile all kernels ahead of the first notification.

Every kernel is called with arguments of exactly the types that matching uses, so that the cache on disk holds exactly
what matching needs. Arrow is not loaded: the kernels do not depend on where columns come from, and loading it (and
pandas, which it loads if installed) would take longer than loading the kernels; a broker needs neither. Nor does it
need SQL: filters are PADRES text here, which saves loading sqlglot.
"""

import numpy as np

from octopia.language import Value, parse_filter, parse_notification
from octopia.matching.batch import search_batch
from octopia.matching.kernels import kernels_in_use
from octopia.matching.matcher import Matcher
from octopia.matching.points import points_of
from octopia.matching.space import Space


def warm_up() -> str:
    """Load or compile all kernels; returns the name of the kernels in use."""
    # answers to be checked are found as rows, others as ids
    _use_all("[class,eq,'STOCK'],[price,>,1],[symbol,neq,'IBM']")
    _use_all(
        "{{[class,eq,'STOCK'],[price,>,1],[symbol,str-prefix,'A']}||{[class,eq,'STOCK'],[volume,>,1],[volume,<,5]}}"
    )
    return kernels_in_use()


def _use_all(text: str) -> None:
    matcher: Matcher[int] = Matcher()
    filter = parse_filter(text)
    values: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "AAPL", "volume": 3}
    quote = parse_notification(values)
    for number in range(8):
        matcher.add(number, filter, group=number)
    matcher.settle()
    matcher.match(quote)
    matcher.match_rows(quote)
    matcher.matches_any(quote)
    matcher.overlapping("[class,eq,'STOCK'],[price,>,0],[symbol,eq,'AAPL']")
    matcher.match_groups_many([quote, quote])
    # merges the answers of several runs, whatever they are; in an empty space nothing is open
    events = points_of([quote, quote], Space())
    for run in matcher.runs():
        run.boxes()
        search_batch([run.layout] * 2, events, np.int32)
        if run.layout_by_id is not None:
            search_batch([run.layout_by_id] * 2, events, np.int64)
