"""Lengths and places: the plan of an overlay in inches.

All lengths are inches, so that text and shapes agree whatever the size of the file. Cluster 0 is on
top. In a plain picture the tracks of the iLinks take turns right and left of a column; where there are clients or
messages they stay left, and the right side belongs to the clients. No matplotlib.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from octopia.drawing import curves
from octopia.drawing.layout import TreeLayout, plan_tree, tracks
from octopia.drawing.legend import ROW_HEIGHT, Item, legend_rows
from octopia.drawing.measure import SMALL_PT, text_width
from octopia.drawing.scene import Scene
from octopia.topology import BrokerId, Scot

LABELLED_BROKERS_MAX = 300
MARGIN_LEFT = 0.6
MARGIN = 0.25
TITLE_HEIGHT = 0.4
CLIENT_HEIGHT = 0.2
TITLE_PT = 11.0
_WIDTH_MIN = 3.2
_TRACK = 0.075
_SIDE_MAX = 0.6
# Pictures without labels: room beside a dot in dots, the sheet in inches, and how much wider than high it may be.
_DOT_SIDE = 1.0
_SHEET = 24.0
_ASPECT = 2.5
# A fan this many columns wide is bent, else its straight links would graze the brokers they pass.
_FAN_COLUMNS = 3


@dataclass(frozen=True)
class Box:
    """A rectangle by its centre."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: "Box") -> float:
        """The area shared with another rectangle."""
        wide = (self.width + other.width) / 2 - abs(self.x - other.x)
        high = (self.height + other.height) / 2 - abs(self.y - other.y)
        return max(wide, 0.0) * max(high, 0.0)


@dataclass(frozen=True)
class Geometry:
    """The places of all brokers, links and clients of one picture."""

    scot: Scot
    scene: Scene = field(default_factory=Scene)

    @cached_property
    def plan(self) -> TreeLayout:
        return plan_tree(self.scot.tree)

    @cached_property
    def labelled(self) -> bool:
        return self.scot.broker_count <= LABELLED_BROKERS_MAX

    @cached_property
    def _unit(self) -> float:
        """The size of a dot in a picture without labels: the largest with which the picture fits on a large sheet."""
        across = len(self.scot.tree.nodes) * (1 + 2 * _DOT_SIDE)
        down = self.scot.clusters * (1 + (self.plan.up + self.plan.down + 1) * 2)
        return min(0.09, _SHEET / max(across, down))

    @cached_property
    def node_width(self) -> float:
        if not self.labelled:
            return self._unit
        longest = max(len(f"{node},{self.scot.clusters - 1}") for node in self.scot.tree.nodes)
        return max(0.38, text_width("x" * longest) + 0.14)

    @cached_property
    def node_height(self) -> float:
        return 0.27 if self.labelled else self._unit

    @cached_property
    def _tracks(self) -> dict[tuple[int, int], int]:
        return tracks(self.scot.clusters)

    @cached_property
    def _side_tracks(self) -> int:
        count = max(self._tracks.values(), default=-1) + 1
        return count if self.scene.is_busy else (count + 1) // 2

    @cached_property
    def _track_width(self) -> float:
        if not self.labelled:
            return _DOT_SIDE * self._unit / (self._side_tracks + 1)
        return min(_TRACK, _SIDE_MAX / max(self._side_tracks, 1))

    @cached_property
    def client_width(self) -> float:
        return max((text_width(client.name, SMALL_PT) + 0.12 for client in self.scene.clients), default=0.0)

    @cached_property
    def client_rows(self) -> int:
        return max(Counter(client.broker for client in self.scene.clients).values(), default=0)

    @cached_property
    def pitch(self) -> float:
        """From one column to the next."""
        if not self.labelled:
            return self._unit * (1 + 2 * _DOT_SIDE)
        side = self._side_tracks * self._track_width + 0.06
        if not self.scene.is_busy:
            return self.node_width + 2 * side
        told = max((text_width(message.label, SMALL_PT) for message in self.scene.messages), default=0.0)
        return max(self.node_width, 0.2 + self.client_width) + side + max(told, 0.25) + 0.2

    @cached_property
    def _left(self) -> float:
        """From a column's centre to the left end of its share of the band."""
        return self.node_width / 2 + self._side_tracks * self._track_width + 0.15

    @cached_property
    def level_height(self) -> float:
        if not self.labelled:
            return self._unit * 2 + self._spare(self.plan.up + self.plan.down)
        return 0.5 + (self.client_rows * (CLIENT_HEIGHT + 0.04) + 0.1 if self.scene.is_busy else 0.0)

    def _spare(self, shares: int) -> float:
        """How much each part of a band may grow to make a very wide picture fit a screen."""
        if not shares:
            return 0.0
        natural = self.scot.clusters * self._unit * (1 + (self.plan.up + self.plan.down + 1) * 2)
        wanted = self.band_width / _ASPECT
        return max(wanted - natural, 0.0) / (self.scot.clusters * shares)

    @cached_property
    def _pads(self) -> tuple[float, float]:
        """Room in a band above the highest and below the lowest broker."""
        pad = self.node_height / 2 + (0.12 if self.labelled else self._unit / 2)
        rows = self.client_rows * (CLIENT_HEIGHT + 0.04)
        above = any(self._clients_above(client.broker[0]) for client in self.scene.clients)
        return (pad + rows if above else pad), pad + rows

    def _clients_above(self, region: str) -> bool:
        """Clients hang below their broker, unless an aLink leaves that way and none leaves upwards."""
        column, level = self.plan.column[region], self.plan.level[region]
        right = [near for near in self.scot.tree.neighbours(region) if self.plan.column[near] > column]
        steps = {self.plan.level[near] - level for near in right}
        return any(step < 0 for step in steps) and not any(step > 0 for step in steps)

    @cached_property
    def band_height(self) -> float:
        return (self.plan.up + self.plan.down) * self.level_height + sum(self._pads)

    @cached_property
    def band_gap(self) -> float:
        if not self.labelled:
            return self._unit + (0.0 if self.plan.up + self.plan.down else self._spare(1))
        return 0.45 if self.scene.is_busy else 0.22

    @cached_property
    def top(self) -> float:
        return MARGIN + (TITLE_HEIGHT if self.scene.title else 0.0)

    @cached_property
    def band_width(self) -> float:
        last = self.pitch - self._left if self.scene.is_busy else self._left
        return (len(self.scot.tree.nodes) - 1) * self.pitch + self._left + max(last, self.client_width + 0.3)

    @cached_property
    def legend(self) -> list[list[Item]]:
        return legend_rows(self.scot, self.scene, self.width - MARGIN_LEFT - MARGIN)

    @cached_property
    def width(self) -> float:
        titled = text_width(self.scene.title or "", TITLE_PT) + 2 * MARGIN
        return max(MARGIN_LEFT + self.band_width + MARGIN, titled, _WIDTH_MIN)

    @cached_property
    def size(self) -> tuple[float, float]:
        """Width and height of the picture."""
        bands = self.scot.clusters * (self.band_height + self.band_gap) - self.band_gap
        return self.width, self.top + bands + MARGIN / 2 + len(self.legend) * ROW_HEIGHT + MARGIN / 2

    def band(self, index: int) -> Box:
        """The band of a cluster."""
        top = self.size[1] - self.top - index * (self.band_height + self.band_gap)
        return Box(MARGIN_LEFT + self.band_width / 2, top - self.band_height / 2, self.band_width, self.band_height)

    def centre(self, broker: BrokerId) -> curves.Point:
        """The middle of a broker."""
        return self._centres[broker]

    @cached_property
    def _centres(self) -> dict[BrokerId, curves.Point]:
        centres = {}
        for index in range(self.scot.clusters):
            band = self.band(index)
            spine = band.y + band.height / 2 - self._pads[0] - self.plan.up * self.level_height
            for broker in self.scot.cluster(index):
                x = MARGIN_LEFT + self._left + self.plan.column[broker.region] * self.pitch
                centres[broker] = x, spine + self.plan.level[broker.region] * self.level_height
        return centres

    def box(self, broker: BrokerId) -> Box:
        """The shape of a broker."""
        return Box(*self.centre(broker), self.node_width, self.node_height)

    def link(self, source: BrokerId, target: BrokerId) -> curves.Line:
        """The line of a link from centre to centre, in the direction asked for."""
        low, high = sorted((source, target), key=lambda broker: (broker[1], self.scot.tree.rank[broker[0]]))
        line = self._i_link(low, high) if low[0] == high[0] else self._a_link(low, high)
        return line if (low, high) == (source, target) else line[::-1]

    def _i_link(self, low: BrokerId, high: BrokerId) -> curves.Line:
        start, end = self.centre(low), self.centre(high)
        track = self._tracks.get((low[1], high[1]))
        if track is None:
            return curves.straight(start, end)
        rank, side = (track, -1) if self.scene.is_busy else (track // 2, -1 if track % 2 == 0 else 1)
        line = curves.bowed(start, end, side * (self.node_width / 2 + (rank + 1) * self._track_width))
        # Beside a dot a curve needs no more than a few points, and there are many: a quarter of the file.
        return line if self.labelled else line[::4]

    def _a_link(self, one: BrokerId, other: BrokerId) -> curves.Line:
        columns = abs(self.plan.column[one[0]] - self.plan.column[other[0]])
        levels = self.plan.level[one[0]], self.plan.level[other[0]]
        start, end = self.centre(one), self.centre(other)
        if columns < _FAN_COLUMNS or levels[0] == levels[1]:
            return curves.straight(start, end)
        if abs(levels[0]) > abs(levels[1]):
            return curves.bent(end, (start[0] + (end[0] - start[0]) * 0.2, end[1]), start)[::-1]
        return curves.bent(start, (end[0] + (start[0] - end[0]) * 0.2, start[1]), end)

    def client_boxes(self) -> list[Box]:
        """The box of each client of the scene, in the scene's order: to the right of its broker, below or above."""
        used: Counter[BrokerId] = Counter()
        boxes = []
        for client in self.scene.clients:
            x, y = self.centre(client.broker)
            row = used[client.broker]
            used[client.broker] += 1
            away = self.node_height / 2 + 0.07 + row * (CLIENT_HEIGHT + 0.04) + CLIENT_HEIGHT / 2
            middle = y + away if self._clients_above(client.broker[0]) else y - away
            boxes.append(Box(x + 0.1 + self.client_width / 2, middle, self.client_width, CLIENT_HEIGHT))
        return boxes
