"""Output queues: frames that wait for the socket, and frames that the peer has not confirmed.

A queue belongs to a session or a link, not to a connection. Frames are numbered in the order of sending. Confirmed
frames are forgotten; unconfirmed ones are sent again on the next connection, so a broken connection loses nothing. A
queue does not know what its frames mean.

**Bundles.** Frames that were made together wait as one piece of bytes (`Bundle`) and are written as they are. A bundle
is cut only where a bound, the window or another lane comes between its frames. Its frames are notifications, or it has
one frame; or they are drop notices.

**Bounds.** There are two: the window of sent, unconfirmed frames, so that a peer that confirms nothing is sent nothing
more; and the frames waiting behind it, where the owner decides what happens (`is_full`). Below that bound is a mark set
by the owner: beyond it the owner looks at frames one by one (`is_over_mark`). Nothing is dropped here unasked, except
frames that are too old (`still_wanted`). Output is written once per iteration of the event loop, joined, in pieces
small enough for the length of the queue to stay meaningful.

**Priorities.** Notifications wait in lanes, one per priority, and `WEIGHTS` sets the number sent from each lane per
round. If few wait, all are sent in order of priority; no lane starves. Frames are numbered when they are sent, after
the lanes, so the peer does not know about lanes. Bounds, marks and memory apply to the whole queue. At a bound, the
lowest lane gives way first.

**Overtaking.** Notifications may overtake notifications of other lanes; order is kept within a lane. Any other frame is
a fence (`put_fence`): frames put before it are sent before it, and frames put later are sent after it. These need it:

- Barriers ask whether earlier messages have taken effect, so no earlier message may fall behind one, and its answer
  follows the messages it answers for.
- A resync ends with a message that sweeps all entries not renewed since its beginning: control messages keep their
  order.
- TID routing withdraws a tree with a message that follows the last notification on it; a later notification would find
  the tree gone and be lost.
- News of a link precedes copies routed by it: a receiver that knew less than the sender could send them back
  (`fdr/notify.py`).
- The answer to a client's request keeps its place among deliveries: none comes after "unsubscribed".

Confirmations, requests for them and waits of full dynamic routing (`Confirm`, `AskConfirm`, `Waits`) are not fences,
since there are many of them: they describe the current state, and no notification on the same link depends on them.
They are ordinary frames.

Resent frames, and frames left from before a restart of the broker, go first and in order: they had their turn before.

**Memory.** Frames take at most twice `memory_bytes`: a bundle is not taken apart at a bound, and it is copied once less
than half of the bytes that it keeps alive is left. Bytes that several queues share count in each. A ledger lists the
queues with frames, and says when much more waits (`Ledger`).

**Observers.** An observer is told of bundles that enter, leave, return and are lost, and changes nothing. It may put a
tag on a bundle, which is cut with it.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, Protocol, TypeVar, cast

from msgspec import Struct

from octopia.errors import RemoteProtocolError
from octopia.wire import Dropped, TooOld, message_frame, split_frames

# How many frames of each lane go in a round while others wait, by priority.
WEIGHTS: Final = (1, 4, 16, 64)
WRITE_BYTES_MAX: Final = 256 * 1024
WINDOW_FRAMES: Final = 4096
WINDOW_BYTES: Final = 4 * 1024 * 1024
# What a frame counts beside its bytes. The objects of one that is alone in its bundle take some 165 bytes, less than
# twice this and its bytes; one of many in a bundle takes nothing.
FRAME_MEMORY_BYTES: Final = 64
# In place of a time, for bundles whose frames have none.
NEVER: Final = 1 << 62
_LENGTH: Final = struct.Struct(">I")
# Replaces a frame that was sent, not confirmed and then dropped: frames are identified by number.
_DROPPED_ONE: Final = message_frame(Dropped(1))
Key = TypeVar("Key")


class Tag(Protocol):
    """What an observer knows of the frames of a bundle."""

    def cut(self, frames: int) -> "Tag | None":
        """Keep all but the first frames; returns the tag for these."""


class Bundle(Struct, eq=False):
    """Consecutive frames in one buffer. `oldest_ms`: when the oldest notification in it was accepted."""

    data: bytes | memoryview
    frames: int = 1
    oldest_ms: int = NEVER
    tag: Tag | None = None

    def size_of(self, frames: int) -> int:
        """The bytes of the first frames."""
        at = 0
        for _ in range(frames):
            at += _LENGTH.size + _LENGTH.unpack_from(self.data, at)[0]
        return at

    def first_of(self, frames: int, size: int, beside: int) -> tuple[int, int]:
        """The number of first frames, and their bytes, that are this many and take this much, if all do.

        `beside` is what each frame takes beside its bytes.
        """
        if frames >= self.frames or size >= len(self.data) + beside * self.frames or self.frames == 1:
            return self.frames, len(self.data)
        count = at = 0
        while count < frames or at + beside * count < size:
            at += _LENGTH.size + _LENGTH.unpack_from(self.data, at)[0]
            count += 1
        return count, at

    def cut(self, frames: int) -> "Bundle":
        """Take the first frames off; at least one remains."""
        return self.cut_at(frames, self.size_of(frames))

    def cut_at(self, frames: int, at: int) -> "Bundle":
        """Take the first frames off, which end here; at least one remains."""
        tag = None if self.tag is None else self.tag.cut(frames)
        first = Bundle(bytes(self.data[:at]), frames, self.oldest_ms, tag)
        # A view, since the rest may be cut again and again; but it keeps all of the bytes alive.
        rest = memoryview(self.data)[at:]
        self.data = rest if 2 * len(rest) >= len(cast("bytes", rest.obj)) else bytes(rest)
        self.frames -= frames
        return first

    def fitting(self, size: int) -> int:
        """The number of first frames in at most this many bytes, which are fewer than there are."""
        count = at = 0
        while (at := at + _LENGTH.size + _LENGTH.unpack_from(self.data, at)[0]) <= size:
            count += 1
        return count

    def runs(self, key: Callable[[bytes], Key]) -> "list[tuple[Key, Bundle]]":
        """Consecutive frames with the same key, as bundles of their own."""
        *firsts, (last, _) = [(value, sum(1 for _ in run)) for value, run in groupby(self.split(), key)]
        return [*((value, self.cut(count)) for value, count in firsts), (last, self)]

    def split(self) -> list[bytes]:
        """The frames, one by one."""
        return [bytes(self.data)] if self.frames == 1 else split_frames(bytes(self.data))


class Source(Protocol):
    """A source of notifications that can be asked to pause."""

    def hold(self, queue: "FrameQueue") -> None:
        """Stop reading until `release` is called for every queue that asked."""

    def release(self, queue: "FrameQueue") -> None:
        """This queue has room again."""


class FrameObserver(Protocol):
    """Is told what happens to the frames of a queue, in order."""

    def entered(self, queue: "FrameQueue", bundle: Bundle, waited: int) -> None:
        """A bundle was put behind this many frames; the observer may tag it."""

    def left(self, queue: "FrameQueue", bundle: Bundle) -> None:
        """It was handed to the socket."""

    def returned(self, queue: "FrameQueue", bundle: Bundle) -> None:
        """It was handed to a socket that is gone, and waits again."""

    def lost(self, queue: "FrameQueue", bundle: Bundle) -> None:
        """It will never be sent, or never again."""

    def expired(self, queue: "FrameQueue", bundle: Bundle) -> None:
        """At its turn it was too old, and is not sent."""


class Carrier(Protocol):
    """The way from a queue to its socket, where that takes time or is interrupted."""

    def attached(self, transport: asyncio.WriteTransport) -> None:
        """The queue has a connection."""

    def room(self, queue: "FrameQueue") -> int:
        """How many frames may leave the queue now; it is flushed when there is room again."""

    def write(self, transport: asyncio.WriteTransport, data: bytes | memoryview) -> None:
        """Write frames to the socket, now or later, in order."""


class Ledger(dict["FrameQueue", None]):
    """Queues with frames, for whoever adds up their memory: queues enter themselves when something is written.

    Calls `when_grown` when this much more waits in them than when it was called before.
    """

    __slots__ = ("_bytes_max", "_grown_bytes", "_when_grown")

    def __init__(self, bytes_max: int, when_grown: Callable[[], None]) -> None:
        super().__init__()
        self._bytes_max = bytes_max
        self._when_grown = when_grown
        self._grown_bytes = 0

    def grew(self, size: int) -> None:
        """A queue waits with this many bytes more."""
        self._grown_bytes += size
        if self._grown_bytes > self._bytes_max:
            self._grown_bytes = 0
            self._when_grown()


class Turn:
    """One iteration of the event loop: the queues with output, flushed together at its end."""

    __slots__ = ("_loop", "_queues")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Use this loop, or the one running when a queue is noted."""
        self._loop = loop
        self._queues: list[FrameQueue] = []

    def note(self, queue: "FrameQueue") -> None:
        if not self._queues:
            (self._loop or asyncio.get_running_loop()).call_soon(self.flush)
        self._queues.append(queue)

    def flush(self) -> None:
        queues, self._queues = self._queues, []
        for queue in queues:
            queue.turn_ended()


class FrameQueue:
    """The numbered frames of one session or link in one direction."""

    __slots__ = (
        "_aged",
        "_ahead",
        "_blocked",
        "_credits",
        "_dropped",
        "_fence",
        "_last",
        "_left_before",
        "_low",
        "_noted",
        "_ordinary",
        "_turn",
        "_unconfirmed",
        "_unconfirmed_bytes",
        "_urgent",
        "_urgent_frames",
        "_waited_bytes",
        "bytes_max",
        "carrier",
        "confirmed",
        "confirmed_bytes",
        "disguise",
        "dropped_total",
        "frames_max",
        "ledger",
        "mark_bytes",
        "mark_frames",
        "observer",
        "sent",
        "still_wanted",
        "too_old_total",
        "transport",
        "waiting_bytes",
        "waits",
        "window",
        "writable",
    )

    def __init__(self, turn: Turn, frames_max: int, bytes_max: int, window: int = WINDOW_FRAMES) -> None:
        self._turn = turn
        self._noted = False
        self.frames_max = frames_max
        self.bytes_max = bytes_max
        self.mark_frames = frames_max
        self.mark_bytes = bytes_max
        self.window = window
        self.waits = 0  # frames in all lanes
        self.waiting_bytes = 0
        self._ordinary: deque[Bundle] = deque()
        self._fence = 0  # ordinary frames at the head that nothing overtakes
        self._urgent: tuple[deque[Bundle], ...] = ()  # the lanes of priority 1 and above, once there was one
        self._urgent_frames = 0
        self._credits = list(WEIGHTS)  # rest of each lane's share of this round
        self._unconfirmed: deque[Bundle] = deque()
        self._unconfirmed_bytes = 0
        self._ahead = 0  # confirmed frames of the first unconfirmed bundle, which leaves when all of it is
        self.sent = 0
        self.confirmed = 0
        self.confirmed_bytes = 0  # of all sessions that this queue carried
        self._left_before = 0
        self._last: int | None = None  # nothing is written after this many frames
        self.transport: asyncio.WriteTransport | None = None
        self.writable = False
        self._dropped = 0
        self.dropped_total = 0
        self.too_old_total = 0
        self._aged = 0  # of these the peer has not been told
        self._blocked: dict[Source, None] = {}
        self._low: tuple[int, int, Callable[[], None]] | None = None
        # The part of a bundle that is not too old when its turn comes; None: all of it.
        self.still_wanted: Callable[[Bundle], list[Bundle]] | None = None
        # The bytes to write in place of frames, where they differ from those kept; sizes count as kept.
        self.disguise: Callable[[list[bytes]], list[bytes]] | None = None
        self.carrier: Carrier | None = None  # None: frames are written at once
        self.observer: FrameObserver | None = None
        self.ledger: Ledger | None = None
        self._waited_bytes = 0  # as the ledger knows

    # -- how much there is

    @property
    def waits_by_priority(self) -> tuple[int, ...]:
        """The number of waiting frames in each lane. A frame that nothing may overtake counts as ordinary."""
        urgent = [sum(bundle.frames for bundle in lane) for lane in self._urgent] or [0] * (len(WEIGHTS) - 1)
        return (self.waits - self._urgent_frames, *urgent)

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
    def may_write(self) -> bool:
        """Whether the socket and the window may take some of what waits."""
        return self.transport is not None and self.writable and self._room() > 0

    @property
    def holds_up(self) -> bool:
        """Whether a source waits for room here, which may last after the queue is no longer full."""
        return bool(self._blocked) or self._low is not None

    @property
    def held(self) -> int:
        """All frames, waiting and unconfirmed."""
        return self.waits + self.sent - self.confirmed

    @property
    def untold(self) -> int:
        """The number of dropped frames not yet reported to the peer."""
        return self._dropped

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest notification of the first waiting bundle was accepted, if that is known."""
        return self._ordinary[0].oldest_ms if self._ordinary and self._ordinary[0].oldest_ms != NEVER else None

    def count(self, wanted: Callable[[bytes | memoryview], bool]) -> int:
        """The number of waiting ordinary frames that are `wanted`."""
        return sum(bundle.frames for bundle in self._ordinary if wanted(bundle.data))

    @property
    def memory_bytes(self) -> int:
        """The memory of all frames. One that waits in several queues counts in each."""
        return self.waiting_bytes + self._unconfirmed_bytes + FRAME_MEMORY_BYTES * self.held

    @property
    def left_total(self) -> int:
        """Frames handed to sockets so far, including resent ones: unlike `sent`, it never decreases."""
        return self._left_before + self.sent

    # -- frames come

    def put(
        self,
        data: bytes | memoryview,
        frames: int = 1,
        lane: int = 0,
        oldest_ms: int = NEVER,
        tag: Tag | None = None,
    ) -> None:
        """Queue consecutive frames. The caller checks `is_full`."""
        self.put_bundle(Bundle(data, frames, oldest_ms, tag), lane)

    def put_bundle(self, bundle: Bundle, lane: int = 0) -> None:
        """Queue a bundle. The caller checks `is_full`."""
        if self.observer is not None:
            self.observer.entered(self, bundle, self.waits)
        if lane:
            if not self._urgent:
                self._urgent = tuple(deque() for _ in WEIGHTS[1:])
            self._urgent[lane - 1].append(bundle)
            self._urgent_frames += bundle.frames
        else:
            self._ordinary.append(bundle)
        self.waits += bundle.frames
        self.waiting_bytes += len(bundle.data)
        if not self._noted:
            self._noted = True
            self._turn.note(self)

    def put_all(self, frames: Iterable[bytes]) -> None:
        """Queue ordinary frames, one by one."""
        for frame in frames:
            self.put(frame)

    def put_fence(self, frame: bytes) -> None:
        """Queue a frame that overtakes nothing and is not overtaken."""
        self._settle()
        self.put(frame)
        self._fence = self.waits

    def has_room(self, frames: int, size: int) -> bool:
        """Whether so many frames and bytes more stay below the mark."""
        return self.waits + frames < self.mark_frames and self.waiting_bytes + size < self.mark_bytes

    def put_below(self, bundle: Bundle, frames_max: int, bytes_max: int, lane: int = 0) -> Bundle | None:
        """Queue the first frames of a bundle as far as they stay below these bounds; returns the rest, if any."""
        room = frames_max - 1 - self.waits
        if room <= 0:
            return bundle
        if bundle.frames <= room:
            if self.waiting_bytes + len(bundle.data) >= bytes_max:
                return bundle
            self.put_bundle(bundle, lane)
            return None
        if self.waiting_bytes + bundle.size_of(room) >= bytes_max:
            return bundle
        self.put_bundle(bundle.cut(room), lane)
        return bundle

    # -- their order

    def _settle(self) -> None:
        """Fix the order of the waiting frames: as if no more were put, and before all later ones."""
        if self._urgent_frames:
            settled: deque[Bundle] = deque()
            while self._fence or self._urgent_frames:
                settled.append(self._take(self.waits))
                # only taken from the lanes: it still waits
                self.waits += settled[-1].frames
                self.waiting_bytes += len(settled[-1].data)
            settled.extend(self._ordinary)
            self._ordinary = settled
        self._fence = self.waits

    def _take(self, frames_max: int) -> Bundle:
        """Take the next frames, at most so many, in the order of fence and lanes; some wait."""
        if self._urgent_frames:
            bundle = self._take_by_priority(frames_max)
        else:
            lane = self._ordinary
            bundle = lane[0].cut(frames_max) if lane[0].frames > frames_max else lane.popleft()
            if self._fence:
                self._fence = max(self._fence - bundle.frames, 0)
        self.waits -= bundle.frames
        self.waiting_bytes -= len(bundle.data)
        return bundle

    def _take_by_priority(self, frames_max: int) -> Bundle:
        lane, share = self._ordinary, self._fence
        priority = -1
        if not self._fence:
            priority = self._next_priority()
            lane = self._urgent[priority - 1] if priority else lane
            share = self._credits[priority]
        share = min(share, frames_max)
        bundle = lane[0].cut(share) if lane[0].frames > share else lane.popleft()
        if priority >= 0:
            self._credits[priority] -= bundle.frames
        if priority > 0:
            self._urgent_frames -= bundle.frames
        elif self._fence:
            self._fence = max(self._fence - bundle.frames, 0)
        return bundle

    def _next_priority(self) -> int:
        """The priority of the lane whose turn it is; one that is urgent is not empty."""
        left, lanes = self._credits, (self._ordinary, *self._urgent)
        while True:
            for priority in range(len(lanes) - 1, -1, -1):
                if lanes[priority] and left[priority]:
                    return priority
            left[:] = WEIGHTS

    # -- frames go

    def turn_ended(self) -> None:
        self._noted = False
        ledger = self.ledger
        if ledger is not None:
            ledger[self] = None
        self.flush()
        if self.waiting_bytes != self._waited_bytes:
            grew, self._waited_bytes = self.waiting_bytes - self._waited_bytes, self.waiting_bytes
            if ledger is not None and grew > 0:
                ledger.grew(grew)

    def flush(self) -> None:
        """Write waiting frames to the socket, as far as it and the window allow."""
        transport = self.transport
        if transport is None:
            return
        if self._dropped and self.writable and self._room() > 0:
            self._put_first(Dropped(self._dropped))
            self._dropped = 0
        while (self.waits or self._aged) and self.writable and (room := self._room()) > 0:
            if self._aged:
                self._put_first(TooOld(self._aged))
                self._aged = 0
            self._write_some(transport, room)
        if self._blocked or self._low is not None:
            self._release_if_room()

    def _write_some(self, transport: asyncio.WriteTransport, room: int) -> None:
        """Write bundles, joined, up to `room` frames."""
        pieces: list[bytes | memoryview] = []
        size = 0
        while room > 0 and self.waits and size < WRITE_BYTES_MAX:
            taken = self._take(room)
            for bundle in (taken,) if self.still_wanted is None else self._without_old(taken):
                self._unconfirmed.append(bundle)
                pieces.append(bundle.data)
                size += len(bundle.data)
                room -= bundle.frames
                self.sent += bundle.frames
                if self.observer is not None:
                    self.observer.left(self, bundle)
            if self._last is not None:
                # those that were too old are not among the last
                room = min(room, self._last - self.sent)
        if not pieces:
            return
        self._unconfirmed_bytes += size
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self.disguise is not None:
            data = b"".join(self.disguise(split_frames(bytes(data))))
        try:
            if self.carrier is None:
                transport.write(data)
            else:
                self.carrier.write(transport, data)
        except RuntimeError:
            # uvloop raises this for a closed connection not yet reported as lost: the frames are resent on the next
            self.writable = False

    def _without_old(self, bundle: Bundle) -> list[Bundle]:
        frames = bundle.frames
        wanted = [bundle] if self.still_wanted is None else self.still_wanted(bundle)
        gone = frames - sum(one.frames for one in wanted)
        if gone:
            self.too_old_total += gone
            self._aged += gone
            if self._last is not None:
                self._last -= gone
        return wanted

    def _room(self) -> int:
        """The free room in the window, in frames."""
        if self._unconfirmed_bytes >= WINDOW_BYTES:
            return 0
        room = self.window - self.sent + self.confirmed
        if self._last is not None:
            room = min(room, self._last - self.sent)
        return room if self.carrier is None or room <= 0 else min(room, self.carrier.room(self))

    def _put_first(self, notice: Dropped | TooOld) -> None:
        frame = message_frame(notice)
        self._ordinary.appendleft(Bundle(frame))
        self._fence += 1
        self.waits += 1
        self.waiting_bytes += len(frame)

    # -- confirmations of the peer

    def confirm(self, received: int) -> None:
        """The peer has handled `received` frames of the session."""
        if not self.confirmed <= received <= self.sent:
            raise RemoteProtocolError(
                f"{received} frames are confirmed; {self.confirmed} to {self.sent} would be possible"
            )
        while self.confirmed < received:
            bundle = self._unconfirmed[0]
            left = bundle.frames - self._ahead
            if left > received - self.confirmed:
                self._ahead += received - self.confirmed
                self.confirmed = received
                break
            self._unconfirmed.popleft()
            self.confirmed += left
            self._ahead = 0
            self._unconfirmed_bytes -= len(bundle.data)
            self.confirmed_bytes += len(bundle.data)
        if self.waits or self._aged:
            self.flush()

    def _cut_first(self) -> None:
        """Remove the confirmed part of the first unconfirmed bundle."""
        if self._ahead:
            gone = self._unconfirmed[0].cut(self._ahead)
            self._unconfirmed_bytes -= len(gone.data)
            self.confirmed_bytes += len(gone.data)
            self._ahead = 0

    @property
    def under_way(self) -> list[bytes]:
        """The sent, unconfirmed frames, in order."""
        self._cut_first()
        return [frame for bundle in self._unconfirmed for frame in bundle.split()]

    def in_order(self) -> list[bytes]:
        """The waiting frames in the order of sending, which is now fixed."""
        return [frame for bundle in self._bundles_in_order() for frame in bundle.split()]

    def _bundles_in_order(self) -> list[Bundle]:
        if self._aged:
            self._put_first(TooOld(self._aged))
            self._aged = 0
        self._settle()
        return list(self._ordinary)

    def unconfirmed(self) -> list[bytes]:
        """All unconfirmed frames in order: those sent, then those waiting."""
        return [*self.under_way, *self.in_order()]

    def take_back(self) -> None:
        """Queue unconfirmed frames again, as if they had never been sent: the peer did not take them."""
        self._cut_first()
        again, self._unconfirmed = self._unconfirmed, deque()
        count = self.sent - self.confirmed
        if self.observer is not None:
            for bundle in again:
                self.observer.returned(self, bundle)
        self._ordinary.extendleft(reversed(again))
        self._fence += count
        self.waits += count
        self.waiting_bytes += self._unconfirmed_bytes
        self._unconfirmed_bytes = 0
        self._left_before += count
        self.sent = self.confirmed

    # -- connections come and go

    def attach(self, transport: asyncio.WriteTransport, received: int) -> None:
        """Carry the session on this connection; `received` of its frames had arrived before."""
        self.confirm(received)
        self.take_back()
        self._last = None
        self.transport = transport
        self.writable = True
        if self.carrier is not None:
            self.carrier.attached(transport)
        if (self.waits or self._dropped or self._aged) and not self._noted:
            self._noted = True
            self._turn.note(self)

    def detach(self) -> None:
        """The connection is gone; the session waits for another."""
        self.transport = None
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = self.transport is not None
        self.flush()

    def write_no_more(self) -> None:
        """Write only the waiting frames on this connection; later ones wait for the next."""
        self._settle()
        self._last = self.sent + self.waits

    @property
    def has_written_all(self) -> bool:
        """Whether `write_no_more` has taken effect: nothing more will be written on this connection."""
        return self._last is not None and self.sent >= self._last

    # -- sessions end, and begin with what another left

    def clear(self) -> int:
        """Drop all frames: the session is over. Returns the number of unconfirmed frames."""
        lost = self.held
        if self.observer is not None:
            for lane in (self._ordinary, *self._urgent):
                for bundle in lane:
                    self.observer.lost(self, bundle)
        self._empty()
        self._release_if_room()
        return lost

    def _empty(self) -> None:
        self._ordinary.clear()
        for lane in self._urgent:
            lane.clear()
        self._unconfirmed.clear()
        self._fence = self._urgent_frames = self._aged = self._ahead = 0
        self._left_before += self.sent
        self.waits = self.waiting_bytes = self._unconfirmed_bytes = self.sent = self.confirmed = self._dropped = 0

    def keep_unsent(self, wanted: Callable[[bytes | memoryview], bool]) -> int:
        """End the session but keep unsent bundles that are `wanted`. Returns the number of lost frames."""
        before = self.held
        waiting = self._bundles_in_order()
        self._empty()
        for bundle in waiting:
            if wanted(bundle.data):
                self._ordinary.append(bundle)
                self.waits += bundle.frames
                self.waiting_bytes += len(bundle.data)
            elif self.observer is not None:
                self.observer.lost(self, bundle)
        self._fence = self.waits
        self._release_if_room()
        return before - self.waits

    def refill(self, confirmed: int, unconfirmed: list[bytes], waiting: Iterable[bytes], untold: int) -> None:
        """Fill an empty queue with the frames of the same session from before a restart of this broker."""
        self.confirmed = confirmed
        self.sent = confirmed + len(unconfirmed)
        self._unconfirmed.extend(map(Bundle, unconfirmed))
        self._unconfirmed_bytes = sum(map(len, unconfirmed))
        for frame in waiting:
            bundle = Bundle(frame)
            if self.observer is not None:
                self.observer.entered(self, bundle, self.waits)
            self._ordinary.append(bundle)
            self.waits += 1
            self.waiting_bytes += len(frame)
        self._fence = self.waits
        self._dropped = untold

    # -- at the bound

    def drop_oldest(
        self, last: Bundle, frames_max: int, bytes_max: int, droppable: Callable[[bytes | memoryview], bool]
    ) -> None:
        """Drop the oldest frames until less waits than this, or no more than before the last bundle was put.

        The lowest lane goes first.
        """
        frames, size = self._over(last, frames_max, bytes_max)
        self._drop_oldest(frames, size, 0, droppable)

    def _over(self, last: Bundle, frames_max: int, bytes_max: int) -> tuple[int, int]:
        """The frames and bytes that wait beyond these bounds, or that the last bundle brought if that is less."""
        return (
            min(self.waits - frames_max + 1, last.frames),
            min(self.waiting_bytes - bytes_max + 1, len(last.data)),
        )

    def _drop_oldest(
        self,
        frames: int,
        size: int,
        beside: int,
        droppable: Callable[[bytes | memoryview], bool],
        *,
        one_by_one: bool = False,
    ) -> int:
        """Drop frames until they are at least this many and take at least this much; returns their number.

        `beside` is what each takes beside its bytes. All frames of a bundle are droppable or none is, except
        `one_by_one`.
        """
        dropped = 0
        for lane in (self._ordinary, *self._urgent):
            kept: list[Bundle] = []
            before = 0  # frames in these
            while lane and (dropped < frames or size > 0):
                bundle = lane.popleft()
                if one_by_one and bundle.frames > 1:
                    lane.extendleft(run for _, run in reversed(bundle.runs(droppable)))
                    bundle = lane.popleft()
                if not droppable(bundle.data):
                    kept.append(bundle)
                    before += bundle.frames
                    continue
                count, at = bundle.first_of(frames - dropped, size, beside)
                if count < bundle.frames:
                    lane.appendleft(bundle)
                    bundle = bundle.cut_at(count, at)
                if lane is not self._ordinary:
                    self._urgent_frames -= count
                else:
                    self._fence -= min(max(self._fence - before, 0), count)
                size -= at + beside * count
                dropped += count
                self._remove(bundle)
            lane.extendleft(reversed(kept))
        self._count_drops(dropped)
        return dropped

    def drop_newest(self, last: Bundle, frames_max: int, bytes_max: int, *, told: bool = True) -> int:
        """Like `drop_oldest`, with the newest frames: as if those of the last bundle had been put one by one.

        Without being `told`, the peer does not learn of it: links have no message for that. Returns the number of
        dropped frames.
        """
        frames, size = self._over(last, frames_max, bytes_max)
        if size <= 0 or not self._ordinary or self._ordinary[-1] is not last:
            return self._drop_newest(frames, size, told)
        # Small frames may fit where large ones do not.
        self._ordinary.pop()
        room, room_bytes = last.frames - frames, len(last.data) - size

        def is_over(frame: bytes) -> bool:
            nonlocal room, room_bytes
            if not room or len(frame) > room_bytes:
                return True
            room, room_bytes = room - 1, room_bytes - len(frame)
            return False

        waited = self.waits
        for over, run in last.runs(is_over):
            if over:
                self._remove(run)
            else:
                self._ordinary.append(run)
        return self._dropped_newest(waited - self.waits, told)

    def _drop_newest(self, frames: int, size: int, told: bool) -> int:
        """Drop frames until they are at least this many and take at least this much; returns their number.

        Frames before a fence are not considered while others wait.
        """
        waited = self.waits
        while self.waits and (frames > 0 or size > 0):
            lane = self._ordinary
            behind = self.waits - self._urgent_frames - self._fence  # ordinary frames behind the fence
            if self._urgent_frames and behind <= 0:
                lane = next(lane for lane in self._urgent if lane)
            bundle = lane.pop()
            count = bundle.frames
            if frames < count and size < len(bundle.data):
                count = max(frames, count - bundle.fitting(len(bundle.data) - size) if size > 0 else 0)
            if lane is not self._ordinary:
                self._urgent_frames -= count
            elif self._urgent_frames:
                count = min(count, behind)
            if count < bundle.frames:
                lane.append(bundle.cut(bundle.frames - count))
            frames -= count
            size -= len(bundle.data)
            self._remove(bundle)
        return self._dropped_newest(waited - self.waits, told)

    def _dropped_newest(self, frames: int, told: bool) -> int:
        self._fence = min(self._fence, self.waits - self._urgent_frames)
        if told:
            self._count_drops(frames)
        return frames

    def _remove(self, bundle: Bundle) -> None:
        """Account for a waiting bundle that is gone."""
        self.waits -= bundle.frames
        self.waiting_bytes -= len(bundle.data)
        if self.observer is not None:
            self.observer.lost(self, bundle)

    def _count_drops(self, frames: int) -> None:
        self._dropped += frames
        self.dropped_total += frames

    def shed(
        self, memory_bytes: int, droppable: Callable[[bytes | memoryview], bool], *, one_by_one: bool = False
    ) -> int:
        """Drop waiting frames of this kind until the queue takes at most `memory_bytes`.

        The lowest lane goes first, oldest frames first. Returns the number of dropped frames. Without `one_by_one`,
        `droppable` is asked about the first frame of a bundle only.
        """
        over = self.memory_bytes - memory_bytes
        dropped = self._drop_oldest(0, over, FRAME_MEMORY_BYTES, droppable, one_by_one=one_by_one)
        self._release_if_room()
        return dropped

    def shed_sent(self, memory_bytes: int, droppable: Callable[[bytes], bool]) -> int:
        """Like `shed`, for frames that were sent but not confirmed, while there is no connection.

        A drop notice is sent in place of each frame that had not arrived. All count as dropped.
        """
        self._cut_first()
        over, dropped = self.memory_bytes - memory_bytes, 0

        def gives_way(frame: bytes) -> bool:
            nonlocal over
            saved = len(frame) - len(_DROPPED_ONE)
            if over <= 0 or saved <= 0 or not droppable(frame):
                return False
            over -= saved
            return True

        rest: deque[Bundle] = deque()
        for bundle in self._unconfirmed:
            for gone, run in bundle.runs(gives_way) if over > 0 else [(False, bundle)]:
                kept = run
                if gone:
                    kept = Bundle(_DROPPED_ONE * run.frames, run.frames)
                    self._unconfirmed_bytes -= len(run.data) - len(kept.data)
                    dropped += run.frames
                    if self.observer is not None:
                        self.observer.lost(self, run)
                rest.append(kept)
        self._unconfirmed = rest
        self.dropped_total += dropped
        return dropped

    # -- sources that wait for room

    def block(self, source: Source) -> None:
        """Hold a source until half of the queue is empty again."""
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


def beyond(queue: FrameQueue, frames_max: int, bytes_max: int, last: list[bytes]) -> list[bytes]:
    """Of these frames, which were put last into a queue: those that would not wait if less than this did."""
    waits, size, at = queue.waits, queue.waiting_bytes, len(last)
    while at and (waits >= frames_max or size >= bytes_max):
        at -= 1
        waits, size = waits - 1, size - len(last[at])
    return last[at:]


def memory_bytes_of(queues: Iterable[FrameQueue]) -> int:
    """The sum of `memory_bytes`."""
    return sum(queue.memory_bytes for queue in queues)
