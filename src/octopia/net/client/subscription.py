"""A subscription of a live client, as an asynchronous iterator of notifications, or of Arrow record batches.

Deliveries wait in an inbox of bounded length. When it is full, the client stops reading, so that the broker's queue and
then the subscription's policy take over. One task at a time reads an inbox. When the client ends, so does the
iteration: quietly if it was closed, with the reason if it failed.

An inbox holds the deliveries of each read together, decoded or, once a program has asked for record batches, as bytes.
Its bound counts notifications. An object for a notification is made when its turn comes.
"""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from octopia.errors import InputError, OctopiaError
from octopia.language import Filter, Notification
from octopia.net.channel import Channel
from octopia.net.frame_queue import Source
from octopia.wire import Deliveries, Delivery, batch_maker, deliveries_can_join, load_kernels, loading_pays

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_MAX = 1024
ROWS_MAX = 8192
_NO_MAX = sys.maxsize


class Quality(NamedTuple):
    """A subscription's quality of service; None: the setting of the broker's cluster."""

    policy: str | None = None
    ordered: bool = True
    priority: int | None = None
    deadline_ms: int | None = None


class Registrar(Protocol):
    """The part of a client that registers subscriptions."""

    async def subscribe(self, subscription: "Subscription") -> None:
        """Register it; returns when it is in force everywhere."""

    async def unsubscribe(self, subscription: "Subscription", *, drain: bool = False) -> None:
        """Withdraw it; with `drain`, it takes deliveries until the broker has answered."""


class Subscription:
    """`async with client.subscribe(filter) as s: async for notification in s`."""

    def __init__(self, registrar: Registrar, id: str, filter: Filter, quality: Quality, inbox_max: int) -> None:
        self.id = id
        self.filter = filter
        self.quality = quality
        self.dropped = 0  # deliveries to the client that its broker dropped because its queue was full
        self.gaps = 0  # sessions that ended while it was in force: it may have missed notifications each time
        self._registrar = registrar
        self._inbox: deque[Deliveries] = deque()
        self.waiting = 0  # notifications in the inbox
        self.joins = False  # whether deliveries may come joined, as bytes
        self._inbox_max = inbox_max
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._drains = False  # withdrawn, and still taking what is on its way
        self.error: OctopiaError | None = None  # why it ended, unless it was closed
        self._channel: Channel | None = None  # not read from until there is room here

    # -- called by the client

    def take_in(self, deliveries: Deliveries, channel: Channel) -> None:
        """Store deliveries from this channel. If the inbox is now full, the channel is no longer read from."""
        self._inbox.append(deliveries)
        self.waiting += len(deliveries)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if self.waiting >= self._inbox_max:
            self._channel = channel
            channel.hold(self)

    def leave_channel(self) -> None:
        """Release the channel, whatever room there is here."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.release(self)

    def forget(self, source: Source) -> None:
        """The channel is gone."""
        self._channel = None

    def end(self, error: OctopiaError | None = None) -> None:
        """End the subscription: no more deliveries will arrive."""
        self._ended = True
        self.error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._waiter = None

    # -- called by the user

    async def __aenter__(self) -> Self:
        await self._registrar.subscribe(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, drain: bool = False) -> None:
        """Withdraw the subscription. Closing again does nothing.

        Deliveries that arrive later are dropped. With `drain`, those that arrive before the broker's answer are kept,
        as many as the broker had queued, even if that is more than `inbox_max`; the iteration ends after them.
        """
        if self._ended:
            return
        if self._drains:
            if not drain:
                self.end()
            return
        if drain:
            self._drains, self._inbox_max = True, _NO_MAX
            self.leave_channel()
            try:
                await self._registrar.unsubscribe(self, drain=True)
            finally:
                self.end()
        else:
            self.end()
            await self._registrar.unsubscribe(self)

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._notifications()

    async def _notifications(self) -> AsyncIterator[Notification]:
        while chunks := await self.next_chunks():
            for chunk in chunks:
                for notification in chunk.notifications():
                    yield notification

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Iterate over deliveries: notifications with publisher, id and matching subscriptions."""
        async for batch in self.lists():
            for delivery in batch:
                yield delivery

    async def lists(self, count_max: int = BATCH_MAX) -> AsyncIterator[list[Delivery]]:
        """Iterate over lists of deliveries: wait for the first, then take all that have arrived."""
        while batch := await self.next_batch(count_max):
            yield batch

    async def batches(
        self,
        schema: "pa.Schema | None" = None,
        *,
        rows_max: int = ROWS_MAX,
        within_s: float = 0.0,
        metadata: bool = False,
        unfit: str = "error",
    ) -> "AsyncIterator[pa.RecordBatch]":
        """Iterate over Arrow record batches: a row for each notification, a column for each attribute.

        schema     the columns; without one, each batch has the attributes and types that occur in it
        rows_max   maximum number of rows in a batch
        within_s   how long to wait for more rows after the first; 0: only those that have arrived
        metadata   whether to add `_publisher` and `_id` as the first columns
        unfit      for a value that does not fit the schema: "error" raises and keeps the deliveries, "null" stores null

        An attribute that a notification lacks is null.
        """
        if rows_max < 1 or within_s < 0:
            raise InputError(
                f"rows_max is {rows_max} and within_s {within_s:g}: at least 1, and at least 0, are needed"
            )
        maker = batch_maker(schema, metadata=metadata, unfit=unfit)
        rows = 0
        while True:
            # Before anything is taken: a caller that is cancelled here loses nothing.
            if not self.joins:
                if loading_pays(rows):
                    await asyncio.to_thread(load_kernels)
                self.joins = deliveries_can_join()
            chunks = await self.next_chunks(rows_max, within_s)
            if not chunks:
                return
            try:
                batch = maker.batch(chunks)
            except InputError:
                self._inbox.extendleft(reversed(chunks))
                self.waiting += sum(map(len, chunks))
                raise
            rows = len(batch)
            yield batch

    async def next_batch(self, count_max: int = BATCH_MAX) -> list[Delivery]:
        """The deliveries that have arrived, at least one; an empty list once the subscription has ended."""
        found: list[Delivery] = []
        for chunk in await self.next_chunks(count_max):
            found += chunk.decoded()
        return found

    async def next_chunks(self, count_max: int = BATCH_MAX, within_s: float = 0.0) -> list[Deliveries]:
        """At least one and at most `count_max` deliveries that have arrived; none after the end."""
        while not self.waiting:
            if self._ended:
                if self.error is not None:
                    raise self.error
                return []
            await self._wait()
        if within_s:
            await self._wait_for(min(count_max, self._inbox_max), within_s)
        taken = self._take(count_max)
        if self._channel is not None and self.waiting < self._inbox_max:
            self.leave_channel()
        return taken

    async def _wait(self) -> None:
        """Wait for a delivery or the end."""
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def _wait_for(self, count: int, within_s: float) -> None:
        """Wait until `count` notifications have arrived or the time is up."""
        try:
            async with asyncio.timeout(within_s):
                while self.waiting < count and not self._ended:
                    await self._wait()
        except TimeoutError:
            pass

    def _take(self, count_max: int) -> list[Deliveries]:
        inbox = self._inbox
        if self.waiting <= count_max:
            taken = list(inbox)
            inbox.clear()
            self.waiting = 0
            return taken
        taken, left = [], count_max
        while left:
            chunk = inbox.popleft()
            if len(chunk) > left:
                chunk, rest = chunk.cut(left)
                inbox.appendleft(rest)
            taken.append(chunk)
            left -= len(chunk)
        self.waiting -= count_max
        return taken

    async def next(self) -> Notification:
        """The next notification; raises `StopAsyncIteration` once the subscription has ended."""
        for chunk in await self.next_chunks(1):
            return next(chunk.notifications())
        raise StopAsyncIteration
