"""The colours of a picture.

One muted colour per cluster, repeated when clusters outnumber them; colour only helps, since bands and brokers carry
their cluster's number too. Red is reserved for overloaded links; dead brokers and links that are down are grey.
"""

_CLUSTERS = ("#4477AA", "#228833", "#AA7733", "#88559A", "#3B9DA6", "#997700", "#6B7280", "#B0577B", "#5B8C5A")

INK = "#1F2933"
A_LINK = "#52606D"
I_LINK = "#8793A0"
NEUTRAL = "#6B7280"
OVERLOADED = "#D62839"
DEAD = "#9AA3AD"
INNER_TINT = 0.42
HIGHLIGHT = "#F2B705"
MESSAGES = {"plain": "#0B4F9E", "civ": "#C2570C", "control": "#4B5563", "detour": "#0B4F9E"}
CLIENTS = {"publisher": ("#FFF4D6", "#A66F00"), "subscriber": ("#E3F4E8", "#1E7A3C")}


def cluster_colour(index: int) -> str:
    """The colour of a cluster."""
    return _CLUSTERS[index % len(_CLUSTERS)]


def message_colour(style: str, tree: int | None) -> str:
    """The colour of an arrow: that of its tree, if it has one."""
    return MESSAGES[style] if tree is None else cluster_colour(tree)


def tint(colour: str, strength: float) -> str:
    """The colour mixed with white: strength 1 is the colour itself, 0 is white."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02X}" for part in parts)
