"""Lines as runs of points: curves, side steps, cuts.

Arithmetic on points in inches and nothing else. A line is a list of points from its source to its
target, so that an arrow can follow any link, beside it and cut off where a broker begins.
"""

import math
from collections.abc import Callable
from itertools import pairwise

Point = tuple[float, float]
Line = list[Point]
_STEPS = 24


def straight(start: Point, end: Point) -> Line:
    """A straight line with as many points as a curve, so that arrows beside either are made alike."""
    return [_between(start, end, step / _STEPS) for step in range(_STEPS + 1)]


def bent(start: Point, control: Point, end: Point) -> Line:
    """A quadratic Bézier curve."""
    fractions = [step / _STEPS for step in range(_STEPS + 1)]
    return [_between(_between(start, control, t), _between(control, end, t), t) for t in fractions]


def bowed(start: Point, end: Point, sideways: float) -> Line:
    """From start to end with a belly of this width in x. Fuller than a sine, to clear the brokers in between."""
    points = straight(start, end)
    return [(x + sideways * math.sin(math.pi * step / _STEPS) ** 0.6, y) for step, (x, y) in enumerate(points)]


def beside(line: Line, distance: float) -> Line:
    """The line moved to its right-hand side, as seen along its direction."""
    moved = []
    for place, (x, y) in enumerate(line):
        before, after = line[max(place - 1, 0)], line[min(place + 1, len(line) - 1)]
        along_x, along_y = after[0] - before[0], after[1] - before[1]
        length = math.hypot(along_x, along_y) or 1.0
        moved.append((x + distance * along_y / length, y - distance * along_x / length))
    return moved


def finer(line: Line, times: int) -> Line:
    """The same line with `times` as many points, so that a cut is precise."""
    pieces = [_between(a, b, step / times) for a, b in pairwise(line) for step in range(times)]
    return [*pieces, line[-1]]


def cut(line: Line, inside_source: Callable[[Point], bool], inside_target: Callable[[Point], bool]) -> Line:
    """The line without the ends that lie inside its source and its target."""
    first = next((place for place, point in enumerate(line) if not inside_source(point)), 0)
    last = next((place for place in range(len(line) - 1, first, -1) if not inside_target(line[place])), len(line) - 1)
    return line[first : last + 1]


def split_tail(line: Line, length: float) -> tuple[Line, Line]:
    """The line in two: all but about its last `length` inches, and the rest."""
    whole = sum(math.dist(a, b) for a, b in pairwise(line))
    tail = min(max(round(len(line) * length / whole), 1), len(line) - 1) if whole else 1
    return line[:-tail], line[-tail - 1 :]


def point_at(line: Line, fraction: float) -> Point:
    """The point at this share of the line's points."""
    return line[round(fraction * (len(line) - 1))]


def _between(start: Point, end: Point, fraction: float) -> Point:
    return start[0] + (end[0] - start[0]) * fraction, start[1] + (end[1] - start[1]) * fraction


def slim(line: Line) -> Line:
    """The line as painted: a straight one needs only its ends."""
    (x1, y1), (x2, y2), (x3, y3) = line[0], line[len(line) // 2], line[-1]
    return [line[0], line[-1]] if abs((x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1)) < 1e-9 else line
