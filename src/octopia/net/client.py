"""`octopia.connect`: a client of a live overlay, for asyncio.

    async with octopia.connect("octopia://127.0.0.1:7400") as client:
        await client.advertise("symbol is not null and price > 0")
        await client.publish({"symbol": "AAPL", "price": 120})
        async with client.subscribe("price > 100") as quotes:
            async for quote in quotes:
                ...

Rules of this file: what returned has happened: an advertisement and a subscription are in force in the whole overlay,
a publication is queued here and will be sent, whatever happens to the connection, which mends itself (`reconnect.py`).
A notification that was not advertised is refused here, before it is sent. A full queue makes `publish` wait.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from octopia.errors import InputError, OctopiaError, RefusedError
from octopia.language import (
    Conformity,
    Filter,
    FilterLike,
    Notification,
    NotificationLike,
    parse_filter,
    parse_notification,
    why_not_conforms,
)
from octopia.net.outbox import Outbox
from octopia.net.reconnect import Reconnecting
from octopia.net.subscription import Subscription
from octopia.wire import (
    POLICIES,
    POLICY_DEFAULT,
    Accepted,
    Delivery,
    Dropped,
    Ping,
    Pong,
    Refused,
    WireNotification,
    advertise_frame,
    check_parcel,
    encode_parcel,
    message_frame,
    publish_frame,
    subscribe_frame,
    unadvertise_frame,
    unsubscribe_frame,
)

INBOX_MAX = 10_000
# How many notifications `publish_many` queues before the event loop has its turn.
PUBLISH_BATCH = 256


class Client(Reconnecting):
    """A connection to a broker that mends itself. Made by `connect`."""

    def __init__(self, url: str | Sequence[str], **options: Any) -> None:
        """`url`: of a broker, or of several, in a list or with commas between, of which the first that answers is used.

        Options are those of `Reconnecting`: name, token, tls, session_s, connect_s, reconnect.
        """
        super().__init__(url, **options)
        self.dropped = 0
        self._sequence = 0
        self._ids = {"a": 0, "s": 0}
        self._promised: dict[str, Conformity] = {}  # by advertisement
        self._held_inboxes: dict[str, None] = {}
        self._refusal: RefusedError | None = None

    # -- messages

    def take_in(self, messages: list[Any]) -> None:
        """What one read brought."""
        subscriptions = self._subscriptions
        for message in messages:
            kind = type(message)
            if kind is Delivery:
                for id in message.subscriptions:
                    subscription = subscriptions.get(id)
                    if subscription is not None and subscription.take_in(message):
                        self._hold_inbox(id)
            elif kind is Accepted:
                self._answer(message.request, message.id, None)
            elif kind is Refused:
                self._answer(message.request, message.id, RefusedError(message.reason))
            elif kind is Pong:
                future = self._flushes.pop(message.number, None)
                if future is not None and not future.done():
                    future.set_result(None)
            elif kind is Dropped:
                self.dropped += message.count
                for subscription in subscriptions.values():
                    subscription.dropped += message.count

    def _answer(self, request: str, id: str, error: RefusedError | None) -> None:
        if request == "publish" and error is not None:
            self._refusal = error
            return
        self._registered(request, id)
        future = self._requests.pop((request, id), None)
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        elif error is not None and request == "subscribe" and id in self._subscriptions:
            self._subscriptions.pop(id).end(error)

    def _hold_inbox(self, id: str) -> None:
        if not self._held_inboxes and self._protocol is not None:
            self._protocol.transport.pause_reading()
        self._held_inboxes[id] = None

    def room_in(self, subscription: Subscription) -> None:
        """An inbox was emptied."""
        if subscription.id in self._held_inboxes and not subscription.is_full:
            del self._held_inboxes[subscription.id]
            if not self._held_inboxes and self._protocol is not None:
                self._protocol.transport.resume_reading()

    # -- requests

    async def advertise(self, filter: FilterLike, *, id: str | None = None) -> str:
        """Announce what will be published; returns the id to withdraw it by, when it is in force everywhere."""
        parsed = parse_filter(filter)
        id = self._new_id("a", self._advertisements) if id is None else id
        frame = self._fits(advertise_frame(id, parsed), "the advertisement")
        before = self._advertisements.get(id)
        self._promise(id, parsed)
        try:
            await self._request("advertise", id, frame)
        except RefusedError:
            self._promise(id, before)
            raise
        return id

    def _promise(self, id: str, filter: Filter | None) -> None:
        if filter is None:
            self._advertisements.pop(id, None)
            self._promised.pop(id, None)
        else:
            self._advertisements[id] = filter
            self._promised[id] = Conformity(filter)

    async def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement; one that is not in force does no harm."""
        self._promise(id, None)
        await self._request("unadvertise", id, unadvertise_frame(id))

    def subscribe(
        self,
        filter: FilterLike,
        *,
        id: str | None = None,
        policy: str = POLICY_DEFAULT,
        ordered: bool = True,
        inbox_max: int = INBOX_MAX,
    ) -> Subscription:
        """A subscription, to be entered with `async with`. `policy`: what happens when its queue is full."""
        if policy not in POLICIES:
            raise InputError(f"unknown policy {policy!r}; there are {', '.join(POLICIES)}")
        parsed = parse_filter(filter)
        id = self._new_id("s", self._subscriptions) if id is None else id
        if id in self._subscriptions:
            raise InputError(f"subscription id {id!r} is in use")
        return Subscription(self, id, parsed, policy, ordered, inbox_max)

    async def start_subscription(self, subscription: Subscription) -> None:
        id = subscription.id
        frame = subscribe_frame(id, subscription.filter, subscription.policy, subscription.ordered)
        self._fits(frame, "the subscription")
        self._subscriptions[id] = subscription
        try:
            await self._request("subscribe", id, frame)
        except OctopiaError:
            self._subscriptions.pop(id, None)
            raise

    async def stop_subscription(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription.id, None)
        self._held_inboxes.setdefault(subscription.id)
        self.room_in(subscription)
        if self._failure is None and not self._closing:
            await self._request("unsubscribe", subscription.id, unsubscribe_frame(subscription.id))

    async def _request(self, request: str, id: str, frame: bytes) -> None:
        self._check_alive()
        future: asyncio.Future[None] = self._loop.create_future()
        self._requests[request, id] = future
        # While registering anew the request is in the registry, and would go twice.
        if (request, id) not in self._registering:
            self.box.put(frame)
        await future

    # -- publishing

    async def publish(self, notification: NotificationLike, *, traced: bool = False) -> str:
        """Publish; returns the notification's id. Waits while the queue is full."""
        if not self._can_publish.is_set():
            await self._can_publish.wait()
        self._check_alive()
        self.box.put(self._publication(notification, traced))
        if self.box.is_full:
            self.box.block(self)
        return str(self._sequence)

    async def publish_many(self, notifications: Iterable[NotificationLike]) -> int:
        """Publish one after the other; returns how many. The fastest way to publish."""
        count = 0
        put, publication = self.box.put, self._publication
        for notification in notifications:
            if count % PUBLISH_BATCH == 0:
                if not self._can_publish.is_set():
                    await self._can_publish.wait()
                self._check_alive()
                await asyncio.sleep(0)
            put(publication(notification, False))
            count += 1
            if count % PUBLISH_BATCH == 0 and self.box.is_full:
                self.box.block(self)
        if self.box.is_full:
            self.box.block(self)
        return count

    async def flush(self) -> None:
        """Wait until the broker has routed everything published so far. Raises what it refused."""
        self._check_alive()
        if not self._can_publish.is_set():
            await self._can_publish.wait()
        number = max(self._flushes, default=self._sequence) + 1
        self._flushes[number] = future = self._loop.create_future()
        self._ping(number)
        await future
        self._check_alive()

    def _ping(self, number: int) -> None:
        self.box.flush()
        if self.box.waiting:
            # The socket is full: ask again when there is room. The answer must come after what is still here.
            self._loop.call_later(0.005, self._ping, number)
        elif self._protocol is not None and number in self._flushes:
            self._protocol.transport.write(message_frame(Ping(number)))

    def _publication(self, notification: NotificationLike, traced: bool) -> bytes:
        """The frame of a notification that is in the language and was advertised."""
        sequence = self._sequence + 1
        seen: Notification
        if type(notification) is dict:
            parcel, seen = check_parcel(notification, self.name, sequence)
        else:
            seen = parse_notification(notification)
            parcel = encode_parcel(seen, self.name, sequence)
        for promise in self._promised.values():
            if promise.holds(seen):
                break
        else:
            raise RefusedError(self._why_not(seen))
        if len(parcel) + 16 > self._frame_bytes_max:
            raise InputError(
                f"the notification is {len(parcel):,} bytes, at most {self._frame_bytes_max - 16:,} travel"
            )
        self._sequence = sequence
        return publish_frame(parcel, traced=traced)

    def _why_not(self, notification: Notification) -> str:
        if not self._advertisements:
            return f"{self.name} has no advertisement; advertise before you publish"
        id, filter = next(iter(self._advertisements.items()))
        return f"{self.name} did not advertise this: advertisement {id!r}: {why_not_conforms(notification, filter)}"

    # -- the queue is full, and has room again

    def hold(self, box: Outbox) -> None:
        self._full[box] = None
        self._can_publish.clear()

    def release(self, box: Outbox) -> None:
        self._full.pop(box, None)
        if not self._registering:
            self._can_publish.set()

    # -- helpers

    def _new_id(self, letter: str, taken: dict[str, Any]) -> str:
        while True:
            self._ids[letter] += 1
            id = f"{letter}{self._ids[letter]}"
            if id not in taken:
                return id

    def _fits(self, frame: bytes, what: str) -> bytes:
        if len(frame) > self._frame_bytes_max:
            raise InputError(f"{what} is {len(frame):,} bytes, at most {self._frame_bytes_max:,} are accepted")
        return frame

    def _check_alive(self) -> None:
        if self._closing:
            raise InputError("the client is closed; connect a new one")
        if self._failure is not None:
            raise self._failure
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    def __repr__(self) -> str:
        return f"<Client {self.name} at {self.broker or self.url}>"


def connect(url: str | Sequence[str], **options: Any) -> Client:
    """A client of the broker at `url`, or of the first of several that answers, to be entered with `async with`.

    Options: `name`, `token`, `tls`, `session_s`, `connect_s`, `reconnect`.
    """
    return Client(url, **options)


__all__ = ["Client", "WireNotification", "connect"]
