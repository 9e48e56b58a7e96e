"""Output queues: frames that wait for the socket, and frames that the peer has not confirmed.

A queue belongs to a session, not to a connection. Frames are numbered in order. Confirmed frames are forgotten;
unconfirmed ones are sent again on the next connection of the session, so a broken connection loses nothing. There are
two bounds: the window of sent, unconfirmed frames, so that a peer that confirms nothing is sent nothing more; and the
frames waiting behind it, where the owner decides what happens (`is_full`). Below that bound is a mark set by the owner:
beyond it, frames are no longer taken in bulk, so that the owner checks them (`is_over_mark`). Nothing is dropped here
unasked, except frames that are too old (`too_old`). Output is written once per iteration of the event loop, all frames
joined, in pieces small enough for the length of the queue to stay meaningful.

Frames wait in lanes; `net/lanes.py` decides their order.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from octopia.errors import RemoteProtocolError
from octopia.net.lanes import WEIGHTS, Bundle, Lanes, Turn, frames_of
from octopia.wire import Dropped, TooOld, message_frame

WINDOW_FRAMES = 4096
WINDOW_BYTES = 4 * 1024 * 1024
# The most memory that a frame takes beside its bytes.
FRAME_MEMORY_BYTES = 64
# Replaces a frame that was sent, not confirmed and then dropped: frames are identified by number.
_DROPPED_ONE = message_frame(Dropped(1))


class Source(Protocol):
    """A source of notifications that can be asked to pause."""

    def hold(self, box: "Outbox") -> None:
        """Stop reading until `release` is called for every box that asked."""

    def release(self, box: "Outbox") -> None:
        """This box has room again."""


class Outbox(Lanes):
    """The numbered frames of one session in one direction."""

    __slots__ = (
        "_aged",
        "_ahead",
        "_blocked",
        "_dropped",
        "_last",
        "_left_before",
        "_low",
        "_unconfirmed",
        "_unconfirmed_bytes",
        "bytes_max",
        "confirmed",
        "confirmed_bytes",
        "dropped_total",
        "frames_max",
        "sent",
        "too_old_total",
        "transport",
        "window",
    )

    def __init__(self, turn: Turn, frames_max: int, bytes_max: int, window: int = WINDOW_FRAMES) -> None:
        super().__init__(turn, frames_max, bytes_max)
        self.frames_max = frames_max
        self.bytes_max = bytes_max
        self.window = window
        self.too_old_total = 0
        self._aged = 0  # of these the peer has not been told
        self._unconfirmed: deque[list[bytes] | Bundle] = deque()
        self._unconfirmed_bytes = 0
        self._ahead = 0  # frames of the first bundle under way that are confirmed; it leaves when all of it is
        self.sent = 0
        self.confirmed = 0
        self.confirmed_bytes = 0  # of all sessions that this box carried
        self._left_before = 0
        self._last: int | None = None  # nothing is written after this many frames
        self.transport: asyncio.WriteTransport | None = None
        self._dropped = 0
        self.dropped_total = 0
        self._blocked: dict[Source, None] = {}
        self._low: tuple[int, int, Callable[[], None]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the queue is full, even after writing all that the socket takes."""
        return self.reaches(self.frames_max, self.bytes_max)

    @property
    def is_over_mark(self) -> bool:
        """Whether the queue is over the owner's mark, even after writing all that the socket takes."""
        return self.reaches(self.mark_frames, self.mark_bytes)

    def reaches(self, frames: int, size: int) -> bool:
        """Whether this many frames or bytes wait, even after writing all that the socket takes."""
        if self.waits < frames and self.waiting_bytes < size:
            return False
        self.flush()
        return self.waits >= frames or self.waiting_bytes >= size

    @property
    def holds_up(self) -> bool:
        """Whether a source waits for room here, which may last after the box is no longer full."""
        return bool(self._blocked) or self._low is not None

    @property
    def held(self) -> int:
        """All frames, waiting and unconfirmed."""
        return self.waits + self.sent - self.confirmed

    @property
    def under_way(self) -> list[bytes]:
        """The sent, unconfirmed frames, in order."""
        self._cut_first()
        return [frame for chunk in self._unconfirmed for frame in frames_of(chunk)]

    @property
    def untold(self) -> int:
        """The number of dropped frames not yet reported to the peer."""
        return self._dropped

    @property
    def memory_bytes(self) -> int:
        """The memory of all frames. One that waits in several boxes counts in each."""
        return self.waiting_bytes + self._unconfirmed_bytes + FRAME_MEMORY_BYTES * self.held

    @property
    def left_total(self) -> int:
        """Frames handed to sockets so far, including resent ones: unlike `sent`, it never decreases."""
        return self._left_before + self.sent

    def put_all(self, data: bytes, frames: int) -> None:
        """Queue consecutive ordinary frames in one buffer. The caller checks `is_full`."""
        if not frames or self.put_bundle(data, frames):
            return
        self._unbundle()
        self._extend(frames_of((data, frames)), len(data))

    def flush(self) -> None:
        """Write waiting frames to the socket, as far as it and the window allow."""
        transport = self.transport
        if transport is None:
            return
        if self._bundles:
            self._flush_bundles(transport)
        if self._dropped and self.writable and self._room() > 0:
            self._put_first(Dropped(self._dropped))
            self._dropped = 0
        while (self._waiting or self._urgent_frames or self._aged) and self.writable and (room := self._room()) > 0:
            if self._aged:
                self._tell_aged()
            chunk, size = self._next_chunk(room)
            self.waiting_bytes -= size
            if self.too_old is not None and not (chunk := self._still_wanted(chunk)):
                continue
            self.sent += len(chunk)
            self._unconfirmed.append(chunk)
            self._unconfirmed_bytes += size if self.too_old is None else sum(map(len, chunk))
            self._write(transport, b"".join(chunk if self.disguise is None else self.disguise(chunk)))
        if self._blocked or self._low is not None:
            self._release_if_room()

    def _flush_bundles(self, transport: asyncio.WriteTransport) -> None:
        """Write bundles to the socket as they are, as far as it and the window allow."""
        if self._dropped or self._aged or self._urgent_frames:
            self._unbundle()
            return
        while self._bundles and self.writable and (room := self._room()) > 0:
            sent = self._next_bundle(room)
            data, frames = sent
            self.sent += frames
            self._unconfirmed.append(sent)
            self._unconfirmed_bytes += len(data)
            self._write(transport, data)

    def _write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        try:
            transport.write(data)
        except RuntimeError:
            # uvloop raises this for a closed connection not yet reported as lost: the frames are resent on the next
            self.writable = False

    def _room(self) -> int:
        """The free room in the window, in frames."""
        if self._unconfirmed_bytes >= WINDOW_BYTES:
            return 0
        room = self.window - self.sent + self.confirmed
        return room if self._last is None else min(room, self._last - self.sent)

    def _tell_aged(self) -> None:
        """Report the number of expired frames with the next one sent."""
        self._put_first(TooOld(self._aged))
        self._aged = 0

    def _put_first(self, notice: Dropped | TooOld) -> None:
        frame = message_frame(notice)
        self._waiting.appendleft(frame)
        self._fence += 1
        self.waiting_bytes += len(frame)

    def _still_wanted(self, chunk: list[bytes]) -> list[bytes]:
        """The frames of this chunk that are not too old."""
        too_old = self.too_old
        wanted = [frame for frame in chunk if too_old is None or not too_old(frame)]
        gone = len(chunk) - len(wanted)
        self.too_old_total += gone
        self._aged += gone
        if self._last is not None:
            self._last -= gone
        return wanted

    # -- confirmations of the peer

    def confirm(self, received: int) -> None:
        """The peer has handled `received` frames of the session."""
        if not self.confirmed <= received <= self.sent:
            raise RemoteProtocolError(
                f"{received} frames are confirmed; {self.confirmed} to {self.sent} would be possible"
            )
        while self.confirmed < received:
            chunk = self._unconfirmed[0]
            if isinstance(chunk, tuple):
                data, frames = chunk
                left = frames - self._ahead
                if left > received - self.confirmed:
                    self._ahead += received - self.confirmed
                    self.confirmed = received
                    break
                self._unconfirmed.popleft()
                self.confirmed += left
                self._ahead = 0
                self._unconfirmed_bytes -= len(data)
                self.confirmed_bytes += len(data)
                continue
            part = min(len(chunk), received - self.confirmed)
            self.confirmed += part
            size = sum(map(len, chunk if part == len(chunk) else chunk[:part]))
            self._unconfirmed_bytes -= size
            self.confirmed_bytes += size
            if part == len(chunk):
                self._unconfirmed.popleft()
            else:
                self._unconfirmed[0] = chunk[part:]
        if self._waiting or self._urgent_frames or self._aged or self._bundles:
            self.flush()

    def _cut_first(self) -> None:
        """Remove the confirmed part of the first bundle and split the rest into frames."""
        if self._ahead:
            frames, ahead = frames_of(self._unconfirmed[0]), self._ahead
            size = sum(map(len, frames[:ahead]))
            self._unconfirmed[0] = frames[ahead:]
            self._unconfirmed_bytes -= size
            self.confirmed_bytes += size
            self._ahead = 0

    def take_back(self) -> None:
        """Queue unconfirmed frames again, as if they had never been sent: the peer did not take them."""
        self._unbundle()
        again = self.under_way
        self._unconfirmed.clear()
        self.waiting_bytes += self._unconfirmed_bytes
        self._unconfirmed_bytes = 0
        self._waiting.extendleft(reversed(again))
        self._fence += len(again)
        self._left_before += self.sent - self.confirmed
        self.sent = self.confirmed

    def attach(self, transport: asyncio.WriteTransport, received: int) -> None:
        """Carry the session on this connection; `received` of its frames had arrived before."""
        self.confirm(received)
        self.take_back()
        self._last = None
        self.transport = transport
        self.writable = True
        if (self.waits or self._dropped or self._aged) and not self._noted:
            self._noted = True
            self._turn.note(self)

    def write_no_more(self) -> None:
        """Write only the waiting frames on this connection; later ones wait for the next."""
        self._settle()
        self._last = self.sent + len(self._waiting)

    @property
    def has_written_all(self) -> bool:
        """Whether `write_no_more` has taken effect: nothing more will be written on this connection."""
        return self._last is not None and self.sent >= self._last

    def detach(self) -> None:
        """The connection is gone; the session waits for another."""
        self._unbundle()
        self.transport = None
        self.writable = False

    def clear(self) -> int:
        """Drop all frames: the session is over. Returns the number of unconfirmed frames."""
        lost = self.held
        self._bundles, self._bundled = [], 0
        self._waiting.clear()
        for lane in self._urgent:
            lane.clear()
        self._fence = self._urgent_frames = self._aged = self._ahead = 0
        self._unconfirmed.clear()
        self._left_before += self.sent
        self.waiting_bytes = self._unconfirmed_bytes = self.sent = self.confirmed = self._dropped = 0
        self._release_if_room()
        return lost

    def keep_unsent(self, wanted: Callable[[bytes], bool]) -> int:
        """End the session but keep unsent frames that are `wanted`. Returns the number of lost frames."""
        before = self.held
        kept = [frame for frame in self.in_order() if wanted(frame)]
        self.clear()
        self.put_many(kept)
        self._fence = len(self._waiting)
        return before - len(kept)

    def in_order(self) -> list[bytes]:
        """The waiting frames in the order of sending, which is now fixed."""
        if self._aged:
            self._tell_aged()
        self._settle()
        return list(self._waiting)

    def unconfirmed(self) -> list[bytes]:
        """All unconfirmed frames in order: those sent, then those waiting."""
        return [*self.under_way, *self.in_order()]

    def refill(self, confirmed: int, unconfirmed: list[bytes], waiting: Iterable[bytes], untold: int) -> None:
        """Fill an empty box with the frames of the same session from before a restart of this broker."""
        self.confirmed = confirmed
        self.sent = confirmed + len(unconfirmed)
        if unconfirmed:
            self._unconfirmed.append(list(unconfirmed))
            self._unconfirmed_bytes = sum(map(len, unconfirmed))
        self._waiting.extend(waiting)
        self._fence = len(self._waiting)
        self.waiting_bytes = sum(map(len, self._waiting))
        self._dropped = untold

    def resume_writing(self) -> None:
        self.writable = self.transport is not None
        self.flush()

    # -- at the bound

    def drop_oldest(self, droppable: Callable[[bytes], bool]) -> bool:
        """Drop the oldest droppable frame of the lowest lane that has one; returns False if there is none."""
        self._unbundle()
        for lane in (self._waiting, *self._urgent):
            for at, frame in enumerate(lane):
                if droppable(frame):
                    del lane[at]
                    if lane is not self._waiting:
                        self._urgent_frames -= 1
                    elif at < self._fence:
                        self._fence -= 1
                    self._count_drop(frame)
                    return True
        return False

    def drop_newest(self) -> None:
        """Drop the last frame put; strictly, the newest notification of the lowest lane that has one."""
        self._count_drop(self._newest())

    def discard_newest(self) -> None:
        """Like `drop_newest`, without telling the peer: links have no message for that."""
        self.waiting_bytes -= len(self._newest())

    def _newest(self) -> bytes:
        """Remove the newest frame of the lowest lane; frames behind a fence are not considered."""
        self._unbundle()
        if self._urgent_frames and len(self._waiting) <= self._fence:
            self._urgent_frames -= 1
            return next(lane for lane in self._urgent if lane).pop()
        self._fence = min(self._fence, len(self._waiting) - 1)
        return self._waiting.pop()

    def shed(self, memory_bytes: int, droppable: Callable[[bytes], bool]) -> int:
        """Drop waiting frames of this kind until the box takes at most `memory_bytes`.

        The lowest lane goes first, oldest frames first.

        Returns the number of dropped frames.
        """
        self._unbundle()
        over, dropped = self.memory_bytes - memory_bytes, 0
        for lane in (self._waiting, *self._urgent):
            kept, before = list[bytes](), dropped
            while over > 0 and lane:
                frame = lane.popleft()
                if droppable(frame):
                    self._count_drop(frame)
                    over -= len(frame) + FRAME_MEMORY_BYTES
                    dropped += 1
                else:
                    kept.append(frame)
            if lane is not self._waiting:
                self._urgent_frames -= dropped - before
            elif self._fence:
                # the remaining frames before it
                self._fence = len(kept) if self._fence <= len(kept) + dropped else self._fence - dropped
            lane.extendleft(reversed(kept))
        self._release_if_room()
        return dropped

    def shed_sent(self, memory_bytes: int, droppable: Callable[[bytes], bool]) -> int:
        """Like `shed`, for frames that were sent but not confirmed, while there is no connection.

        A drop notice is sent in place of each frame that had not arrived. All count as dropped.
        """
        self._cut_first()
        over, dropped = self.memory_bytes - memory_bytes, 0
        for place, sent in enumerate(self._unconfirmed):
            if over <= 0:
                break
            chunk = self._unconfirmed[place] = frames_of(sent)
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
        """Call this once, when at most this many frames and bytes wait here; replaces the earlier callback."""
        self._low = (frames, size, call)

    def never_mind(self) -> None:
        """Cancel the callback of `when_low`."""
        self._low = None

    def _release_if_room(self) -> None:
        waits = self.waits
        if self._blocked and 2 * waits <= self.frames_max and 2 * self.waiting_bytes <= self.bytes_max:
            self.release_all()
        if self._low is not None and waits <= self._low[0] and self.waiting_bytes <= self._low[1]:
            call, self._low = self._low[2], None
            call()

    def release_all(self) -> None:
        """Release all sources that wait for room: the owner handles the overflow differently."""
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
        if box.waiting_bytes or box.sent != box.confirmed:
            size += box.waiting_bytes + box._unconfirmed_bytes  # noqa: SLF001
            frames += box.held
    return size + FRAME_MEMORY_BYTES * frames


__all__ = [
    "FRAME_MEMORY_BYTES",
    "WEIGHTS",
    "WINDOW_BYTES",
    "WINDOW_FRAMES",
    "Outbox",
    "Source",
    "Turn",
    "memory_bytes_of",
]
