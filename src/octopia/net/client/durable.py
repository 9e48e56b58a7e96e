"""Clients whose session, or whose ids, outlive the process: for programs that start again where they stopped.

`KeptClient` hands the bytes of what it receives to a `keep` of its owner, and confirms to the broker only what was
kept. With the `KeptSession` that was kept beside them, another process takes up the same session: what was not kept is
sent again, what was kept is not. `NumberedClient` publishes under ids that its owner chooses, so that what is published
again after a failure has the ids it had before.

Rules of this file: kept first, confirmed after, both in the same call; so whatever happens to this process, the broker
still has what was not kept. A keeper that fails ends the client, unconfirmed. A keeper that is full is not read for;
the broker's queue and the subscription's policy take over, and the channel tells the broker that we are there.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from octopia.errors import OctopiaError
from octopia.language import FilterLike
from octopia.net.channel import Channel
from octopia.net.client.client import Client, ClientOptions
from octopia.net.client.connecting import FINAL
from octopia.net.outbox import Source
from octopia.wire import Codec, WireLimits

SUBSCRIPTION_ID = "kept"
# How long `leave` waits for the last confirmation to be written.
LEAVE_S = 1.0
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
        url: str | Sequence[str],
        filter: FilterLike,
        keeper: Keeper,
        *,
        session: KeptSession | None = None,
        policy: str = "block",
        ordered: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(url, **options)
        self._keeper = keeper
        # Whether another process began the session.
        self.taken_up = False
        self._fresh = True  # not connected yet
        self._told_dropped = 0
        self._parcels: list[bytes] = []  # of the read that is being dealt with
        self._held: Channel | None = None  # that is not read from until the keeper has room
        if session is not None:
            self._take_up(session)
        self._kept = self.subscribe(filter, id=SUBSCRIPTION_ID, policy=policy, ordered=ordered)
        self._connecting.codec = _Sealed(WireLimits())
        # A keeper that had no room for long is not at fault for good: where a client fails, this one begins anew.
        self._connecting.final = frozenset(FINAL) - {"stalled"}
        self._session.keeping = self

    def _take_up(self, kept: KeptSession) -> None:
        broker = next((url for url in self.urls if str(url) == kept.url), None)
        if broker is not None:
            # The one that has the session is asked first.
            self._connecting.prefer(broker)
            self._session.take_up(kept.secret, kept.received, kept.name)

    @property
    def failure(self) -> OctopiaError | None:
        """Why nothing more will come, if so."""
        return self._life.failure or self._kept.error

    async def open(self) -> None:
        """Connect and subscribe, or take up the session. Returns when the subscription is in force, or was before."""
        # Asked before the first frame comes: a session that is taken up delivers at once.
        answer = self._registry.ask_for(self._kept)
        answer.add_done_callback(self._note_refusal)
        await super().open()
        # The answer may stand behind deliveries for which there is no room.
        while not self.taken_up and not self._keeper.is_full and not answer.done():
            await asyncio.wait([answer], timeout=_POLL_S)
        if self._life.failure is not None:
            failure = self._life.failure
            await self.close()
            raise failure

    def _note_refusal(self, answer: "asyncio.Future[None]") -> None:
        if not answer.cancelled() and isinstance(error := answer.exception(), OctopiaError) and not self._life.closed:
            self._fail(error)

    # -- what the session tells: see `session.Keeping`

    def began(self, channel: Channel) -> None:
        self._fresh = False
        self._guarded(channel, lambda: self._keeper.session_began(self._session_now(0)))

    def resumed(self, channel: Channel, received: int) -> None:
        if self._fresh:
            # Another process sent these.
            self._fresh, self.taken_up = False, True
            self._journal.take_up(received)
        self._hold_if_full(channel)

    def keep(self, channel: Channel, messages: list[Any]) -> list[Any]:
        self._parcels = [message for message in messages if type(message) is bytes]
        if len(self._parcels) == len(messages):
            return []
        return [message for message in messages if type(message) is not bytes]

    def kept(self, channel: Channel) -> None:
        parcels, self._parcels = self._parcels, []
        session = self._session_now(channel.connection.received)
        dropped, self._told_dropped = self.dropped - self._told_dropped, self.dropped
        self._guarded(channel, lambda: self._keeper.keep(parcels, session, dropped))
        self._hold_if_full(channel)

    def _session_now(self, received: int) -> KeptSession:
        return KeptSession(str(self.url), self._session.secret, self.name, received)

    def _guarded(self, channel: Channel, keep: Callable[[], None]) -> None:
        try:
            keep()
        except (OSError, OctopiaError) as error:
            reason = error if isinstance(error, OctopiaError) else OctopiaError(f"what came cannot be kept: {error}")
            # Nothing of this read is confirmed: a closed connection says nothing more.
            channel.abort()
            self._fail(reason)

    # -- full, and with room again

    def _hold_if_full(self, channel: Channel) -> None:
        if self._keeper.is_full and not channel.closing:
            self._held = channel
            channel.hold(self)

    def forget(self, source: Source) -> None:
        """The channel is gone."""
        self._held = None

    def resume(self) -> None:
        """The keeper has room again."""
        channel, self._held = self._held, None
        if channel is not None:
            channel.release(self)

    # -- marks and ends

    async def caught_up(self) -> None:
        """Wait until all that waited for us at the broker has been kept."""
        # The answer comes through the same queue as deliveries, behind them.
        await self.unadvertise("none")

    async def leave(self) -> None:
        """Go without a word: the session stays, for as long as was agreed, and can be taken up."""
        self._life.close()
        self._end(OctopiaError("the client has left"), quietly=True)
        await self._connecting.leave(farewell=False, at_most_s=LEAVE_S)


class NumberedClient(Client):
    """A client whose first notification has the id `first_id`; the ids of the next ones count up."""

    def __init__(self, url: str | Sequence[str], *, first_id: int, **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, first_id=first_id, **options)
