"""Bounded time series: at least an hour of every watched number.

All series share their times. A step is a second if that fits into `POINTS_MAX` numbers, and longer if there are very
many series; the largest value of each step is kept. An unknown value is NaN.
"""

import math
from array import array
from collections.abc import Mapping

SPAN_S = 3_600.0
# 4 bytes each: 32 MB at most.
POINTS_MAX = 8_000_000
STEPS_MIN = 240


class History:
    """The last `SPAN_S` seconds, and somewhat more."""

    def __init__(self, every_s: float = 1.0, series: int = 100, span_s: float = SPAN_S) -> None:
        """`series`: their approximate number, for the length of a step."""
        steps = max(STEPS_MIN, min(math.ceil(span_s / every_s), POINTS_MAX // max(series, 1)))
        self.step_s = span_s / steps
        self._steps = steps
        self._times: array[float] = array("d")
        self._series: dict[str, array[float]] = {}
        self._pending: dict[str, float] = {}
        self._begun_s: float | None = None

    def __len__(self) -> int:
        """The number of points in time."""
        return len(self._times)

    @property
    def names(self) -> list[str]:
        return list(self._series)

    def add(self, time_s: float, values: Mapping[str, float]) -> None:
        """Add the values at this time, which is never earlier than the last."""
        if self._begun_s is None:
            self._begun_s = time_s
        elif time_s - self._begun_s >= self.step_s * 0.999:
            self._put(self._begun_s)
            self._begun_s = time_s
        pending = self._pending
        for name, value in values.items():
            known = pending.get(name)
            pending[name] = value if known is None or value > known else known

    def _put(self, time_s: float) -> None:
        pending, self._pending = self._pending, {}
        count = len(self._times)
        for name in pending:
            if name not in self._series and len(self._series) < POINTS_MAX // self._steps:
                self._series[name] = array("f", [math.nan]) * count
        for name, points in self._series.items():
            points.append(pending.get(name, math.nan))
        self._times.append(time_s)
        if len(self._times) >= 2 * self._steps:
            self._forget()

    def _forget(self) -> None:
        """Keep the newest half; a series without a value in it is dropped."""
        keep = self._steps
        del self._times[:-keep]
        for name, points in list(self._series.items()):
            del points[:-keep]
            if all(map(math.isnan, points)):
                del self._series[name]

    def series(self, name: str, last: int | None = None) -> list[tuple[float, float | None]]:
        """Times and values of one series, the newest last; None if unknown."""
        points = self._series.get(name, array("f", [math.nan]) * len(self._times))
        start = 0 if last is None else max(0, len(points) + 1 - last)
        found = [
            (time_s, None if math.isnan(value) else value)
            for time_s, value in zip(self._times[start:], points[start:], strict=True)
        ]
        if self._begun_s is not None:
            # the current step
            found.append((self._begun_s, self._pending.get(name)))
        return found if name in self._series or name in self._pending else []

    def values(self, name: str, last: int) -> list[float | None]:
        """The newest values of one series."""
        return [value for _, value in self.series(name, last)]
