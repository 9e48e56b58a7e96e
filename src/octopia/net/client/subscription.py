"""A subscription of a live client, as an asynchronous iterator of notifications.

Rules of this file: what arrives waits in an inbox of bounded length; when it is full the client stops reading, so that
the broker's queue, and then the subscription's policy, take over. An inbox is read by one task at a time. The end of
the client ends the iteration: quietly where it was closed, with the reason where it was not.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from octopia.errors import OctopiaError
from octopia.language import Filter, Notification
from octopia.wire import Delivery

if TYPE_CHECKING:
    from octopia.net.channel import Channel
    from octopia.net.client.client import Client
    from octopia.net.outbox import Source

BATCH_MAX = 1024


class Subscription:
    """`async with client.subscribe(filter) as s: async for notification in s`."""

    def __init__(self, client: "Client", id: str, filter: Filter, policy: str, ordered: bool, inbox_max: int) -> None:
        self.id = id
        self.filter = filter
        self.policy = policy
        self.ordered = ordered
        self.dropped = 0
        self._client = client
        self._inbox: deque[Delivery] = deque()
        self._inbox_max = inbox_max
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: OctopiaError | None = None
        self._channel: Channel | None = None  # that is not read from until there is room here

    # -- what the client calls

    def take_in(self, delivery: Delivery, channel: "Channel") -> None:
        """Keep a delivery that came by this channel. Where the inbox is full now the channel is read from no more."""
        self._inbox.append(delivery)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if len(self._inbox) >= self._inbox_max:
            self._channel = channel
            channel.hold(self)

    def leave_channel(self) -> None:
        """Whether there is room here does not matter any more."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.release(self)

    def forget(self, source: "Source") -> None:
        """The channel is gone."""
        self._channel = None

    def end(self, error: OctopiaError | None = None) -> None:
        """Nothing more will come."""
        self._ended = True
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._waiter = None

    @property
    def error(self) -> OctopiaError | None:
        """Why nothing more will come, where that is not because it was closed."""
        return self._error

    # -- what the user calls

    async def __aenter__(self) -> Self:
        await self._client.start_subscription(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Withdraw the subscription; again does nothing."""
        if not self._ended:
            self.end()
            await self._client.stop_subscription(self)

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self._notifications()

    async def _notifications(self) -> AsyncIterator[Notification]:
        async for batch in self.batches():
            for delivery in batch:
                yield delivery.notification

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """As iterating the subscription, with publisher, id and matching subscriptions of each."""
        async for batch in self.batches():
            for delivery in batch:
                yield delivery

    async def batches(self, batch_max: int = BATCH_MAX) -> AsyncIterator[list[Delivery]]:
        """What has come, in lists: waits for the first, then gives all that are there."""
        while True:
            batch = await self.next_batch(batch_max)
            if not batch:
                return
            yield batch

    async def next_batch(self, batch_max: int = BATCH_MAX) -> list[Delivery]:
        """What has come, at least one; an empty list when nothing more will come."""
        while not self._inbox:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return []
            if self._waiter is None or self._waiter.done():
                self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        inbox = self._inbox
        if len(inbox) <= batch_max:
            batch = list(inbox)
            inbox.clear()
        else:
            batch = [inbox.popleft() for _ in range(batch_max)]
        if self._channel is not None and len(inbox) < self._inbox_max:
            self.leave_channel()
        return batch

    async def next(self) -> Notification:
        """The next notification; `StopAsyncIteration` when nothing more will come."""
        batch = await self.next_batch(1)
        if not batch:
            raise StopAsyncIteration
        return batch[0].notification
