"""`octopia.connect_sync`: the client for code without asyncio.

    with octopia.connect_sync("octopia://127.0.0.1:7400") as client:
        client.advertise("price > 0")
        client.publish({"price": 120})
        with client.subscribe("price > 100") as quotes:
            for quote in quotes:
                ...

The asynchronous client runs in a separate thread; these methods hand over and wait. Publishing does not wait for that
thread: notifications are collected and handed over in batches, so that a loop of `publish` is fast. A refusal is raised
by a later call, at the latest by `flush` or on exit. Notifications handed over but not published count as undelivered
in `close`. Iterating takes all deliveries that have arrived at once. Several threads may use a client; one at a time
may read a subscription.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from octopia.errors import OctopiaError, RefusedError, UndeliveredError
from octopia.language import FilterLike, Notification, NotificationLike
from octopia.net.client.client import CLOSE_S, FLUSH_S, INBOX_MAX, Client, ClientOptions
from octopia.net.client.subscription import BATCH_MAX, ROWS_MAX, Subscription
from octopia.wire import Delivery

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
# The most notifications waiting for the other thread; beyond that, `publish` waits.
HANDOVER_MAX = 10_000


class SyncClient:
    """A connection to a broker that reconnects by itself. Created by `connect_sync`."""

    def __init__(self, url: str | Sequence[str], **options: Unpack[ClientOptions]) -> None:
        """See `Client` for the options."""
        self._client = Client(url, **options)
        self._close_s = options.get("close_s", CLOSE_S)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="octopia client", daemon=True)
        self._handover: deque[NotificationLike] = deque()
        self._room = threading.Semaphore(HANDOVER_MAX)
        self._wake = threading.Lock()
        self._publishing: asyncio.Task[None] | None = None
        self._scheduled = False
        self._error: BaseException | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def broker(self) -> str:
        return self._client.broker

    @property
    def moves(self) -> int:
        return self._client.moves

    @property
    def dropped(self) -> int:
        return self._client.dropped

    @property
    def gaps(self) -> int:
        return self._client.gaps

    @property
    def too_old(self) -> int:
        return self._client.too_old

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OctopiaError as at_the_end:
            if error is None:
                raise
            error.add_note(f"and then: {at_the_end}")

    def open(self) -> None:
        """Connect; raises `UnreachableError` or `RefusedError` on failure."""
        self._thread.start()
        try:
            self.wait(self._client.open())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Leave the overlay after delivering everything published; `UndeliveredError` has the number that failed.

        Tries for `close_s`, reconnecting if needed. Closing again does nothing.
        """
        if self._closed:
            return
        if not self._thread.is_alive():
            self._closed = True
            self._loop.close()
            return
        try:
            self.wait(self._close())
        finally:
            self._stop()
        self._raise_error()

    async def _close(self) -> None:
        until_s = self._loop.time() + self._close_s
        try:
            async with asyncio.timeout_at(until_s):
                await self._drain()
        except TimeoutError:
            pass
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
        left = len(self._handover)
        try:
            await self._client.close(max(until_s - self._loop.time(), 0))
        except UndeliveredError as error:
            raise UndeliveredError(error.count + left, error.why) from None
        if left:
            raise UndeliveredError(left, str(self._client.failure or "the client's queue was full"))

    def _stop(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- requests

    def advertise(self, filter: FilterLike, *, id: str | None = None) -> str:
        """Announce notifications to be published; returns the advertisement's id once it is in force everywhere."""
        return self.wait(self._client.advertise(filter, id=id))

    def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement, after everything published so far."""
        self.wait(self._drain())
        self.wait(self._client.unadvertise(id))

    def subscribe(
        self,
        filter: FilterLike,
        *,
        id: str | None = None,
        policy: str | None = None,
        ordered: bool = True,
        priority: int | None = None,
        deadline_ms: int | None = None,
        inbox_max: int = INBOX_MAX,
    ) -> "SyncSubscription":
        """Create a subscription; enter it with `with`. See `Client.subscribe` for the options."""

        async def make() -> Subscription:
            return self._client.subscribe(
                filter,
                id=id,
                policy=policy,
                ordered=ordered,
                priority=priority,
                deadline_ms=deadline_ms,
                inbox_max=inbox_max,
            )

        return SyncSubscription(self, self.wait(make()))

    def overlapping(self, filter: FilterLike) -> int | None:
        """Count the advertisements that overlap a filter; None: unknown. See `Client.overlapping`."""
        return self.wait(self._client.overlapping(filter))

    # -- publishing

    def publish(self, notification: NotificationLike) -> None:
        """Publish a notification. Blocks only when the queue is full; a later call raises any error."""
        self._raise_error()
        if (reason := self._why_not_open()) is not None:
            raise OctopiaError(reason)
        if self._client.failure is not None:
            raise self._client.failure
        self._room.acquire()
        self._handover.append(notification)
        with self._wake:
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon_threadsafe(self._start_publishing)

    def publish_many(self, notifications: Iterable[NotificationLike]) -> int:
        """Publish notifications in order and return their number."""
        count = 0
        for notification in notifications:
            self.publish(notification)
            count += 1
        return count

    def publish_batch(self, data: "pa.RecordBatch | pa.Table") -> int:
        """Publish every row of an Arrow batch or table, after everything published before, and return their number.

        Returns when all rows are in the client's queue. An invalid row raises at once.
        """
        self.wait(self._drain())
        self._raise_error()
        return self.wait(self._client.publish_batch(data))

    def flush(self, *, hosts: bool = False, timeout: float = FLUSH_S) -> None:
        """Wait until the broker has routed everything published so far; with `hosts`, until it has arrived.

        See `Client.flush` for the options.
        """
        self.wait(self._drain())
        self._raise_error()
        self.wait(self._client.flush(hosts=hosts, timeout=timeout))

    def _start_publishing(self) -> None:
        if self._publishing is None or self._publishing.done():
            self._publishing = self._loop.create_task(self._publish_handover())

    async def _publish_handover(self) -> None:
        while True:
            with self._wake:
                if not self._handover or self._client.failure is not None:
                    self._scheduled = False
                    return
            await self._publish_some()

    async def _publish_some(self) -> None:
        """Publish the waiting notifications; an invalid one is noted and does not stop the others."""
        handover, publish = self._handover, self._publish_one
        while handover:
            count = 0
            try:
                for _ in range(min(len(handover), 256)):
                    # Removed only once published: until then it counts as undelivered.
                    await publish(handover[0])
                    handover.popleft()
                    count += 1
            except (OctopiaError, TypeError) as error:
                self._error = self._error or error
                if self._client.failure is None:
                    handover.popleft()
                    count += 1
            finally:
                if count:
                    self._room.release(count)
            if self._client.failure is not None:
                # Nothing more will be published. The rest is counted when the client is closed.
                self._room.release(HANDOVER_MAX)
                return
            await asyncio.sleep(0)

    async def _publish_one(self, notification: NotificationLike) -> None:
        try:
            await self._client.publish(notification)
        except RefusedError as error:
            # The refusal may be of an earlier one, with this one still to be published. If not, it is refused again.
            self._error = self._error or error
            await self._client.publish(notification)

    async def _drain(self) -> None:
        while self._scheduled:
            task = self._publishing
            if task is not None and not task.done():
                await task
            else:
                await asyncio.sleep(0)

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _why_not_open(self) -> str | None:
        if self._closed:
            return "the client is closed; connect a new one"
        return None if self._thread.is_alive() else "the client is not connected; open it first"

    def wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the client's thread and wait for its result."""
        if (reason := self._why_not_open()) is not None:
            coroutine.close()
            raise OctopiaError(reason)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class SyncSubscription:
    """`with client.subscribe(filter) as s: for notification in s`."""

    def __init__(self, client: SyncClient, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription

    @property
    def id(self) -> str:
        return self._subscription.id

    @property
    def dropped(self) -> int:
        return self._subscription.dropped

    @property
    def gaps(self) -> int:
        return self._subscription.gaps

    def __enter__(self) -> Self:
        self._client.wait(self._subscription.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, *, drain: bool = False) -> None:
        """Withdraw the subscription. With `drain`, deliveries that are on their way are kept, and can still be read."""
        self._client.wait(self._subscription.close(drain=drain))

    def __iter__(self) -> Iterator[Notification]:
        while chunks := self._client.wait(self._subscription.next_chunks()):
            for chunk in chunks:
                yield from chunk.notifications()

    def lists(self, count_max: int = BATCH_MAX) -> Iterator[list[Delivery]]:
        """Iterate over lists of deliveries: wait for the first, then take all that have arrived."""
        while batch := self.next_batch(count_max):
            yield batch

    def batches(
        self,
        schema: "pa.Schema | None" = None,
        *,
        rows_max: int = ROWS_MAX,
        within_s: float = 0.0,
        metadata: bool = False,
        unfit: str = "error",
    ) -> "Iterator[pa.RecordBatch]":
        """Iterate over Arrow record batches; see `Subscription.batches` for the options."""
        batches = self._subscription.batches(
            schema, rows_max=rows_max, within_s=within_s, metadata=metadata, unfit=unfit
        )

        async def following() -> "pa.RecordBatch | None":
            return await anext(batches, None)

        while (batch := self._client.wait(following())) is not None:
            yield batch

    def next_batch(self, batch_max: int = BATCH_MAX, timeout_s: float | None = None) -> list[Delivery]:
        """The deliveries that have arrived, at least one; an empty list at the end or after the timeout."""

        async def within() -> list[Delivery]:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._subscription.next_batch(batch_max)
            except TimeoutError:
                return []

        return self._client.wait(within())


def connect_sync(url: str | Sequence[str], **options: Unpack[ClientOptions]) -> SyncClient:
    """Create a client for the broker at `url`; enter it with `with`. See `octopia.net.Client` for the options."""
    return SyncClient(url, **options)
