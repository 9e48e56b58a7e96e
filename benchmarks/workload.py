"""A seeded workload of stock quotes for benchmarks: notifications of 10 attributes, filters of a wanted selectivity.

Advertisements cover one symbol each; a subscription asks for a symbol and a range of prices such that about one in
fifty (2 %) of the notifications of its world matches, which is measured, not assumed.
"""

import random
from dataclasses import dataclass

from octopia.language import Filter, Notification, matches, parse_filter, parse_notification

SYMBOLS = 50
ATTRIBUTES = ("open", "high", "low", "close", "volume", "change_percent", "range_percent", "day")


@dataclass(frozen=True)
class Workload:
    advertisements: list[Filter]
    subscriptions: list[Filter]
    notifications: list[tuple[int, Notification]]
    selectivity: float


def make(seed: int, publishers: int, subscribers: int, notifications: int) -> Workload:
    """One advertisement per publisher, one subscription per subscriber, notifications with their publisher's number."""
    draw = random.Random(seed)
    symbols = [f"S{i:03}" for i in range(SYMBOLS)]
    named = " and ".join(f"{name} is not null" for name in ATTRIBUTES)
    advertisements = [
        parse_filter(f"class = 'STOCK' and symbol = '{symbols[i % SYMBOLS]}' and {named}") for i in range(publishers)
    ]
    subscriptions = []
    for _ in range(subscribers):
        low = draw.uniform(10, 40)
        text = f"class = 'STOCK' and symbol = '{draw.choice(symbols)}' and close >= {low:.2f} and volume > 0"
        subscriptions.append(parse_filter(text))
    published = [(p, _quote(draw, symbols[p % SYMBOLS])) for p in draw.choices(range(publishers), k=notifications)]
    sample = published[:200]
    hits = sum(matches(s, n) for s in subscriptions for _, n in sample)
    return Workload(advertisements, subscriptions, published, hits / (len(subscriptions) * len(sample)))


def _quote(draw: random.Random, symbol: str) -> Notification:
    opening = draw.uniform(10, 100)
    close = opening * draw.uniform(0.97, 1.03)
    high, low = max(opening, close) * 1.01, min(opening, close) * 0.99
    return parse_notification(
        {
            "class": "STOCK",
            "symbol": symbol,
            "open": round(opening, 2),
            "high": round(high, 2),
            "low": round(low, 2),
            "close": round(close, 2),
            "volume": draw.randrange(1, 1_000_000),
            "change_percent": round(100 * (close / opening - 1), 3),
            "range_percent": round(100 * (high / low - 1), 3),
            "day": draw.randrange(1, 366),
        }
    )
