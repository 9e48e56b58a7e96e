"""The plan of an overlay for a page that draws it itself: bands, columns and lines, as plain numbers.

The same geometry as in pictures, without a scene and without matplotlib. Lengths are inches, y grows downwards, as on a
screen. A straight link has only its two ends; a page may stretch the plan, so every line is a run of points.
"""

from dataclasses import dataclass

from octopia.drawing import curves
from octopia.drawing.geometry import Geometry
from octopia.drawing.palette import cluster_colour
from octopia.topology import BrokerId, Scot

# Points kept of each curve: the page smooths them.
_POINTS = 7


@dataclass(frozen=True)
class MapBand:
    """A cluster: its band from top to bottom, and its colour."""

    cluster: int
    top: float
    bottom: float
    colour: str


@dataclass(frozen=True)
class MapLink:
    """A link: its ends as indices of `OverlayMap.brokers`, its kind (`a` or `i`), its line from end to end."""

    source: int
    target: int
    kind: str
    line: tuple[curves.Point, ...]


@dataclass(frozen=True)
class OverlayMap:
    """The places of all brokers and links."""

    width: float
    height: float
    brokers: tuple[tuple[BrokerId, curves.Point], ...]
    bands: tuple[MapBand, ...]
    columns: tuple[tuple[str, float], ...]  # each region and its x
    links: tuple[MapLink, ...]


def overlay_map(scot: Scot) -> OverlayMap:
    """The plan of an overlay."""
    geometry = Geometry(scot)
    width, height = geometry.size

    def flipped(point: curves.Point) -> curves.Point:
        return round(point[0], 3), round(height - point[1], 3)

    index = {broker: place for place, broker in enumerate(scot.brokers)}
    bands = []
    for cluster in range(scot.clusters):
        box = geometry.band(cluster)
        middle = height - box.y
        bands.append(
            MapBand(
                cluster, round(middle - box.height / 2, 3), round(middle + box.height / 2, 3), cluster_colour(cluster)
            )
        )
    links = []
    for place, (one, other) in enumerate(scot.links):
        line = _thinned(curves.slim(geometry.link(one, other)))
        kind = "a" if place < scot.a_link_count else "i"
        links.append(MapLink(index[one], index[other], kind, tuple(flipped(point) for point in line)))
    return OverlayMap(
        round(width, 3),
        round(height, 3),
        tuple((broker, flipped(geometry.centre(broker))) for broker in scot.brokers),
        tuple(bands),
        tuple((region, flipped(geometry.centre(BrokerId(region, 0)))[0]) for region in scot.tree.nodes),
        tuple(links),
    )


def _thinned(line: curves.Line) -> curves.Line:
    if len(line) <= _POINTS:
        return line
    last = len(line) - 1
    return [line[round(step * last / (_POINTS - 1))] for step in range(_POINTS)]
