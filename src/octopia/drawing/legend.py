"""The legend: the symbols of the picture, in as many rows as its width requires.

Only symbols in the picture are explained. The order is fixed: links, brokers, clients, messages.
"""

from dataclasses import dataclass
from typing import Literal

from octopia.drawing import palette
from octopia.drawing.measure import SMALL_PT, text_width
from octopia.drawing.scene import Scene
from octopia.topology import Scot

Mark = Literal["a_link", "i_link", "overloaded", "down", "box", "dead", "arrow", "dashed arrow"]
BOX_WIDTH = 0.26
LINE_WIDTH = 0.35
ROW_HEIGHT = 0.24
_WORD_GAP = 0.07
_ITEM_GAP = 0.2
_MESSAGES = {"plain": "copy", "civ": "copy with a CIV", "control": "control message", "detour": "handed over"}


@dataclass(frozen=True)
class Item:
    """One mark and its word. `fill` is for boxes."""

    mark: Mark
    word: str
    colour: str
    fill: str = "#FFFFFF"

    @property
    def word_offset(self) -> float:
        return (BOX_WIDTH if self.mark in ("box", "dead") else LINE_WIDTH) + _WORD_GAP

    @property
    def width(self) -> float:
        return self.word_offset + text_width(self.word, SMALL_PT) + _ITEM_GAP


def legend_rows(scot: Scot, scene: Scene, width: float) -> list[list[Item]]:
    """The items in rows no wider than this; an item that is wider gets its own row."""
    rows: list[list[Item]] = [[]]
    used = 0.0
    for item in _items(scot, scene):
        if rows[-1] and used + item.width > width:
            rows.append([])
            used = 0.0
        rows[-1].append(item)
        used += item.width
    return rows


def _items(scot: Scot, scene: Scene) -> list[Item]:
    grey = palette.NEUTRAL
    items = []
    if scot.a_link_count:
        items.append(Item("a_link", "aLink", palette.A_LINK))
    if scot.i_link_count:
        items.append(Item("i_link", "iLink", palette.I_LINK))
    if scene.overloaded:
        items.append(Item("overloaded", "overloaded", palette.OVERLOADED))
    if scene.down:
        items.append(Item("down", "down", palette.DEAD))
    if scot.inner:
        items.append(Item("box", "inner broker", grey, palette.tint(grey, palette.INNER_TINT)))
    items.append(Item("box", "edge broker", grey))
    if scene.dead:
        items.append(Item("dead", "dead broker", palette.DEAD))
    for kind in dict.fromkeys(client.kind for client in scene.clients):
        fill, line = palette.CLIENTS[kind]
        items.append(Item("box", kind, line, fill))
    return items + _messages(scene)


def _messages(scene: Scene) -> list[Item]:
    items = []
    for style in dict.fromkeys(message.style for message in scene.messages if message.tree is None):
        items.append(Item(_arrow(style), _MESSAGES[style], palette.MESSAGES[style]))
    for tree in sorted({message.tree for message in scene.messages if message.tree is not None}):
        items.append(Item("arrow", f"C{tree}'s tree", palette.cluster_colour(tree)))
    if any(message.style == "detour" and message.tree is not None for message in scene.messages):
        items.append(Item("dashed arrow", _MESSAGES["detour"], palette.NEUTRAL))
    return items


def _arrow(style: str) -> Mark:
    return "dashed arrow" if style in ("control", "detour") else "arrow"
