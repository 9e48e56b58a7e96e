"""Pictures of an overlay with matplotlib: SVG or PNG files, and SVG text for reports.

Matplotlib is imported inside functions, here and in `paint`, which is imported from here: it is an extra, and slow to
load. No pyplot: a figure is an object and leaves no state behind. The same overlay gives the same bytes: no date, a
fixed salt for ids. A picture too large to read or open is refused before drawing starts.
"""

import io
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from octopia.drawing.geometry import Geometry
from octopia.drawing.scene import Scene, check_scene
from octopia.errors import InputError, TopologyError
from octopia.extras import missing
from octopia.topology import BrokerId, Scot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN_BROKERS_MAX = 5_000
DRAWN_LINKS_MAX = 50_000
_SIDE_MAX_IN = 40.0
_DPI = 150
_FORMATS = {".svg": "svg", ".png": "png"}
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "octopia",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "path.simplify": False,
}


def draw_overlay(
    scot: Scot,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    highlights: Iterable[BrokerId] = (),
    scene: Scene | None = None,
) -> Path:
    """Write the overlay, with a scene over it if there is one, as SVG or PNG by the file's suffix."""
    file = Path(path)
    file_format = _FORMATS.get(file.suffix.lower())
    if file_format is None:
        raise InputError(f"{file}: a picture is written as .svg or .png, not {file.suffix or 'without a suffix'}")
    shown = scene or Scene()
    shown = replace(shown, title=title or shown.title, highlights=(*shown.highlights, *highlights))
    content = _render(scot, shown, file_format)
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from None
    return file


def overlay_svg(scot: Scot, scene: Scene | None = None) -> str:
    """The picture as SVG text, to put into a page."""
    text = _render(scot, scene or Scene(), "svg").decode("utf-8")
    # A page needs the element, not the prologue of a separate file.
    return text[text.index("<svg") :]


def _render(scot: Scot, scene: Scene, file_format: str) -> bytes:
    _check_size(scot)
    check_scene(scot, scene)
    mpl = _matplotlib()
    buffer: BinaryIO = io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure = _figure(Geometry(scot, scene))
        figure.savefig(buffer, format=file_format, dpi=_DPI, metadata=_METADATA[file_format])
    buffer.seek(0)
    return buffer.read()


def _check_size(scot: Scot) -> None:
    if scot.broker_count > DRAWN_BROKERS_MAX:
        raise TopologyError(
            f"{scot.broker_count:,} brokers are too many for a picture, at most {DRAWN_BROKERS_MAX:,} are drawn"
        )
    links = scot.a_link_count + scot.i_link_count
    if links > DRAWN_LINKS_MAX:
        raise TopologyError(f"{links:,} links are too many for a picture, at most {DRAWN_LINKS_MAX:,} are drawn")


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise missing("matplotlib", "pictures") from None
    return mpl


def _figure(geometry: Geometry) -> "Figure":
    from matplotlib.figure import Figure

    from octopia.drawing.paint import Painter

    width, height = geometry.size
    scale = min(1.0, _SIDE_MAX_IN / max(width, height))
    figure = Figure(figsize=(width * scale, height * scale), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, width)
    axes.set_ylim(0.0, height)
    axes.set_axis_off()
    Painter(axes, geometry, scale).paint()
    return figure
