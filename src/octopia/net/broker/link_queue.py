"""The frames for one neighbour: its queue, and what happens as the queue fills up.

The queue of a link that is down holds notifications that were never sent, up to the bound; more are dropped and
counted. While the link is up, nothing is dropped: from a mark on, publishers whose notifications go there are asked to
pause until half of it is gone. While the link is connected, the mark keeps the queue short (`marks.py`); while it is
broken, the mark is half of the bound. At the bound, as a last resort, sources of more are not read from, and a broken
link goes down.
"""

from typing import Protocol

from octopia.net.broker.intake import Intake, Member
from octopia.net.broker.marks import Marks
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle, FrameQueue, beyond
from octopia.protocol import AskConfirm, Confirm, LinkNews, Message, Notify, Waits
from octopia.wire import COPIES, Hold


class LinkOwner(Member, Protocol):
    """The state of a link, as far as its queue depends on it."""

    channel: Channel | None
    is_up: bool
    keeps_all: bool  # while it is not connected

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing may wait for the neighbour: all brokers know that it is down, or are about to."""

    def wait_no_longer(self) -> None:
        """The link is broken, and its queue has no room left to wait."""


class LinkQueue:
    """The frames for one neighbour."""

    __slots__ = ("_asks", "_intake", "_link", "_mark", "_marks", "_names", "_repeats", "dropped", "frames")

    def __init__(self, link: LinkOwner, frames: FrameQueue, intake: Intake, *, repeats: bool) -> None:
        """`repeats`: whether the broker that notifications came from resends those that a broken link held."""
        self._link = link
        self.frames = frames
        self._intake = intake
        self._repeats = repeats
        self._marks = Marks(frames.frames_max, frames.bytes_max)
        self._mark: tuple[int, int] | None = None  # frames and bytes; None: no publisher is asked to pause
        self._asks = False  # whether publishers that send there are asked to pause
        self._names = False  # whether the neighbour named publishers to pause
        self.dropped = 0

    # -- frames come

    def send(self, message: Message, frames: list[bytes], priority: int, source: Channel | None) -> bool:
        """Queue a message of the core, already encoded; returns whether it changes tables."""
        if isinstance(message, Notify):
            for frame in frames:
                self.put(Bundle(frame), priority, source)
            return False
        queue = self.frames
        put = queue.put if isinstance(message, Confirm | AskConfirm | Waits) else queue.put_fence
        for frame in frames:
            put(frame)
        if queue.is_full:
            self._overflow(Bundle(frames[-1]), source)
        return not isinstance(message, Confirm | AskConfirm | LinkNews)

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Queue notifications that came by this connection."""
        if self._link.is_forgotten:
            return
        if self.frames.has_room(bundle.frames, len(bundle.data)):
            self.frames.put_bundle(bundle, lane)
        else:
            self._put_slowly(bundle, lane, source)

    def _put_slowly(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Like `put`, for when the mark would be reached or is 0: as if notifications were put one by one."""
        queue = self.frames
        mark = self._mark or (queue.frames_max, queue.bytes_max)
        named = bundle.split() if self._names else []
        unwanted: list[bytes] = []
        rest = queue.put_below(bundle, *mark, lane)
        while rest is not None:
            alone = rest.frames > 1 and queue.may_write
            some = rest.cut(1) if alone else rest
            rest = rest if alone else None
            queue.put_bundle(some, lane)
            if queue.is_full:
                self._overflow(some, source)
            if self._is_over_mark():
                unwanted += beyond(queue, *mark, some.split())
            if rest is not None:
                rest = queue.put_below(rest, *mark, lane)
        if unwanted:
            self._intake.went_in(self._link, unwanted, source)
        if named:
            self._intake.passed_on(self._link, named, source)

    def _overflow(self, last: Bundle, source: Channel | None) -> None:
        link, queue = self._link, self.frames
        if link.channel is not None or link.keeps_all:
            self._intake.hold_back(queue, source, clients_only=self._repeats)
        elif link.is_up:
            # Broken, and there is no room left to wait: anything that follows would have a gap.
            link.wait_no_longer()
        else:
            self.dropped += queue.drop_newest(last, queue.frames_max, queue.bytes_max, told=False)

    # -- marks, and publishers that pause

    def neighbour_said(self, hold: Hold) -> None:
        """The neighbour pauses or resumes some publishers."""
        self._names = self._intake.neighbour_said(self._link, hold)
        self.set_mark()

    def _is_over_mark(self) -> bool:
        """Whether the publishers of notifications for this link are to pause."""
        mark, queue = self._mark, self.frames
        if mark is None or not queue.reaches(*mark):
            return False
        if not self._asks:
            self._asks = True
            self._intake.fills(self._link)
            queue.when_low(mark[0] // 2, mark[1] // 2, self.stop_asking)
        return True

    def stop_asking(self) -> None:
        if self._asks:
            self._asks = False
            self.frames.never_mind()
            self._intake.has_room(self._link)

    def set_mark(self) -> None:
        """Frames are checked from the mark on, or always if the neighbour has named publishers."""
        link, queue = self._link, self.frames
        if link.channel is not None:
            self._mark = self._marks.frames, self._marks.bytes
        else:
            half = queue.frames_max // 2, queue.bytes_max // 2
            self._mark = half if link.is_up or link.keeps_all else None
        if self._names:
            queue.mark_frames = queue.mark_bytes = 0
        else:
            queue.mark_frames, queue.mark_bytes = self._mark or (queue.frames_max, queue.bytes_max)

    def check_marks(self, now: float) -> None:
        """Set the mark by the pace at which the neighbour takes frames."""
        queue = self.frames
        self._marks.check(queue.confirmed, queue.confirmed_bytes, now, bool(queue.waits))
        self.set_mark()

    def connection_lost(self) -> None:
        """Pauses end with the connection, ours and the neighbour's."""
        self.stop_asking()
        self._intake.gone(self._link)
        self._names = False
        self.set_mark()

    # -- when frames are given up

    def shed(self, memory_bytes: int) -> int:
        """Drop notifications for a link that is down, oldest first, down to this much memory; returns their number."""
        if self._link.is_up:
            return 0
        dropped = self.frames.shed(memory_bytes, is_notification)
        self.dropped += dropped
        return dropped

    def keep_notifications(self, keeps: bool) -> None:
        """The link went down: only notifications that were never sent may still be sent, if at all."""
        self.dropped += self.frames.keep_unsent(is_notification if keeps else _is_none)

    def clear(self) -> None:
        self.dropped += self.frames.clear()


def is_notification(frame: bytes | memoryview) -> bool:
    return frame[4] in COPIES


def _is_none(frame: bytes | memoryview) -> bool:
    return False
