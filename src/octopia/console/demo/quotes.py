"""An endless stream of quotes: seeded random walks of each symbol's price, so every demo shows the same market."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from octopia.language import Value

_EXCHANGES: Final = {"nasdaq": "NASDAQ", "nyse": "NYSE", "xetra": "XETRA", "tokyo": "TSE"}
_START: Final = (18.0, 420.0)


def quotes(feed: str, symbols: Sequence[str], seed: int = 1) -> Iterator[dict[str, Value]]:
    """Quotes of these symbols, in random order."""
    chance = random.Random(f"{seed} {feed}")  # noqa: S311  not a secret
    opened = {symbol: round(chance.uniform(*_START), 2) for symbol in symbols}
    price = dict(opened)
    while True:
        symbol = chance.choice(symbols)
        drift = (opened[symbol] - price[symbol]) / opened[symbol] * 0.01
        price[symbol] = max(0.5, price[symbol] * (1 + drift + chance.gauss(0, 0.002)))
        yield {
            "symbol": symbol,
            "price": round(price[symbol], 2),
            "change": round(100 * (price[symbol] / opened[symbol] - 1), 2),
            "volume": int(chance.lognormvariate(9.5, 1.0)),
            "exchange": _EXCHANGES.get(feed, feed.upper()),
        }
