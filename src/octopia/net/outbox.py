"""Output queues: frames that wait for the socket, and frames that the peer has not confirmed.

Rules of this file: a queue belongs to a session, not to a connection. Frames are numbered by their order; what the peer
confirmed is forgotten, what it did not confirm is sent again on the next connection of the same session, so that a
broken connection loses nothing. Two bounds: a window of frames that may be sent and not confirmed, so that a peer that
confirms nothing is sent nothing more; and what waits behind it, at which the owner decides what happens (`is_full`).
Before that bound there is a mark, which the owner sets: beyond it frames are not taken in one go any more, so that the
owner looks at them (`is_over_mark`). Nothing is dropped here unasked. Writing is done once per turn of the event loop,
all frames joined, in pieces small enough that the length of the queue keeps its meaning.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from octopia.errors import RemoteProtocolError
from octopia.wire import Dropped, message_frame

WRITE_BYTES_MAX = 256 * 1024
WINDOW_FRAMES = 4096
WINDOW_BYTES = 4 * 1024 * 1024
# What a frame takes in memory beside its bytes, at most.
FRAME_MEMORY_BYTES = 64
# Takes the place of a frame that was sent, not confirmed and then dropped: frames are known by their number.
_DROPPED_ONE = message_frame(Dropped(1))


class Source(Protocol):
    """Something that brings notifications in and can be asked to stop for a while."""

    def hold(self, box: "Outbox") -> None:
        """Stop reading until `release` was called for every box that asked."""

    def release(self, box: "Outbox") -> None:
        """This box has room again."""


class Turn:
    """One turn of the event loop: the boxes that have something to write, flushed together at its end."""

    __slots__ = ("_boxes", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Of this loop, or of the one that runs when a box is noted."""
        self._loop = loop
        self._boxes: list[Outbox] = []

    def note(self, box: "Outbox") -> None:
        if not self._boxes:
            (self._loop or asyncio.get_running_loop()).call_soon(self.flush)
        self._boxes.append(box)

    def flush(self) -> None:
        boxes, self._boxes = self._boxes, []
        for box in boxes:
            box.turn_ended()


class Outbox:
    """The numbered frames of one session in one direction."""

    __slots__ = (
        "_blocked",
        "_dropped",
        "_last",
        "_left_before",
        "_low",
        "_noted",
        "_turn",
        "_unconfirmed",
        "_unconfirmed_bytes",
        "bytes_max",
        "confirmed",
        "confirmed_bytes",
        "dropped_total",
        "frames_max",
        "mark_bytes",
        "mark_frames",
        "sent",
        "transport",
        "waiting",
        "waiting_bytes",
        "window",
        "writable",
    )

    def __init__(self, turn: Turn, frames_max: int, bytes_max: int, window: int = WINDOW_FRAMES) -> None:
        self._turn = turn
        self.frames_max = frames_max
        self.bytes_max = bytes_max
        self.mark_frames = frames_max
        self.mark_bytes = bytes_max
        self.window = window
        self.waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        self._unconfirmed: deque[list[bytes]] = deque()
        self._unconfirmed_bytes = 0
        self.sent = 0
        self.confirmed = 0
        self.confirmed_bytes = 0  # of all sessions that this box carried
        self._left_before = 0
        self._last: int | None = None  # nothing is written after so many frames
        self.transport: asyncio.WriteTransport | None = None
        self.writable = False
        self._noted = False
        self._dropped = 0
        self.dropped_total = 0
        self._blocked: dict[Source, None] = {}
        self._low: tuple[int, int, Callable[[], None]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more should wait here, though the socket was given all that it takes."""
        return self.reaches(self.frames_max, self.bytes_max)

    @property
    def is_over_mark(self) -> bool:
        """Whether the owner should do something about what waits, though the socket was given all that it takes."""
        return self.reaches(self.mark_frames, self.mark_bytes)

    def reaches(self, frames: int, size: int) -> bool:
        """Whether so many frames or bytes wait, though the socket was given all that it takes."""
        if len(self.waiting) < frames and self.waiting_bytes < size:
            return False
        self.flush()
        return len(self.waiting) >= frames or self.waiting_bytes >= size

    @property
    def holds_up(self) -> bool:
        """Whether someone waits for room here: until a part is empty, though the box is not full any more."""
        return bool(self._blocked) or self._low is not None

    @property
    def held(self) -> int:
        """All frames, waiting and unconfirmed."""
        return len(self.waiting) + self.sent - self.confirmed

    @property
    def under_way(self) -> list[bytes]:
        """Frames that were sent and not confirmed, in order."""
        return [frame for chunk in self._unconfirmed for frame in chunk]

    @property
    def untold(self) -> int:
        """Frames that were dropped and of which the peer has not been told."""
        return self._dropped

    @property
    def memory_bytes(self) -> int:
        """What all frames take. One that waits in several boxes counts in each."""
        frames = len(self.waiting) + self.sent - self.confirmed
        return self.waiting_bytes + self._unconfirmed_bytes + FRAME_MEMORY_BYTES * frames

    @property
    def left_total(self) -> int:
        """Frames handed to sockets so far, those sent again included: unlike `sent` it never falls."""
        return self._left_before + self.sent

    def put(self, frame: bytes) -> None:
        """Queue a frame. The caller looks at `is_full`."""
        self.waiting.append(frame)
        self.waiting_bytes += len(frame)
        if not self._noted:
            self._noted = True
            self._turn.note(self)

    def put_many(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self.put(frame)

    def put_if_room(self, frames: list[bytes]) -> bool:
        """Queue all of these, unless they would reach the mark; False, and nothing is done, where they would."""
        size = sum(map(len, frames))
        if len(self.waiting) + len(frames) >= self.mark_frames or self.waiting_bytes + size >= self.mark_bytes:
            return False
        self.waiting.extend(frames)
        self.waiting_bytes += size
        if not self._noted:
            self._noted = True
            self._turn.note(self)
        return True

    def put_below(self, frames: list[bytes], start: int, frames_max: int, bytes_max: int) -> int:
        """Queue those from there on that stay below these bounds; returns the place of the first that would not."""
        stop = min(len(frames), start + frames_max - 1 - len(self.waiting))
        if stop <= start:
            return start
        chosen = frames[start:stop]
        size = sum(map(len, chosen))
        if self.waiting_bytes + size >= bytes_max:
            return start
        self.waiting.extend(chosen)
        self.waiting_bytes += size
        if not self._noted:
            self._noted = True
            self._turn.note(self)
        return stop

    def turn_ended(self) -> None:
        self._noted = False
        self.flush()

    def flush(self) -> None:
        """Hand what waits to the socket, as far as it and the window take it."""
        transport = self.transport
        if transport is None:
            return
        if self._dropped and self.writable and self._room() > 0:
            notice = message_frame(Dropped(self._dropped))
            self._dropped = 0
            self.waiting.appendleft(notice)
            self.waiting_bytes += len(notice)
        while self.waiting and self.writable and (room := self._room()) > 0:
            chunk, size = self._next_chunk(room)
            self.sent += len(chunk)
            self.waiting_bytes -= size
            self._unconfirmed.append(chunk)
            self._unconfirmed_bytes += size
            try:
                transport.write(b"".join(chunk))
            except RuntimeError:
                # uvloop, of a connection that is closed and not yet said to be lost: it is sent again on the next
                self.writable = False
        if self._blocked or self._low is not None:
            self._release_if_room()

    def _room(self) -> int:
        """How many frames the window still takes."""
        if self._unconfirmed_bytes >= WINDOW_BYTES:
            return 0
        room = self.window - self.sent + self.confirmed
        return room if self._last is None else min(room, self._last - self.sent)

    def _next_chunk(self, room: int) -> tuple[list[bytes], int]:
        waiting = self.waiting
        if self.waiting_bytes <= WRITE_BYTES_MAX and len(waiting) <= room:
            chunk = list(waiting)
            waiting.clear()
            return chunk, self.waiting_bytes
        chunk, size = [], 0
        while waiting and size < WRITE_BYTES_MAX and len(chunk) < room:
            frame = waiting.popleft()
            chunk.append(frame)
            size += len(frame)
        return chunk, size

    # -- what the peer says

    def confirm(self, received: int) -> None:
        """The peer has dealt with so many frames of the session."""
        if not self.confirmed <= received <= self.sent:
            raise RemoteProtocolError(
                f"{received} frames are confirmed; {self.confirmed} to {self.sent} would be possible"
            )
        while self.confirmed < received:
            chunk = self._unconfirmed[0]
            part = min(len(chunk), received - self.confirmed)
            self.confirmed += part
            size = sum(map(len, chunk if part == len(chunk) else chunk[:part]))
            self._unconfirmed_bytes -= size
            self.confirmed_bytes += size
            if part == len(chunk):
                self._unconfirmed.popleft()
            else:
                self._unconfirmed[0] = chunk[part:]
        if self.waiting:
            self.flush()

    def take_back(self) -> None:
        """What was sent and not confirmed was not taken: it waits again, as if it had never been sent."""
        again = self.under_way
        self._unconfirmed.clear()
        self.waiting_bytes += self._unconfirmed_bytes
        self._unconfirmed_bytes = 0
        self.waiting.extendleft(reversed(again))
        self._left_before += self.sent - self.confirmed
        self.sent = self.confirmed

    def attach(self, transport: asyncio.WriteTransport, received: int) -> None:
        """A connection carries the session from now on; so many of its frames had arrived before."""
        self.confirm(received)
        self.take_back()
        self._last = None
        self.transport = transport
        self.writable = True
        if (self.waiting or self._dropped) and not self._noted:
            self._noted = True
            self._turn.note(self)

    def write_no_more(self) -> None:
        """What waits now is still written on this connection; what comes later waits for the next."""
        self._last = self.sent + len(self.waiting)

    @property
    def has_written_all(self) -> bool:
        """Whether nothing more will be written on this connection, as `write_no_more` asked."""
        return self._last is not None and self.sent >= self._last

    def detach(self) -> None:
        """The connection is gone; the session waits for another."""
        self.transport = None
        self.writable = False

    def clear(self) -> int:
        """Forget everything: the session is over. Returns how many frames were not confirmed."""
        lost = self.held
        self.waiting.clear()
        self._unconfirmed.clear()
        self._left_before += self.sent
        self.waiting_bytes = self._unconfirmed_bytes = self.sent = self.confirmed = self._dropped = 0
        self._release_if_room()
        return lost

    def keep_unsent(self, wanted: Callable[[bytes], bool]) -> int:
        """The session is over, but frames like these that were never sent may still go. Returns how many are lost."""
        before = self.held
        kept = [frame for frame in self.waiting if wanted(frame)]
        self.clear()
        self.put_many(kept)
        return before - len(kept)

    def unconfirmed(self) -> list[bytes]:
        """Everything that is not confirmed, in order: what was sent, then what waits."""
        return [*self.under_way, *self.waiting]

    def refill(self, confirmed: int, unconfirmed: list[bytes], waiting: Iterable[bytes], untold: int) -> None:
        """Fill an empty box with what another of the same session held, in an earlier life of this broker."""
        self.confirmed = confirmed
        self.sent = confirmed + len(unconfirmed)
        if unconfirmed:
            self._unconfirmed.append(list(unconfirmed))
            self._unconfirmed_bytes = sum(map(len, unconfirmed))
        self.waiting.extend(waiting)
        self.waiting_bytes = sum(map(len, self.waiting))
        self._dropped = untold

    def resume_writing(self) -> None:
        self.writable = self.transport is not None
        self.flush()

    # -- at the bound

    def drop_oldest(self, droppable: Callable[[bytes], bool]) -> bool:
        """Drop the oldest waiting frame of this kind; False where there is none."""
        for at, frame in enumerate(self.waiting):
            if droppable(frame):
                del self.waiting[at]
                self._count_drop(frame)
                return True
        return False

    def drop_newest(self) -> None:
        """Drop the frame that was put last."""
        self._count_drop(self.waiting.pop())

    def discard_newest(self) -> None:
        """As `drop_newest`, where the peer is not to be told: a link has no place for that."""
        self.waiting_bytes -= len(self.waiting.pop())

    def shed(self, memory_bytes: int, droppable: Callable[[bytes], bool]) -> int:
        """Drop waiting frames of this kind, the oldest first, until the box takes no more than so much memory.

        Returns how many were dropped.
        """
        over, dropped, kept = self.memory_bytes - memory_bytes, 0, []
        waiting = self.waiting
        while over > 0 and waiting:
            frame = waiting.popleft()
            if droppable(frame):
                self._count_drop(frame)
                over -= len(frame) + FRAME_MEMORY_BYTES
                dropped += 1
            else:
                kept.append(frame)
        waiting.extendleft(reversed(kept))
        self._release_if_room()
        return dropped

    def shed_sent(self, memory_bytes: int, droppable: Callable[[bytes], bool]) -> int:
        """As `shed`, of frames that were sent and not confirmed, while there is no connection.

        If they had not arrived, a notice that one was dropped is sent in the place of each. All count as dropped.
        """
        over, dropped = self.memory_bytes - memory_bytes, 0
        for chunk in self._unconfirmed:
            for at, frame in enumerate(chunk):
                saved = len(frame) - len(_DROPPED_ONE)
                if over <= 0:
                    break
                if saved > 0 and droppable(frame):
                    chunk[at] = _DROPPED_ONE
                    self._unconfirmed_bytes -= saved
                    over -= saved
                    dropped += 1
        self.dropped_total += dropped
        return dropped

    def _count_drop(self, frame: bytes) -> None:
        self.waiting_bytes -= len(frame)
        self._dropped += 1
        self.dropped_total += 1

    def block(self, source: Source) -> None:
        """Hold a source until half of the box is empty again."""
        if source not in self._blocked:
            self._blocked[source] = None
            source.hold(self)

    def when_low(self, frames: int, size: int, call: Callable[[], None]) -> None:
        """Call this, once, when no more than so many frames and bytes wait here; instead of what was to be called."""
        self._low = (frames, size, call)

    def never_mind(self) -> None:
        """Nobody wants to know any more when little waits here."""
        self._low = None

    def _release_if_room(self) -> None:
        if self._blocked and 2 * len(self.waiting) <= self.frames_max and 2 * self.waiting_bytes <= self.bytes_max:
            self.release_all()
        if self._low is not None and len(self.waiting) <= self._low[0] and self.waiting_bytes <= self._low[1]:
            call, self._low = self._low[2], None
            call()

    def release_all(self) -> None:
        """Whatever waits for room here need not: the owner has another way."""
        blocked, self._blocked = self._blocked, {}
        for source in blocked:
            source.release(self)

    def forget(self, source: Source) -> None:
        """This source is gone."""
        self._blocked.pop(source, None)


def memory_bytes_of(boxes: Iterable[Outbox]) -> int:
    """The sum of `memory_bytes`, for many boxes most of which are empty."""
    size = frames = 0
    for box in boxes:
        if box.waiting or box.sent != box.confirmed:
            size += box.waiting_bytes + box._unconfirmed_bytes  # noqa: SLF001
            frames += len(box.waiting) + box.sent - box.confirmed
    return size + FRAME_MEMORY_BYTES * frames
