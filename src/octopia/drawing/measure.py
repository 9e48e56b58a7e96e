"""Sizes of letters.

Approximate sizes are enough, as long as they are the same on every machine. matplotlib would know exactly, but a layout
must not depend on it, and a viewer may have another font anyway.
"""

LABEL_PT = 8.0
SMALL_PT = 7.0


def text_width(text: str, points: float = LABEL_PT) -> float:
    """The approximate width of a text, in inches."""
    return len(text) * points * 0.62 / 72
