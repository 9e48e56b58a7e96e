"""How a client connects and reconnects: choosing a broker and dialling it.

After losing a connection, the client redials with growing pauses, the same broker first, since it may still have the
session. If a broker does not answer or says that it is stopping, the client tries the next url, in order and round
again. The session stays with its broker until another one has accepted the client.

A broker that says that it is restarting has saved the session and will come back with it. A client with subscriptions,
whose deliveries wait only there, dials that broker alone for as long as its neighbours wait for it (`restart_s` of its
`Welcome`), and only then the others; any other client tries the others first. The pauses stay short meanwhile, so that
the broker need not wait for the client.

A broker may also answer that it is too early (`BUSY`), or that the handshake took too long (`HANDSHAKE`): the client
then retries, for `connect_s` at its first connection and without a limit later. If every broker refuses the client for
good (`FINAL`), it gives up.

With `nearest`, urls are ordered by measured round trip (`nearest.py`): all of them at first, the others when the
client's broker is gone. The client then also moves when its broker asks it to (`moving.py`).
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from octopia.errors import InputError, OctopiaError, RefusedError, RemoteProtocolError, UnreachableError
from octopia.net.addresses import Url
from octopia.net.channel import CLOSED, CONFIRM_S, Channel
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.moving import Moving
from octopia.net.client.nearest import Measure, dial, in_order, measure
from octopia.net.client.overlap import Move
from octopia.net.client.registry import Registry
from octopia.net.client.session import Session
from octopia.net.pauses import LONGEST_S, Pauses
from octopia.net.tls import explain_closed, explain_dial_error
from octopia.wire import Codec, Connection, Goodbye, Side, Welcome, WireLimits

URLS_MAX = 64
# The longest wait for one of several brokers before the next is tried.
NEXT_S = 3.0
LEAVE_S = 2.0
# Goodbye codes after which reconnecting is pointless, with the reason. After any other code a client reconnects.
FINAL = {
    "refused": "the broker does not admit this client",
    "protocol": "the client broke the protocol, and would do so again",
    "slow": "a subscription with policy disconnect had a full queue",
    "stalled": "the client read nothing from a full queue for too long",
    "replaced": "the session continues elsewhere; reconnecting would take it back",
}
# The name is in use at the moment: usually by our own old connection, which the broker still considers alive.
BUSY = "busy"
# The Hello was not read in time. It is sent as soon as the connection is made, so one side was too busy to get to it.
HANDSHAKE = "handshake"
# Codes after which the first connection is tried again, too.
_AGAIN = frozenset({BUSY, HANDSHAKE})
# The broker is about to stop: try the others first.
SHUTDOWN = "shutdown"
# The broker will come back with our session.
RESTART = "restart"
RESTART_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why one attempt failed."""

    error: OctopiaError
    code: str = ""  # code of the broker's Goodbye


class Connecting:
    """Keeps a session connected. Handles handshakes for the client, as the `End` of its channels."""

    def __init__(
        self,
        urls: Sequence[Url],
        session: Session,
        life: Life,
        journal: Journal,
        registry: Registry,
        *,
        nearest: bool,
        tls: ssl.SSLContext | None,
        connect_s: float,
        reconnect: bool,
        fail: Callable[[OctopiaError], None],
        on_connection: Callable[[bool, str], None] | None = None,
    ) -> None:
        self.urls = tuple(urls)
        self.url = self.urls[0]
        self._home = self.url  # of the broker that has our session
        self._back_by_s = 0.0  # until when that broker, which said that it restarts, is expected
        self.reconnects = 0
        self.moves = 0
        self.measure: Measure = measure
        self.channel: Channel | None = None  # carries the session
        self.codec = Codec(WireLimits())
        # Fewer codes than FINAL for clients that start over where others give up.
        self.final = frozenset(FINAL)
        self._session = session
        self._life = life
        self._journal = journal
        self._registry = registry
        self._nearest = nearest and len(self.urls) > 1
        self._moving = Moving(self._better, self._begin_move, self._moved)
        session.moves = self._nearest and reconnect
        session.when_crowded = self._crowded
        self._tls = tls
        self._connect_s = connect_s
        self._reconnect = reconnect
        self._fail = fail
        self._on_connection = on_connection
        self._dialled: Channel | None = None  # not answered by the broker yet
        self._answer: asyncio.Future[_Failure | None] | None = None
        self._redialling: asyncio.Task[None] | None = None
        session.when_lost = self._lost

    def prefer(self, url: Url) -> None:
        """Try this broker first."""
        self.urls = (url, *(other for other in self.urls if other != url))
        self.url = self._home = url

    # -- the first connection

    async def open(self) -> None:
        """Connect to the first url that answers; raises `UnreachableError` or `RefusedError` if none does."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._connect_s
        pauses = Pauses()
        while failures := await self._dial_each(await self._ordered(self.urls)):
            pause_s = pauses.next_s()
            if loop.time() + pause_s > give_up_s or all(failure.code not in _AGAIN for failure in failures):
                raise _joined(failures)
            await asyncio.sleep(pause_s)

    async def _ordered(self, urls: Sequence[Url]) -> Sequence[Url]:
        """With `nearest`, the urls by distance; the broker that has our session always comes first."""
        if not self._nearest or len(urls) < 2:
            return urls
        own = [self._home] if self._session.secret and self._home in urls else []
        others = [url for url in urls if url not in own]
        return [*own, *in_order(others, await self.measure(others, self._tls))]

    async def _dial_each(self, urls: Sequence[Url]) -> list[_Failure]:
        """Dial one after the other until one accepts us; if none does, return the failures."""
        failures: list[_Failure] = []
        for url in urls:
            failure = await self._dial(url)
            if failure is None:
                return []
            failures.append(failure)
        return failures

    async def _dial(self, url: Url) -> _Failure | None:
        """Dial one broker and wait until it accepts us; returns the failure, if any."""
        self._moving.left(url)
        self.url = url
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
            # It must not accept us, or be lost, while another is tried.
            if self._dialled is not None:
                self._dialled.abort()
                self._dialled = None
        # It may have accepted us just as time ran out.
        return failure if self.channel is None else None

    async def _make_connection(self, channel: Channel) -> None:
        await dial(channel, self.url, self._tls)

    # -- the handshake, called by the channel

    def made(self, channel: Channel) -> None:
        channel.say(self._session.hello(fresh=self.url != self._home))

    def greet(self, channel: Channel, message: Any) -> None:
        if channel is not self._dialled:
            return
        if isinstance(message, Welcome):
            self._dialled = None
            self.channel = channel
            late = 0.0 < self._back_by_s < asyncio.get_running_loop().time()
            self._home, self._back_by_s = self.url, 0.0
            self._session.welcomed(channel, message, late=late)
            self._answered(None)
        elif isinstance(message, Goodbye):
            if self.url == self._home:
                self._note_restart(message.code)
            self._answered(self._refusal(message))

    def _refusal(self, goodbye: Goodbye) -> _Failure:
        if goodbye.code in self.final or goodbye.code == BUSY:
            return _Failure(RefusedError(goodbye.reason), goodbye.code)
        return _Failure(UnreachableError(f"{self.url}: {goodbye.reason}"), goodbye.code)

    def at_fault(self, channel: Channel, error: Exception) -> None:
        """A broker's fault is the reason passed to `gone`. A fault of our own would happen again: give up."""
        if not isinstance(error, RemoteProtocolError | RefusedError):
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "fault in the client", "exception": error})
            self._fail(OctopiaError(f"the client could not handle a message: {type(error).__name__}: {error}"))

    def gone(self, channel: Channel, reason: str) -> None:
        if channel is self._dialled:
            said = explain_closed(self.url) if reason == CLOSED else reason
            self._answered(_Failure(UnreachableError(f"{self.url}: {said}")))

    def _answered(self, failure: _Failure | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(failure)

    # -- losing the connection, and reconnecting

    def _lost(self, channel: Channel, reason: str) -> None:
        if channel is not self.channel:
            return
        self.channel = None
        self._moving.old_lost()
        if self._life.failure is not None:
            return
        code = channel.goodbye.code if channel.goodbye is not None else ""
        self._note_restart(code)
        if code in self.final or not self._reconnect:
            self._fail(UnreachableError(f"{self.url} ended the connection: {reason}"))
        elif self._redialling is None:
            self._tell(False, f"{self.url} is gone: {reason}")
            self._redialling = asyncio.get_running_loop().create_task(self._redial(code))

    def _note_restart(self, code: str) -> None:
        """The broker that has our session said goodbye with this code."""
        if code == RESTART and self._session.secret:
            self._back_by_s = asyncio.get_running_loop().time() + self._session.restart_s

    @property
    def _returns(self) -> bool:
        """Whether the broker that has our session is expected back from a restart."""
        return asyncio.get_running_loop().time() < self._back_by_s

    @property
    def _waits(self) -> bool:
        """Whether to wait for it, since another broker would not have what is queued there."""
        return self._returns and self._session.expects_deliveries

    async def _redial(self, code: str) -> None:
        """Dial until a broker accepts us: our own first, unless it is stopping, then the others in order."""
        pauses = Pauses()
        own, *others = self._order()
        order = [*others, own] if code in (SHUTDOWN, RESTART) and not self._waits else [own, *others]
        try:
            # A connection may be lost again before this task runs.
            while self.channel is None and self._life.failure is None:
                await asyncio.sleep(pauses.next_s(RESTART_PAUSE_S if self._returns else LONGEST_S))
                gaps = self._session.gaps
                failures = await self._dial_round(order)
                if not failures:
                    self.reconnects += 1
                    missed = "; subscriptions may have missed notifications" if self._session.gaps > gaps else ""
                    self._tell(True, f"connected again, to {self._session.broker} at {self.url}{missed}")
                elif all(failure.code in self.final for failure in failures):
                    self._fail(_joined(failures))
        finally:
            self._redialling = None

    async def _dial_round(self, order: list[Url]) -> list[_Failure]:
        """Dial our own broker, if it comes first, and then the others; with `nearest`, sorted by distance."""
        first, rest = (order[:1], order[1:]) if order[0] == self._home else ([], order)
        failures = await self._dial_each(first)
        if (failures or not first) and not self._waits:
            failures += await self._dial_each(await self._ordered(rest)) if rest else []
            if self.channel is not None:
                return []
        return failures

    def _order(self) -> list[Url]:
        """The urls in order, starting with our own broker and wrapping around."""
        at = self.urls.index(self.url)
        return [*self.urls[at:], *self.urls[:at]]

    # -- moving to a less loaded broker

    def _crowded(self) -> None:
        if self._session.moves and not self._life.is_over:
            self._moving.asked()

    async def _better(self) -> list[Url]:
        """The other brokers that answer and are not overloaded, nearest first."""
        others = [url for url in self.urls if url != self.url]
        measured = await self.measure(others, self._tls)
        return [url for url in in_order(others, measured) if url in measured and not measured[url].overloaded]

    def _begin_move(self, url: Url) -> Move | None:
        if self.channel is None or not self._journal.is_open or self._life.is_over:
            return None
        move = Move(
            self._session,
            self._journal,
            self._registry,
            self.channel,
            old_url=self.url,
            url=url,
            tls=self._tls,
            codec=self.codec,
        )
        self._session.overlap = move
        return move

    def _moved(self, move: Move) -> None:
        self.channel = move.channel
        self.url = self._home = move.url
        self.moves += 1
        self._tell(True, f"moved to {self._session.broker} at {self.url}")

    def _tell(self, connected: bool, what: str) -> None:
        if self._on_connection is not None:
            self._on_connection(connected, what)

    # -- the end

    async def stop(self) -> None:
        """Stop dialling."""
        await self._moving.stop()
        if self._redialling is not None:
            self._redialling.cancel()
            await asyncio.gather(self._redialling, return_exceptions=True)

    async def leave(self, farewell: bool, at_most_s: float = LEAVE_S) -> None:
        """Stop dialling and hang up: for good with a `farewell`; without one, the session can be resumed."""
        await self.stop()
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.confirm()
            if farewell:
                channel.part("bye")
            else:
                channel.hang_up()
            # The loop may end with this call, and the last bytes must be written by then.
            await channel.wait_gone(at_most_s)


def parse_urls(url: str | Sequence[str]) -> tuple[Url, ...]:
    """Parse one url, several separated by commas, or a list of urls; duplicates are removed."""
    texts = url.split(",") if isinstance(url, str) else [part for text in url for part in text.split(",")]
    urls = tuple(dict.fromkeys(Url.parse(text.strip()) for text in texts))
    if not 0 < len(urls) <= URLS_MAX:
        raise InputError(f"{len(urls)} urls: 1 to {URLS_MAX} brokers to connect to are allowed")
    return urls


def _joined(failures: Sequence[_Failure]) -> OctopiaError:
    """All failures as one error: a refusal only if every broker refused."""
    errors = [failure.error for failure in failures]
    if len(errors) == 1:
        return errors[0]
    refused = all(isinstance(error, RefusedError) for error in errors)
    text = "; ".join(map(str, errors))
    return RefusedError(text) if refused else UnreachableError(f"no broker admits this client: {text}")
