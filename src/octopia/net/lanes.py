"""The frames waiting in an output queue: lanes by priority, fences, and bundles.

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

Confirmations and waits of full dynamic routing (`Confirm`, `Waits`) are not fences, since there are many of them: both
describe the current state, and no notification on the same link depends on them. They are ordinary frames.

Resent frames, and frames left from before a restart of the broker, go first and in order: they had their turn before.
While no subscription has a priority, there is one lane, and all of this costs one comparison.

**Bundles.** Frames made together are one piece of bytes (`put_bundle`), and not separate objects until one of them is
needed. They wait before all other frames, and are split as soon as anything could come between them. Where the window
has no room for a whole bundle it is cut in two.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from struct import Struct

from octopia.wire import split_frames

# How many frames of each lane go in a round while others wait, by priority.
WEIGHTS = (1, 4, 16, 64)
WRITE_BYTES_MAX = 256 * 1024
_LENGTH = Struct(">I")


class Turn:
    """One iteration of the event loop: the boxes with output, flushed together at its end."""

    __slots__ = ("_boxes", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Use this loop, or the one running when a box is noted."""
        self._loop = loop
        self._boxes: list[Lanes] = []

    def note(self, box: "Lanes") -> None:
        if not self._boxes:
            (self._loop or asyncio.get_running_loop()).call_soon(self.flush)
        self._boxes.append(box)

    def flush(self) -> None:
        boxes, self._boxes = self._boxes, []
        for box in boxes:
            box.turn_ended()


# Consecutive frames in one buffer, and their number. A plain pair, since there is one for each read.
Bundle = tuple[bytes, int]


def frames_of(chunk: list[bytes] | Bundle) -> list[bytes]:
    """The frames of a chunk, one by one."""
    return split_frames(chunk[0]) if isinstance(chunk, tuple) else chunk


def cut(bundle: Bundle, frames: int) -> tuple[Bundle, Bundle]:
    """Split a bundle into its first `frames` frames and the others."""
    (data, count), at = bundle, 0
    for _ in range(frames):
        at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
    return (data[:at], frames), (data[at:], count - frames)


def _joined(bundles: list[Bundle]) -> Bundle:
    return b"".join([data for data, _ in bundles]), sum([frames for _, frames in bundles])


class Lanes:
    """The waiting frames of one queue."""

    __slots__ = (
        "_bundled",
        "_bundles",
        "_credits",
        "_fence",
        "_noted",
        "_turn",
        "_urgent",
        "_urgent_frames",
        "_waiting",
        "disguise",
        "mark_bytes",
        "mark_frames",
        "too_old",
        "waiting_bytes",
        "writable",
    )

    def __init__(self, turn: Turn, frames_max: int, bytes_max: int) -> None:
        self._turn = turn
        self._noted = False
        self.mark_frames = frames_max
        self.mark_bytes = bytes_max
        # Ordinary frames, and at its head `_fence` frames that nothing overtakes. `waits` counts the others, too.
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0  # of all lanes, and of bundles
        self._bundles: list[Bundle] = []  # sent before all waiting frames
        self._bundled = 0  # frames in them
        self._fence = 0
        self._urgent: tuple[deque[bytes], ...] = ()  # the lanes of priority 1 and above, once there was one
        self._urgent_frames = 0
        self._credits = list(WEIGHTS)  # rest of each lane's share of this round
        self.writable = False
        self.too_old: Callable[[bytes], bool] | None = None  # frames to drop, checked when their turn comes
        # what is written in place of frames, where it is other than what is kept; sizes count as kept
        self.disguise: Callable[[list[bytes]], list[bytes]] | None = None

    @property
    def waits(self) -> int:
        """The number of waiting frames in all lanes."""
        return len(self._waiting) + self._urgent_frames + self._bundled

    @property
    def waiting(self) -> deque[bytes]:
        """The waiting ordinary frames."""
        self._unbundle()
        return self._waiting

    @property
    def waits_by_priority(self) -> tuple[int, ...]:
        """The number of waiting frames in each lane. A frame that nothing may overtake counts as ordinary."""
        return (len(self.waiting), *(map(len, self._urgent) if self._urgent else (0,) * (len(WEIGHTS) - 1)))

    def put(self, frame: bytes, lane: int = 0) -> None:
        """Queue a frame. The caller checks `is_full`."""
        if lane:
            self._unbundle()
            self._lane(lane).append(frame)
            self._urgent_frames += 1
        else:
            self._waiting.append(frame)
        self.waiting_bytes += len(frame)
        if not self._noted:
            self._noted = True
            self._turn.note(self)

    def put_bundle(self, data: bytes, frames: int) -> bool:
        """Queue consecutive ordinary frames in one buffer, unless one of them would need separate handling.

        In that case it does nothing and returns False: they would reach the mark, or other frames wait. Bundled frames
        are not separate objects until one of them is needed.
        """
        size = self.waiting_bytes + len(data)
        if (
            self._waiting
            or self._urgent_frames
            or self._bundled + frames >= self.mark_frames
            or size >= self.mark_bytes
            or len(data) > WRITE_BYTES_MAX
            or self.too_old is not None
            or self.disguise is not None
        ):
            return False
        self._bundles.append((data, frames))
        self._bundled += frames
        self.waiting_bytes = size
        if not self._noted:
            self._noted = True
            self._turn.note(self)
        return True

    def _next_bundle(self, room: int) -> Bundle:
        """The first bundled frames, as many as there is room for and as are written at once; some are bundled."""
        bundles = self._bundles
        data, frames = bundles[0]
        if frames > room:
            chosen, bundles[0] = cut(bundles[0], room)
        else:
            count, size = 1, len(data)
            while count < len(bundles):
                data, more = bundles[count]
                frames += more
                size += len(data)
                if frames > room or size > WRITE_BYTES_MAX:
                    break
                count += 1
            chosen = bundles[0] if count == 1 else _joined(bundles[:count])
            del bundles[:count]
        self._bundled -= chosen[1]
        self.waiting_bytes -= len(chosen[0])
        return chosen

    def _unbundle(self) -> None:
        """Split all bundles into waiting frames."""
        if self._bundles:
            bundles, self._bundles, self._bundled = self._bundles, [], 0
            frames = [frame for bundle in bundles for frame in frames_of(bundle)]
            self._waiting.extendleft(reversed(frames))
            if self._fence:
                self._fence += len(frames)

    def put_fence(self, frame: bytes) -> None:
        """Queue a frame that overtakes nothing and is not overtaken."""
        self._settle()
        self.put(frame)
        self._fence = len(self._waiting)

    def _lane(self, lane: int) -> deque[bytes]:
        if not self._urgent:
            self._urgent = tuple(deque() for _ in WEIGHTS[1:])
        return self._urgent[lane - 1]

    def _settle(self) -> None:
        """Fix the order of the waiting frames: as if no more were put, and before all later ones.

        A frame is moved at most once, since it is not moved again from where it is put.
        """
        self._unbundle()
        if self._urgent_frames:
            waiting, fence = self._waiting, self._fence
            ordinary = deque(islice(waiting, fence, None))
            while len(waiting) > fence:
                waiting.pop()
            lanes = (ordinary, *self._urgent)
            while self._urgent_frames:
                lane = self._next_lane(lanes)
                self._urgent_frames -= lane is not ordinary
                waiting.append(lane.popleft())
            waiting.extend(ordinary)
        self._fence = len(self._waiting)

    def _next_lane(self, lanes: tuple[deque[bytes], ...]) -> deque[bytes]:
        """The lane whose turn it is; one of them is not empty."""
        left = self._credits
        while True:
            for priority in range(len(lanes) - 1, -1, -1):
                if lanes[priority] and left[priority]:
                    left[priority] -= 1
                    return lanes[priority]
            left[:] = WEIGHTS

    def put_many(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self.put(frame)

    def put_if_room(self, frames: list[bytes], lane: int = 0) -> bool:
        """Queue all of these; if they would reach the mark, do nothing and return False."""
        size = sum(map(len, frames))
        waits = self.waits
        if waits + len(frames) >= self.mark_frames or self.waiting_bytes + size >= self.mark_bytes:
            return False
        # as `_extend` does: this is called for each destination of each batch
        if lane:
            self._unbundle()
            self._lane(lane).extend(frames)
            self._urgent_frames += len(frames)
        else:
            self._waiting.extend(frames)
        self.waiting_bytes += size
        if not self._noted:
            self._noted = True
            self._turn.note(self)
        return True

    def put_below(self, frames: list[bytes], start: int, frames_max: int, bytes_max: int, lane: int = 0) -> int:
        """Queue frames from `start` on that stay below these bounds; returns the index of the first that would not."""
        stop = min(len(frames), start + frames_max - 1 - self.waits)
        if stop <= start:
            return start
        chosen = frames[start:stop]
        size = sum(map(len, chosen))
        if self.waiting_bytes + size >= bytes_max:
            return start
        self._extend(chosen, size, lane)
        return stop

    def _extend(self, frames: list[bytes], size: int, lane: int = 0) -> None:
        """Queue frames of this size in all."""
        if lane:
            self._unbundle()
            self._lane(lane).extend(frames)
            self._urgent_frames += len(frames)
        else:
            self._waiting.extend(frames)
        self.waiting_bytes += size
        if not self._noted:
            self._noted = True
            self._turn.note(self)

    def _next_chunk(self, room: int) -> tuple[list[bytes], int]:
        if self._urgent_frames:
            return self._next_of_lanes(room)
        waiting = self._waiting
        if self.waiting_bytes <= WRITE_BYTES_MAX and len(waiting) <= room:
            chunk = list(waiting)
            waiting.clear()
            self._fence = 0
            return chunk, self.waiting_bytes
        chunk, size = [], 0
        while waiting and size < WRITE_BYTES_MAX and len(chunk) < room:
            frame = waiting.popleft()
            chunk.append(frame)
            size += len(frame)
        self._fence = max(self._fence - len(chunk), 0)
        return chunk, size

    def _next_of_lanes(self, room: int) -> tuple[list[bytes], int]:
        """The same, lane by lane."""
        waiting, lanes = self._waiting, (self._waiting, *self._urgent)
        chunk: list[bytes] = []
        size = 0
        while (waiting or self._urgent_frames) and size < WRITE_BYTES_MAX and len(chunk) < room:
            if self._fence:
                self._fence -= 1
                frame = waiting.popleft()
            else:
                lane = self._next_lane(lanes)
                self._urgent_frames -= lane is not waiting
                frame = lane.popleft()
            chunk.append(frame)
            size += len(frame)
        return chunk, size

    def turn_ended(self) -> None:
        self._noted = False
        self.flush()

    def flush(self) -> None:
        """Write the waiting frames to the socket."""
        raise NotImplementedError
