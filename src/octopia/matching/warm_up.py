"""Compile everything once, before the first notification has to wait for it.

Rules of this file: every kernel is called with arguments of exactly the types that matching uses, so that what is put
on disk is what will be asked for.
"""

from octopia.language import Value, parse_filter, parse_notification
from octopia.matching.kernels import kernels_in_use
from octopia.matching.matcher import Matcher


def warm_up() -> str:
    """Load or compile all kernels; the name of the kernels in use."""
    # answers that are checked are found as rows, others as ids
    _use_all("class = 'STOCK' and price > 1 and symbol <> 'IBM'")
    _use_all("class = 'STOCK' and price > 1 and symbol like 'A%' or volume between 1 and 5")
    return kernels_in_use()


def _use_all(text: str) -> None:
    import pyarrow as pa

    matcher: Matcher[int] = Matcher()
    filter = parse_filter(text)
    quote: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "AAPL", "volume": 3}
    for number in range(8):
        matcher.add(number, filter, group=number)
    matcher.settle()
    matcher.match(parse_notification(quote))
    matcher.match_rows(parse_notification(quote))
    matcher.matches_any(parse_notification(quote))
    matcher.overlapping("price > 0 and symbol = 'AAPL'")
    # one more is a second run, whose answers are put together with those of the first
    matcher.add(8, filter)
    batch = pa.RecordBatch.from_pylist([quote, quote])
    matcher.match_batch(batch)
    matcher.match_batch_groups(batch)
