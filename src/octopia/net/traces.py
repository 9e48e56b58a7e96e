"""Traced notifications: what each broker did with one, and when.

Rules of this file: a publisher asks for a trace in the header of its notification, which goes on with every copy; each
broker keeps its last `TRACES_MAX` records and shows them at `/traces`. Times are of the broker's own wall clock, so
between machines they are only as good as their clocks.
"""

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from octopia.routing import Decision, Refusal
from octopia.topology import BrokerId
from octopia.wire import WireNotification

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost

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


def traces_json(host: "BrokerHost") -> bytes:
    """The body of `/traces`."""
    return json.dumps([asdict(record) for record in host.traces]).encode() + b"\n"
