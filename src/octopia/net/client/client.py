"""`octopia.connect`: a client of a live overlay, for asyncio.

    async with octopia.connect("octopia://127.0.0.1:7400") as client:
        await client.advertise("symbol is not null and price > 0")
        await client.publish({"symbol": "AAPL", "price": 120})
        async with client.subscribe("price > 100") as quotes:
            async for quote in quotes:
                ...

What returned has happened: an advertisement and a subscription are in force in the whole overlay; a publication is in
the journal and will be sent, whatever happens to the connection, which mends itself; what was flushed has been routed
by a broker. `close` delivers what is left or says how much it could not. A full journal makes `publish` wait.

This file is what a program calls. The parts that do it are told apart in the package's head.
"""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, TypedDict

from octopia.errors import InputError, OctopiaError, UndeliveredError
from octopia.language import FilterLike, NotificationLike, parse_filter
from octopia.net.addresses import Url
from octopia.net.client.connecting import Connecting, parse_urls
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.publishing import Publishing
from octopia.net.client.registry import Registry
from octopia.net.client.session import Session
from octopia.net.client.subscription import Subscription
from octopia.wire import POLICIES, POLICY_DEFAULT

SESSION_S = 30.0
CONNECT_S = 10.0
CLOSE_S = 10.0
INBOX_MAX = 10_000
# How many notifications `publish_many` takes before the event loop has its turn.
PUBLISH_BATCH = 256


class ClientOptions(TypedDict, total=False):
    """The options of every client, for functions that pass them on. `Client` says what they mean."""

    name: str
    token: str
    tls: ssl.SSLContext | None
    session_s: float
    connect_s: float
    close_s: float
    reconnect: bool


class Client:
    """A connection to a broker that mends itself. Made by `connect`."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        name: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        session_s: float = SESSION_S,
        connect_s: float = CONNECT_S,
        close_s: float = CLOSE_S,
        reconnect: bool = True,
        first_id: int = 1,
    ) -> None:
        """`url`: of a broker, or of several, in a list or with commas between, of which the first that answers is used.

        name        the client's name; empty: the broker chooses one
        token       proves who the client is, where the overlay has `[[clients]]`
        tls         for octopias://; None: the system's authorities, no certificate of our own
        session_s   how long the broker keeps the session after the connection broke
        connect_s   how long `open` tries
        close_s     how long `close` tries to deliver what is left
        reconnect   False: the client fails when its connection is lost
        first_id    the id of the first notification; the next ones count up
        """
        for what, seconds in (("session_s", session_s), ("connect_s", connect_s), ("close_s", close_s)):
            if seconds < 0:
                raise InputError(f"{what} is {seconds}: at least 0 is needed")
        self._close_s = close_s
        self._life = Life()
        self._journal = Journal()
        self._registry = Registry(self._journal, self._life)
        self._publishing = Publishing(self._journal, self._registry, self._life, first_id)
        self._session = Session(self._journal, self._registry, self._life, name=name, token=token, session_s=session_s)
        self._connecting = Connecting(
            parse_urls(url),
            self._session,
            self._life,
            tls=tls,
            connect_s=connect_s,
            reconnect=reconnect,
            fail=self._fail,
        )

    # -- what it is

    @property
    def name(self) -> str:
        """As given; where none was, the broker's choice, once connected."""
        return self._session.name

    @property
    def broker(self) -> str:
        """The broker that was connected last; empty before the first."""
        return self._session.broker

    @property
    def url(self) -> Url:
        """Of that broker, or the one that is being dialled."""
        return self._connecting.url

    @property
    def urls(self) -> tuple[Url, ...]:
        return self._connecting.urls

    @property
    def reconnects(self) -> int:
        """How often a lost connection was made again."""
        return self._connecting.reconnects

    @property
    def dropped(self) -> int:
        """Deliveries to this client that were dropped because its queue at the broker was full."""
        return self._session.dropped

    @property
    def last_id(self) -> int:
        """The id of the notification that was published last."""
        return self._publishing.last_id

    @property
    def failure(self) -> OctopiaError | None:
        """Why the client has failed for good, if it has."""
        return self._life.failure

    def __repr__(self) -> str:
        return f"<Client {self.name} at {self.broker or self.url}>"

    # -- coming and going

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except OctopiaError as at_the_end:
            if error is None:
                raise
            error.add_note(f"and then: {at_the_end}")

    async def open(self) -> None:
        """Connect to the first of the urls that answers; `UnreachableError` or `RefusedError` where none does."""
        try:
            await self._connecting.open()
        except BaseException:
            await self.close(0)
            raise
        self._publishing.name = self.name
        self._life.open()

    async def close(self, within_s: float | None = None) -> None:
        """Leave the overlay: what was published is delivered first, everything registered is withdrawn.

        Tries for `within_s`, or else `close_s`, also to connect again. Raises `UndeliveredError` with the number of
        notifications that no broker confirmed. Closing again does nothing.
        """
        if self._life.closed:
            return
        self._life.close()
        self._journal.wake()
        try:
            if self._life.failure is None:
                async with asyncio.timeout(self._close_s if within_s is None else within_s):
                    await self._journal.wait_confirmed()
        except (TimeoutError, OctopiaError):
            pass
        finally:
            left = self._journal.publications_left
            self._end(InputError("the client was closed"), quietly=True)
            await self._connecting.leave(farewell=True)
        if left:
            raise UndeliveredError(left, self._why_undelivered())
        if (refusal := self._life.take_refusal()) is not None:
            raise refusal

    def _why_undelivered(self) -> str:
        if self._life.failure is not None:
            return str(self._life.failure)
        return f"{self.broker or self.url} did not confirm them in time"

    def _fail(self, error: OctopiaError) -> None:
        """There is no way back: everyone who waits is told."""
        self._life.fail(error)
        self._end(error)

    def _end(self, error: OctopiaError, *, quietly: bool = False) -> None:
        self._journal.end(error)
        self._registry.end(error, quietly=quietly)

    # -- requests

    async def advertise(self, filter: FilterLike, *, id: str | None = None) -> str:
        """Announce what will be published; returns the id to withdraw it by, when it is in force everywhere."""
        return await self._registry.advertise(parse_filter(filter), id)

    async def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement, after what was published so far; one that is not in force does no harm."""
        await self._registry.unadvertise(id)

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
        return Subscription(self, self._registry.new_subscription_id(id), parsed, policy, ordered, inbox_max)

    async def start_subscription(self, subscription: Subscription) -> None:
        """Register it; returns when it is in force everywhere."""
        await self._registry.subscribe(subscription)

    async def stop_subscription(self, subscription: Subscription) -> None:
        """Withdraw it."""
        await self._registry.unsubscribe(subscription)

    # -- publishing

    async def publish(self, notification: NotificationLike, *, traced: bool = False) -> str:
        """Publish; returns the notification's id. Waits while the queue is full."""
        publishing = self._publishing
        if not (self._journal.has_room and self._life.fine):
            await publishing.wait_until_ready()
        publishing.put(notification, traced)
        publishing.note_full()
        return str(publishing.last_id)

    async def publish_many(self, notifications: Iterable[NotificationLike]) -> int:
        """Publish one after the other; returns how many. The fastest way to publish."""
        count = 0
        publishing = self._publishing
        put = publishing.put
        for notification in notifications:
            if count % PUBLISH_BATCH == 0:
                publishing.note_full()
                await asyncio.sleep(0)
                # Nothing may come between this and what is put.
                await publishing.wait_until_ready()
            put(notification, False)
            count += 1
        publishing.note_full()
        return count

    async def flush(self) -> None:
        """Wait until brokers have routed everything published so far. Raises what was refused.

        A lost connection does not end the wait: it ends when everything was confirmed, or the client failed.
        """
        self._life.check()
        await self._journal.wait_confirmed()
        if (refusal := self._life.take_refusal()) is not None:
            raise refusal


def connect(
    url: str | Sequence[str],
    *,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    session_s: float = SESSION_S,
    connect_s: float = CONNECT_S,
    close_s: float = CLOSE_S,
    reconnect: bool = True,
) -> Client:
    """A client of the broker at `url`, or of the first of several that answers, to be entered with `async with`.

    `Client` says what the options mean.
    """
    return Client(
        url,
        name=name,
        token=token,
        tls=tls,
        session_s=session_s,
        connect_s=connect_s,
        close_s=close_s,
        reconnect=reconnect,
    )
