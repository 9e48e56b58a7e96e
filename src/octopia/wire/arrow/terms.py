"""Values that this package shares with its callers; without pyarrow, so that they can be had before it is loaded."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from octopia.language import Conformity, Filter, Notification

# The result of a fit for a value that does not fit.
NO_FIT: Final = object()


class PublishTerms(NamedTuple):
    """The publications that a publisher may make."""

    advertisements: Sequence[Filter]
    promises: Sequence[Conformity]
    frame_bytes_max: int
    why_not: Callable[[Notification], str]  # the reason why a notification does not conform


class Slab(NamedTuple):
    """Frames of consecutive rows, their number, and why the next row cannot be published, if so."""

    data: bytes
    frames: int
    error: Exception | None
