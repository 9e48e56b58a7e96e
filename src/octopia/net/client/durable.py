"""Clients whose session outlives the process, for programs that resume where they stopped.

`KeptClient` hands the bytes of each delivery to its owner's `keep`, and confirms to the broker only deliveries that
were kept. With the `KeptSession` stored beside them, another process resumes the same session: the broker resends only
deliveries that were not kept.

Deliveries are kept first and confirmed after, in the same call. Whatever happens to this process, the broker still has
everything that was not kept. If the keeper fails, the client ends without confirming. While the keeper is full, the
client does not read: the broker's queue and the subscription's policy take over, and the channel sends heartbeats.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from octopia.errors import OctopiaError
from octopia.language import FilterLike
from octopia.net.channel import Channel
from octopia.net.client.client import Client, ClientOptions
from octopia.net.client.connecting import FINAL
from octopia.net.frame_queue import Source
from octopia.wire import Codec, Cut, WireLimits

SUBSCRIPTION_ID = "kept"
# How long `leave` waits for the last confirmation to be written.
LEAVE_S = 1.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class KeptSession:
    """All that is needed to resume a session: its broker, the broker's secret, our name, the number of kept frames."""

    url: str
    secret: bytes
    name: str
    received: int


class Keeper(Protocol):
    """Storage for the deliveries of a `KeptClient`."""

    def keep(self, parcels: Sequence[bytes], session: KeptSession, dropped: int) -> None:
        """Store these durably, together with the session; the broker's full queue dropped `dropped` just before."""

    def session_began(self, session: KeptSession) -> None:
        """A new session began, unrelated to the last one: notifications published in between may be missing."""

    @property
    def is_full(self) -> bool:
        """Whether to stop keeping for now."""


class _Sealed(Codec):
    """Takes deliveries as raw bytes; the reader of the stored bytes decodes them."""

    def deliveries(self, cut: Cut) -> list[bytes]:
        return cut[0]


class KeptClient(Client):
    """A client with one subscription, whose deliveries all go to a keeper."""

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
        self._parcels: list[bytes] = []  # of the current read
        self._held: Channel | None = None  # not read from until the keeper has room
        if session is not None:
            self._take_up(session)
        self._kept = self.subscribe(filter, id=SUBSCRIPTION_ID, policy=policy, ordered=ordered)
        self._connecting.codec = _Sealed(WireLimits())
        # A keeper without room for long is not a permanent failure: where other clients fail, this one starts over.
        self._connecting.final = frozenset(FINAL) - {"stalled"}
        self._session.keeping = self
        # The stored deliveries belong to one session, which is not left for another while its broker is there.
        self._session.moves = False

    def _take_up(self, kept: KeptSession) -> None:
        broker = next((url for url in self.urls if str(url) == kept.url), None)
        if broker is not None:
            # Try the broker that has the session first.
            self._connecting.prefer(broker)
            self._session.take_up(kept.secret, kept.received, kept.name)

    @property
    def failure(self) -> OctopiaError | None:
        """The reason why no more deliveries will arrive, if there is one."""
        return self._life.failure or self._kept.error

    async def open(self) -> None:
        """Connect and subscribe, or resume the session. Returns when the subscription is in force, or was already."""
        # Ask before the first frame arrives: a resumed session delivers at once.
        answer = self._registry.ask_for(self._kept)
        answer.add_done_callback(self._note_refusal)
        await super().open()
        # The answer may be queued behind deliveries for which there is no room.
        while not self.taken_up and not self._keeper.is_full and not answer.done():
            await asyncio.wait([answer], timeout=_POLL_S)
        if self._life.failure is not None:
            failure = self._life.failure
            await self.close()
            raise failure

    def _note_refusal(self, answer: "asyncio.Future[None]") -> None:
        if not answer.cancelled() and isinstance(error := answer.exception(), OctopiaError) and not self._life.closed:
            self._fail(error)

    # -- called by the session

    def began(self, channel: Channel) -> None:
        """A new session began."""
        self._fresh = False
        self._guarded(channel, lambda: self._keeper.session_began(self._session_now(0)))

    def resumed(self, channel: Channel, received: int) -> None:
        """A session resumes; the broker has `received` of its frames."""
        if self._fresh:
            # Another process sent these.
            self._fresh, self.taken_up = False, True
            self._journal.take_up(received)
        self._hold_if_full(channel)

    def keep(self, channel: Channel, given: Iterable[Any]) -> list[Any]:
        """Take the deliveries of one read; returns the rest, which the session handles before `kept`."""
        messages = list(given)
        self._parcels = [parcel for message in messages if type(message) is list for parcel in message]
        return [message for message in messages if type(message) is not list]

    def kept(self, channel: Channel) -> None:
        """All of this read has been handled: store its deliveries."""
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
            reason = error if isinstance(error, OctopiaError) else OctopiaError(f"deliveries cannot be stored: {error}")
            # Nothing of this read is confirmed: a closed connection sends nothing more.
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
        """Wait until everything queued for us at the broker has been kept."""
        # The answer comes through the same queue as deliveries, after them.
        await self.unadvertise("none")

    async def leave(self) -> None:
        """Disconnect without a goodbye: the session stays for the agreed time and can be resumed."""
        self._life.close()
        self._end(OctopiaError("the client has left"), quietly=True)
        await self._connecting.leave(farewell=False, at_most_s=LEAVE_S)
