"""What a recorder of a broker does: it observes the router and the queues, and changes nothing.

A recorder chooses notifications (`engine/outcome.py`) and tags the bundles that carry them. A tag names lines of a
table of frames, and is cut with its bundle, so that there is no object for each frame. Bundles that an engine has not
told about are read: control messages, notifications that waited for others, what was kept over a restart.
"""

from collections.abc import Callable, Collection
from typing import Final, Protocol

import numpy as np
from msgspec import Struct

from octopia.net.broker.engine.outcome import FRAME_COLUMNS, PLACE, Carried, Outcome, Sample, is_chosen
from octopia.net.broker.router import RouterObserver
from octopia.net.frame_queue import Bundle, FrameObserver, FrameQueue
from octopia.topology import BrokerId
from octopia.wire import COPIES, Kind, named_in

# Frames that carry notifications.
CARRIERS: Final = frozenset((*COPIES, Kind.DELIVER))
# In place of the event that caused a message, for none.
NO_CAUSE: Final = -1


class Recorder(RouterObserver, Protocol):
    """Observes one broker."""

    def client_observer(self, client: str) -> FrameObserver:
        """The observer of a client's queue."""

    def observe_link(self, neighbour: BrokerId, queue: FrameQueue) -> None:
        """Observe the queue of a link."""


class Lines(Struct, eq=False):
    """Frames with consecutive serial numbers. `part` and `place`: where a recorder has listed them last."""

    carried: Carried
    serial: int
    part: int = -1
    place: int = -1


class FrameTag(Struct, eq=False):
    """The recorded frames of a bundle: lines from `first` to `stop`.

    `base` is the place of the bundle's first frame in the bundle that it was cut from; a frame found as many frames
    before it as its place and `shift` say.
    """

    lines: Lines
    first: int
    stop: int
    base: int = 0
    shift: int = 0
    queued_ns: int = 0
    cause: int = NO_CAUSE

    def cut(self, frames: int) -> "FrameTag":
        places = self.lines.carried.frames[self.first : self.stop, PLACE]
        middle = self.first + int(np.searchsorted(places, self.base + frames))
        front = FrameTag(self.lines, self.first, middle, self.base, self.shift, self.queued_ns, self.cause)
        self.first, self.base = middle, self.base + frames
        return front


class NothingTag:
    """The tag of a bundle of which nothing is recorded."""

    __slots__ = ()

    def cut(self, frames: int) -> "NothingTag":
        return self


NOTHING: Final = NothingTag()


class Tagger:
    """Tags bundles with the frames that are recorded. `below` says which notifications are."""

    def __init__(self, clock: Callable[[], int], below: int) -> None:
        self.clock = clock
        self.below = below
        self.serials = 0
        self.causes = [NO_CAUSE]  # the last is that of what is queued now

    def tag_all(self, outcome: Outcome, parcels: bool) -> Sample | None:
        """Tag the bundles that an engine tells about; returns what is chosen, if anything."""
        notes = outcome.notes
        if notes is None:
            return None
        sample, bundles = notes.sample(self.below, parcels), outcome.bundles
        if sample is None:
            for at in range(notes.told):
                bundles[at][2].tag = NOTHING
        elif sample.spans:
            lines, starts = self.lines(sample.carried), sample.starts
            for at, span in enumerate(sample.spans):
                first, stop = starts[span], starts[span + 1]
                bundles[at][2].tag = FrameTag(lines, first, stop) if first < stop else NOTHING
        return sample

    def lines(self, carried: Carried) -> Lines:
        made = Lines(carried, self.serials + 1)
        self.serials += len(carried.frames)
        return made

    def read(self, bundle: Bundle, kinds: Collection[int]) -> FrameTag | NothingTag:
        """The tag of a bundle that was not told about, which has frames of these kinds."""
        names: dict[str, int] = {}
        rows, ids = [], b""
        for place, frame in enumerate(bundle.split()):
            kind, publisher, sequence = frame[4], "", 0
            if kind not in kinds:
                continue
            if kind in CARRIERS:
                publisher, sequence = named_in(frame)
                if not is_chosen(publisher, sequence, self.below):
                    continue
            if kind == Kind.DELIVER:
                ids += frame[9 : 9 + int.from_bytes(frame[5:9], "big")]
            rows.append((place, names.setdefault(publisher, len(names)), sequence, kind, len(ids)))
        if not rows:
            return NOTHING
        frames = np.array(rows, dtype=np.int64).reshape(-1, FRAME_COLUMNS)
        return FrameTag(self.lines(Carried(list(names), frames, ids)), 0, len(rows))


class QueueObserver:
    """Observes a queue, whose frames of these kinds are recorded."""

    __slots__ = ("_kinds", "_tagger")

    def __init__(self, tagger: Tagger, kinds: Collection[int]) -> None:
        self._tagger = tagger
        self._kinds = kinds

    def entered(self, queue: FrameQueue, bundle: Bundle, waited: int) -> None:
        tag = bundle.tag
        if tag is NOTHING:
            return
        if tag is None:
            tag = bundle.tag = self._tagger.read(bundle, self._kinds)
        if type(tag) is FrameTag:
            tag.queued_ns = self._tagger.clock()
            tag.shift = waited - tag.base
            tag.cause = self._tagger.causes[-1]

    def left(self, queue: FrameQueue, bundle: Bundle) -> None:
        if type(bundle.tag) is FrameTag:
            self._left(queue, bundle.tag, self._tagger.clock())

    def returned(self, queue: FrameQueue, bundle: Bundle) -> None:
        if type(bundle.tag) is FrameTag:
            self._returned(bundle.tag)

    def lost(self, queue: FrameQueue, bundle: Bundle) -> None:
        if type(bundle.tag) is FrameTag:
            self._lost(bundle.tag, self._tagger.clock())

    def expired(self, queue: FrameQueue, bundle: Bundle) -> None:
        self.lost(queue, bundle)

    def _left(self, queue: FrameQueue, tag: FrameTag, now_ns: int) -> None:
        """Frames were handed to the socket."""

    def _returned(self, tag: FrameTag) -> None:
        """Frames wait again."""

    def _lost(self, tag: FrameTag, now_ns: int) -> None:
        """Frames will never be sent."""
