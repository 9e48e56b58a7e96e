"""The express way for a routing with streams. `express.py` is for all others, `stamped.py` is the ordinary way.

Copies in transit are forwarded byte for byte, with a new header. At a destination, a notification may pass the gate
only in its turn: the gate is asked about each, by its stamp alone, and consecutive ones that it admits are delivered
together. Any other takes the ordinary way. At the publisher's broker, each notification with remote destinations is
kept in the log, so it becomes an object.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from octopia.errors import RemoteProtocolError
from octopia.matching import Answers
from octopia.net.broker.express import Batch, ExpressWay
from octopia.net.broker.fan_out import Stamps
from octopia.net.broker.stamped import StampedDispatch
from octopia.routing import Decision, Stamp
from octopia.wire import Haul, stamp_block


class StampedExpress(ExpressWay):
    """Takes hauls to the queues of one broker."""

    def __init__(
        self, *given: Any, streams: Any, stamped: StampedDispatch, read_stamp: Callable[[bytes], Stamp], **named: Any
    ) -> None:
        # the streams keep order, and nothing is ever diverted
        super().__init__(*given, overtakes=False, **named)
        self._streams = streams
        self._stamped = stamped
        self._read_stamp = read_stamp

    def carry_out(self, batch: Batch, start: int, stop: int, accepted_ms: int, stamps: Stamps | None = None) -> None:
        """Queue publications as decided; each of them gets its stamp now."""
        haul, decisions = batch.haul, batch.decisions
        blocks: list[bytes] = []
        logged: list[bytes] = []
        if any(decision is not None and (decision.dests or decision.missed) for decision in decisions):
            for place, group in enumerate(batch.groups[start:stop].tolist(), start):
                blocks.append(self._stamp(haul, place, decisions[group], logged))
            ends = np.cumsum([0, *map(len, blocks)])
            stamps = Stamps(np.frombuffer(b"".join(blocks) + b"\x00", dtype=np.uint8), ends)
        super().carry_out(batch, start, stop, accepted_ms, stamps)
        if logged:
            self._stamped.mark.went_in(logged)

    def _stamp(self, haul: Haul, place: int, decision: Decision | None, logged: list[bytes]) -> bytes:
        """The stamp before the parcel in the copies of a publication, which is kept until they are confirmed."""
        if decision is None or not (decision.dests or decision.missed):
            return b""
        seen = haul.notification(place)
        stamp = self._streams.sent(seen.publisher, str(seen.sequence), seen, decision, len(seen.parcel))
        if stamp is None:
            return b""
        logged.append(seen.parcel)
        return stamp_block(stamp)

    def take_copies(self, haul: Haul, decision: Decision, now: float) -> None:
        """Handle copies from a neighbour, for which one decision was made."""
        if decision.copies:
            self._pass_on(haul, decision)
        if decision.here:
            self._deliver(haul, now)

    def _pass_on(self, haul: Haul, decision: Decision) -> None:
        fan_out = self._fan_out
        fan_out.headers.forget_if_many()
        for_nobody = Answers(np.zeros(len(haul), dtype=np.int64), np.zeros(0, dtype=np.int32))
        bundles, _, _ = fan_out.frames(for_nobody, for_nobody.counts, [self._plan(decision)], haul.tokens, 0)
        self._put(bundles)

    def _deliver(self, haul: Haul, now: float) -> None:
        matches = self.core.match(haul.tokens, haul.notification)
        batch = Batch(haul, matches, np.zeros(len(haul), dtype=np.int64), [(Decision(), ())])
        start = 0
        for place, (stamped, publisher) in enumerate(haul.stamps()):
            if not self._lets_through(stamped, publisher):
                super().carry_out(batch, start, place, -1)
                self._stamped.deliver(haul.parcels(place, place + 1), now)
                start = place + 1
        super().carry_out(batch, start, len(haul), -1)

    def _lets_through(self, stamped: bytes, publisher: str) -> bool:
        try:
            stamp = self._read_stamp(stamped)
        except RemoteProtocolError:
            return False
        through: bool = self._streams.lets_through(publisher, stamp)
        return through
