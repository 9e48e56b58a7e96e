"""The paths of a scene's arrows and the places of their labels.

An arrow follows its link on the right-hand side of its direction, so two that meet on a link do not
cover each other; the next one of the same direction steps further out. A label tries a few places beside its arrow and
takes the first that covers nothing, or else the one that covers least; earlier labels stay where they are. No
matplotlib.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from octopia.drawing import curves
from octopia.drawing.geometry import Box, Geometry
from octopia.drawing.measure import SMALL_PT, text_width
from octopia.drawing.scene import DrawnMessage
from octopia.topology import BrokerId

_STEP_ASIDE = 0.055
_NEXT_ASIDE = 0.06
_HEAD_ROOM = 0.015
_CELL = 0.5
_LABEL_HEIGHT = 0.15
_FRACTIONS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)


@dataclass(frozen=True)
class Arrow:
    """A message as drawn: its line, and the place of its label."""

    message: DrawnMessage
    line: curves.Line
    label: Box


def arrows_of(geometry: Geometry) -> list[Arrow]:
    """Every message of the scene, in the scene's order."""
    used: Counter[tuple[BrokerId, BrokerId]] = Counter()
    lines = []
    for message in geometry.scene.messages:
        ends = (message.source, message.target)
        lines.append(_line(geometry, message, _STEP_ASIDE + used[ends] * _NEXT_ASIDE))
        used[ends] += 1
    obstacles = _Obstacles()
    for box in [geometry.box(broker) for broker in geometry.scot.brokers] + geometry.client_boxes():
        obstacles.add(box)
    for line in [*lines, *(geometry.link(*link) for link in geometry.scot.links)]:
        for x, y in line:
            obstacles.add(Box(x, y, 0.03, 0.03))
    arrows = []
    for message, line in zip(geometry.scene.messages, lines, strict=True):
        label = _label(message.label, line, obstacles)
        obstacles.add(label)
        arrows.append(Arrow(message, line, label))
    return arrows


class _Obstacles:
    """Obstacles for labels, indexed by place: a scene has thousands of points and tries each label often."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[Box]] = defaultdict(list)

    def add(self, box: Box) -> None:
        for cell in self._cells_of(box):
            self._cells[cell].append(box)

    def covered_by(self, box: Box) -> float:
        """The area of obstacles under this box. One that lies in two cells counts in both: it is in the way of more."""
        return sum(box.overlap(other) for cell in self._cells_of(box) for other in self._cells.get(cell, ()))

    @staticmethod
    def _cells_of(box: Box) -> list[tuple[int, int]]:
        columns = range(math.floor((box.x - box.width / 2) / _CELL), math.floor((box.x + box.width / 2) / _CELL) + 1)
        rows = range(math.floor((box.y - box.height / 2) / _CELL), math.floor((box.y + box.height / 2) / _CELL) + 1)
        return [(column, row) for column in columns for row in rows]


def _line(geometry: Geometry, message: DrawnMessage, aside: float) -> curves.Line:
    source, target = geometry.box(message.source), geometry.box(message.target)
    line = curves.beside(curves.finer(geometry.link(message.source, message.target), 8), aside)
    return curves.cut(line, lambda point: _inside(point, source, 0.0), lambda point: _inside(point, target, _HEAD_ROOM))


def _inside(point: curves.Point, box: Box, room: float) -> bool:
    return abs(point[0] - box.x) <= box.width / 2 + room and abs(point[1] - box.y) <= box.height / 2 + room


def _label(text: str, line: curves.Line, obstacles: "_Obstacles") -> Box:
    width = text_width(text, SMALL_PT) + 0.04
    tried = []
    for fraction in _FRACTIONS:
        for side in (1, -1):
            box = _label_box(line, fraction, side, width)
            covered = obstacles.covered_by(box)
            if covered == 0.0:
                return box
            tried.append((covered, box))
    return min(tried, key=lambda one: one[0])[1]


def _label_box(line: curves.Line, fraction: float, side: int, width: float) -> Box:
    """A box that just touches the line from one side of this point."""
    here = curves.point_at(line, fraction)
    out = curves.point_at(curves.beside(line, side * 1.0), fraction)
    across_x, across_y = out[0] - here[0], out[1] - here[1]
    away = abs(across_x) * width / 2 + abs(across_y) * _LABEL_HEIGHT / 2 + 0.035
    return Box(here[0] + across_x * away, here[1] + across_y * away, width, _LABEL_HEIGHT)
