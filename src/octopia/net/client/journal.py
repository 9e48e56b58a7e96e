"""Everything a client asked for and published, in order, until the broker has confirmed it.

    asked, published ──put──▶ [ held ] ──▶ [ the box of the session ] ──▶ broker
                     registrations of a new session ──▶─┘

An entry has a position, which counts from 1 over the whole life of the client. Entries never overtake each other: they
go into the box of the session in the order of `put`, and what a session that is over had not confirmed goes to the
next session first. Registrations that a new session begins with have a lane of their own: while they are under way the
journal is shut, entries are held behind those that wait already, and nothing is published. So frames of a session are
its registrations and then entries, without a gap, and the position of what was confirmed is a subtraction.

Bounds: at `frames_max` entries or `bytes_max` bytes that wait, `has_room` is False until half of them are gone. The
entries of one call to `publish_many` between two of its pauses may come on top, and so may what was sent and not yet
confirmed when a session ended.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from octopia.errors import OctopiaError
from octopia.net.outbox import Outbox, Turn
from octopia.wire import Kind, Ping, WireLimits, message_frame

QUEUE_FRAMES_MAX = 20_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
_PING = message_frame(Ping())


class Journal:
    """The entries of one client."""

    def __init__(self, frames_max: int = QUEUE_FRAMES_MAX, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self.box = Outbox(Turn(), frames_max, bytes_max)
        # Puts an entry at the end. Another function while the journal is shut, so that publishing need not ask.
        self.put: Callable[[bytes], None] = self.box.put
        self.has_room = True
        self.frame_bytes_max = WireLimits().frame_bytes_max  # what the broker takes
        self._held: deque[bytes] | None = None  # None: the journal is not shut
        self._held_bytes = 0
        self._before = 0  # entries that sessions before this one confirmed
        self._shift = 0  # number of a frame in its session, minus the position of the entry
        self._room = asyncio.Event()
        self._room.set()
        self._marks: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._asks = False  # whether to ask for a confirmation when all has been sent

    # -- positions

    @property
    def position(self) -> int:
        """Of the last entry."""
        if self._held is not None:
            return self._before + len(self._held)
        return self.box.sent + len(self.box.waiting) - self._shift

    @property
    def confirmed(self) -> int:
        """The position up to which the broker has dealt with everything."""
        if self._held is not None:
            return self._before
        return max(self._before, self.box.confirmed - self._shift)

    @property
    def publications_left(self) -> int:
        """How many publications are not confirmed."""
        return sum(frame[4] == Kind.PUBLISH for frame in self._entries())

    def _entries(self) -> list[bytes]:
        """What is not confirmed, in order."""
        if self._held is not None:
            return list(self._held)
        count = self.position - self.confirmed
        # In front of them registrations may stand that were answered and not yet confirmed.
        return self.box.unconfirmed()[-count:] if count else []

    # -- sessions

    def begin(self, transport: asyncio.WriteTransport, registrations: Sequence[bytes]) -> None:
        """A session that knows nothing begins with these; entries wait until `open`."""
        entries = self._entries()
        self._before = self.confirmed
        self._held = deque(entries)
        self._held_bytes = sum(map(len, entries))
        self.put = self._hold
        # May release tasks that wait for room. They run later, and what they publish is held behind the rest.
        self.box.clear()
        self.box.attach(transport, 0)
        self.box.put_many(registrations)
        self._note_room()

    def open(self) -> None:
        """Everything is registered: let the entries follow."""
        if self._held is None:
            return
        held, self._held = self._held, None
        self._shift = self.box.sent + len(self.box.waiting) - self._before
        self.box.put_many(held)
        self.put = self.box.put
        if self.box.is_full:
            self.box.block(self)
        self._note_room()
        self._ask_soon()

    def resume(self, transport: asyncio.WriteTransport, received: int) -> None:
        """The session goes on with another connection; so many of its frames had arrived."""
        self.box.attach(transport, received)
        self.note_confirmed()
        self._ask_soon()

    def take_up(self, received: int) -> None:
        """Another process had this session, and sent so many frames: entries are numbered from there."""
        self.box.sent = self.box.confirmed = received
        self._shift = received

    # -- room

    def _hold(self, frame: bytes) -> None:
        held = self._held
        assert held is not None  # noqa: S101  otherwise `put` is the box's
        held.append(frame)
        self._held_bytes += len(frame)
        self._note_room()

    def hold(self, box: Outbox) -> None:
        self._note_room()

    def release(self, box: Outbox) -> None:
        self._note_room()

    def _note_room(self) -> None:
        box = self.box
        self.has_room = (
            not box.holds_up
            if self._held is None
            else len(self._held) < box.frames_max and self._held_bytes < box.bytes_max
        )
        if self.has_room:
            self._room.set()
        else:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Return when there may be room, or the client ended: look again."""
        await self._room.wait()

    # -- confirmations

    async def wait_confirmed(self) -> None:
        """Wait until everything so far is confirmed, on whatever connection and by whatever broker."""
        position = self.position
        if self.confirmed >= position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._marks.append((position, future))
        self._asks = True
        self._ask()
        await future

    def confirm(self, position: int) -> None:
        """The broker answered this entry of the present session: so it has dealt with it, and with all before."""
        if self._held is None and position > self.confirmed:
            self.box.confirm(position + self._shift)
            self.note_confirmed()

    def note_confirmed(self) -> None:
        """The box was told of confirmations."""
        marks, confirmed = self._marks, self.confirmed
        while marks and marks[0][0] <= confirmed:
            future = marks.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self._asks:
            self._ask()

    def _ask_soon(self) -> None:
        """The box writes at the end of this turn; the question must come after."""
        if self._marks:
            self._asks = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        """Ask the broker to confirm now, if all was sent. Otherwise it will confirm a part, and we ask again then."""
        if self._held is None and self._asks:
            self.box.flush()
            if self.box.transport is not None and not self.box.waiting:
                self._asks = False
                self.box.transport.write(_PING)

    # -- the end

    def end(self, error: OctopiaError) -> None:
        """Nothing more will be confirmed: tell who waits for that, and wake who waits for room."""
        for _, future in self._marks:
            if not future.done():
                future.set_exception(error)
        self._marks.clear()
        self.wake()

    def wake(self) -> None:
        """Let those who wait for room look at the client's life."""
        self.has_room = True
        self._room.set()
