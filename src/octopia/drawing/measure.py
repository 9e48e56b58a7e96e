"""Sizes of letters.

Rules of this file: about right is enough, and the same on every machine. matplotlib would know exactly, but a layout
must not need it, and a viewer may have another font anyway.
"""

LABEL_PT = 8.0
SMALL_PT = 7.0


def text_width(text: str, points: float = LABEL_PT) -> float:
    """About how wide a text is, in inches."""
    return len(text) * points * 0.62 / 72
