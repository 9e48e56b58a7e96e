"""Pictures of an overlay: SVG and PNG files, SVG text for reports, and a form for the terminal.

Rules of this package: it draws what it is given and decides nothing about routing. Layout is arithmetic without
matplotlib; only `figure` imports it, when a picture is asked for, since brokers and clients run without.
"""

from octopia.drawing.figure import draw_overlay, overlay_svg
from octopia.drawing.scene import Client, Message, MessageStyle, Scene
from octopia.drawing.text import draw_text

__all__ = [
    "Client",
    "Message",
    "MessageStyle",
    "Scene",
    "draw_overlay",
    "draw_text",
    "overlay_svg",
]
