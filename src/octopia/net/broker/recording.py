"""Record a broker's activity message by message.

For experiments on live brokers (`octopia.testbed`), and for watching an overlay in production (`live_recording.py`).
Recording is off by default, and then costs nothing: a recorded broker is assembled with separate classes of router and
queues, defined here, so other brokers need no tests for it.

The records are numbers:

- `sent`: one row per message to a neighbour: the neighbour, when it was queued, when it was handed to the socket, the
  length of the queue that it found, the event that caused it, and its connection. A message that is resent on the next
  connection gets another row with the same `serial`. A message dropped from the queue has no connection, and left when
  it was dropped. If links will break (`reads`), the row also identifies the message, since no other broker may ever do
  so.
- `events`: one row per message from a neighbour and per request of a client: its source, when it was read, when it was
  handled, and what it was. Notifications of one read are one batch; each has its row, and all have the number of the
  first as their batch.
- `expired`: one row per delivery dropped because its deadline had passed: the client, the notification, and when.

TCP delivers the beginning of what was written, in order. So the n-th row of `sent` on a connection is the n-th of its
`events` at the other end, and if fewer arrived, the rest was lost. A connection is identified by its two addresses, so
messages need no extra fields. Everything that a broker sends while it handles an event was caused by this event;
messages driven by time have no cause (`NO_CAUSE`). Confirmations, signs of life and barriers are not routing messages
and are not recorded.

A link may have `Weather`: a delay, for distant sites and for faults, after which messages that left the queue reach the
socket, in order; a time per message, so that others wait in the queue meanwhile; or the link is down, and every
connection of it is aborted.

Rows are kept until `take`, and the recorder is told when there are `ROWS_MAX` of them. Times are those of `clock`, in
nanoseconds.
"""

import asyncio
import re
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from octopia.net.broker.router import Router
from octopia.net.outbox import Outbox
from octopia.routing import (
    Action,
    Advertised,
    ClientLeft,
    Decision,
    Event,
    Header,
    LinkNews,
    Message,
    Notify,
    Refusal,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId
from octopia.wire import COPIES, Kind, Parcels, is_probe, named_in

ROWS_MAX: Final = 50_000
NO_CAUSE: Final = -1
# In place of the number of a neighbour, for clients.
CLIENT: Final = -1
# In place of the index of a word, for none.
NO_WORD: Final = -1
SENT_COLUMNS: Final = (
    "link",
    "queued_ns",
    "left_ns",
    "queue",
    "cause",
    "connection",
    "serial",
    "kind",
    "name",
    "sequence",
)
EVENT_COLUMNS: Final = (
    "event",
    "batch",
    "link",
    "arrived_ns",
    "handled_ns",
    "kind",
    "name",
    "id",
    "sequence",
    "civ",
    "case",  # the case of the routing decision about a notification (`Decision.case`)
    "connection",
)
EXPIRED_COLUMNS: Final = ("client", "publisher", "sequence", "at_ns")
# Other frames in a link's queue beside messages of the core.
_BARRIERS: Final = frozenset((Kind.BARRIER, Kind.BARRIER_DONE))
_REQUESTS: Final[dict[type, str]] = {
    Advertised: "advertise",
    Unadvertised: "unadvertise",
    Subscribed: "subscribe",
    Unsubscribed: "unsubscribe",
    ClientLeft: "leave",
}
PUBLISH: Final = "publish"
# A notification that is not delivered: the request of a client, and its copies.
PROBED: Final = "probe"
SECOND_NS: Final = 1_000_000_000
# Timers of the event loop are late by about this much.
TIMER_NS: Final = 2_000_000


@cache
def kind_of(message: type) -> str:
    """The name of a message type in traces: CibSet is cib_set."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).lower()


_NOTIFY: Final = kind_of(Notify)


class Weather(NamedTuple):
    """Conditions on a link in one direction."""

    delay_ns: int = 0
    per_message_ns: int = 0
    per_byte_ns: int = 0
    is_up: bool = True


class Queued(NamedTuple):
    """A message in a queue, or sent and not confirmed."""

    queued_ns: int
    found: int
    cause: int
    serial: int
    kind: str = ""
    name: str = ""
    sequence: int = 0


class Recording:
    """The activity of one broker since the last `begin`."""

    def __init__(
        self,
        neighbours: Sequence[BrokerId],
        on_full: Callable[["Recording"], None] = lambda recording: None,
        clock: Callable[[], int] = time.monotonic_ns,
        delays_ns: Mapping[BrokerId, int] | None = None,
        *,
        reads: bool = False,
    ) -> None:
        self.clock = clock
        self.reads = reads
        self.cause = NO_CAUSE
        self.serials = 0
        self.sent_total = self.received_total = self.requests_total = 0
        self.words: list[str] = []  # kinds, names, ids and CIVs of events
        self._word_of: dict[str, int] = {}
        self._links = {neighbour: number for number, neighbour in enumerate(neighbours)}
        given = delays_ns or {}
        self.weather = [Weather(given.get(neighbour, 0)) for neighbour in neighbours]
        self.connections = [""] * len(neighbours)  # the current one of each link
        self._on_full = on_full
        self.begin()

    def next_life(self) -> "Recording":
        """Continue the recording for the same broker after it was killed; remains of the old one do not disturb it."""
        life = Recording(tuple(self._links), self._on_full, self.clock, reads=self.reads)
        life.weather = self.weather
        life.words, life._word_of = self.words, self._word_of
        life.serials, life._next = self.serials, self._next
        life.sent_total, life.received_total = self.sent_total, self.received_total
        life.requests_total = self.requests_total
        return life

    def begin(self) -> None:
        """Forget the recorded rows; nothing may be in flight."""
        self.sent = array("q")
        self.events = array("q")
        self.expired = array("q")
        self._next = 0
        self.sent_total = self.received_total = self.requests_total = 0

    def take(self) -> "tuple[array[int], array[int], array[int]]":
        """The rows of `sent`, `events` and `expired`, flattened; they are removed here."""
        taken = self.sent, self.events, self.expired
        self.sent, self.events, self.expired = array("q"), array("q"), array("q")
        return taken

    def too_old(self, client: str, delivery: bytes) -> None:
        """A delivery was dropped at its turn, since its deadline had passed."""
        publisher, sequence = named_in(delivery)
        self.expired.extend((self.word(client), self.word(publisher), sequence, self.clock()))

    def word(self, text: str) -> int:
        """The index of a word."""
        number = self._word_of.get(text)
        if number is None:
            number = self._word_of[text] = len(self.words)
            self.words.append(text)
        return number

    def index(self, text: str) -> int:
        """The same; None is allowed."""
        return self.word(text) if text else NO_WORD

    def takes(self, publisher: str, sequence: int) -> bool:
        """Whether this notification is recorded."""
        return True

    def link(self, neighbour: BrokerId) -> int:
        return self._links[neighbour]

    # -- the parts of a broker that note

    def make_router(self, *arguments: Any) -> Router:
        return RecordedRouter(self, *arguments)

    def make_link_box(self, neighbour: BrokerId, *arguments: Any) -> Outbox:
        return RecordedOutbox(self, neighbour, *arguments)

    def make_client_box(self, client: str, *arguments: Any) -> Outbox:
        """The clients of an experiment record deliveries themselves."""
        return RecordedClientOutbox(self, client, *arguments)

    def expect(self, rows: int) -> int:
        """The number of the next event, which has `rows` rows."""
        first = self._next
        self._next += rows
        return first

    def note_full(self) -> None:
        if (
            len(self.events) >= ROWS_MAX * len(EVENT_COLUMNS)
            or len(self.sent) >= ROWS_MAX * len(SENT_COLUMNS)
            or len(self.expired) >= ROWS_MAX * len(EXPIRED_COLUMNS)
        ):
            self._on_full(self)


class NotingOutbox(Outbox):
    """A queue that knows when each message entered it, and records when it leaves or is lost."""

    __slots__ = ("_queued", "_recording", "_under_way")

    def __init__(self, recording: Recording, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recording = recording
        # by identity of a frame while it waits; a frame may wait here more than once
        self._queued: dict[int, list[Queued]] = {}
        # for frames sent and not confirmed, in order; None for those not recorded
        self._under_way: deque[Queued | None] = deque()

    def _what(self, frame: bytes) -> tuple[str, str, int] | None:
        """Kind, publisher and number, as far as they are recorded; None if the message is not."""
        raise NotImplementedError

    def _left(self, frame: bytes, queued: Queued, now: int) -> None:
        """It was handed to the socket."""
        raise NotImplementedError

    def _lost(self, queued: Queued, now: int) -> None:
        """It will never be sent."""
        raise NotImplementedError

    # -- into the queue

    def _note(self, frames: Sequence[bytes], found: int) -> None:
        recording = self._recording
        now, cause = recording.clock(), recording.cause
        for place, frame in enumerate(frames, found):
            what = self._what(frame)
            if what is not None:
                recording.serials += 1
                queued = Queued(now, place, cause, recording.serials, *what)
                self._queued.setdefault(id(frame), []).append(queued)

    def put(self, frame: bytes, lane: int = 0) -> None:
        self._note((frame,), self.waits)
        super().put(frame, lane)

    def put_if_room(self, frames: list[bytes], lane: int = 0) -> bool:
        found = self.waits
        done = super().put_if_room(frames, lane)
        if done:
            self._note(frames, found)
        return done

    def put_below(self, frames: list[bytes], start: int, frames_max: int, bytes_max: int, lane: int = 0) -> int:
        found = self.waits
        stop = super().put_below(frames, start, frames_max, bytes_max, lane)
        self._note(frames[start:stop], found)
        return stop

    def refill(self, confirmed: int, unconfirmed: list[bytes], waiting: Iterable[bytes], untold: int) -> None:
        kept = list(waiting)
        super().refill(confirmed, unconfirmed, kept, untold)
        self._under_way.extend([None] * len(unconfirmed))
        self._note(kept, 0)

    # -- out of it

    def _next_chunk(self, room: int) -> tuple[list[bytes], int]:
        chunk, size = super()._next_chunk(room)
        if self.too_old is None:
            self._leave(chunk)
        return chunk, size

    def _still_wanted(self, chunk: list[bytes]) -> list[bytes]:
        wanted = super()._still_wanted(chunk)
        if len(wanted) < len(chunk):
            kept = set(map(id, wanted))
            for frame in chunk:
                if id(frame) not in kept:
                    self._lose_one(frame, 0)
        self._leave(wanted)
        return wanted

    def _leave(self, chunk: list[bytes]) -> None:
        now = self._recording.clock()
        for frame in chunk:
            queued = self._take(frame)
            self._under_way.append(queued)
            if queued is not None:
                self._left(frame, queued, now)
        self._recording.note_full()

    def _take(self, frame: bytes, place: int = 0) -> Queued | None:
        several = self._queued.get(id(frame))
        if several is None:
            return None
        queued = several.pop(place)
        if not several:
            del self._queued[id(frame)]
        return queued

    # -- what connections lose, and bounds

    def confirm(self, received: int) -> None:
        before = self.confirmed
        super().confirm(received)
        for _ in range(self.confirmed - before):
            self._under_way.popleft()

    def take_back(self) -> None:
        for frame, queued in zip(reversed(self.under_way), reversed(self._under_way), strict=True):
            if queued is not None:
                self._queued.setdefault(id(frame), []).insert(0, queued)
                self._recording.sent_total -= 1
        self._under_way.clear()
        super().take_back()

    def clear(self) -> int:
        self._under_way.clear()
        lost = super().clear()
        self.lose_all()
        return lost

    def keep_unsent(self, wanted: Callable[[bytes], bool]) -> int:
        before, self._queued = self._queued, {}
        lost = super().keep_unsent(wanted)
        # kept frames were queued again, and have waited all the time
        self._queued = {frame: before.pop(frame) for frame in self._queued}
        self._lose(queued for several in before.values() for queued in several)
        return lost

    def discard_newest(self) -> None:
        newest = self._newest()
        self.waiting_bytes -= len(newest)
        self._lose_one(newest, -1)

    def _count_drop(self, frame: bytes) -> None:
        super()._count_drop(frame)
        self._lose_one(frame, 0)

    def _lose_one(self, frame: bytes, place: int) -> None:
        queued = self._take(frame, place)
        self._lose(() if queued is None else (queued,))

    def lose_all(self) -> None:
        """Waiting frames will never be sent."""
        lost, self._queued = self._queued, {}
        self._lose(queued for several in lost.values() for queued in several)

    def _lose(self, lost: Iterable[Queued]) -> None:
        now = self._recording.clock()
        for queued in lost:
            self._lost(queued, now)


class RecordedOutbox(NotingOutbox):
    """The queue for a neighbour, with the weather of its link."""

    __slots__ = ("_free_ns", "_link", "_on_the_way", "_timer")

    def __init__(self, recording: Recording, neighbour: BrokerId, *arguments: Any) -> None:
        super().__init__(recording, *arguments)
        self._link = recording.link(neighbour)
        # frames that left the queue and are not at the socket yet: their time, connection and bytes
        self._on_the_way: deque[tuple[int, asyncio.WriteTransport, bytes]] = deque()
        self._free_ns = 0  # when the next message may be sent, if messages take time
        self._timer: asyncio.TimerHandle | None = None

    def _what(self, frame: bytes) -> tuple[str, str, int] | None:
        if frame[4] in _BARRIERS:
            return None
        if not self._recording.reads:
            return "", "", 0
        if frame[4] in COPIES:
            publisher, sequence = named_in(frame)
            return (_NOTIFY, publisher, sequence) if self._recording.takes(publisher, sequence) else None
        if frame[4] == Kind.LINK_NEWS:
            return kind_of(LinkNews), "", 0
        return Kind(frame[4]).name.lower().removeprefix("link_"), "", 0

    def _left(self, frame: bytes, queued: Queued, now: int) -> None:
        self._row(queued, now, self._recording.connections[self._link])
        self._recording.sent_total += 1

    def _lost(self, queued: Queued, now: int) -> None:
        self._row(queued, now, "")

    def _row(self, queued: Queued, left_ns: int, connection: str) -> None:
        queued_ns, found, cause, serial, kind, name, sequence = queued
        index = self._recording.index
        row = (self._link, queued_ns, left_ns, found, cause, index(connection), serial, index(kind), index(name))
        self._recording.sent.extend((*row, sequence))

    def _write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        weather = self._recording.weather[self._link]
        delay_ns, now = weather.delay_ns, self._recording.clock()
        if taken_ns := weather.per_message_ns + weather.per_byte_ns * len(data):
            # compensate for the timer being late, as far as that is the cause
            self._free_ns = max(self._free_ns, now - TIMER_NS) + taken_ns
            delay_ns += self._free_ns - now
        if delay_ns <= 0 and not self._on_the_way:
            super()._write(transport, data)
            return
        due_ns = max(now + delay_ns, self._on_the_way[-1][0] if self._on_the_way else 0)
        self._on_the_way.append((due_ns, transport, data))
        asyncio.get_running_loop().call_later(max(0, due_ns - now) / SECOND_NS, self._arrive)

    def _arrive(self) -> None:
        # the oldest, whichever timer this was: timers of the same moment are not ordered
        _, transport, data = self._on_the_way.popleft()
        if not transport.is_closing():
            transport.write(data)

    def _room(self) -> int:
        """On a link where messages take time, send them one after the other."""
        room = super()._room()
        weather = self._recording.weather[self._link]
        if not (weather.per_message_ns or weather.per_byte_ns) or room <= 0:
            return room
        left_ns = self._free_ns - self._recording.clock()
        if left_ns <= 0:
            return 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_ns / SECOND_NS, self._free)
        return 0

    def _free(self) -> None:
        self._timer = None
        self.flush()

    def attach(self, transport: asyncio.WriteTransport, received: int) -> None:
        recording = self._recording
        ends = sorted(str(transport.get_extra_info(name)) for name in ("sockname", "peername"))
        recording.connections[self._link] = " ".join(ends)
        super().attach(transport, received)
        if not recording.weather[self._link].is_up:
            transport.abort()


class RecordedClientOutbox(Outbox):
    """The queue for a client, which records deliveries that were too old at their turn."""

    __slots__ = ("_client", "_recording")

    def __init__(self, recording: Recording, client: str, *bounds: Any) -> None:
        super().__init__(*bounds)
        self._recording = recording
        self._client = client

    def _still_wanted(self, chunk: list[bytes]) -> list[bytes]:
        wanted = super()._still_wanted(chunk)
        if len(wanted) < len(chunk):
            kept = {id(frame) for frame in wanted}
            for frame in chunk:
                if id(frame) not in kept:
                    self._recording.too_old(self._client, frame)
            self._recording.note_full()
        return wanted


class _Causing:
    """Whatever is sent meanwhile was caused by this event. A generator would take three times as long."""

    __slots__ = ("_before", "_event", "_recording")

    def __init__(self, recording: Recording, event: int) -> None:
        self._recording = recording
        self._event = event

    def __enter__(self) -> int:
        self._before, self._recording.cause = self._recording.cause, self._event
        return self._event

    def __exit__(self, *_: object) -> None:
        self._recording.cause = self._before


class RecordedRouter(Router):
    """A router that records arrivals and the times when they were handled."""

    def __init__(self, recording: Recording, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recording = recording
        # the decisions about the current batch
        self._decisions: Sequence[Decision | Refusal] = ()
        self._publish = self._noting(self._publish)
        self._probe = self._noting(self._probe)
        self._receive = self._noting(self._receive)

    def _noting(self, decide: Callable[..., Any]) -> Callable[..., Any]:
        def decided(*given: Any) -> Any:
            self._decisions = decide(*given)
            return self._decisions

        return decided

    def handle(self, event: Event, now: float) -> list[Action]:
        kind = _REQUESTS.get(type(event))
        recording = self._recording
        with _Causing(self._recording, NO_CAUSE if kind is None else recording.expect(1)) as first:
            try:
                return super().handle(event, now)
            finally:
                if kind is not None:
                    asked: Any = event
                    id = recording.word(getattr(asked, "id", ""))
                    row = (first, first, CLIENT, int(now * SECOND_NS), recording.clock(), recording.word(kind))
                    recording.events.extend((*row, recording.word(asked.client), id, 0, NO_WORD, 0, NO_WORD))
                    recording.requests_total += 1
                    recording.note_full()

    def publish(self, client: str, batch: Parcels, now: float) -> None:
        with _Causing(self._recording, self._recording.expect(len(batch))) as first:
            super().publish(client, batch, now)
        self._note_notifications(first, CLIENT, batch, now, PUBLISH, "")

    def probe(self, client: str, batch: Parcels, now: float) -> str | None:
        with _Causing(self._recording, self._recording.expect(len(batch))) as first:
            reason = super().probe(client, batch, now)
        self._note_notifications(first, CLIENT, batch, now, PROBED, "")
        return reason

    def receive_copies(self, sender: BrokerId, header: Header, batch: Parcels, now: float) -> None:
        with _Causing(self._recording, self._recording.expect(len(batch))) as first:
            super().receive_copies(sender, header, batch, now)
        civ = f"{header.civ:x}" if header.civ else ""
        kind = PROBED if is_probe(batch.header) else _NOTIFY
        self._note_notifications(first, self._recording.link(sender), batch, now, kind, civ)

    def receive(self, sender: BrokerId, message: Message, now: float) -> None:
        recording = self._recording
        with _Causing(self._recording, recording.expect(1)) as first:
            super().receive(sender, message, now)
        link = recording.link(sender)
        row = (first, first, link, int(now * SECOND_NS), recording.clock(), recording.word(kind_of(type(message))))
        connection = recording.index(recording.connections[link])
        recording.events.extend((*row, NO_WORD, NO_WORD, 0, NO_WORD, 0, connection))
        recording.received_total += 1
        recording.note_full()

    def check_time(self, now: float) -> None:
        with _Causing(self._recording, NO_CAUSE):
            super().check_time(now)

    def _note_notifications(self, first: int, link: int, batch: Parcels, now: float, kind: str, civ: str) -> None:
        """Note notifications of one read, and count them."""
        recording = self._recording
        if link == CLIENT:
            recording.requests_total += len(batch)
        else:
            recording.received_total += len(batch)
        self._note_each(first, link, batch, now, kind, civ)
        recording.note_full()

    def _note_each(self, first: int, link: int, batch: Parcels, now: float, kind: str, civ: str) -> None:
        recording = self._recording
        arrived_ns, handled_ns, extend = int(now * SECOND_NS), recording.clock(), recording.events.extend
        code, bits, word = recording.word(kind), recording.word(civ) if civ else NO_WORD, recording.word
        cases = [decision.case for decision in self._decisions]
        if len(cases) != len(batch):
            # one decision for all of them
            cases = cases[:1] * len(batch) or [0] * len(batch)
        connection = NO_WORD if link == CLIENT else recording.index(recording.connections[link])
        for at, (publisher, sequence) in enumerate(zip(batch.publishers, batch.sequences, strict=True)):
            row = (first + at, first, link, arrived_ns, handled_ns, code)
            extend((*row, word(publisher), NO_WORD, sequence, bits, cases[at], connection))
