"""Painting: an overlay's geometry on matplotlib axes.

`geometry` and `arrows` decide about places. Painted back to front: bands, links, brokers, clients, arrows, labels.
Similar shapes go into one collection, so that thousands of links stay fast; widths and letters shrink with the picture
when it is scaled down to fit. This file imports matplotlib at its head, so only `figure` may import it, and late.
"""

from typing import TYPE_CHECKING, Any

from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from octopia.drawing import curves, palette
from octopia.drawing.arrows import Arrow, arrows_of
from octopia.drawing.geometry import MARGIN, MARGIN_LEFT, TITLE_PT, Box, Geometry
from octopia.drawing.legend import BOX_WIDTH, LINE_WIDTH, ROW_HEIGHT, Item
from octopia.drawing.measure import LABEL_PT, SMALL_PT
from octopia.topology import BrokerId, Link

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTTED = (0, (1.0, 2.2))
_DASHED = (0, (3.5, 2.0))
_SPARSE = (0, (1.5, 5.0))
_NAMED_BANDS_MAX = 40
# Inches: as long as the arrow head below, which is given in points.
_HEAD_LENGTH = 0.07


class Painter:
    """Paints one overlay on one pair of axes."""

    def __init__(self, axes: "Axes", geometry: Geometry, scale: float) -> None:
        self.axes = axes
        self.geometry = geometry
        self.scale = scale
        self.scot = geometry.scot
        self.scene = geometry.scene

    # Shapes are added as plain artists: the limits of the axes are set, and need not be worked out from each.

    def paint(self) -> None:
        self._title()
        self._bands()
        self._links()
        self._overloaded()
        self._lines(list(self.scene.down), palette.DEAD, *self._link_look("down"), 1)
        self._brokers()
        self._clients()
        for arrow in arrows_of(self.geometry):
            self._arrow(arrow)
        self._legend()

    def _title(self) -> None:
        if self.scene.title:
            width, height = self.geometry.size
            self._text(width / 2, height - self.geometry.top + 0.22, self.scene.title, TITLE_PT, weight="bold")

    def _bands(self) -> None:
        thin = not self.geometry.labelled
        for index in range(self.scot.clusters):
            band = self.geometry.band(index)
            colour = palette.cluster_colour(index)
            self.axes.add_artist(self._rounded(band, 0.02 if thin else 0.1, palette.tint(colour, 0.09), "none", 0.0, 0))
            if not thin or self.scot.clusters <= _NAMED_BANDS_MAX:
                self._text(MARGIN_LEFT - 0.25, band.y, f"C{index}", 11.0, color=colour, weight="bold")

    def _links(self) -> None:
        marked = {frozenset(link) for link in (*self.scene.overloaded, *self.scene.down)}
        links = [link for link in self.scot.links if frozenset(link) not in marked]
        a_links = [link for link in links if link[0].cluster == link[1].cluster]
        i_links = [link for link in links if link[0].cluster != link[1].cluster]
        self._lines(i_links, palette.I_LINK, *self._link_look("i_link"), 1)
        self._lines(a_links, palette.A_LINK, *self._link_look("a_link"), 2)

    def _overloaded(self) -> None:
        self._lines(list(self.scene.overloaded), palette.OVERLOADED, *self._link_look("overloaded"), 3)

    def _link_look(self, kind: str) -> tuple[float, Any]:
        """Width and style of a kind of link: thin and without dots where there are many."""
        if kind == "overloaded":
            return 2.6 if self.geometry.labelled else 1.2, _DASHED
        if kind == "down":
            return 0.7 if self.geometry.labelled else 0.3, _SPARSE
        if self.geometry.labelled:
            return {"a_link": (1.3, "solid"), "i_link": (1.0, _DOTTED)}[kind]
        fine = min(1.0, self.geometry.node_width / 0.04)
        return {"a_link": (0.5 * fine, "solid"), "i_link": (0.25 * fine, "solid")}[kind]

    def _lines(self, links: list[Link], colour: str, width: float, style: Any, order: int) -> None:
        if links:
            self._lines_as([curves.slim(self.geometry.link(*link)) for link in links], colour, width, style, order)

    def _lines_as(self, lines: list[curves.Line], colour: str, width: float, style: Any, order: int) -> None:
        look: dict[str, Any] = {
            "colors": colour,
            "linewidths": width * self.scale,
            "linestyles": style,
            "zorder": order,
        }
        self.axes.add_collection(LineCollection(lines, **look), autolim=False)

    def _brokers(self) -> None:
        if not self.geometry.labelled:
            self._dots()
            return
        highlighted, dead = set(self.scene.highlights), set(self.scene.dead)
        for broker in self.scot.brokers:
            box = self.geometry.box(broker)
            if broker in dead:
                self._dead(box)
                self._text(box.x, box.y, f"{broker.region},{broker.cluster}", LABEL_PT, color=palette.NEUTRAL, zorder=7)
                continue
            if broker in highlighted:
                halo = Box(box.x, box.y, box.width + 0.13, box.height + 0.13)
                self.axes.add_artist(self._pill(halo, palette.HIGHLIGHT, "none", 0.0, 4))
            colour = palette.cluster_colour(broker.cluster)
            self.axes.add_artist(self._pill(box, self._fill(broker), colour, 1.3, 5))
            self._text(box.x, box.y, f"{broker.region},{broker.cluster}", LABEL_PT, zorder=6)

    def _dead(self, box: Box) -> None:
        """An empty box, crossed out."""
        self.axes.add_artist(self._pill(box, "#FFFFFF", palette.DEAD, 1.0, 5))
        left, right = box.x - box.width / 2, box.x + box.width / 2
        bottom, top = box.y - box.height / 2, box.y + box.height / 2
        cross: list[curves.Line] = [[(left, bottom), (right, top)], [(left, top), (right, bottom)]]
        self._lines_as(cross, palette.tint(palette.DEAD, 0.6), 1.2, "solid", 6)

    def _dots(self) -> None:
        highlighted, dead = set(self.scene.highlights), set(self.scene.dead)
        for index in range(self.scot.clusters):
            colour = palette.cluster_colour(index)
            boxes = [(broker, self.geometry.box(broker)) for broker in self.scot.cluster(index)]
            faces = [
                palette.HIGHLIGHT if b in highlighted else palette.DEAD if b in dead else self._fill(b)
                for b, _ in boxes
            ]
            dots = [Ellipse((box.x, box.y), box.width, box.height) for _, box in boxes]
            self.axes.add_collection(
                PatchCollection(dots, facecolors=faces, edgecolors=colour, linewidths=0.5 * self.scale, zorder=5)
            )

    def _fill(self, broker: BrokerId) -> str:
        if self.scot.is_inner(broker):
            return palette.tint(palette.cluster_colour(broker.cluster), palette.INNER_TINT)
        return "#FFFFFF"

    def _clients(self) -> None:
        for client, box in zip(self.scene.clients, self.geometry.client_boxes(), strict=True):
            fill, line = palette.CLIENTS[client.kind]
            _, y = self.geometry.centre(client.broker)
            left = box.x - box.width / 2
            stub = [(left - 0.045, y), (left - 0.045, box.y), (left, box.y)]
            self._lines_as([stub], line, 0.9, "solid", 4)
            self.axes.add_artist(self._rounded(box, 0.03, fill, line, 0.9, 7))
            self._text(box.x, box.y, client.name, SMALL_PT, color=line, zorder=8)

    def _arrow(self, arrow: Arrow) -> None:
        colour = palette.message_colour(arrow.message.style, arrow.message.tree)
        self._arrow_line(arrow.line, colour, arrow.message.style in ("control", "detour"))
        if arrow.message.label:
            backing = Box(arrow.label.x, arrow.label.y, arrow.label.width - 0.03, arrow.label.height - 0.03)
            self.axes.add_artist(self._rounded(backing, 0.02, "#FFFFFFD0", "none", 0.0, 10))
            self._text(arrow.label.x, arrow.label.y, arrow.message.label, SMALL_PT, color=colour, zorder=11)

    def _arrow_line(self, line: curves.Line, colour: str, dashed: bool) -> None:
        if dashed:
            # The dashes would break up the head as well, so the patch gets the last piece only.
            shaft, line = curves.split_tail(line, _HEAD_LENGTH)
            self._lines_as([curves.slim(shaft)], colour, 1.5, _DASHED, 9)
        self.axes.add_artist(self._arrow_patch(line, colour))

    def _arrow_patch(self, line: curves.Line, colour: str) -> FancyArrowPatch:
        return FancyArrowPatch(
            path=Path(curves.slim(line)),
            arrowstyle="-|>,head_length=4.5,head_width=2.2",
            color=colour,
            linewidth=1.5 * self.scale,
            shrinkA=0.0,
            shrinkB=0.0,
            mutation_scale=self.scale,
            joinstyle="miter",
            capstyle="butt",
            zorder=9,
        )

    def _legend(self) -> None:
        rows = self.geometry.legend
        for place, row in enumerate(rows):
            x, y = MARGIN_LEFT, MARGIN / 2 + (len(rows) - place - 0.5) * ROW_HEIGHT
            for item in row:
                self._mark(item, x, y)
                self._text(x + item.word_offset, y, item.word, SMALL_PT, ha="left")
                x += item.width

    def _mark(self, item: Item, x: float, y: float) -> None:
        line = curves.straight((x, y), (x + LINE_WIDTH, y))
        if item.mark == "box":
            box = Box(x + BOX_WIDTH / 2, y, BOX_WIDTH, 0.15)
            self.axes.add_artist(self._pill(box, item.fill, item.colour, 1.0, 5))
        elif item.mark == "dead":
            self._dead(Box(x + BOX_WIDTH / 2, y, BOX_WIDTH, 0.15))
        elif item.mark in ("arrow", "dashed arrow"):
            self._arrow_line(line, item.colour, item.mark == "dashed arrow")
        else:
            widths, styles = self._link_look(item.mark)
            self._lines_as([curves.slim(line)], item.colour, widths, styles, 2)

    def _pill(self, box: Box, fill: str, line: str, width: float, order: int) -> FancyBboxPatch:
        return self._rounded(box, min(box.width, box.height) / 2, fill, line, width, order)

    def _rounded(self, box: Box, radius: float, fill: str, line: str, width: float, order: int) -> FancyBboxPatch:
        return FancyBboxPatch(
            (box.x - box.width / 2, box.y - box.height / 2),
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={radius:.4f}",
            facecolor=fill,
            edgecolor=line,
            linewidth=width * self.scale,
            zorder=order,
        )

    def _text(self, x: float, y: float, text: str, points: float, **style: Any) -> None:
        look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": palette.INK, "zorder": 6} | style
        # A dollar sign in a label is a dollar sign.
        self.axes.text(x, y, text, fontsize=points * self.scale, parse_math=False, **look)
