"""Turn a program's notifications into entries of the journal.

A notification that is invalid, not advertised or too long is refused here, before it gets a number. One that gets a
number enters the journal in the same call, so numbers and entries have the same order, however many tasks publish.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from octopia.errors import InputError, RefusedError
from octopia.language import Notification, NotificationLike, parse_notification, why_not_conforms
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.registry import Registry
from octopia.wire import (
    PARCEL_AROUND_BYTES,
    DictFrames,
    PublishRows,
    PublishTerms,
    check_parcel,
    encode_parcel,
    publish_frame,
)


class Publishing:
    """The publications of one client."""

    def __init__(self, journal: Journal, registry: Registry, life: Life, first_id: int) -> None:
        self.name = ""
        self.last_id = first_id - 1
        self._journal = journal
        self._queue = journal.queue
        self._promises = registry.promises
        self._registry = registry
        self._life = life
        self._promised: tuple[Any, ...] = ()  # of the next entry
        self._dicts = DictFrames((), journal.frame_bytes_max)

    async def wait_until_ready(self) -> None:
        """Wait for room in the journal. Raises if the client cannot publish, or reports an earlier refusal."""
        while True:
            self._life.check()
            if self._journal.has_room:
                return
            await self._journal.wait_for_room()

    def put(self, notification: NotificationLike, traced: bool) -> None:
        """Number it and put it into the journal. Call only when ready, and `note_full` afterwards, once for many."""
        frame = self._frame(notification, traced)
        self.last_id += 1
        self._journal.put(frame)

    def put_some(self, notifications: Iterator[NotificationLike], most: int) -> int:
        """Like `put`, for the next `most` of these; returns their number. Those before an invalid one are put."""
        frames: list[bytes] = []
        dicts, name = self._dict_frames(), self.name
        try:
            for notification in islice(notifications, most):
                frame = dicts.frame(notification, name, self.last_id + 1) if type(notification) is dict else None
                if frame is None:
                    frame = self._frame(notification, False)
                self.last_id += 1
                frames.append(frame)
        finally:
            self._journal.put_many(b"".join(frames), len(frames))
        return len(frames)

    def _dict_frames(self) -> DictFrames:
        """The encoder for dicts of the same shape as earlier ones."""
        promised = (*self._promises.values(), self._journal.frame_bytes_max)
        if promised != self._promised:
            self._promised = promised
            self._dicts = DictFrames(tuple(self._registry.advertisements.values()), self._journal.frame_bytes_max)
        return self._dicts

    def _frame(self, notification: NotificationLike, traced: bool) -> bytes:
        id = self.last_id + 1
        seen: Notification
        if type(notification) is dict:
            dicts = self._dict_frames()
            frame = dicts.frame(notification, self.name, id) or dicts.frame_of_another(notification, self.name, id)
            if frame is not None and not traced:
                return frame
            parcel, seen = check_parcel(notification, self.name, id)
        else:
            seen = parse_notification(notification)
            parcel = encode_parcel(seen, self.name, id)
        for promise in self._promises.values():
            if promise.holds(seen):
                break
        else:
            raise RefusedError(self._why_not(seen))
        journal = self._journal
        if len(parcel) + PARCEL_AROUND_BYTES > journal.frame_bytes_max:
            most = journal.frame_bytes_max - PARCEL_AROUND_BYTES
            raise InputError(f"the notification is {len(parcel):,} bytes, at most {most:,} travel")
        if type(notification) is dict:
            self._dicts.learn(notification)
        return publish_frame(parcel, traced=traced)

    def put_rows(self, rows: PublishRows, start: int) -> int:
        """Number rows of a record batch from `start` on and put them into the journal; returns their number.

        Like `put`, for a bounded number of rows. If a row cannot be published, those before it are put first.
        """
        registry = self._registry
        terms = PublishTerms(
            tuple(registry.advertisements.values()),
            tuple(self._promises.values()),
            self._journal.frame_bytes_max,
            self._why_not,
        )
        data, frames, error = rows.slab(start, self.name, self.last_id + 1, terms)
        self.last_id += frames
        self._journal.put_many(data, frames)
        if error is not None:
            raise error
        return frames

    def note_full(self) -> None:
        """Check whether the journal is full now."""
        if self._queue.is_full:
            self._queue.block(self._journal)

    def _why_not(self, notification: Notification) -> str:
        if not self._registry.advertisements:
            return f"{self.name} has no advertisement; advertise before you publish"
        id, filter = next(iter(self._registry.advertisements.items()))
        return f"{self.name} did not advertise this: advertisement {id!r}: {why_not_conforms(notification, filter)}"
