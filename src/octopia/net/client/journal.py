"""A client's requests and publications, in order, until the broker has confirmed them.

    asked, published ──put──▶ [ held ] ──▶ [ the box of the session ] ──▶ broker
                     registrations of a new session ──▶─┘

Each entry has a position, which counts from 1 over the whole life of the client. Entries never overtake each other:
they enter the session's box in the order of `put`, and entries left unconfirmed by an ended session go to the next
session first. The registrations at the start of a new session have their own lane. While they are in flight, the
journal is shut: entries are held behind those already waiting, and nothing is published. So the frames of a session are
its registrations followed by entries, without a gap, and the confirmed position is a subtraction.

While the client moves to another broker, the journal pauses: entries wait until those before them are confirmed. They
then go to the next session or, if the move fails, to the same one.

Bounds: at `QUEUE_FRAMES_MAX` waiting entries or `QUEUE_BYTES_MAX` waiting bytes, `has_room` is False until half of
them are gone. The entries of one call to `publish_many` between two of its pauses may come on top, as may entries that
were sent but not confirmed when a session ended.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from octopia.errors import OctopiaError
from octopia.net.frame_queue import FrameQueue, Turn
from octopia.wire import Kind, Ping, WireLimits, message_frame, split_frames

QUEUE_FRAMES_MAX = 20_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
_PING = message_frame(Ping())


class Journal:
    """The entries of one client."""

    def __init__(self) -> None:
        self.queue = FrameQueue(Turn(), QUEUE_FRAMES_MAX, QUEUE_BYTES_MAX)
        # Appends an entry. Replaced while entries are held, so that publishing need not check.
        self.put: Callable[[bytes], None] = self.queue.put
        # The same for a number of entries in one buffer, given their count.
        self.put_many: Callable[[bytes, int], None] = self.queue.put
        self.has_room = True
        self.frame_bytes_max = WireLimits().frame_bytes_max  # the broker's limit
        self._held: deque[bytes] | None = None  # entries that are not in the box; None: the journal is open
        self._held_bytes = 0
        self._is_shut = False  # while registrations are in flight; otherwise what holds entries is a pause
        self._before = 0  # entries confirmed by earlier sessions
        self._shift = 0  # number of a frame in its session, minus the position of the entry
        self._room = asyncio.Event()
        self._room.set()
        self._marks: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._asks = False  # whether to ask for a confirmation when all has been sent

    # -- positions

    @property
    def position(self) -> int:
        """The position of the last entry."""
        held = len(self._held or ())
        return held + (self._before if self._is_shut else self.queue.sent + self.queue.waits - self._shift)

    @property
    def confirmed(self) -> int:
        """The position up to which the broker has handled everything."""
        if self._is_shut:
            return self._before
        return max(self._before, self.queue.confirmed - self._shift)

    @property
    def publications_left(self) -> int:
        """The number of unconfirmed publications."""
        return sum(frame[4] == Kind.PUBLISH for frame in self._entries())

    def _entries(self) -> list[bytes]:
        """The unconfirmed entries, in order."""
        held = self._held or ()
        count = self.position - len(held) - self.confirmed
        # Registrations that were answered but not yet confirmed may precede them.
        return [*(self.queue.unconfirmed()[-count:] if count else ()), *held]

    # -- sessions

    def begin(self, transport: asyncio.WriteTransport, registrations: Sequence[bytes]) -> None:
        """Begin a new session with these registrations; entries wait until `open`."""
        entries = self._entries()
        self._before = self.confirmed
        self._is_shut = True
        self._hold_back(entries)
        # May release tasks that wait for room. They run later, and their entries are held behind the rest.
        self.queue.clear()
        self.queue.attach(transport, 0)
        self.queue.put_all(registrations)
        self._note_room()

    def open(self) -> None:
        """Everything is registered: let the entries follow."""
        if self._is_shut:
            self._is_shut = False
            self._shift = self.queue.sent + self.queue.waits - self._before
            self._let_go()

    def resume(self, transport: asyncio.WriteTransport, received: int) -> None:
        """Continue the session on another connection; `received` of its frames had arrived."""
        self.queue.attach(transport, received)
        self.note_confirmed()
        self._ask_soon()

    def take_up(self, received: int) -> None:
        """Take over another process's session, which sent `received` frames: entries are numbered from there."""
        self.queue.sent = self.queue.confirmed = received
        self._shift = received

    # -- pausing, for a move to another broker

    @property
    def is_open(self) -> bool:
        """Whether entries are sent: no registrations are in flight, and nothing is paused."""
        return self._held is None

    def pause(self) -> int:
        """Send the entries put so far and hold later ones; returns the position of the last entry sent."""
        position = self.position
        if self.is_open:
            self._hold_back([])
        return position

    def unpause(self) -> None:
        """Release the held entries; does nothing if nothing was paused or a new session has begun in the meantime."""
        if not self.is_open and not self._is_shut:
            self._let_go()

    def move(self, transport: asyncio.WriteTransport, sent: int) -> None:
        """Switch to another session, after `sent` frames to it; all entries sent so far are confirmed."""
        self._before = self.queue.confirmed - self._shift
        self.queue.clear()
        self.queue.sent = self.queue.confirmed = sent
        self._shift = sent - self._before
        self.queue.attach(transport, sent)
        self.unpause()

    # -- entries that are not in the box

    def _hold_back(self, entries: Sequence[bytes]) -> None:
        """Hold these entries, and those that follow."""
        self._held = deque(entries)
        self._held_bytes = sum(map(len, entries))
        self.put, self.put_many = self._hold, self._hold_many

    def _let_go(self) -> None:
        """Put the held entries into the box, and all that follow."""
        held, self._held = self._held or (), None
        self.queue.put_all(held)
        self.put, self.put_many = self.queue.put, self.queue.put
        if self.queue.is_full:
            self.queue.block(self)
        self._note_room()
        self._ask_soon()

    def _hold(self, frame: bytes) -> None:
        held = self._held
        assert held is not None  # noqa: S101  otherwise `put` is the box's
        held.append(frame)
        self._held_bytes += len(frame)
        self._note_room()

    def _hold_many(self, data: bytes, frames: int) -> None:
        held = self._held
        assert held is not None  # noqa: S101  otherwise `put_many` is the box's
        held.extend(split_frames(data))
        self._held_bytes += len(data)
        self._note_room()

    # -- room

    def hold(self, queue: FrameQueue) -> None:
        self._note_room()

    def release(self, queue: FrameQueue) -> None:
        self._note_room()

    def _note_room(self) -> None:
        queue, held = self.queue, self._held
        self.has_room = (
            not queue.holds_up if held is None else len(held) < queue.frames_max and self._held_bytes < queue.bytes_max
        )
        if self.has_room:
            self._room.set()
        else:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Return when there may be room or the client has ended; the caller checks again."""
        await self._room.wait()

    # -- confirmations

    async def wait_confirmed(self) -> None:
        """Wait until everything so far is confirmed, on any connection and by any broker."""
        await self.wait_confirmed_to(self.position)

    async def wait_confirmed_to(self, position: int) -> None:
        """Wait until everything up to this position, the last one or a recent one, is confirmed."""
        if self.confirmed >= position:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._marks.append((position, future))
        self._asks = True
        self._ask()
        await future

    def confirm(self, position: int) -> None:
        """The broker answered this entry of the current session, so it has handled it and all entries before."""
        if not self._is_shut and position > self.confirmed:
            self.queue.confirm(position + self._shift)
            self.note_confirmed()

    def note_confirmed(self) -> None:
        """The box has received confirmations."""
        marks, confirmed = self._marks, self.confirmed
        while marks and marks[0][0] <= confirmed:
            future = marks.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self._asks:
            self._ask()

    def _ask_soon(self) -> None:
        """Ask after the box has written, which it does at the end of this loop iteration."""
        if self._marks:
            self._asks = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        """Ask the broker to confirm now, if all is sent. Otherwise it will confirm a part, and we ask again then."""
        if not self._is_shut and self._asks:
            self.queue.flush()
            if self.queue.transport is not None and not self.queue.waits:
                self._asks = False
                self.queue.transport.write(_PING)

    # -- the end

    def end(self, error: OctopiaError) -> None:
        """No more confirmations will come: fail the tasks that wait for them, and wake those that wait for room."""
        for _, future in self._marks:
            if not future.done():
                future.set_exception(error)
        self._marks.clear()
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait for room, so that they check the client's state."""
        self.has_room = True
        self._room.set()
