"""Record a broker's activity message by message, for experiments on live brokers (`octopia.testbed`).

The broker is the one that users run: it is observed (`recorder.py`), and its links may have weather. The records are
numbers:

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
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from octopia.net.broker.engine.outcome import (
    ALL,
    KIND,
    NOTE_DECISION,
    NOTE_HEADER,
    NOTE_PUBLISHER,
    NOTE_SEQUENCE,
    PLACE,
    PUBLISHER,
    SEQUENCE,
    Outcome,
    Sample,
)
from octopia.net.broker.recorder import NO_CAUSE, FrameTag, QueueObserver, Tagger
from octopia.net.frame_queue import Bundle, FrameObserver, FrameQueue
from octopia.protocol import LinkNews, Notify
from octopia.routing import (
    Action,
    Advertised,
    ClientLeft,
    Event,
    Received,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId
from octopia.wire import COPIES, Kind, named_in

ROWS_MAX: Final = 50_000
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
_MESSAGES: Final = frozenset(Kind) - {Kind.BARRIER, Kind.BARRIER_DONE}
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


@cache
def _kind_of_frame(kind: int) -> str:
    """The same for the message in a frame."""
    if kind in COPIES:
        return _NOTIFY
    return kind_of(LinkNews) if kind == Kind.LINK_NEWS else Kind(kind).name.lower().removeprefix("link_")


class Weather(NamedTuple):
    """Conditions on a link in one direction."""

    delay_ns: int = 0
    per_message_ns: int = 0
    per_byte_ns: int = 0
    is_up: bool = True


class Recording(Tagger):
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
        super().__init__(clock, ALL)
        self.reads = reads
        self.words: list[str] = []  # kinds, names, ids and CIVs of events
        self._word_of: dict[str, int] = {}
        self._links = {neighbour: number for number, neighbour in enumerate(neighbours)}
        given = delays_ns or {}
        self.weather = [Weather(given.get(neighbour, 0)) for neighbour in neighbours]
        self._queues: dict[int, LinkObserver] = {}
        self._on_full = on_full
        self._batches: list[tuple[Sample | None, BrokerId | None, float]] = []  # being put into queues
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

    def word(self, text: str) -> int:
        """The index of a word."""
        number = self._word_of.get(text)
        if number is None:
            number = self._word_of[text] = len(self.words)
            self.words.append(text)
        return number

    def index(self, text: str) -> int:
        """The same; NO_WORD for none."""
        return self.word(text) if text else NO_WORD

    def link(self, neighbour: BrokerId) -> int:
        return self._links[neighbour]

    def end_life(self) -> None:
        """The broker was killed: what waits will never be sent."""
        for observer in self._queues.values():
            observer.lose_all()

    # -- queues

    def client_observer(self, client: str) -> FrameObserver:
        return ClientObserver(self, client)

    def observe_link(self, neighbour: BrokerId, queue: FrameQueue) -> None:
        link = self.link(neighbour)
        queue.observer = self._queues[link] = LinkObserver(self, link, queue)
        queue.carrier = WeatheredWay(self, link)

    def note_sent(self, tag: FrameTag, link: int, left_ns: int, connection: int) -> None:
        """Note messages that left, or were lost."""
        carried, index, extend = tag.lines.carried, self.index, self.sent.extend
        serial = tag.lines.serial + tag.first
        kind = name = NO_WORD
        sequence = 0
        for number, line in enumerate(carried.frames[tag.first : tag.stop].tolist()):
            if self.reads:
                kind, sequence = self.word(_kind_of_frame(line[KIND])), line[SEQUENCE]
                name = index(carried.publishers[line[PUBLISHER]])
            queue = line[PLACE] + tag.shift
            row = (link, tag.queued_ns, left_ns, queue, tag.cause, connection, serial + number, kind, name, sequence)
            extend(row)
        self.note_full()

    def note_full(self) -> None:
        if (
            len(self.events) >= ROWS_MAX * len(EVENT_COLUMNS)
            or len(self.sent) >= ROWS_MAX * len(SENT_COLUMNS)
            or len(self.expired) >= ROWS_MAX * len(EXPIRED_COLUMNS)
        ):
            self._on_full(self)

    # -- events

    def _connection(self, link: int) -> int:
        return NO_WORD if link == CLIENT else self.index(self._queues[link].connection)

    def routed(self, sender: BrokerId | None, outcome: Outcome, now: float) -> None:
        sample = self.tag_all(outcome, parcels=False)
        self._batches.append((sample, sender, now))
        self.causes.append(self._next)
        self._next += 0 if sample is None else len(sample.notes)

    def ended(self) -> None:
        first = self.causes.pop()
        sample, sender, now = self._batches.pop()
        if sample is None:
            return
        link = CLIENT if sender is None else self.link(sender)
        kind = self.word(PROBED if sample.is_probe else PUBLISH if sender is None else _NOTIFY)
        arrived_ns, handled_ns, connection = int(now * SECOND_NS), self.clock(), self._connection(link)
        civs = [
            NO_WORD if sender is None else self.index(f"{head.civ:x}" if head.civ else "") for head in sample.headers
        ]
        names = [self.word(publisher) for publisher in sample.carried.publishers]
        for number, line in enumerate(sample.notes.tolist(), first):
            case = sample.decisions[line[NOTE_DECISION]].case
            named = names[line[NOTE_PUBLISHER]], NO_WORD, line[NOTE_SEQUENCE], civs[line[NOTE_HEADER]], case
            self.events.extend((number, first, link, arrived_ns, handled_ns, kind, *named, connection))
        if sender is None:
            self.requests_total += len(sample.notes)
        else:
            self.received_total += len(sample.notes)
        self.note_full()

    def began(self, event: Event) -> None:
        if type(event) is Received or type(event) in _REQUESTS:
            self.causes.append(self._next)
            self._next += 1
        else:
            self.causes.append(NO_CAUSE)

    def handled(self, event: Event, actions: Sequence[Action], now: float) -> None:
        first = self.causes.pop()
        if first == NO_CAUSE:
            return
        link, kind = CLIENT, _REQUESTS.get(type(event), "")
        name = id = NO_WORD
        if isinstance(event, Received):
            link, kind = self.link(event.sender), kind_of(type(event.message))
            self.received_total += 1
        else:
            asked: Any = event
            name, id = self.word(asked.client), self.word(getattr(asked, "id", ""))
            self.requests_total += 1
        row = (first, first, link, int(now * SECOND_NS), self.clock(), self.word(kind), name, id, 0, NO_WORD, 0)
        self.events.extend((*row, self._connection(link)))
        self.note_full()

    def sampled(self, neighbour: BrokerId, queue: int, entered: int, left: int) -> None:
        """The times of messages tell the lengths of queues."""


class LinkObserver(QueueObserver):
    """Records the messages to a neighbour."""

    __slots__ = ("_connection", "_link", "_queue", "_recording", "_transport")

    def __init__(self, recording: Recording, link: int, queue: FrameQueue) -> None:
        super().__init__(recording, _MESSAGES)
        self._recording = recording
        self._link = link
        self._queue = queue
        self._transport: asyncio.WriteTransport | None = None
        self._connection = ""

    @property
    def connection(self) -> str:
        """The present connection, or else the last one."""
        transport = self._queue.transport
        if transport is not None and transport is not self._transport:
            self._transport = transport
            ends = sorted(str(transport.get_extra_info(name)) for name in ("sockname", "peername"))
            self._connection = " ".join(ends)
        return self._connection

    def _left(self, queue: FrameQueue, tag: FrameTag, now_ns: int) -> None:
        self._recording.sent_total += tag.stop - tag.first
        self._recording.note_sent(tag, self._link, now_ns, self._recording.index(self.connection))

    def _returned(self, tag: FrameTag) -> None:
        self._recording.sent_total -= tag.stop - tag.first

    def _lost(self, tag: FrameTag, now_ns: int) -> None:
        self._recording.note_sent(tag, self._link, now_ns, NO_WORD)

    def lose_all(self) -> None:
        """What waits will never be sent."""
        self._queue.clear()


class ClientObserver(QueueObserver):
    """Records the deliveries to a client that were too old at their turn; it records the others itself."""

    __slots__ = ("_client", "_recording")

    def __init__(self, recording: Recording, client: str) -> None:
        super().__init__(recording, ())
        self._recording = recording
        self._client = client

    def entered(self, queue: FrameQueue, bundle: Bundle, waited: int) -> None:
        """Nothing is recorded of it."""

    def expired(self, queue: FrameQueue, bundle: Bundle) -> None:
        recording = self._recording
        for delivery in bundle.split():
            publisher, sequence = named_in(delivery)
            words = recording.word(self._client), recording.word(publisher)
            recording.expired.extend((*words, sequence, recording.clock()))
        recording.note_full()


class WeatheredWay:
    """The way from a queue to its neighbour, with the weather of the link."""

    def __init__(self, recording: Recording, link: int) -> None:
        self._recording = recording
        self._link = link
        # frames that left the queue and are not at the socket yet: their time, connection and bytes
        self._on_the_way: deque[tuple[int, asyncio.WriteTransport, bytes | memoryview]] = deque()
        self._free_ns = 0  # when the next message may be sent, if messages take time
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _weather(self) -> Weather:
        return self._recording.weather[self._link]

    def attached(self, transport: asyncio.WriteTransport) -> None:
        if not self._weather.is_up:
            transport.abort()

    def room(self, queue: FrameQueue) -> int:
        """On a link where messages take time, they are sent one after the other."""
        weather = self._weather
        if not (weather.per_message_ns or weather.per_byte_ns):
            return queue.window
        left_ns = self._free_ns - self._recording.clock()
        if left_ns <= 0:
            return 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_ns / SECOND_NS, self._free, queue)
        return 0

    def _free(self, queue: FrameQueue) -> None:
        self._timer = None
        queue.flush()

    def write(self, transport: asyncio.WriteTransport, data: bytes | memoryview) -> None:
        weather, now = self._weather, self._recording.clock()
        delay_ns = weather.delay_ns
        if taken_ns := weather.per_message_ns + weather.per_byte_ns * len(data):
            # compensate for the timer being late, as far as that is the cause
            self._free_ns = max(self._free_ns, now - TIMER_NS) + taken_ns
            delay_ns += self._free_ns - now
        if delay_ns <= 0 and not self._on_the_way:
            transport.write(data)
            return
        due_ns = max(now + delay_ns, self._on_the_way[-1][0] if self._on_the_way else 0)
        self._on_the_way.append((due_ns, transport, data))
        asyncio.get_running_loop().call_later(max(0, due_ns - now) / SECOND_NS, self._arrive)

    def _arrive(self) -> None:
        # the oldest, whichever timer this was: timers of the same moment are not ordered
        _, transport, data = self._on_the_way.popleft()
        if not transport.is_closing():
            transport.write(data)
