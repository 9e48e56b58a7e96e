"""`octopia.connect`: a client of a live overlay, for asyncio.

    async with octopia.connect("octopia://127.0.0.1:7400") as client:
        await client.advertise("symbol is not null and price > 0")
        await client.publish({"symbol": "AAPL", "price": 120})
        async with client.subscribe("price > 100") as quotes:
            async for quote in quotes:
                ...

When a call returns, its effect is in place. An advertisement or subscription is in force in the whole overlay. A
publication is in the journal and will be sent even if the connection breaks, since the client reconnects by itself.
After `flush`, a broker has routed every publication. `close` delivers what is left, or reports how many notifications
it could not deliver. `publish` waits while the journal is full.

This file is the public API. The package docstring lists the parts behind it.
"""

import asyncio
import secrets
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict

from octopia.errors import InputError, OctopiaError, UnconfirmedError, UndeliveredError
from octopia.language import FilterLike, NotificationLike, parse_filter, parse_notification
from octopia.net.addresses import Url
from octopia.net.client.connecting import Connecting, parse_urls
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.proofs import ANSWER_S, Proofs
from octopia.net.client.publishing import Publishing
from octopia.net.client.registry import Registry
from octopia.net.client.session import Session
from octopia.net.client.subscription import Quality, Subscription
from octopia.routing import why_not_priority
from octopia.wire import (
    DEADLINE_MS_MAX,
    FLUSH_MS_MAX,
    POLICIES,
    arrow_rows,
    encode_parcel,
    load_kernels,
    loading_pays,
    probe_frame,
)

if TYPE_CHECKING:
    import pyarrow as pa

SESSION_S = 30.0
CONNECT_S = 10.0
CLOSE_S = 10.0
FLUSH_S = 10.0
INBOX_MAX = 10_000
# How many parts of a record batch are in flight to the broker at a time; together they fit into the window.
SLABS_UNDER_WAY = 3
# How many notifications `publish_many` takes before it yields to the event loop.
PUBLISH_BATCH = 256
PROBE_BITS = 52


class ClientOptions(TypedDict, total=False):
    """The options of every client, for functions that pass them on. See `Client` for their meaning."""

    name: str
    token: str
    tls: ssl.SSLContext | None
    session_s: float
    connect_s: float
    close_s: float
    reconnect: bool
    nearest: bool
    on_connection: Callable[[bool, str], None] | None


class Client:
    """A connection to a broker that reconnects by itself. Created by `connect`."""

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
        nearest: bool = False,
        on_connection: Callable[[bool, str], None] | None = None,
        first_id: int = 1,
    ) -> None:
        """`url` names a broker, or several in a list or separated by commas; the client uses the first that answers.

        name        the client's name; empty: the broker chooses one
        token       the client's credential, if the overlay has `[[clients]]`
        tls         for octopias://; None: the system's authorities, no client certificate
        session_s   how long the broker keeps the session after the connection breaks
        connect_s   timeout of `open`
        close_s     timeout of `close` for delivering what is left
        reconnect   False: the client fails when its connection is lost
        nearest     True: of several brokers, use the nearest by measurement; move when it is overloaded
        on_connection   called as (connected, what) when the connection is lost, restored or moved
        first_id    the id of the first notification; later ids count up. What is published again after a failure of the
                    program can so have the same id as before
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
        self._proofs = Proofs(self._registry, self._publishing, self._journal)
        self._session.when_left = self._proofs.left
        self._connecting = Connecting(
            parse_urls(url),
            self._session,
            self._life,
            self._journal,
            self._registry,
            nearest=nearest,
            tls=tls,
            connect_s=connect_s,
            reconnect=reconnect,
            fail=self._fail,
            on_connection=on_connection,
        )

    # -- properties

    @property
    def name(self) -> str:
        """The given name; if none was given, the broker's choice, once connected."""
        return self._session.name

    @property
    def broker(self) -> str:
        """The id of the last connected broker; empty before the first connection."""
        return self._session.broker

    @property
    def url(self) -> Url:
        """The URL of that broker, or of the one being dialled."""
        return self._connecting.url

    @property
    def urls(self) -> tuple[Url, ...]:
        return self._connecting.urls

    @property
    def is_connected(self) -> bool:
        """Whether a broker has accepted the client and has all of its registrations."""
        return self._connecting.channel is not None and self._journal.is_open

    @property
    def reconnects(self) -> int:
        """How often the client has reconnected."""
        return self._connecting.reconnects

    @property
    def moves(self) -> int:
        """How often the client has moved to another broker because its own was overloaded."""
        return self._connecting.moves

    @property
    def dropped(self) -> int:
        """Deliveries to this client that were dropped because its queue at the broker was full."""
        return self._session.dropped

    @property
    def gaps(self) -> int:
        """How often a session ended while subscriptions were in force: they may have missed notifications each time.

        A session ends if the client is away for longer than `session_s`, or if its broker is lost.
        """
        return self._session.gaps

    @property
    def too_old(self) -> int:
        """Deliveries to this client that its broker dropped because their deadline had passed."""
        return self._session.too_old

    @property
    def last_id(self) -> int:
        """The id of the last published notification."""
        return self._publishing.last_id

    @property
    def failure(self) -> OctopiaError | None:
        """The reason why the client has failed for good, if it has."""
        return self._life.failure

    def __repr__(self) -> str:
        return f"<Client {self.name} at {self.broker or self.url}>"

    # -- opening and closing

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
        """Connect to the first url that answers; raises `UnreachableError` or `RefusedError` if none does."""
        try:
            await self._connecting.open()
        except BaseException:
            await self.close(0)
            raise
        self._publishing.name = self.name
        self._life.open()

    async def close(self, within_s: float | None = None) -> None:
        """Leave the overlay: deliver everything published, then withdraw every registration.

        Tries for `within_s` (default: `close_s`), reconnecting if needed. Raises `UndeliveredError` with the number of
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
        """Fail for good and wake every waiting caller."""
        self._life.fail(error)
        self._end(error)

    def _end(self, error: OctopiaError, *, quietly: bool = False) -> None:
        self._journal.end(error)
        self._registry.end(error, quietly=quietly)

    # -- requests

    async def advertise(self, filter: FilterLike, *, id: str | None = None) -> str:
        """Announce notifications to be published; returns the advertisement's id once it is in force everywhere."""
        return await self._registry.advertise(parse_filter(filter), id)

    async def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement, after everything published so far; an unknown id is ignored."""
        await self._registry.unadvertise(id)

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
    ) -> Subscription:
        """Create a subscription; enter it with `async with`.

        `policy`: what to do when its queue is full. `priority`: 0 to 3, higher goes first. `deadline_ms`: notifications
        older than this are dropped when their turn comes; 0 means never. Default: the setting of the broker's cluster.
        """
        if policy is not None and policy not in POLICIES:
            raise InputError(f"unknown policy {policy!r}; choose from {', '.join(POLICIES)}")
        if priority is not None and (reason := why_not_priority(priority)):
            raise InputError(reason)
        if deadline_ms is not None and not 0 <= deadline_ms <= DEADLINE_MS_MAX:
            raise InputError(f"a deadline of {deadline_ms} ms: 0 (none) to {DEADLINE_MS_MAX:,} are allowed")
        quality = Quality(policy, ordered, priority, deadline_ms)
        parsed = parse_filter(filter)
        return Subscription(self._registry, self._registry.new_subscription_id(id), parsed, quality, inbox_max)

    async def start_subscription(self, subscription: Subscription) -> None:
        """Register the subscription; returns when it is in force everywhere."""
        await self._registry.subscribe(subscription)

    async def overlapping(self, filter: FilterLike) -> int | None:
        """Count the advertisements that overlap a filter: 0 means that no client publishes anything that matches it.

        None: unknown, since some brokers could not be asked and the others have none. Raises nothing about the
        connection; while there is none, the answer is None.
        """
        self._life.check()
        return await self._session.questions.overlapping(parse_filter(filter))

    # -- publishing

    async def publish(self, notification: NotificationLike, *, traced: bool = False) -> str:
        """Publish a notification and return its id. Waits while the journal is full."""
        publishing = self._publishing
        if not (self._journal.has_room and self._life.fine):
            await publishing.wait_until_ready()
        publishing.put(notification, traced)
        publishing.note_full()
        return str(publishing.last_id)

    async def probe(self, notification: NotificationLike, *, publisher: str | None = None) -> int:
        """Send a notification that brokers trace but do not deliver; returns its number.

        It takes the path of a notification published by this client, or by `publisher`, another client of the same
        broker, which needs a separate right. The brokers' `/traces` show the result (`octopia.watch.probe`). Raises
        `RefusedError` if the notification would be refused.
        """
        self._life.check()
        # Separate numbers that no publication has; JavaScript can represent them.
        number = secrets.randbits(PROBE_BITS)
        parcel = encode_parcel(parse_notification(notification), publisher or self.name, number)
        await self._registry.probe(str(number), probe_frame(parcel))
        return number

    async def publish_many(self, notifications: Iterable[NotificationLike]) -> int:
        """Publish notifications in order and return their number. The fastest way to publish."""
        count = 0
        publishing = self._publishing
        rest = iter(notifications)
        while True:
            publishing.note_full()
            await asyncio.sleep(0)
            # No await may come between this and the puts.
            await publishing.wait_until_ready()
            put = publishing.put_some(rest, PUBLISH_BATCH)
            count += put
            if put < PUBLISH_BATCH:
                break
        publishing.note_full()
        return count

    async def publish_batch(self, data: "pa.RecordBatch | pa.Table") -> int:
        """Publish every row of an Arrow batch or table and return their number.

        A column is an attribute; null means that the row does not have it. As with `publish_many`, if a row cannot be
        published, the rows before it are, and the error names the row.
        """
        count = 0
        publishing, journal = self._publishing, self._journal
        under_way: deque[int] = deque()
        if loading_pays(len(data)):
            await asyncio.to_thread(load_kernels)
        for rows in arrow_rows(data):
            at = 0
            while at < len(rows):
                publishing.note_full()
                await asyncio.sleep(0)
                await publishing.wait_until_ready()
                at += publishing.put_rows(rows, at)
                # More than the window would be cut into frames that wait for it one by one.
                under_way.append(journal.position)
                if len(under_way) > SLABS_UNDER_WAY and self.is_connected:
                    await journal.wait_confirmed_to(under_way.popleft())
            count += at
        publishing.note_full()
        return count

    async def flush(self, *, hosts: bool = False, timeout: float = FLUSH_S) -> None:
        """Wait until brokers have routed everything published so far. Raises any refusal.

        A lost connection does not end the wait; it ends when everything is confirmed or the client fails.

        hosts      also wait until the host brokers of all subscribers have confirmed everything, so that it survives
                   the loss of this client's broker. Raises `UnconfirmedError`, which names those that cannot be
                   reached, that dropped something, or that have not confirmed in time; and a broker of this client
                   that it left, or that stopped, before it could know. Needs the routing `fdr`
        timeout    of `hosts`, in seconds
        """
        self._life.check()
        if not hosts:
            await self._flush()
            return
        if not 0 <= timeout <= FLUSH_MS_MAX / 1000:
            raise InputError(f"timeout is {timeout}: 0 to {FLUSH_MS_MAX // 1000:,} s are allowed")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout
        try:
            async with asyncio.timeout_at(until_s + ANSWER_S):
                await self._flush()
                self._proofs.check_offered(self.broker, self._session.flushes)
                await self._proofs.prove(max(0.0, until_s - loop.time()))
        except TimeoutError:
            raise UnconfirmedError((self.broker or str(self.url),)) from None

    async def _flush(self) -> None:
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
    nearest: bool = False,
    on_connection: Callable[[bool, str], None] | None = None,
) -> Client:
    """Create a client for the broker at `url`, or the first of several that answers; enter it with `async with`.

    See `Client` for the options.
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
        nearest=nearest,
        on_connection=on_connection,
    )
