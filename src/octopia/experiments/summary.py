"""Means over seeds by point and system, from rows of many cells.

It needs only rows, so they may come from a sweep or from a Spark table.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from octopia.experiments.intervals import Interval, interval
from octopia.experiments.result import MetricRow


class Key(NamedTuple):
    """The group that a mean is taken over."""

    metric: str
    part: str
    point: str
    system: str


class Summary:
    """Means over seeds. Points and systems keep the order in which they came."""

    def __init__(self, rows: Iterable[MetricRow]) -> None:
        self.by_seed: dict[Key, dict[int, float | None]] = {}
        self._units: dict[tuple[str, str], str] = {}
        self.x: dict[str, float | None] = {}
        systems: dict[str, None] = {}
        seeds: dict[int, None] = {}
        for row in rows:
            key = Key(row.metric, row.part, row.point, row.system)
            self.by_seed.setdefault(key, {})[row.seed] = row.value
            self._units[row.metric, row.part] = row.unit
            self.x[row.point] = row.x
            systems[row.system] = None
            seeds[row.seed] = None
        self.systems = list(systems)
        self.seeds = list(seeds)

    @property
    def points(self) -> list[str]:
        return list(self.x)

    def unit(self, metric: str, part: str) -> str:
        """The unit of one part of a metric; "" if it was not measured."""
        return self._units.get((metric, part), "")

    def has(self, metric: str) -> bool:
        """Whether anything of a metric was measured."""
        return any(name == metric for name, _ in self._units)

    def interval(self, metric: str, part: str, point: str, system: str) -> Interval:
        """The mean over seeds of one part of a metric, and its interval."""
        return interval(self.by_seed.get(Key(metric, part, point, system), {}).values())

    def lead(self, metric: str, part: str, point: str, system: str, than: str) -> Interval:
        """By how many per cent a system differs from another, seed by seed, with its interval."""
        return interval(self.leads(metric, part, point, system, than).values())

    def leads(self, metric: str, part: str, point: str, system: str, than: str) -> dict[int, float]:
        """The same by seed, for every seed with a value of both."""
        mine, theirs = (self.by_seed.get(Key(metric, part, point, name), {}) for name in (system, than))
        return {
            seed: 100 * (value - other) / other
            for seed, value in mine.items()
            if value is not None and (other := theirs.get(seed))
        }

    def over_points(self, metric: str, part: str, system: str, points: Sequence[str]) -> Mapping[int, float]:
        """For every seed that has a value at all of these points, their mean."""
        columns = [self.by_seed.get(Key(metric, part, point, system), {}) for point in points]
        means = {}
        for seed in self.seeds:
            values = [column.get(seed) for column in columns]
            there = [value for value in values if value is not None]
            if there and len(there) == len(points):
                means[seed] = sum(there) / len(there)
        return means

    def records(self) -> list[dict[str, Any]]:
        """All means as plain rows, for a file."""
        found = []
        for key, values in self.by_seed.items():
            mean, half, count, missing = interval(values.values())
            unit = self.unit(key.metric, key.part)
            row = {**key._asdict(), "x": self.x[key.point], "unit": unit, "mean": mean, "half_95": half}
            found.append({**row, "seeds": count, "without_value": missing})
        return found
