"""Clients whose session, or whose ids, outlive the process: for programs that start again where they stopped.

`KeptClient` hands the bytes of what it receives to a `keep` of its owner, and confirms to the broker only what was
kept. With the `KeptSession` that was kept beside them, another process takes up the same session: what was not kept is
sent again, what was kept is not. `NumberedClient` publishes under ids that its owner chooses, so that what is published
again after a failure has the ids it had before.

Rules of this file: kept first, confirmed after, both in the same call; so whatever happens to this process, the broker
still has what was not kept. A keeper that fails ends the client, unconfirmed. A keeper that is full is not read for;
the broker's queue and the subscription's policy take over, and a sign of life tells the broker that we are there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from octopia.errors import OctopiaError
from octopia.language import FilterLike
from octopia.net.client import Client
from octopia.net.client_protocol import ClientProtocol
from octopia.wire import Codec, Pong, Welcome, WireLimits, message_frame

SUBSCRIPTION_ID = "kept"
# A broker gives up who is silent for three heartbeats of, as a rule, ten seconds.
SIGN_OF_LIFE_S = 2.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class KeptSession:
    """What is needed to take up a session: where it is, the broker's secret, our name, how many frames were kept."""

    url: str
    secret: bytes
    name: str
    received: int


class Keeper(Protocol):
    """Where a `KeptClient` puts what it receives."""

    def keep(self, parcels: Sequence[bytes], session: KeptSession, dropped: int) -> None:
        """Keep these for good, together with the session; `dropped` were lost at the broker's bound just before."""

    def session_began(self, session: KeptSession) -> None:
        """A session that has nothing to do with the one before: what was published in between may be missing."""

    @property
    def is_full(self) -> bool:
        """Whether no more should be kept for now."""


class _Sealed(Codec):
    """Takes deliveries as the bytes they are: whoever reads what was kept will open them."""

    def _deliver(self, head: bytes, parcel: bytes) -> bytes:  # type: ignore[override]
        return parcel


class KeptClient(Client):
    """A client with one subscription, everything of which goes to a keeper."""

    def __init__(
        self,
        url: str,
        filter: FilterLike,
        keeper: Keeper,
        *,
        session: KeptSession | None = None,
        policy: str = "block",
        ordered: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(url, **options)
        self._codec = _Sealed(WireLimits())
        self._keeper = keeper
        if session is not None:
            self._take_up(session)
        self._kept = self.subscribe(filter, id=SUBSCRIPTION_ID, policy=policy, ordered=ordered)
        # Whether another process began the session.
        self.taken_up = False
        self._told_dropped = 0
        self._life: asyncio.TimerHandle | None = None

    def _take_up(self, session: KeptSession) -> None:
        broker = next((url for url in self.urls if str(url) == session.url), None)
        if broker is not None:
            # The one that has the session is asked first.
            self.urls = (broker, *(url for url in self.urls if url != broker))
            self.url = broker
            self._secret, self._received = session.secret, session.received
            self.name = self.name or session.name

    @property
    def failure(self) -> OctopiaError | None:
        """Why nothing more will come, if so."""
        return self._failure or self._kept._error  # noqa: SLF001  refused when it was registered anew

    async def open(self) -> None:
        """Connect and subscribe, or take up the session. Returns when the subscription is in force, or was before."""
        # Known before the first frame comes: a session that is taken up delivers at once.
        self._subscriptions[SUBSCRIPTION_ID] = self._kept
        await super().open()
        subscribing = asyncio.ensure_future(self.start_subscription(self._kept))
        subscribing.add_done_callback(self._note_refusal)
        # The answer may stand behind deliveries for which there is no room.
        while not self.taken_up and not self._keeper.is_full and not subscribing.done():
            await asyncio.wait([subscribing], timeout=_POLL_S)
        if self._failure is not None:
            await self.close()
            raise self._failure

    def _note_refusal(self, subscribing: "asyncio.Task[None]") -> None:
        if not subscribing.cancelled() and isinstance(error := subscribing.exception(), OctopiaError):
            self._failure = self._failure or error

    def welcomed(self, protocol: ClientProtocol, welcome: Welcome) -> None:
        if welcome.resumed and not self.box.sent:
            # Another process sent these, or nobody did anything yet.
            self.box.sent = self.box.confirmed = welcome.received
            self.taken_up = True
        super().welcomed(protocol, welcome)
        if not welcome.resumed:
            self._guarded(protocol, lambda: self._keeper.session_began(self._session(0)))
        else:
            self._pause_if_full(protocol)

    def lost(self, protocol: ClientProtocol, reason: str) -> None:
        # A keeper that had no room for long is not at fault for good: where a client fails, this one begins anew.
        super().lost(protocol, f"given up: {reason}" if reason.startswith("stalled:") else reason)

    def take_in(self, messages: list[Any]) -> None:
        protocol = self._protocol
        if protocol is None:
            return
        parcels = [message for message in messages if type(message) is bytes]
        if len(parcels) < len(messages):
            super().take_in([message for message in messages if type(message) is not bytes])
        session = self._session(protocol.connection.received)
        dropped, self._told_dropped = self.dropped - self._told_dropped, self.dropped
        self._guarded(protocol, lambda: self._keeper.keep(parcels, session, dropped))
        self._pause_if_full(protocol)

    def _session(self, received: int) -> KeptSession:
        return KeptSession(str(self.url), self._secret, self.name, received)

    def _guarded(self, protocol: ClientProtocol, keep: Any) -> None:
        try:
            keep()
        except (OSError, OctopiaError) as error:
            reason = error if isinstance(error, OctopiaError) else OctopiaError(f"what came cannot be kept: {error}")
            # Nothing of this read is confirmed: a closed connection says nothing more.
            protocol.abort()
            self._fail(reason)

    # -- full, and with room again

    def _pause_if_full(self, protocol: ClientProtocol) -> None:
        if self._keeper.is_full and not protocol.closed:
            protocol.transport.pause_reading()
            if self._life is None:
                self._life = self._loop.call_later(SIGN_OF_LIFE_S, self._give_sign_of_life)

    def _give_sign_of_life(self) -> None:
        self._life = None
        if not self._keeper.is_full:
            self.resume()
        elif self._protocol is not None:
            self._protocol.transport.write(message_frame(Pong()))
            self._life = self._loop.call_later(SIGN_OF_LIFE_S, self._give_sign_of_life)

    def resume(self) -> None:
        """The keeper has room again."""
        if self._life is not None:
            self._life.cancel()
            self._life = None
        if self._protocol is not None and not self._protocol.closed:
            self._protocol.transport.resume_reading()

    # -- marks and ends

    async def caught_up(self) -> None:
        """Wait until all that waited for us at the broker has been kept."""
        # The answer comes through the same queue as deliveries, behind them.
        await self.unadvertise("none")

    async def leave(self) -> None:
        """Go without a word: the session stays, for as long as was agreed, and can be taken up."""
        self._closing = True
        if self._life is not None:
            self._life.cancel()
        if self._redial is not None:
            self._redial.cancel()
            await asyncio.gather(self._redial, return_exceptions=True)
        if self._protocol is not None:
            protocol, self._protocol = self._protocol, None
            protocol.confirm()
            await protocol.close(1.0)


class NumberedClient(Client):
    """A client whose first notification has the id `first_id`; the ids of the next ones count up."""

    def __init__(self, url: str, *, first_id: int, **options: Any) -> None:
        super().__init__(url, **options)
        self._sequence = first_id - 1

    @property
    def last_id(self) -> int:
        """The id of the notification that was published last."""
        return self._sequence
