"""Compile all kernels ahead of the first notification.

Every kernel is called with arguments of exactly the types that matching uses, so that the cache on disk holds exactly
what matching needs. Arrow is not loaded: the kernels do not depend on where columns come from, and loading it (and
pandas, which it loads if installed) would take longer than loading the kernels; a broker needs neither.
"""

from octopia.language import Value, parse_filter, parse_notification
from octopia.matching.kernels import kernels_in_use
from octopia.matching.matcher import Matcher

_FILTERS = (
    "[class,eq,'STOCK'],[price,>,1],[symbol,neq,'IBM']",
    "{{[class,eq,'STOCK'],[price,>,1],[symbol,str-contains,'A']}||{[class,eq,'STOCK'],[volume,>,1],[volume,<,5]}}",
)


def warm_up() -> str:
    """Load or compile all kernels; returns the name of the kernels in use."""
    values: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "AAPL", "volume": 3}
    quote = parse_notification(values)
    for text in _FILTERS:
        matcher: Matcher[int] = Matcher()
        for number in range(8):
            matcher.add(number, parse_filter(text), group=number)
        matcher.settle()
        matcher.match(quote)
        matcher.match_rows(quote)
        matcher.overlapping("[class,eq,'STOCK'],[price,>,0],[symbol,eq,'AAPL']")
        matcher.match_groups_many([quote, quote])
        # strings that come and go while their table grows
        for number in range(8, 200):
            matcher.add(number, parse_filter(f"[class,eq,'S{number}']"))
        matcher.remove(8)
        for run in matcher.runs():
            run.boxes()
    return kernels_in_use()
