"""Traced notifications: what each broker did with one, and when.

Rules of this file: a publisher asks for a trace in the header of its notification, which goes on with every copy; each
broker keeps its last `TRACES_MAX` records and shows them at `/traces`. Times are of the broker's own wall clock, so
between machines they are only as good as their clocks.
"""

import json
import time
from collections import deque
from dataclasses import asdict, dataclass

from octopia.routing import Decision, Refusal
from octopia.topology import BrokerId
from octopia.wire import CopyHeader, WireNotification

TRACES_MAX = 1000


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One broker's part: where it came from, to whom copies went with which CIV, and who got it."""

    broker: str
    publisher: str
    sequence: int
    time_ns: int
    came_from: str
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[str, ...]


def trace_record(broker: BrokerId, came_from: str, seen: WireNotification, decision: Decision | Refusal) -> TraceRecord:
    """What was decided about the notification."""
    sent = tuple((str(to), header.civ) for to, header in decision.copies)
    delivered = tuple(recipient.client for recipient in decision.recipients)
    return TraceRecord(str(broker), seen.publisher, seen.sequence, time.time_ns(), came_from, sent, delivered)


class Traces:
    """The last records of one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._records: deque[TraceRecord] = deque(maxlen=TRACES_MAX)

    def __len__(self) -> int:
        return len(self._records)

    def note(self, came_from: str, seen: WireNotification, decision: Decision | Refusal) -> None:
        """Remember what was decided about a notification, if it is traced."""
        header = seen.header
        if header is True or (isinstance(header, CopyHeader) and header.traced):
            self._records.append(trace_record(self._broker, came_from, seen, decision))

    def as_json(self) -> bytes:
        """The body of `/traces`."""
        return json.dumps([asdict(record) for record in self._records]).encode() + b"\n"
