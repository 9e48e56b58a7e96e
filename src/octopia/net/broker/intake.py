"""Who brings what is being routed at this moment, so that a full queue can stop its source and no other.

Rules of this file: whoever takes in what a read brought says from whom (`source`) for as long as that lasts, and nobody
else does. Outside of a read there is no source: what time lets go (`order.py`) holds nobody up.
"""

from octopia.net.broker.operations.counters import Counters
from octopia.net.channel import Channel
from octopia.net.outbox import Outbox


class Intake:
    """The source of what is being routed, of one broker."""

    __slots__ = ("_counters", "source")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.source: Channel | None = None

    def hold_back(self, box: Outbox) -> None:
        """This box is full: its source is not read from until half of it is empty again."""
        source = self.source
        if source is not None:
            self._counters.sources_held += not source.is_held
            box.block(source)
