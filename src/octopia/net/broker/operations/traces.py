"""Traced notifications: what each broker did with one, and when.

Rules of this file: a publisher asks for a trace in the header of its notification, which goes on with every copy; each
broker keeps its last `TRACES_MAX` records and shows them at `/traces`. Times are of the broker's own wall clock, so
between machines they are only as good as their clocks.
"""

import json
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from octopia.routing import Action, Deliver, Notify, Send
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


def trace_record(broker: BrokerId, came_from: str, seen: WireNotification, actions: Iterable[Action]) -> TraceRecord:
    """What these actions do with the notification."""
    sent: list[tuple[str, int]] = []
    delivered: list[str] = []
    for action in actions:
        if isinstance(action, Send):
            sent.append((str(action.to), action.message.civ if isinstance(action.message, Notify) else 0))
        elif isinstance(action, Deliver):
            delivered += [recipient.client for recipient in action.recipients]
    return TraceRecord(
        str(broker), seen.publisher, seen.sequence, time.time_ns(), came_from, tuple(sent), tuple(delivered)
    )


class Traces:
    """The last records of one broker."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._records: deque[TraceRecord] = deque(maxlen=TRACES_MAX)

    def __len__(self) -> int:
        return len(self._records)

    def note(self, came_from: str, seen: WireNotification, actions: list[Action]) -> None:
        """Remember what was done with a notification, if it is traced."""
        header = seen.header
        if header is True or (isinstance(header, CopyHeader) and header.traced):
            self._records.append(trace_record(self._broker, came_from, seen, actions))

    def as_json(self) -> bytes:
        """The body of `/traces`."""
        return json.dumps([asdict(record) for record in self._records]).encode() + b"\n"
