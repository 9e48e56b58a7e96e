"""The oracle of the routing tests: brute force over clients, on filters small enough to enumerate.

It shares no code with what it judges: a `Spec` is a filter as plain numbers, relations are set arithmetic over the 40
notifications there are, and only `text()` speaks the product's language, to hand the same filter to the brokers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random

from octopia.topology import BrokerId

XS = range(5)
CLASSES = ("A", "B")


@dataclass(frozen=True)
class Sample:
    """A notification of the small world: a class, a number, and maybe an extra attribute y."""

    cls: str
    x: int
    has_y: bool

    def as_dict(self) -> dict[str, str | int | float | bool]:
        values: dict[str, str | int | float | bool] = {"class": self.cls, "x": self.x}
        return values | {"y": 1} if self.has_y else values


ALL_SAMPLES = tuple(Sample(c, x, y) for c, x, y in product(CLASSES, XS, (False, True)))


@dataclass(frozen=True)
class Spec:
    """class in `classes`, lo <= x <= hi, and y named or not."""

    classes: tuple[str, ...]
    lo: int
    hi: int
    y: bool

    def text(self) -> str:
        alternatives = " or ".join(f"class = '{c}'" for c in self.classes)
        return f"({alternatives}) and x between {self.lo} and {self.hi}" + (" and y is not null" if self.y else "")

    def matched_by(self, sample: Sample) -> bool:
        """As a subscription: everything asked for is there."""
        return sample.cls in self.classes and self.lo <= sample.x <= self.hi and (sample.has_y or not self.y)

    def allows(self, sample: Sample) -> bool:
        """As an advertisement: nothing is there that was not named."""
        return sample.cls in self.classes and self.lo <= sample.x <= self.hi and (self.y or not sample.has_y)


# There are few specs, and the same questions come over and over.
@cache
def overlapping(advertisement: Spec, subscription: Spec) -> bool:
    return any(advertisement.allows(s) and subscription.matched_by(s) for s in ALL_SAMPLES)


@cache
def matching(subscription: Spec) -> frozenset[Sample]:
    return frozenset(s for s in ALL_SAMPLES if subscription.matched_by(s))


def covered(narrower: Spec, wider: Iterable[Spec], advertisement: Spec | None = None) -> bool:
    """Whether one of these is matched by whatever matches the narrower one and the advertisement allows."""
    matched = matching(narrower)
    if advertisement is not None:
        matched = frozenset(sample for sample in matched if advertisement.allows(sample))
    return matched <= frozenset[Sample]().union(*map(matching, wider))


def draw_spec(draw: Random) -> Spec:
    low, high = sorted((draw.choice(XS), draw.choice(XS)))
    return Spec(draw.choice([("A",), ("B",), ("A", "B")]), low, high, draw.random() < 0.3)


@dataclass
class World:
    """The registrations in force: (client, id) -> filter, and the location of each client."""

    homes: dict[str, BrokerId]
    advertisements: dict[tuple[str, str], Spec]
    subscriptions: dict[tuple[str, str], Spec]

    def matching(self, client: str, sample: Sample) -> list[str]:
        return [i for (c, i), spec in self.subscriptions.items() if c == client and spec.matched_by(sample)]

    def interested(self, sample: Sample) -> dict[str, list[str]]:
        """Every client that must get the notification, with its matching subscriptions."""
        found = {client: self.matching(client, sample) for client in self.homes}
        return {client: ids for client, ids in found.items() if ids}

    def publishable(self, client: str) -> Iterator[Sample]:
        own = [spec for (c, _), spec in self.advertisements.items() if c == client]
        return (s for s in ALL_SAMPLES if any(spec.allows(s) for spec in own))
