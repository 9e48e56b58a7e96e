"""Filters that are ranges of one number, and an index that lists them by number, so that trials are quick."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from octopia.language import Filter, Notification, parse_filter, parse_notification
from octopia.routing.index import Values

NUMBERS = 4
Range = tuple[int, int]
SPANS: tuple[Range, ...] = tuple((low, high) for low in range(NUMBERS) for high in range(low, NUMBERS))
EVERYTHING: Range = (0, NUMBERS - 1)
LOW: Range = (0, NUMBERS // 2 - 1)
HIGH: Range = (NUMBERS // 2, NUMBERS - 1)
FILTERS: dict[Range, Filter] = {span: parse_filter(f"x between {span[0]} and {span[1]}") for span in SPANS}
NOTIFICATIONS: tuple[Notification, ...] = tuple(parse_notification({"x": x}) for x in range(NUMBERS))
_SPANS: dict[Filter, Range] = {filter: span for span, filter in FILTERS.items()}

Entry = TypeVar("Entry")


def overlap(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


class RangeIndex(Generic[Entry]):
    """The index as a table uses it (`octopia.routing.index.Index`)."""

    def __init__(self) -> None:
        self._spans: dict[Entry, Range] = {}
        self._by_number: tuple[dict[Entry, None], ...] = tuple({} for _ in range(NUMBERS))

    def add(self, id: Entry, filter: Filter) -> None:
        low, high = self._spans[id] = _SPANS[filter]
        for number in range(low, high + 1):
            self._by_number[number][id] = None

    def remove(self, id: Entry) -> None:
        low, high = self._spans.pop(id)
        for number in range(low, high + 1):
            del self._by_number[number][id]

    def match_keys(self, notifications: Sequence[Values]) -> list[Any]:
        return [each["x"] for each in notifications]

    def match_key(self, notification: Values) -> Any:
        return notification["x"]

    def entries_of(self, key: int) -> list[Entry]:
        return list(self._by_number[key])

    def overlapping(self, advertisement: Filter) -> list[Entry]:
        wanted = _SPANS[advertisement]
        return [entry for entry, span in self._spans.items() if overlap(span, wanted)]

    def overlapped_by(self, subscription: Filter) -> list[Entry]:
        return self.overlapping(subscription)
