"""Traces of notifications and probes: what each broker did with them, or would have done, and when.

A publisher asks for a trace in the header of its notification, which all copies repeat. Each broker keeps its last
`TRACES_MAX` records and shows them at `/traces`. Times are those of the broker's own wall clock, so between machines
they are only as good as the clocks. The broker where it was published keeps its content, up to `CONTENT_BYTES_MAX`.
"""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from octopia.language import Value
from octopia.protocol import Dests, Header, Routes, TreeHeader
from octopia.routing import Decision, Recipient, Refusal
from octopia.topology import BrokerId, civ
from octopia.wire import WireNotification, is_probe

TRACES_MAX = 1000
CONTENT_BYTES_MAX = 4_096
RECIPIENTS_MAX = 1_000
# Of a link: whether it is up, and its queue. Of a client: its queue, and any other problem.
LinkNow = Callable[[BrokerId], tuple[bool, int]]
Fate = Callable[[str, tuple[str, ...]], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """A copy for a neighbour: the link, its queue, and the header of the copy.

    `civ` has a digit for each cluster, `destinations` are brokers (fdr, tid-dynamic), `tree` is a tree's root (tid).
    """

    to: str
    up: bool
    queue: int
    priority: int = 0
    civ: str = ""
    destinations: tuple[str, ...] = ()
    tree: str = ""


@dataclass(frozen=True, slots=True)
class RecipientRecord:
    """A client that gets it, or would: its subscriptions, its queue, and why it may still not get it."""

    client: str
    subscriptions: tuple[str, ...]
    queue: int
    trouble: str


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One broker's part: the source, the copies with their CIVs, and the recipients.

    A probe is not delivered: `recipients` are the clients that would get it. `refused` is why it was not routed at all.
    """

    broker: str
    publisher: str
    sequence: int
    time_ns: int
    came_from: str
    sent: tuple[tuple[str, int], ...]
    delivered: tuple[str, ...]
    probe: bool = False
    copies: tuple[CopyRecord, ...] = ()
    recipients: tuple[RecipientRecord, ...] = ()
    refused: str = ""
    notification: Mapping[str, Value] | None = None


def _shown(values: Mapping[str, Value]) -> dict[str, Value]:
    """In a form that JSON has: it has no infinity."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


class Traces:
    """The last records of one broker."""

    def __init__(
        self, broker: BrokerId, brokers: Sequence[BrokerId], clusters: int, link_now: LinkNow, fate: Fate
    ) -> None:
        self._broker = str(broker)
        self._brokers = [str(each) for each in brokers]
        self._clusters = clusters
        self._link_now = link_now
        self._fate = fate
        self._records: deque[TraceRecord] = deque(maxlen=TRACES_MAX)

    def __len__(self) -> int:
        return len(self._records)

    def note(
        self,
        came_from: str,
        seen: WireNotification,
        decision: Decision | Refusal,
        recipients: tuple[Recipient, ...] | None = None,
    ) -> None:
        """Record the decision about a notification, if it is traced.

        `recipients` are its recipients here, if the decision does not list them.
        """
        header = seen.header
        if header is None or not header.traced:
            return
        probe = is_probe(header)
        to = decision.recipients if recipients is None else recipients
        content = came_from not in self._brokers and len(seen.parcel) <= CONTENT_BYTES_MAX
        self._records.append(
            TraceRecord(
                self._broker,
                seen.publisher,
                seen.sequence,
                time.time_ns(),
                came_from,
                tuple((str(neighbour), carried.civ) for neighbour, carried in decision.copies),
                () if probe else tuple(recipient.client for recipient in to),
                probe,
                self._copies(decision),
                tuple(RecipientRecord(*each, *self._fate(*each)) for each in to[:RECIPIENTS_MAX]),
                decision.reason if isinstance(decision, Refusal) else "",
                _shown(seen.to_dict()) if content else None,
            )
        )

    def _copies(self, decision: Decision | Refusal) -> tuple[CopyRecord, ...]:
        if isinstance(decision, Refusal):
            return ()
        priorities = decision.priorities or (0,) * len(decision.copies)
        return tuple(
            CopyRecord(str(to), *self._link_now(to), priority, **self._carried(header))
            for (to, header), priority in zip(decision.copies, priorities, strict=True)
        )

    def _carried(self, header: Header) -> dict[str, Any]:
        if isinstance(header, Dests):
            places = enumerate(self._brokers)
            return {"destinations": tuple(broker for place, broker in places if header.dests >> place & 1)}
        if isinstance(header, Routes):
            return {"destinations": tuple(str(route.destination) for route in header.routes)}
        if isinstance(header, TreeHeader):
            return {"tree": str(header.tid.host)}
        return {"civ": civ.to_string(header.civ, self._clusters) if header.civ else ""}

    def as_json(self, publisher: str | None = None, sequence: int = 0) -> bytes:
        """The body of `/traces`: all records, or those of one notification."""
        records = (
            record
            for record in self._records
            if publisher is None or (record.publisher == publisher and record.sequence == sequence)
        )
        return json.dumps([asdict(record) for record in records]).encode() + b"\n"
