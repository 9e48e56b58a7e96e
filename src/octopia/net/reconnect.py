"""How a client is connected, and connected again: dialling, sessions, and other brokers where its own is gone.

Rules of this file: a lost connection is made again, with growing pauses, to the same broker first: it may still have
the session, which then goes on where it broke off. A broker that does not answer, or says that it stops, is left for
the next of the urls, in their order and round again; there, and wherever the session is not known any more, everything
is registered anew and what was not confirmed is published again. Who is refused by all has no way back.
"""

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from octopia.errors import InputError, OctopiaError, RefusedError, UnreachableError
from octopia.language import Filter
from octopia.net.addresses import Url
from octopia.net.client_protocol import CLOSED, ClientProtocol
from octopia.net.outbox import Outbox, Turn
from octopia.net.pauses import Pauses
from octopia.net.subscription import Subscription
from octopia.net.tls import explain_closed, explain_dial_error
from octopia.wire import (
    ROLE_CLIENT,
    VERSION,
    Codec,
    Goodbye,
    Hello,
    Kind,
    Welcome,
    WireLimits,
    advertise_frame,
    message_frame,
    subscribe_frame,
)

QUEUE_FRAMES_MAX = 20_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
URLS_MAX = 64
SESSION_S = 30.0
CONNECT_S = 10.0
# The longest wait for one of several brokers, before the next is tried.
NEXT_S = 3.0
LEAVE_S = 2.0
# What the broker says when there is no sense in coming back.
FINAL_CODES = frozenset({"refused", "slow", "stalled", "replaced"})


class Reconnecting:
    """A session with one of some brokers that outlives its connections. `Client` adds what it is used for."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        name: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        session_s: float = SESSION_S,
        connect_s: float = CONNECT_S,
        reconnect: bool = True,
    ) -> None:
        self.urls = parse_urls(url)
        self.url = self.urls[0]
        self.name = name
        self.broker = ""
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
        self._protocol: ClientProtocol | None = None
        self._advertisements: dict[str, Filter] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._requests: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._flushes: dict[int, asyncio.Future[None]] = {}
        self._again: list[bytes] = []  # publications to repeat once everything is registered anew
        self._registering: dict[tuple[str, str], None] = {}
        self._full: dict[Outbox, None] = {}
        self._failure: OctopiaError | None = None
        self._closing = False
        self._first: asyncio.Future[None] | None = None
        self._dialled: ClientProtocol | None = None
        self._redial: asyncio.Task[None] | None = None

    # -- what the client adds

    @abstractmethod
    def take_in(self, messages: list[Any]) -> None:
        """What one read brought."""

    @abstractmethod
    async def flush(self) -> None:
        """Wait until the broker has routed everything published so far."""

    @abstractmethod
    def _ping(self, number: int) -> None:
        """Ask the broker to answer when it has dealt with everything before."""

    # -- connecting

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to the first of the urls that answers; `UnreachableError` or `RefusedError` where none does."""
        self._loop = asyncio.get_running_loop()
        self.box = Outbox(Turn(self._loop), QUEUE_FRAMES_MAX, QUEUE_BYTES_MAX)
        self._can_publish = asyncio.Event()
        self._can_publish.set()
        failures: list[OctopiaError] = []
        for url in self.urls:
            error = await self._try(url)
            if error is None:
                return
            failures.append(error)
        await self.close()
        raise _joined(failures)

    async def _try(self, url: Url) -> OctopiaError | None:
        """Dial one of the brokers and wait until it let us in; what went wrong, if anything."""
        if url != self.url:
            # Another broker knows nothing of the session.
            self.url, self._secret, self._received = url, b"", 0
        self._first = self._loop.create_future()
        limit_s = self._connect_s if len(self.urls) == 1 else min(self._connect_s, NEXT_S)
        try:
            async with asyncio.timeout(limit_s):
                await self._dial()
                await self._first
            return None
        except TimeoutError:
            failure: OctopiaError = UnreachableError(f"{url} did not answer within {limit_s:g} s")
        except OSError as error:
            failure = UnreachableError(f"{url} cannot be reached: {explain_dial_error(error, url)}")
        except OctopiaError as error:
            failure = error
        finally:
            self._first = None
        # It must not let us in, or be lost, while another is tried.
        if self._dialled is not None:
            self._dialled.abort()
            self._dialled = None
        return failure

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
        self._dialled = protocol = ClientProtocol(self, self._codec, hello)
        await self._loop.create_connection(lambda: protocol, address.host, address.port, **tls)

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

    # -- losing the connection, and coming back

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
        if self._first is not None and not self._first.done() and protocol is self._dialled:
            said = explain_closed(self.url) if reason == CLOSED else reason
            self._first.set_exception(UnreachableError(f"{self.url}: {said}"))
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
            self._redial = self._loop.create_task(self._dial_again(code == "shutdown"))

    async def _dial_again(self, it_stops: bool) -> None:
        """Until a broker lets us in: our own first, unless it said that it stops, then the others in order."""
        pauses = Pauses()
        at = self.urls.index(self.url)
        order = [*self.urls[at:], *self.urls[:at]]
        if it_stops:
            order.append(order.pop(0))
        try:
            while self._protocol is None and not self._closing and self._failure is None:
                await asyncio.sleep(pauses.next_s())
                await self._dial_each(order)
        finally:
            self._redial = None
        for number in list(self._flushes):
            self._ping(number)

    async def _dial_each(self, order: Sequence[Url]) -> None:
        failures: list[OctopiaError] = []
        for url in order:
            error = await self._try(url)
            if error is None:
                self.reconnects += 1
                return
            failures.append(error)
        if all(isinstance(error, RefusedError) for error in failures):
            self._fail(_joined(failures))

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


def parse_urls(url: str | Sequence[str]) -> tuple[Url, ...]:
    """One url, several with commas between them, or a list of them; each once."""
    texts = url.split(",") if isinstance(url, str) else [part for text in url for part in text.split(",")]
    urls = tuple(dict.fromkeys(Url.parse(text.strip()) for text in texts))
    if not 0 < len(urls) <= URLS_MAX:
        raise InputError(f"{len(urls)} urls: 1 to {URLS_MAX} brokers to connect to are allowed")
    return urls


def _joined(failures: Sequence[OctopiaError]) -> OctopiaError:
    """All that went wrong as one error: a refusal only where every broker refused."""
    if len(failures) == 1:
        return failures[0]
    refused = all(isinstance(error, RefusedError) for error in failures)
    text = "; ".join(map(str, failures))
    return RefusedError(text) if refused else UnreachableError(f"no broker lets us in: {text}")
