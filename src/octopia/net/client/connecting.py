"""How a client gets a connection, and the next one: which broker, dialling, dialling again.

A lost connection is made again, with growing pauses, to the same broker first: it may still have the session. A broker
that does not answer, or says that it stops, is left for the next of the urls, in their order and round again. One that
says that it restarts has saved the session and will be back with it: a client with subscriptions, for which deliveries
wait there and nowhere else, dials that one alone for `RESTART_S`, before it asks the others; any other client asks them
first. Until the session would be over the pauses are short, so that the broker need not wait for us. A broker
may also say that it is too early (`BUSY`): then the client tries again, for `connect_s` when it connects for the first
time, and for as long as it takes later. If every broker refuses the client for good (`FINAL`), it gives up.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from octopia.errors import InputError, OctopiaError, RefusedError, RemoteProtocolError, UnreachableError
from octopia.net.addresses import Url
from octopia.net.channel import CLOSED, CONFIRM_S, Channel
from octopia.net.client.life import Life
from octopia.net.client.session import Session
from octopia.net.pauses import LONGEST_S, Pauses
from octopia.net.tls import explain_closed, explain_dial_error
from octopia.wire import Codec, Connection, Goodbye, Side, Welcome, WireLimits

URLS_MAX = 64
# The longest wait for one of several brokers, before the next is tried.
NEXT_S = 3.0
LEAVE_S = 2.0
# The codes of a Goodbye after which there is no sense in coming back, and why. After any other a client comes back.
FINAL = {
    "refused": "this client is not let in, whenever it asks",
    "protocol": "what it sent breaks a rule, and would be sent again",
    "slow": "its subscription asked to be disconnected when its queue is full, and it was",
    "stalled": "it took nothing from a full queue for too long, and would again",
    "replaced": "its session goes on elsewhere: coming back would take it away again",
}
# Somebody has this name at the moment: an old connection of our own, as a rule, that the broker believes in.
BUSY = "busy"
# The broker is about to stop: others are asked first.
SHUTDOWN = "shutdown"
# It will be back, with our session.
RESTART = "restart"
RESTART_S = 10.0
RESTART_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why one attempt failed."""

    error: OctopiaError
    code: str = ""  # of the broker's Goodbye


class Connecting:
    """Keeps a session connected. Speaks for the client in handshakes: the `End` of its channels."""

    def __init__(
        self,
        urls: Sequence[Url],
        session: Session,
        life: Life,
        *,
        tls: ssl.SSLContext | None,
        connect_s: float,
        reconnect: bool,
        fail: Callable[[OctopiaError], None],
    ) -> None:
        self.urls = tuple(urls)
        self.url = self.urls[0]
        self.reconnects = 0
        self.channel: Channel | None = None  # that carries the session
        self.codec = Codec(WireLimits())
        # Less than FINAL for clients that begin anew where others give up.
        self.final = frozenset(FINAL)
        self._session = session
        self._life = life
        self._tls = tls
        self._connect_s = connect_s
        self._reconnect = reconnect
        self._fail = fail
        self._dialled: Channel | None = None  # that the broker has not answered yet
        self._answer: asyncio.Future[_Failure | None] | None = None
        self._redialling: asyncio.Task[None] | None = None
        session.when_lost(self._lost)

    def prefer(self, url: Url) -> None:
        """Ask this one of the brokers first."""
        self.urls = (url, *(other for other in self.urls if other != url))
        self.url = url

    # -- the first connection

    async def open(self) -> None:
        """Connect to the first of the urls that answers; `UnreachableError` or `RefusedError` where none does."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._connect_s
        pauses = Pauses()
        while failures := await self._dial_each(self.urls):
            pause_s = pauses.next_s()
            if loop.time() + pause_s > give_up_s or all(failure.code != BUSY for failure in failures):
                raise _joined(failures)
            await asyncio.sleep(pause_s)

    async def _dial_each(self, urls: Sequence[Url]) -> list[_Failure]:
        """Dial one after the other until one lets us in; what went wrong where none did."""
        failures: list[_Failure] = []
        for url in urls:
            failure = await self._dial(url)
            if failure is None:
                return []
            failures.append(failure)
        return failures

    async def _dial(self, url: Url) -> _Failure | None:
        """Dial one broker and wait until it let us in; what went wrong, if anything."""
        if url != self.url:
            self.url = url
            self._session.forget()
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._dialled = Channel(
            Connection(Side.CLIENT, self.codec), self, loop, confirm_s=CONFIRM_S, tells_faults=False
        )
        limit_s = self._connect_s if len(self.urls) == 1 else min(self._connect_s, NEXT_S)
        try:
            async with asyncio.timeout(limit_s):
                await self._make_connection(self._dialled)
                failure = await self._answer
        except TimeoutError:
            failure = _Failure(UnreachableError(f"{url} did not answer within {limit_s:g} s"))
        except OSError as error:
            failure = _Failure(UnreachableError(f"{url} cannot be reached: {explain_dial_error(error, url)}"))
        finally:
            self._answer = None
            # It must not let us in, or be lost, while another is tried.
            if self._dialled is not None:
                self._dialled.abort()
                self._dialled = None
        # It may have let us in at the very moment when time was up.
        return failure if self.channel is None else None

    async def _make_connection(self, channel: Channel) -> None:
        tls: dict[str, Any] = {}
        address = self.url.address
        if self.url.tls:
            tls = {"ssl": self._tls or ssl.create_default_context(), "server_hostname": address.host}
        await asyncio.get_running_loop().create_connection(lambda: channel, address.host, address.port, **tls)

    # -- the handshake, as the channel tells it

    def made(self, channel: Channel) -> None:
        channel.say(self._session.hello())

    def greet(self, channel: Channel, message: Any) -> None:
        if channel is not self._dialled:
            return
        if isinstance(message, Welcome):
            self._dialled = None
            self.channel = channel
            self._session.welcomed(channel, message)
            self._answered(None)
        elif isinstance(message, Goodbye):
            self._answered(self._refusal(message))

    def _refusal(self, goodbye: Goodbye) -> _Failure:
        if goodbye.code in self.final or goodbye.code == BUSY:
            return _Failure(RefusedError(goodbye.reason), goodbye.code)
        return _Failure(UnreachableError(f"{self.url}: {goodbye.reason}"), goodbye.code)

    def at_fault(self, channel: Channel, error: Exception) -> None:
        """A fault of the broker is the reason that comes with `gone`. One of our own would come again: give up."""
        if not isinstance(error, RemoteProtocolError | RefusedError):
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "fault in the client", "exception": error})
            self._fail(OctopiaError(f"the client failed at what came: {type(error).__name__}: {error}"))

    def gone(self, channel: Channel, reason: str) -> None:
        if channel is self._dialled:
            said = explain_closed(self.url) if reason == CLOSED else reason
            self._answered(_Failure(UnreachableError(f"{self.url}: {said}")))

    def _answered(self, failure: _Failure | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(failure)

    # -- losing the connection, and coming back

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is not self.channel:
            return
        self.channel = None
        if self._life.failure is not None:
            return
        code = channel.goodbye.code if channel.goodbye is not None else ""
        if code in self.final or not self._reconnect:
            self._fail(UnreachableError(f"{self.url} ended the connection: {reason}"))
        elif self._redialling is None:
            self._redialling = asyncio.get_running_loop().create_task(self._redial(code))

    async def _redial(self, code: str) -> None:
        """Until a broker lets us in: our own first, unless it said that it stops, then the others in order."""
        pauses = Pauses()
        lost_s = asyncio.get_running_loop().time()
        own, *others = self._order()
        awaited = code == RESTART and self._session.expects_deliveries
        order = [*others, own] if code in (SHUTDOWN, RESTART) and not awaited else [own, *others]
        try:
            # A connection may be lost again before this task has its turn.
            while self.channel is None and self._life.failure is None:
                away_s = asyncio.get_running_loop().time() - lost_s
                soon = code == RESTART and away_s < self._session.session_s
                await asyncio.sleep(pauses.next_s(RESTART_PAUSE_S if soon else LONGEST_S))
                failures = await self._dial_each([own] if awaited and soon and away_s < RESTART_S else order)
                if not failures:
                    self.reconnects += 1
                elif all(failure.code in self.final for failure in failures):
                    self._fail(_joined(failures))
        finally:
            self._redialling = None

    def _order(self) -> list[Url]:
        """Our own broker and the ones after it, round to those before."""
        at = self.urls.index(self.url)
        return [*self.urls[at:], *self.urls[:at]]

    # -- the end

    async def stop(self) -> None:
        """Dial no more."""
        if self._redialling is not None:
            self._redialling.cancel()
            await asyncio.gather(self._redialling, return_exceptions=True)

    async def leave(self, farewell: bool, at_most_s: float = LEAVE_S) -> None:
        """Dial no more and hang up: for good with a `farewell`; without one the session can be taken up."""
        await self.stop()
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.confirm()
            if farewell:
                channel.say(Goodbye("bye"))
            channel.hang_up()
            # The loop may end with this call, and the last words must be out by then.
            await channel.wait_gone(at_most_s)


def parse_urls(url: str | Sequence[str]) -> tuple[Url, ...]:
    """One url, several with commas between them, or a list of them; each once."""
    texts = url.split(",") if isinstance(url, str) else [part for text in url for part in text.split(",")]
    urls = tuple(dict.fromkeys(Url.parse(text.strip()) for text in texts))
    if not 0 < len(urls) <= URLS_MAX:
        raise InputError(f"{len(urls)} urls: 1 to {URLS_MAX} brokers to connect to are allowed")
    return urls


def _joined(failures: Sequence[_Failure]) -> OctopiaError:
    """All that went wrong as one error: a refusal only where every broker refused."""
    errors = [failure.error for failure in failures]
    if len(errors) == 1:
        return errors[0]
    refused = all(isinstance(error, RefusedError) for error in errors)
    text = "; ".join(map(str, errors))
    return RefusedError(text) if refused else UnreachableError(f"no broker lets us in: {text}")
