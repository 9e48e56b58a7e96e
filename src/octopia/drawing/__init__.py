"""Pictures of an overlay: SVG and PNG files, SVG text for reports, and a form for the terminal.

The package draws what it is given and makes no routing decisions. Layout is arithmetic without matplotlib; only
`figure` imports it, when a picture is requested, since brokers and clients run without it.
"""

from octopia.drawing.figure import draw_overlay, overlay_svg
from octopia.drawing.map import overlay_map
from octopia.drawing.scene import DrawnClient, DrawnMessage, Scene
from octopia.drawing.text import draw_text

__all__ = [
    "DrawnClient",
    "DrawnMessage",
    "Scene",
    "draw_overlay",
    "draw_text",
    "overlay_map",
    "overlay_svg",
]
