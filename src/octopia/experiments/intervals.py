"""Means over seeds and their 95 % intervals, by Student's t.

Seeds are independent runs, so n values give n-1 degrees of freedom; a single value has a mean but no interval. The
table is rounded up, and a number of degrees not in it uses the next smaller one, so an interval is never too narrow. A
missing value (None) is skipped and counted.
"""

from collections.abc import Iterable
from math import fsum, sqrt
from typing import Final, NamedTuple

# Two-sided 95 %: degrees of freedom -> t.
_T: Final = {
    1: 12.707, 2: 4.303, 3: 3.183, 4: 2.777, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.307, 9: 2.263, 10: 2.229, 11: 2.201,
    12: 2.179, 13: 2.161, 14: 2.145, 15: 2.132, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.094, 20: 2.086, 25: 2.060,
    30: 2.043, 40: 2.022, 60: 2.001, 120: 1.980, 1000: 1.963,
}  # fmt: skip


_ROUNDING: Final = 1e-12


class Interval(NamedTuple):
    """`mean` ± `half` over `runs` values; `half` is None for fewer than two. `missing` had no value."""

    mean: float | None
    half: float | None
    runs: int
    missing: int = 0


def interval(values: Iterable[float | None]) -> Interval:
    """The mean of these and its 95 % interval."""
    given = list(values)
    there = [value for value in given if value is not None]
    count, missing = len(there), len(given) - len(there)
    if not there:
        return Interval(None, None, 0, missing)
    mean = fsum(there) / count
    if count == 1:
        return Interval(mean, None, 1, missing)
    deviation = sqrt(fsum((value - mean) ** 2 for value in there) / (count - 1))
    half = t_factor(count - 1) * deviation / sqrt(count)
    # Float rounding alone is not a spread.
    return Interval(mean, half if half > _ROUNDING * abs(mean) else 0.0, count, missing)


def t_factor(degrees: int) -> float:
    """Student's t for this number of degrees of freedom, or slightly more."""
    return _T[max(known for known in _T if known <= degrees)]
