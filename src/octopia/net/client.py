"""`octopia.connect`: a client of a live overlay, for asyncio.

    async with octopia.connect("octopia://127.0.0.1:7400") as client:
        await client.advertise("symbol is not null and price > 0")
        await client.publish({"symbol": "AAPL", "price": 120})
        async with client.subscribe("price > 100") as quotes:
            async for quote in quotes:
                ...

Rules of this file: what returned has happened: an advertisement and a subscription are in force in the whole overlay,
a publication is queued here and will be sent, whatever happens to the connection. A lost connection is made again, with
growing pauses; the session goes on where it broke off, or, where the broker has forgotten it, everything is registered
anew and what was not confirmed is published again. A notification that was not advertised is refused here, before it is
sent. A full queue makes `publish` wait.
"""

import asyncio
import os
import random
import ssl
from collections.abc import Iterable
from typing import Any, Self

from octopia.errors import InputError, OctopiaError, RefusedError, UnreachableError
from octopia.language import (
    Filter,
    FilterLike,
    Notification,
    NotificationLike,
    conforms,
    parse_filter,
    parse_notification,
    why_not_conforms,
)
from octopia.net.addresses import Url
from octopia.net.client_protocol import ClientProtocol
from octopia.net.outbox import Outbox, Turn
from octopia.net.subscription import Subscription
from octopia.wire import (
    POLICIES,
    ROLE_CLIENT,
    VERSION,
    Accepted,
    Codec,
    Delivery,
    Dropped,
    Goodbye,
    Hello,
    Kind,
    Ping,
    Pong,
    Refused,
    Welcome,
    WireLimits,
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

QUEUE_FRAMES_MAX = 20_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
INBOX_MAX = 10_000
SESSION_S = 30.0
CONNECT_S = 10.0
LEAVE_S = 2.0
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 5.0
# How many notifications `publish_many` queues before the event loop has its turn.
PUBLISH_BATCH = 256
# What the broker says when there is no sense in coming back.
FINAL_CODES = frozenset({"refused", "slow", "stalled", "replaced"})


class Client:
    """A connection to a broker that mends itself. Made by `connect`."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        session_s: float = SESSION_S,
        connect_s: float = CONNECT_S,
        reconnect: bool = True,
    ) -> None:
        self.url = Url.parse(url)
        self.name = name
        self.broker = ""
        self.dropped = 0
        self.reconnects = 0
        self._token = token
        self._tls = tls
        self._session_s = session_s
        self._connect_s = connect_s
        self._reconnect = reconnect
        self._codec = Codec(WireLimits())
        self._frame_bytes_max = WireLimits().frame_bytes_max
        self._secret = b""
        self._received = 0
        self._sequence = 0
        self._ids = {"a": 0, "s": 0}
        self._protocol: ClientProtocol | None = None
        self._advertisements: dict[str, Filter] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._requests: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._flushes: dict[int, asyncio.Future[None]] = {}
        self._again: list[bytes] = []  # publications to repeat once everything is registered anew
        self._registering: dict[tuple[str, str], None] = {}
        self._full: dict[Outbox, None] = {}
        self._held_inboxes: dict[str, None] = {}
        self._refusal: RefusedError | None = None
        self._failure: OctopiaError | None = None
        self._closing = False
        self._first: asyncio.Future[None] | None = None
        self._redial: asyncio.Task[None] | None = None

    # -- connecting

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; `UnreachableError` or `RefusedError` where that fails."""
        self._loop = asyncio.get_running_loop()
        self.box = Outbox(Turn(self._loop), QUEUE_FRAMES_MAX, QUEUE_BYTES_MAX)
        self._can_publish = asyncio.Event()
        self._can_publish.set()
        self._first = self._loop.create_future()
        try:
            async with asyncio.timeout(self._connect_s):
                await self._dial()
                await self._first
        except TimeoutError:
            await self.close()
            raise UnreachableError(f"{self.url} did not answer within {self._connect_s:g} s") from None
        except OSError as error:
            await self.close()
            raise UnreachableError(f"{self.url} cannot be reached: {_os_reason(error)}") from None
        except OctopiaError:
            await self.close()
            raise
        finally:
            self._first = None

    async def _dial(self) -> None:
        tls: dict[str, Any] = {}
        if self.url.tls:
            tls = {"ssl": self._tls or ssl.create_default_context(), "server_hostname": self.url.address.host}
        hello = Hello(
            [VERSION],
            ROLE_CLIENT,
            self.name,
            self._token,
            ["trace"],
            session=self._secret,
            received=self._received,
            session_s=self._session_s,
        )
        address = self.url.address
        await self._loop.create_connection(
            lambda: ClientProtocol(self, self._codec, hello), address.host, address.port, **tls
        )

    def welcomed(self, protocol: ClientProtocol, welcome: Welcome) -> None:
        """The broker let us in."""
        self._protocol = protocol
        self.name = welcome.name
        self.broker = welcome.broker
        self._frame_bytes_max = welcome.frame_bytes_max or self._frame_bytes_max
        if welcome.resumed:
            protocol.carry(self._received, welcome.heartbeat_s)
            self.box.attach(protocol.transport, welcome.received)
        else:
            self._secret = welcome.session
            self._received = 0
            protocol.carry(0, welcome.heartbeat_s)
            self._start_anew(protocol)
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    def _start_anew(self, protocol: ClientProtocol) -> None:
        """The broker does not know us (any more): register everything, then publish what was not confirmed."""
        frames = self.box.take_all()
        self._again += [frame for frame in frames if frame[4] == Kind.PUBLISH]
        self.box.attach(protocol.transport, 0)
        for id, filter in self._advertisements.items():
            self._registering["advertise", id] = None
            self.box.put(advertise_frame(id, filter))
        for id, s in self._subscriptions.items():
            self._registering["subscribe", id] = None
            self.box.put(subscribe_frame(id, s.filter, s.policy, s.ordered))
        for (request, id), future in list(self._requests.items()):
            if request in ("unadvertise", "unsubscribe") and not future.done():
                # A new session has nothing to withdraw.
                future.set_result(None)
                del self._requests[request, id]
        if self._registering:
            self._can_publish.clear()
        else:
            self._publish_again()

    def _registered(self, request: str, id: str) -> None:
        if self._registering.pop((request, id), 0) is None and not self._registering:
            self._publish_again()

    def _publish_again(self) -> None:
        again, self._again = self._again, []
        self.box.put_many(again)
        if not self._full:
            self._can_publish.set()

    def refused(self, protocol: ClientProtocol, goodbye: Goodbye) -> None:
        """The broker did not let us in."""
        final = goodbye.code in FINAL_CODES
        error = RefusedError(goodbye.reason) if final else UnreachableError(f"{self.url}: {goodbye.reason}")
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
        elif final:
            self._fail(error)
        protocol.abort()

    def lost(self, protocol: ClientProtocol, reason: str) -> None:
        """A connection is gone."""
        if self._first is not None and not self._first.done():
            self._first.set_exception(UnreachableError(f"{self.url}: {reason}"))
        if self._protocol is not protocol:
            return
        self._received = protocol.connection.received
        self._protocol = None
        self.box.detach()
        for future in self._flushes.values():
            # Asked again on the next connection.
            if not future.done() and not self._reconnect:
                future.set_exception(UnreachableError(reason))
        code = reason.partition(":")[0]
        if self._closing:
            return
        if code in FINAL_CODES or not self._reconnect:
            self._fail(UnreachableError(f"{self.url} ended the connection: {reason}"))
        elif self._redial is None:
            self._redial = self._loop.create_task(self._dial_again())

    async def _dial_again(self) -> None:
        pause_s = PAUSE_FIRST_S
        try:
            while self._protocol is None and not self._closing and self._failure is None:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  so that not all dial at once
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                self._first = self._loop.create_future()
                try:
                    async with asyncio.timeout(self._connect_s):
                        await self._dial()
                        await self._first
                    self.reconnects += 1
                except RefusedError as error:
                    self._fail(error)
                except (OSError, TimeoutError, UnreachableError):
                    continue
                finally:
                    self._first = None
        finally:
            self._redial = None
        for number in list(self._flushes):
            self._ping(number)

    def _fail(self, error: OctopiaError) -> None:
        """There is no way back: everyone who waits is told."""
        self._failure = error
        for future in (*self._requests.values(), *self._flushes.values()):
            if not future.done():
                future.set_exception(error)
        self._requests.clear()
        self._flushes.clear()
        self._can_publish.set()
        for subscription in self._subscriptions.values():
            subscription.end(error)

    async def close(self) -> None:
        """Leave the overlay: everything registered is withdrawn. What was published is sent first."""
        if self._closing:
            return
        if self._protocol is not None and self._failure is None:
            try:
                async with asyncio.timeout(self._connect_s):
                    await self.flush()
            except (TimeoutError, OctopiaError):
                pass
        self._closing = True
        if self._redial is not None:
            self._redial.cancel()
            await asyncio.gather(self._redial, return_exceptions=True)
        for subscription in self._subscriptions.values():
            subscription.end()
        protocol = self._protocol
        if protocol is not None:
            protocol.confirm()
            protocol.transport.write(message_frame(Goodbye("bye")))
            self._protocol = None
            # The loop may end with this call, and the last words must be out by then.
            await protocol.close(LEAVE_S)

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
                    if subscription.policy != "block":
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
        self._advertisements[id] = parsed
        try:
            await self._request("advertise", id, frame)
        except RefusedError:
            if before is None:
                del self._advertisements[id]
            else:
                self._advertisements[id] = before
            raise
        return id

    async def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement; one that is not in force does no harm."""
        self._advertisements.pop(id, None)
        await self._request("unadvertise", id, unadvertise_frame(id))

    def subscribe(
        self,
        filter: FilterLike,
        *,
        id: str | None = None,
        policy: str = "block",
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
        for filter in self._advertisements.values():
            if conforms(seen, filter):
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


def connect(url: str, **options: Any) -> Client:
    """A client of the broker at `url`, to be entered with `async with`. Options are those of `Client`."""
    return Client(url, **options)


def _os_reason(error: OSError) -> str:
    # asyncio puts its own words, with the address once more, where those of the system belong.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


__all__ = ["Client", "WireNotification", "connect"]
