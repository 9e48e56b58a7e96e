"""Compile everything once, before the first notification has to wait for it.

Rules of this file: every kernel is called with arguments of exactly the types that matching uses, so that what is put
on disk is what will be asked for.
"""

from octopia.language import Value, parse_filter, parse_notification
from octopia.matching.kernels import kernels_in_use
from octopia.matching.matcher import Matcher


def warm_up() -> str:
    """Load or compile all kernels; the name of the kernels in use."""
    import pyarrow as pa

    matcher: Matcher[int] = Matcher()
    for number in range(3):
        text = f"class = 'STOCK' and price > {number} and symbol like 'A%' or volume between {number} and 5"
        matcher.add(number, parse_filter(text), group=number)
        matcher.settle()
    quote: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "AAPL", "volume": 3}
    matcher.match(parse_notification(quote))
    matcher.matches_any(parse_notification(quote))
    matcher.overlapping("price > 0 and symbol = 'AAPL'")
    batch = pa.RecordBatch.from_pylist([quote, quote])
    matcher.match_batch(batch)
    matcher.match_batch_groups(batch)
    return kernels_in_use()
