"""`python -m benchmarks.figures`: the drawing of the page on matching, from a real run of the index.

400 boxes in two dimensions, coloured by block, and an event. Blocks whose bounds the event lies outside of are pale:
the search never looks at them.
"""

import random
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from octopia.matching import Matcher
from octopia.matching.box_run import BLOCK_BOXES

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "matching-boxes.svg"
BOXES = 400
EVENT = {"price": 62.0, "volume": 33.0}
COLOURS = ("#3a6ea5", "#2e8b57", "#b5762a", "#7d4f9e", "#2a9aa0", "#a54848", "#5b6875")


def main() -> None:
    draw = random.Random(4)
    index: Matcher[int] = Matcher()
    for id in range(BOXES):
        x, y = draw.uniform(0, 88), draw.uniform(0, 88)
        w, h = draw.uniform(2, 12), draw.uniform(2, 12)
        index.add(id, f"price >= {x} and price <= {x + w} and volume >= {y} and volume <= {y + h}")
    index.settle()
    (run,) = index.runs()
    layout = run.layout
    figure = Figure(figsize=(7, 7))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.08, 0.08, 0.88, 0.86))
    lows, highs = layout.cells[:, : 2 * run.size].reshape(2, 2, -1)
    blocks = visited = 0
    for first in range(0, run.size, BLOCK_BOXES):
        last = min(first + BLOCK_BOXES, run.size)
        (x0, y0), (x1, y1) = lows[:, first:last].min(axis=1), highs[:, first:last].max(axis=1)
        inside = x0 <= EVENT["price"] <= x1 and y0 <= EVENT["volume"] <= y1
        colour = COLOURS[blocks % len(COLOURS)]
        blocks += 1
        visited += inside
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec=colour, lw=2 if inside else 1, ls="--"))
        for slot in range(first, last):
            corner = (lows[0, slot], lows[1, slot])
            size = (highs[0, slot] - lows[0, slot], highs[1, slot] - lows[1, slot])
            axes.add_patch(Rectangle(corner, *size, fc=colour, ec=colour, alpha=0.35 if inside else 0.08, lw=0.6))
    matched = index.match(EVENT)
    axes.plot(EVENT["price"], EVENT["volume"], "o", ms=8, color="#d7263d", zorder=9)
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="price", ylabel="volume")
    axes.set_title(f"{BOXES} subscriptions, {blocks} blocks; the event looks into {visited} and matches {len(matched)}")
    with mpl.rc_context({"svg.hashsalt": "octopia", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, format="svg", metadata={"Date": None, "Creator": None})
    print(f"{PICTURE.name}: {blocks} blocks, {visited} visited, {len(matched)} matches")


if __name__ == "__main__":
    main()
