"""Notifications of about 200 bytes and content subscriptions, seeded; frames are made beforehand.

A subscription asks for one of 500 symbols, a range of prices and a volume, so that a notification matches about 1.5 of
1,000: what content-based routing is for. `fan` subscriptions match everything. Publishers advertise as in the README:
names, and a condition on a value.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from octopia.language import Filter, parse_filter
from octopia.matching import Matcher
from octopia.wire import check_parcel, publish_frame

POOL = 2000
SYMBOLS = [f"S{number:03}" for number in range(500)]
ADVERTISED = (
    "class",
    "symbol",
    "open",
    "high",
    "low",
    "close",
    "volume",
    "change_percent",
    "range_percent",
    "day",
    "text",
)


def advertisement(*conditions: str, more: Iterable[str] = ()) -> Filter:
    """An advertisement of all names and conditions on values; without any, the README's: a price above 0."""
    conditions = conditions or ("close > 0",)
    tested = {condition.split()[0] for condition in conditions}
    named = [f"{name} is not null" for name in (*ADVERTISED, *more) if name not in tested]
    return parse_filter(" and ".join((*named, *conditions)))


def names_only(more: Iterable[str] = ()) -> Filter:
    """An advertisement of all names, without a condition on a value."""
    return advertisement("class is not null", more=more)


def subscriptions(count: int, *, fan: bool = False, seed: int = 1) -> list[Filter]:
    draw = random.Random(seed)
    if fan:
        return [parse_filter("class = 'STOCK'")] * count
    return [
        parse_filter(
            f"class = 'STOCK' and symbol = '{draw.choice(SYMBOLS)}'"
            f" and close >= {draw.uniform(10, 40):.2f} and volume > 0"
        )
        for _ in range(count)
    ]


def quotes(count: int, seed: int = 2) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "class": "STOCK",
            "symbol": draw.choice(SYMBOLS),
            "open": round(draw.uniform(10, 100), 2),
            "high": 101.25,
            "low": 9.5,
            "close": round(draw.uniform(10, 100), 2),
            "volume": draw.randrange(1, 1_000_000),
            "change_percent": round(draw.uniform(-3, 3), 3),
            "range_percent": round(draw.uniform(0, 5), 3),
            "day": draw.randrange(1, 366),
            "text": "x" * 40,
        }
        for _ in range(count)
    ]


def deliveries_each(groups: Sequence[Sequence[Filter]], count: int) -> list[int]:
    """How many deliveries each notification makes: one for each connection with a subscription that matches."""
    index: Matcher[int] = Matcher()
    connection_of: list[int] = []
    for number, filters in enumerate(groups):
        for filter in filters:
            index.add(len(connection_of), filter)
            connection_of.append(number)
    each = [len({connection_of[id] for id in index.match(quote)}) for quote in quotes(POOL)]
    return [each[n % POOL] for n in range(count)]


def frames(publisher: str, count: int) -> list[bytes]:
    """Frames of publications, in order."""
    return frames_of(publisher, range(count))


def frames_of(publisher: str, numbers: Iterable[int]) -> list[bytes]:
    """Frames of the publications with these numbers, in order."""
    pool = quotes(POOL)
    return [publish_frame(check_parcel(pool[n % POOL], publisher, at)[0]) for at, n in enumerate(numbers, 1)]
