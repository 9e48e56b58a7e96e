"""From decisions to queues for a routing with streams (`routing/streams.py`); `dispatch.py` is for all others.

At the publisher's broker, each notification gets its stamp, once, and all its copies carry it before the parcel.
Received copies are forwarded at once, byte for byte: a broker on the path looks only at their header. If this broker is
a destination, it reads the stamp, and the streams decide what to deliver now.

A stamp may come from a distant broker, and brokers on the path do not examine it. An invalid stamp is therefore not the
fault of the neighbour that sent it: the copy is dropped and counted.

Unconfirmed notifications are kept (`Log`). Publishers are asked to pause long before it reaches its bound, as with a
queue that is filling up: from half of the bound until a quarter is left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from octopia.errors import RemoteProtocolError
from octopia.net.broker.dispatch import Destination, Dispatch, Outgoing, deliveries_of, lane_of, put_gathered
from octopia.net.broker.intake import Intake
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.traces import Traces
from octopia.routing import Decision, Recipient, Refusal, Stamp
from octopia.topology import BrokerId
from octopia.wire import TRACED, CopyHeader, Parcels, copy_heads, deliver_heads, split_stamp, stamp_block

if TYPE_CHECKING:
    from octopia.net.broker.links import Link
    from octopia.net.broker.sessions import Session


class LogMark:
    """The log as a queue that makes publishers pause while it is filling up."""

    def __init__(self, log: Any, intake: Intake) -> None:
        self._log = log
        self._intake = intake
        self._asks = False

    def went_in(self, frames: list[bytes]) -> None:
        """These were added to the log, from the current source."""
        if not self._asks and self._log.filled < 1 / 2:
            return
        if not self._asks:
            self._asks = True
            self._intake.fills(self)
        self._intake.went_in(self, frames)

    def check(self) -> None:
        """Let publishers continue if there is room again."""
        if self._asks and self._log.filled <= 1 / 4:
            self._asks = False
            self._intake.has_room(self)

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """The log is not a source."""
        return ()

    def pause(self, publishers: list[str], held: bool) -> None:
        """The log is not a source, so it is never asked to pause."""


class StampedDispatch:
    """Carries out the decisions of one broker's core about notifications."""

    def __init__(
        self,
        streams: Any,
        dispatch: Dispatch,
        read_stamp: Callable[[bytes], Stamp],
        *,
        sessions: "Mapping[str, Session]",
        links: "Mapping[BrokerId, Link]",
        intake: Intake,
        counters: Counters,
        traces: Traces,
    ) -> None:
        self._streams = streams
        self._dispatch = dispatch
        self._read_stamp = read_stamp
        self._sessions = sessions
        self._links = links
        self._counters = counters
        self._traces = traces
        self.mark = LogMark(streams.log, intake)

    def published(self, batch: Parcels, decisions: Sequence[Decision | Refusal], client: str) -> None:
        """Handle publications of a client of this broker."""
        touched: list[Destination] = []
        traced = batch.header is not None
        sent = self._streams.sent
        logged: list[bytes] = []
        for at, (parcel, decision) in enumerate(zip(batch.parcels, decisions, strict=True)):
            if isinstance(decision, Refusal):
                # answers keep their place among deliveries
                put_gathered(touched)
                touched.clear()
                seen = batch.notification(at)
                self._dispatch.carry_out(decision.actions(seen.publisher, str(seen.sequence), seen))
                continue
            deliveries, copies = decision.memo or self._plans(decision)
            if traced:
                self._traces.note(client, batch.notification(at), decision)
                copies = self._copies(decision, TRACED)
            _gather(deliveries, parcel, touched)
            self._counters.deliveries += len(decision.recipients)
            if decision.dests or decision.missed:
                seen = batch.notification(at)
                stamp = sent(seen.publisher, str(seen.sequence), seen, decision, len(parcel))
                if stamp is not None:
                    _gather(copies, stamp_block(stamp) + parcel, touched)
                    logged.append(parcel)
        put_gathered(touched)
        if logged:
            self.mark.went_in(logged)

    def received(self, batch: Parcels, decision: Decision, came_from: str, now: float) -> None:
        """Handle copies from a neighbour, for which one decision was made."""
        touched: list[Destination] = []
        traced = batch.header is not None
        if decision.copies:
            copies = self._copies(decision, TRACED) if traced else (decision.memo or self._plans(decision))[1]
            for stamped in batch.stamped:
                _gather(copies, stamped, touched)
        delivered = self._arrived(batch, now, touched) if decision.here else ()
        if traced:
            for at in range(len(batch)):
                self._traces.note(came_from, batch.notification(at), Decision(tuple(delivered), decision.copies))
        put_gathered(touched)

    def deliver(self, batch: Parcels, now: float) -> None:
        """Handle copies for this broker, which have been forwarded already."""
        touched: list[Destination] = []
        self._arrived(batch, now, touched)
        put_gathered(touched)

    def _arrived(self, batch: Parcels, now: float, touched: list[Destination]) -> list[Recipient]:
        at_once, arrived, sessions = self._streams.at_once, self._streams.arrived, self._sessions
        delivered: list[Recipient] = []
        for at, (publisher, stamped) in enumerate(zip(batch.publishers, batch.stamped, strict=True)):
            try:
                stamp = self._read_stamp(split_stamp(stamped)[0])
            except RemoteProtocolError:
                self._counters.stamps_wrong += 1
                continue
            notification = batch.notification(at)
            recipients = at_once(publisher, stamp, notification)
            if recipients is None:
                ready = arrived(publisher, stamp, notification, None, now, len(stamped))
            else:
                ready = ((publisher, notification, None, recipients),)
            for _, released, _, to in ready:
                for client, subscriptions in to:
                    session = sessions.get(client)
                    if session is not None:
                        lane = lane_of(session, subscriptions) if session.priorities else session
                        _gather([(deliver_heads(subscriptions), [lane])], released.parcel, touched)
                delivered += to
        self._counters.deliveries += len(delivered)
        return delivered

    def _plans(self, decision: Decision) -> tuple[Outgoing, Outgoing]:
        """The destinations of deliveries and copies; cached with the decision, and valid as long as it is."""
        decision.memo = (list(deliveries_of(decision, self._sessions).values()), self._copies(decision))
        return decision.memo  # type: ignore[no-any-return]

    def _copies(self, decision: Decision, says: CopyHeader | None = None) -> Outgoing:
        copies = zip(decision.copies, decision.priorities or repeat(0), strict=False)
        return [(copy_heads(header, says), [self._links[to].lane(priority)]) for (to, header), priority in copies]


def _gather(plan: Outgoing, tail: bytes, touched: list[Destination]) -> None:
    for heads, owners in plan:
        frame = heads[len(tail)] + tail
        for owner in owners:
            gathered = owner.gathered
            if not gathered:
                touched.append(owner)
            gathered.append(frame)
