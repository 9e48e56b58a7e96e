"""A move from one live broker to another that loses, duplicates and reorders nothing.

    registering     the new broker receives all registrations; the old one continues as before
    in force        the registrations are in force there: from now on every notification comes from both
    committed       everything sent to the old broker is confirmed: later entries go to the new one
    left            the old broker has delivered what was in flight, and is left
    over            the new broker has delivered what the old one had delivered before

Deliveries. Throughout the move, deliveries of the old broker are handed on as they arrive, and those of the new one are
held back. The client leaves the old broker when `OVERLAP_S` has passed, the broker has answered a question queued
behind its deliveries, and it has delivered everything that the new one had delivered by then; after `OVERLAP_S_MAX` in
any case. Then the held deliveries follow, except those that the old broker delivered. For another `AFTER_S`, deliveries
of the new broker are compared with those of the old one, which may have been quicker. So every subscription gets each
notification once, in the order of the old broker and then of the new one. A notification can be lost only if it was
published before the new broker's subscriptions were in force and either takes longer than that to reach the old broker
or was there when it died. It can be duplicated only if the new broker takes `AFTER_S` longer than the old one.

Publications. The journal pauses until the old broker has confirmed everything, and continues with the new one, so
nothing is published twice. If that takes longer than `QUIET_S`, the move is abandoned without effect.

Failures. Before it is committed, a failed move leaves the client where it was. If the connection to the old broker
breaks after that, the client reconnects and resumes the session, as long as there is time.

Bounds: at most `HELD_MAX` deliveries are held back; then the new broker is not read from until the old one is left. At
most `SEEN_MAX` deliveries of the old broker are remembered; then it is left.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import structs

from octopia.errors import OctopiaError, RefusedError, UnreachableError
from octopia.net.addresses import Url
from octopia.net.channel import CONFIRM_S, Channel
from octopia.net.client.journal import Journal
from octopia.net.client.nearest import dial
from octopia.net.client.registry import Registry
from octopia.net.client.session import Session
from octopia.net.client.subscription import Subscription
from octopia.net.frame_queue import FrameQueue, Source, Turn
from octopia.net.pauses import Pauses
from octopia.wire import (
    ROLE_BROKER,
    Accepted,
    Codec,
    Connection,
    Crowded,
    DecodedDeliveries,
    Deliveries,
    Delivery,
    Dropped,
    Goodbye,
    Hello,
    Refused,
    Side,
    TooOld,
    Welcome,
    unadvertise_frame,
)

OVERLAP_S = 2.0
OVERLAP_S_MAX = 15.0
AFTER_S = 15.0
QUIET_S = 5.0
# How long the new broker may take to accept us and put all registrations in force.
REGISTER_S = 15.0
HELD_MAX = 10_000
SEEN_MAX = 200_000
_POLL_S = 0.005
# No advertisement has this id: withdrawing it changes nothing, and the answer is queued behind all deliveries.
_NOTHING = "none"
_Seen = dict[tuple[str, str], set[str]]


class _Knock:
    """The `End` of a connection dialled here, until its owner takes over."""

    def __init__(self, hello: Hello, codec: Codec) -> None:
        loop = asyncio.get_running_loop()
        self._hello = hello
        self.channel = Channel(Connection(Side.CLIENT, codec), self, loop, confirm_s=CONFIRM_S, tells_faults=False)
        self.answer: asyncio.Future[Welcome] = loop.create_future()
        self.answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.welcomed: Callable[[Channel, Welcome], None] = lambda channel, welcome: None

    def made(self, channel: Channel) -> None:
        channel.say(self._hello)

    def greet(self, channel: Channel, message: Any) -> None:
        if isinstance(message, Welcome):
            # At once: the same read may contain more.
            self.welcomed(channel, message)
            if not self.answer.done():
                self.answer.set_result(message)
        elif isinstance(message, Goodbye):
            self._fail(RefusedError(message.reason))

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self._fail(OctopiaError(str(error)))

    def gone(self, channel: Channel, reason: str) -> None:
        self._fail(UnreachableError(reason))

    def _fail(self, error: OctopiaError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def leave(self) -> None:
        """Say goodbye, or cancel the connection if there is none yet."""
        channel = self.channel
        channel.disown()
        if self.answer.done() and not channel.closing:
            channel.part("bye")
        else:
            channel.abort()
        self._fail(UnreachableError("given up"))

    async def dial(self, url: Url, tls: ssl.SSLContext | None) -> Welcome:
        await dial(self.channel, url, tls)
        return await self.answer


class Move:
    """One move of one client. The `Owner` of the new broker's connection until it is committed."""

    def __init__(
        self,
        session: Session,
        journal: Journal,
        registry: Registry,
        old: Channel,
        *,
        old_url: Url,
        url: Url,
        tls: ssl.SSLContext | None,
        codec: Codec,
    ) -> None:
        self.old = old
        self.old_url = old_url
        self.url = url
        self.queue = FrameQueue(Turn(), journal.queue.frames_max, journal.queue.bytes_max)
        self.is_over = False
        self._has_left = False
        self._session = session
        self._journal = journal
        self._registry = registry
        self._tls = tls
        self._codec = codec
        self._standing = registry.standing()
        self._subscriptions: dict[str, Subscription] = dict(registry.subscriptions)
        self._missing = dict.fromkeys(self._standing)
        self._knock = _Knock(session.hello(fresh=True), codec)
        self._knock.welcomed = self._welcomed
        self.channel = self._knock.channel
        self.welcome: Welcome | None = None
        self._in_force: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_force.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._held: list[Delivery] = []
        self._dropped = 0  # by the new broker, while its deliveries were held back
        self._seen: _Seen = {}
        self._behind: set[tuple[str, str]] | None = None  # still to be delivered by the old one, once known
        self._old_has_answered = False
        self._caught_up = asyncio.Event()
        self._full: Channel | None = None  # not read from until the old broker is left
        self._tail: _Tail | None = None

    # -- registering

    async def register(self) -> None:
        """Put all registrations in force at the new broker; raises `OctopiaError` if that fails."""
        try:
            async with asyncio.timeout(REGISTER_S):
                await self._knock.dial(self.url, self._tls)
                await self._in_force
        except TimeoutError:
            raise UnreachableError(
                f"{self.url} did not put all registrations in force within {REGISTER_S:g} s"
            ) from None
        except OSError as error:
            raise UnreachableError(f"{self.url} cannot be reached: {error}") from None

    def _welcomed(self, channel: Channel, welcome: Welcome) -> None:
        self.welcome = welcome
        channel.carry(self, ROLE_BROKER, 0)
        channel.watch(welcome.heartbeat_s)
        self.queue.attach(channel.transport, 0)
        self.queue.put_all(self._standing.values())
        if not self._missing:
            self._in_force.set_result(None)

    def take_in(self, channel: Channel, messages: Iterable[Any]) -> None:
        """Handle messages of the new broker before the move is committed."""
        for message in messages:
            kind = type(message)
            if isinstance(message, Deliveries):
                for delivery in message.decoded():
                    self.hold_back(delivery, channel)
            elif kind is Dropped:
                self._dropped += message.count
            elif kind is TooOld:
                pass  # the old broker reports these, too
            elif kind is Accepted:
                self._missing.pop((message.request, message.id), None)
                if not self._missing and not self._in_force.done():
                    self._in_force.set_result(None)
            elif kind is Refused:
                self._fail(RefusedError(message.reason))
            elif kind is Crowded:
                self._fail(UnreachableError(f"{self.url} is overloaded itself"))
            else:
                channel.manage(message)

    def lost(self, channel: Channel, reason: str) -> None:
        """The new broker's connection was lost before the move was committed."""
        self._fail(UnreachableError(f"{self.url}: {reason}"))

    def _fail(self, error: OctopiaError) -> None:
        if not self._in_force.done():
            self._in_force.set_exception(error)

    # -- committing

    async def quieten(self) -> bool:
        """Pause the journal until the old broker has confirmed and answered everything; returns whether it has."""
        position = self._journal.pause()
        try:
            async with asyncio.timeout(QUIET_S):
                await self._journal.wait_confirmed_to(position)
                while not self._registry.is_settled(position):
                    await asyncio.sleep(_POLL_S)
        except (TimeoutError, OctopiaError):
            return False
        return self._may_commit()

    def _may_commit(self) -> bool:
        """Whether nothing has changed in the meantime."""
        return (
            not self.is_over
            and self.welcome is not None
            and not self.channel.closing
            and self.channel.owner is self
            and not self.old.closing
            and self.old.owner is self._session
            and self._registry.standing() == self._standing
        )

    def commit(self) -> None:
        """Switch the client to the new broker; the old one delivers what is left."""
        welcome = self.welcome
        assert welcome is not None  # noqa: S101  otherwise it may not be committed
        self._tail = _Tail(self, self._session, self.old, self._journal.queue.confirmed, self._codec, self._tls)
        self.channel.owner = self._session
        self._session.moved(self.channel, welcome, self._dropped)
        self._journal.move(self.channel.transport, len(self._standing))
        self._tail.begin()

    # -- deliveries of both

    def note(self, delivery: Delivery, ids: tuple[str, ...]) -> None:
        """Note a delivery of the old broker that was handed on to these subscriptions."""
        key = delivery.publisher, delivery.id
        self._seen.setdefault(key, set()).update(ids)
        if self._behind is not None:
            self._behind.discard(key)
            self._look()
        if len(self._seen) >= SEEN_MAX:
            self._caught_up.set()

    def hold_back(self, delivery: Delivery, channel: Channel) -> None:
        """Hold a delivery of the new broker until the old one is left, except for subscriptions new to it."""
        if self._has_left:
            self._release(delivery, channel)
            return
        now = [
            id
            for id in delivery.subscriptions
            if self._registry.subscriptions.get(id) is not self._subscriptions.get(id)
        ]
        for id in now:
            subscription = self._registry.subscriptions.get(id)
            if subscription is not None:
                subscription.take_in(DecodedDeliveries.of(delivery), channel)
        if len(now) < len(delivery.subscriptions):
            self._held.append(delivery)
            if len(self._held) >= HELD_MAX and self._full is None:
                self._full = channel
                channel.hold(self)

    def deliver_old(self, delivery: Delivery, channel: Channel) -> None:
        """Hand on a delivery of the old broker, after the move was committed."""
        for id in self._current(delivery):
            self._subscriptions[id].take_in(DecodedDeliveries.of(delivery), channel)
        self.note(delivery, delivery.subscriptions)

    def _current(self, delivery: Delivery) -> list[str]:
        """Its subscriptions that were made before the move and are still the same."""
        before, now = self._subscriptions, self._registry.subscriptions
        return [id for id in delivery.subscriptions if id in before and now.get(id) is before[id]]

    # -- the end

    def old_answered(self) -> None:
        self._old_has_answered = True
        self._look()

    @property
    def is_committed(self) -> bool:
        return self._tail is not None

    def old_gone(self) -> None:
        """The old broker will deliver nothing more."""
        self._caught_up.set()

    def _look(self) -> None:
        if self._behind is not None and not self._behind and self._old_has_answered:
            self._caught_up.set()

    async def finish(self) -> None:
        """Wait until the old broker has delivered what was in flight, then leave it."""
        try:
            async with asyncio.timeout(OVERLAP_S_MAX):
                try:
                    async with asyncio.timeout(OVERLAP_S):
                        await self._caught_up.wait()
                except TimeoutError:
                    self._behind = {key for held in self._held if (key := (held.publisher, held.id)) not in self._seen}
                    self._look()
                    await self._caught_up.wait()
        except TimeoutError:
            pass
        self._leave_old()
        await asyncio.sleep(AFTER_S)

    def end(self) -> None:
        """End the move: leave the old broker if it was committed, and otherwise the new one."""
        if self.is_over:
            return
        self._leave_old()
        self.is_over = True
        self._session.overlap = None
        if self._tail is None:
            # Nothing has happened.
            self._journal.unpause()
            self._fail(UnreachableError("given up"))
            self._knock.leave()

    def _leave_old(self) -> None:
        """Leave the old broker and release the held deliveries."""
        if self._has_left or self._tail is None:
            return
        self._has_left = True
        self._tail.leave()
        if not self._old_has_answered:
            # What waited there when the move began may be lost.
            self._session.note_gap(self._subscriptions.values(), "the broker that it left did not answer to the end")
        held, self._held = self._held, []
        for delivery in held:
            # To others it went at once.
            self._release(delivery, self.channel, self._current(delivery))
        full, self._full = self._full, None
        if full is not None:
            full.release(self)

    def _release(self, delivery: Delivery, channel: Channel, ids: Sequence[str] | None = None) -> None:
        """Hand on a delivery of the new broker to the subscriptions that the old one has not served."""
        seen = self._seen.pop((delivery.publisher, delivery.id), ())
        for id in delivery.subscriptions if ids is None else ids:
            subscription = self._registry.subscriptions.get(id)
            if subscription is not None and (id not in seen or subscription is not self._subscriptions.get(id)):
                subscription.take_in(DecodedDeliveries.of(delivery), channel)

    def forget(self, source: Source) -> None:
        """The new broker's connection is gone."""
        self._full = None


class _Tail:
    """The rest of the session with the old broker: the `Owner` of its connections."""

    def __init__(
        self,
        move: Move,
        session: Session,
        channel: Channel,
        sent: int,
        codec: Codec,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.queue = FrameQueue(Turn(), HELD_MAX, 1 << 20)
        self.queue.sent = self.queue.confirmed = sent
        self._move = move
        self._channel: Channel | None = channel
        self._session = session
        self._hello = session.hello()
        self._codec = codec
        self._tls = tls
        self._received = 0
        self._over = False
        self._resuming: asyncio.Task[None] | None = None

    def begin(self) -> None:
        channel = self._channel
        assert channel is not None  # noqa: S101  there is one at the beginning
        channel.owner = self
        self.queue.attach(channel.transport, self.queue.sent)
        self.queue.put(unadvertise_frame(_NOTHING))

    def take_in(self, channel: Channel, messages: Iterable[Any]) -> None:
        move = self._move
        for message in messages:
            kind = type(message)
            if isinstance(message, Deliveries):
                for delivery in message.decoded():
                    move.deliver_old(delivery, channel)
            elif kind is Dropped:
                # These may still come from the new broker.
                self._session.count_dropped(message.count)
            elif kind is TooOld:
                # The same drops at the new broker are not counted again.
                self._session.too_old += message.count
            elif kind is Accepted:
                if message.id == _NOTHING:
                    move.old_answered()
            elif kind is not Refused and kind is not Crowded:
                channel.manage(message)

    def lost(self, channel: Channel, reason: str) -> None:
        self._channel = None
        self.queue.detach()
        if not self._over:
            self._received = channel.connection.received
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        """Try to resume the session until it is known to be gone, or the move ends."""
        pauses = Pauses()
        while not self._over:
            knock = _Knock(structs.replace(self._hello, received=self._received), self._codec)
            knock.welcomed = self._welcomed
            try:
                await knock.dial(self._move.old_url, self._tls)
            except (OctopiaError, OSError):
                knock.channel.abort()
                await asyncio.sleep(pauses.next_s())
                continue
            if self._channel is None:
                self._move.old_gone()
            return

    def _welcomed(self, channel: Channel, welcome: Welcome) -> None:
        channel.carry(self, ROLE_BROKER, self._received if welcome.resumed else 0)
        if not welcome.resumed or self._over:
            # The broker has forgotten us, and nobody needs this new session.
            channel.disown()
            channel.part("bye")
            return
        channel.watch(welcome.heartbeat_s)
        self._channel = channel
        self.queue.attach(channel.transport, welcome.received)

    def leave(self) -> None:
        self._over = True
        if self._resuming is not None:
            self._resuming.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.confirm()
            channel.disown()
            channel.part("bye")
