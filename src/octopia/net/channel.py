"""One connection, at either end: bytes in and out, confirmations, signs of life, flow control, the goodbye.

A channel lives as long as its connection and knows neither brokers nor clients. Two other objects use it:

- its `End`, for the whole lifetime: it identifies us, answers the handshake, and is told of faults. At a broker that is
  the listener, or the link that dialled; at a client, the dialler.
- its `Owner`, from `carry` on: the session or link whose numbered frames travel here. It has the queue towards the
  peer, gets the messages of one read as one batch, and outlives the connection.

        connection made ──▶ End.made ──▶ End.greet(Hello | Welcome | Goodbye) ──carry(owner)──▶ Owner.take_in …
        connection lost ──▶ Owner.lost (where there is one) ──▶ End.gone

How each end uses it:

- Broker: `Channel(Connection(side, codec), end, loop, handshake_s=…)`. Its tick calls `confirm` and
  `check_life` for every channel, each kind of peer with its own `Heartbeats`.
- Client: `Channel(Connection(Side.CLIENT, codec), end, loop, confirm_s=CONFIRM_S, tells_faults=False)`: its Goodbye is
  only for leaving, since it ends the session. `End.made` says Hello, `End.greet` gets the Welcome and calls `carry`,
  then `watch(welcome.heartbeat_s)`. A client has no tick, so the channel has timers.

An owner hands back every message about the connection itself (`manage`), in order. The frames of one read are confirmed
after the owner has handled all of them, never before; a question (Ping) is answered then, too, after the confirmation.
A peer that breaks the protocol is told why and closed; no other connection notices. Reading stops while anyone asks for
it (`hold`). Silence counts only while we were listening: each check adds at most twice the time between checks, so a
process that was stopped or busy, or whose clock jumped, reads its input before it gives up on a peer.

A read may contain thousands of requests, each with its own work. A broker handles them in slices (`slice_max`), with an
iteration of the event loop for everyone else in between. Meanwhile nothing more is read from that peer, and unhandled
requests are not confirmed.

A peer that does not read cannot make us store more and more for it. Confirmations are not written while the socket is
blocked: the next one covers them all. Everything else written beside the numbered frames, mainly answers to questions,
counts: from `UNREAD_BYTES_MAX` on, we stop reading from such a peer until it reads, and cut it off if it takes nothing
for `stall_s`. Numbered frames have their own bounds (`FrameQueue`).
"""

import asyncio
import socket
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.frame_queue import FrameQueue, Source
from octopia.wire import Ack, Connection, Counted, Goodbye, Ping, Pong, Unread, message_frame, reason_text

# Frames that may arrive before they are confirmed, or 25 ms, whichever comes first. Brokers confirm at each tick.
CONFIRM_FRAMES = 512
CONFIRM_S = 0.025
WRITE_BUFFER_BYTES = 32 * 1024
# How much of our output the system may buffer. It would take megabytes, and neither Eq. 10 nor a subscription's policy
# sees a queue that hides there.
UNSENT_BYTES = 32 * 1024
# How much may be written beside the numbered frames to a peer that does not read; then we stop reading from it, too.
# One read may add as much again.
UNREAD_BYTES_MAX = 256 * 1024
STALL_S = 30.0
# How long the goodbye is kept for a peer that does not read it.
LINGER_S = 5.0
# A peer that is silent for this many heartbeats is gone.
SILENT_HEARTBEATS = 3
# The goodbye code for a peer that gave no sign of life.
SILENT = "idle"
# How often per heartbeat a channel with its own timer checks.
_LOOKS_PER_HEARTBEAT = 4
_PONG = message_frame(Pong())
# The default reason.
CLOSED = "the connection was closed"
# Messages still accepted from a peer whose frames are no longer accepted.
_WHEN_FROZEN = frozenset({Ack, Pong, Goodbye})


class Heartbeats(NamedTuple):
    """Signs of life that we expect of a peer, and that it expects of us."""

    every_s: float  # between two checks
    ask_s: float  # ask after this much silence
    gone_s: float  # after this much silence the peer is gone
    tells: bool = False  # give a sign of life at each check


class Holder(Protocol):
    """A full object that asked a channel not to read."""

    def forget(self, source: Source) -> None:
        """The channel is gone."""


class Owner(Protocol):
    """The session or link that a channel carries."""

    queue: FrameQueue

    def take_in(self, channel: "Channel", messages: Iterator[Any]) -> None:
        """Handle the messages of one read; those about the connection go to `channel.manage`."""

    def lost(self, channel: "Channel", reason: str) -> None:
        """The connection is gone. `channel.goodbye` is the peer's goodbye, if there was one."""


class End(Protocol):
    """Represents this end before there is an owner."""

    def made(self, channel: "Channel") -> None:
        """The connection is made: say Hello, or close it if there are too many."""

    def greet(self, channel: "Channel", message: Any) -> None:
        """Handle a Hello, a Welcome or a Goodbye: `carry`, or raise the reason for refusing."""

    def at_fault(self, channel: "Channel", error: Exception) -> None:
        """The peer broke the protocol or was refused; any other error is our own. The peer has been told."""

    def gone(self, channel: "Channel", reason: str) -> None:
        """The connection is gone, and its owner, if there is one, has been told."""


class _Slices:
    """Holds a channel whose last read is handled in slices."""

    def forget(self, source: Source) -> None:
        """The channel is gone."""


_SLICES = _Slices()


def _when_frozen(messages: Iterator[Any]) -> Iterator[Any]:
    """The messages that are still accepted; the others are passed over, and stay with the peer."""
    for message in messages:
        if type(message) is Unread:
            message.skip()
        elif type(message) in _WHEN_FROZEN:
            yield message


class Channel(asyncio.Protocol):
    """From connection made to connection lost."""

    __slots__ = (
        "_asked",
        "_asked_s",
        "_checked_s",
        "_confirm_s",
        "_confirm_timer",
        "_confirmed",
        "_end",
        "_frames_begun",
        "_frozen",
        "_gone",
        "_handshake_s",
        "_handshake_timer",
        "_holding",
        "_is_noted",
        "_is_paused",
        "_life_timer",
        "_loop",
        "_now",
        "_reason",
        "_silent_s",
        "_slice_max",
        "_stall_s",
        "_tells_faults",
        "_unread_bytes",
        "_unread_timer",
        "closing",
        "connection",
        "goodbye",
        "heard_s",
        "ledger",
        "owner",
        "role",
        "transport",
        "unfinished_s",
    )

    def __init__(
        self,
        connection: Connection,
        end: End,
        loop: asyncio.AbstractEventLoop,
        *,
        handshake_s: float = 0.0,
        confirm_s: float = 0.0,
        slice_max: int = 0,
        stall_s: float = STALL_S,
        tells_faults: bool = True,
    ) -> None:
        """`handshake_s`: timeout of the handshake. `confirm_s`: confirm a frame within this time. 0: never.

        `slice_max`: handle at most this many messages of a read per iteration of the event loop; 0: all. A run of
        notifications is one message.

        `stall_s`: cut off a peer that asks, does not read the answers, and takes nothing for this long.

        Without `tells_faults`, a faulty connection is cut instead of closed with a reason: for ends whose Goodbye would
        end a session that is to continue.
        """
        self.connection = connection
        self.owner: Owner | None = None
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.closing = False
        self.role = ""  # of the peer, once the handshake is done
        self.goodbye: Goodbye | None = None  # of the peer
        self.heard_s = loop.time()
        self._end = end
        self._loop = loop
        self._now = loop.time
        self._checked_s = loop.time()
        self._silent_s = 0.0  # since the peer's last sign of life, as far as we listened
        self._asked_s = 0.0  # of that, when we asked last
        # Channels for which the next tick has something to do: this one enters itself.
        self.ledger: dict[Channel, None] | None = None
        self._is_noted = False
        self._handshake_s = handshake_s
        self._confirm_s = confirm_s
        self._tells_faults = tells_faults
        self._stall_s = stall_s
        self._confirmed = 0
        self._is_paused = False  # the socket is blocked
        self._unread_bytes = 0  # written beside the numbered frames since then
        self.unfinished_s = 0.0  # for how long a frame has been incomplete
        self._frames_begun = 0
        self._slice_max = slice_max
        self._asked: list[int] = []  # numbers of questions to be answered after this read
        self._holding: dict[Holder, None] = {}
        self._frozen = False
        self._reason = ""  # why we ended it
        self._gone: asyncio.Future[None] = loop.create_future()
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._confirm_timer: asyncio.TimerHandle | None = None
        self._life_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.closing:
            # Nothing waits for it any more.
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        carrier = transport.get_extra_info("socket")
        if carrier is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        if self._handshake_s > 0:
            self._handshake_timer = self._loop.call_later(self._handshake_s, self._too_slow)
        self._end.made(self)

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        self.heard_s = self._now()
        self._silent_s = 0.0
        self.connection.feed(data)
        if _SLICES not in self._holding:
            self._work()
        if not self._is_noted and (self.connection.received != self._confirmed or self.connection.unfinished_bytes):
            self._note()

    def _note(self) -> None:
        if self.ledger is not None and not self._is_noted:
            self._is_noted = True
            self.ledger[self] = None

    def _work(self) -> None:
        """Handle the messages at hand."""
        try:
            self._hand_on()
        except Exception as error:  # noqa: BLE001  a fault, also our own, ends this connection only
            self._fail(error)

    def pause_writing(self) -> None:
        self._is_paused = True
        self._note()
        if self.owner is not None and self.owner.queue.transport is self.transport:
            self.owner.queue.writable = False

    def resume_writing(self) -> None:
        self._is_paused = False
        self._unread_bytes = 0
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        self.release(self)
        if self.owner is not None and self.owner.queue.transport is self.transport:
            self.owner.queue.resume_writing()
        self._confirm()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        for timer in (self._handshake_timer, self._confirm_timer, self._life_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        for holder in self._holding:
            holder.forget(self)
        self._holding.clear()
        if not self._gone.done():
            self._gone.set_result(None)
        reason = self._why(exc)
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.lost(self, reason)
        self._end.gone(self, reason)

    def _why(self, exc: Exception | None) -> str:
        if self._reason:
            return self._reason
        if self.goodbye is not None:
            return f"{self.goodbye.code}: {self.goodbye.reason}"
        return str(exc) if exc else CLOSED

    # -- handshake

    def carry(self, owner: Owner, role: str, received: int) -> None:
        """End the handshake: carry this session or link for a peer in this role; `received` frames had arrived."""
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None
        self.owner = owner
        self.role = role
        self._confirmed = received
        self.connection.open(role, received)
        # Messages in the same read as the handshake.
        self._loop.call_soon(self.data_received, b"")

    def disown(self) -> None:
        """Detach the owner, which continues elsewhere or is over: it gets no more calls from this channel."""
        self.owner = None

    def _too_slow(self) -> None:
        self.close("handshake", f"no handshake within {self._handshake_s:g} s")

    # -- messages

    def _hand_on(self) -> None:
        owner, connection = self.owner, self.connection
        if owner is None:
            for message in connection.messages():
                if type(message) is Goodbye:
                    self.goodbye = message
                self._end.greet(self, message)
                if self.owner is not None:
                    # `carry` arranges for the rest
                    return
            if self.goodbye is not None:
                self.hang_up()
            return
        messages = connection.messages()
        if self._frozen:
            messages = _when_frozen(messages)
        if self._slice_max:
            messages = islice(messages, self._slice_max)
        owner.take_in(self, messages)
        if self._asked or self._confirm_s or self.taken - self._confirmed >= CONFIRM_FRAMES:
            self._answer()
        if self.goodbye is not None:
            self.hang_up()
        elif connection.has_more and not self.closing and self.owner is not None:
            self._go_on_later()

    def _answer(self) -> None:
        """Called when the owner has handled a read: confirm it, if it is time, and answer questions."""
        if self._asked:
            asked, self._asked = self._asked, []
            # The question followed the confirmed frames, so the answer follows the confirmation.
            self._confirm()
            if not self.closing:
                self._write(b"".join(message_frame(Pong(number)) for number in asked))
            return
        unconfirmed = self.taken - self._confirmed
        if unconfirmed >= CONFIRM_FRAMES:
            self.confirm()
        elif unconfirmed and self._confirm_s and self._confirm_timer is None:
            self._confirm_timer = self._loop.call_later(self._confirm_s, self.confirm)

    # -- large reads

    def _go_on_later(self) -> None:
        """Handle the rest of a read in slices, one per iteration of the event loop; read no more until that is done."""
        if _SLICES not in self._holding:
            self.hold(_SLICES)
        self._loop.call_soon(self._next_slice)

    def _next_slice(self) -> None:
        if self.closing or self.owner is None:
            return
        self._work()
        if not self.connection.has_more:
            self.release(_SLICES)

    def manage(self, message: Any) -> None:
        """Handle a message about the connection itself."""
        kind = type(message)
        if kind is Ack:
            if self.owner is not None:
                self.owner.queue.confirm(message.received)
        elif kind is Ping:
            self._asked.append(message.number)
        elif kind is Goodbye:
            # Nothing comes after it.
            self.goodbye = message
        elif kind not in (Pong, Counted):  # nothing waits for such an answer any more
            raise RemoteProtocolError(f"{kind.__name__} is not expected here")

    def check(self, passed_s: float, frame_s: float) -> bool:
        """At a tick: confirm what was handled, and check an incomplete frame; returns whether the next tick is to look.

        `passed_s` is the time that we listened since the last tick, `frame_s` the time that a frame may take.
        """
        self.confirm()
        if self.connection.unfinished_bytes:
            self.check_frame(passed_s, frame_s)
        self._is_noted = bool(
            self._is_paused or self.connection.unfinished_bytes or self.connection.received != self._confirmed
        )
        return self._is_noted and not self.closing

    def confirm(self) -> None:
        """Tell the peer how many of its frames were handled; if it does not read, as soon as it does."""
        if not self._is_paused:
            self._confirm()

    def _confirm(self) -> None:
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
            self._confirm_timer = None
        taken = self.taken
        if self._frozen or self._confirmed == taken or self.closing or self.owner is None:
            return
        # Answers to these frames go first, so that they arrive before the confirmation.
        self.owner.queue.flush()
        self._confirmed = taken
        self._write(message_frame(Ack(taken)))

    @property
    def taken(self) -> int:
        """The number of handled frames of the session, without those that came after `freeze`."""
        return self._confirmed if self._frozen else self.connection.received

    def freeze(self) -> None:
        """Confirm the frames so far and accept no more: unconfirmed frames stay with the peer."""
        self._confirm()
        self._frozen = True

    def say(self, message: Any) -> None:
        """Write a message about the connection, beside the numbered frames of the owner's queue."""
        self.write_beside(message_frame(message))

    def write_beside(self, frame: bytes) -> None:
        """Like `say`, for a frame made by the caller."""
        if not self.closing:
            self._write(frame)

    # -- peers that do not read

    def _write(self, data: bytes) -> None:
        """Write something beside the numbered frames."""
        try:
            self.transport.write(data)
        except RuntimeError:
            # uvloop raises this for a closed connection not yet reported as lost.
            return
        if self._is_paused:
            self._unread_bytes += len(data)
            if self._unread_bytes >= UNREAD_BYTES_MAX:
                self.hold_while_unread()

    def hold_while_unread(self) -> None:
        """If the peer does not read at the moment, stop reading from it until it does."""
        if self._is_paused and self not in self._holding and not self.closing:
            self.hold(self)
            self._watch_unread(self.unsent_bytes)

    def _watch_unread(self, unsent_bytes: int) -> None:
        self._unread_timer = self._loop.call_later(self._stall_s, self._check_unread, unsent_bytes)

    def _check_unread(self, unsent_bytes: int) -> None:
        self._unread_timer = None
        if self not in self._holding or self.closing:
            return
        left = self.unsent_bytes
        if left < unsent_bytes:
            self._watch_unread(left)
        else:
            self.close("stalled", f"it asked, and did not read for {self._stall_s:g} s")
            self.abort()

    @property
    def unsent_bytes(self) -> int:
        """The bytes not yet taken by the socket, if more than usual."""
        return self.transport.get_write_buffer_size() if self._is_paused else 0

    def forget(self, source: Source) -> None:
        """Nothing to do: a channel may hold itself, and then both are gone."""

    # -- incomplete frames

    def check_frame(self, passed_s: float, frame_s: float) -> None:
        """Close a peer that takes too long to complete a frame; `passed_s` is the time that we listened."""
        connection = self.connection
        if not connection.unfinished_bytes or self._frames_begun != connection.frames_begun:
            self.unfinished_s = 0.0
            self._frames_begun = connection.frames_begun
        elif not self._holding:
            self.unfinished_s += passed_s
            if self.unfinished_s > frame_s:
                self.close(SILENT, f"a frame was not complete within {frame_s:g} s")

    @property
    def unfinished_bytes(self) -> int:
        return self.connection.unfinished_bytes

    def drop_unfinished(self, reason: str) -> None:
        """Close, and drop the incomplete frame at once."""
        self.close("memory", reason)
        self.connection.drop_unfinished()

    # -- signs of life

    def check_life(self, now: float, life: Heartbeats) -> None:
        """Ask a silent peer for a sign of life, close it if it gave none, and give ours."""
        passed_s = now - self._checked_s
        self._checked_s = now
        if self.owner is None or self.closing:
            return
        if not self._silent_s:
            self._asked_s = 0.0
        self._silent_s = silent_s = self._silent_s + min(passed_s, 2 * life.every_s)
        if silent_s > life.gone_s and not self._holding:
            self.close(SILENT, f"no sign of life for {life.gone_s:g} s")
            self.abort()
            return
        if silent_s - self._asked_s >= life.ask_s:
            # Even while we do not listen: the peer must know that we are there.
            self._asked_s = silent_s
            self.say(Ping())
        if life.tells and self.owner.queue.writable:
            # Unsent output is a sign of life, too.
            self.write_beside(_PONG)

    def watch(self, heartbeat_s: float) -> None:
        """Without a tick, check that the peer's signs of life arrive as often as promised; 0: never."""
        if heartbeat_s > 0 and not self.closing:
            life = Heartbeats(
                heartbeat_s / _LOOKS_PER_HEARTBEAT,
                # The peer gives signs unasked; ask only if it does not, or if one is late.
                (SILENT_HEARTBEATS - 1) * heartbeat_s,
                SILENT_HEARTBEATS * heartbeat_s,
            )
            self._checked_s = self._now()
            self._life_timer = self._loop.call_later(life.every_s, self._look, life)

    def _look(self, life: Heartbeats) -> None:
        self.check_life(self._now(), life)
        if not self.closing:
            self._life_timer = self._loop.call_later(life.every_s, self._look, life)

    # -- reading stops and goes on

    def hold(self, holder: Holder) -> None:
        """Stop reading until `release` was called by everyone who asked."""
        if not self._holding and not self.closing:
            self.transport.pause_reading()
        self._holding[holder] = None

    def release(self, holder: Holder) -> None:
        if self._holding.pop(holder, 0) is None and not self._holding and not self.closing:
            # A peer that was not read from could not give a sign of life.
            self._silent_s = 0.0
            self.transport.resume_reading()

    @property
    def is_held(self) -> bool:
        return bool(self._holding)

    # -- the end

    def close(self, code: str, reason: str) -> None:
        """Say why, and close."""
        if self.closing:
            return
        self._reason = f"{code}: {reason}"
        if self._tells_faults:
            self.say(Goodbye(code, reason_text(reason)))
            self.hang_up()
        else:
            self.abort()

    def close_later(self, delay_s: float, code: str, reason: str) -> None:
        """Stop reading now; say why, and close, after this time."""
        self.connection.closed = True
        self.transport.pause_reading()
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._handshake_timer = self._loop.call_later(delay_s, self.close, code, reason)

    def part(self, code: str, reason: str = "") -> None:
        """Say why, and let the peer close.

        Further input is read and ignored: closing a connection with unread input resets it, and the reset may overtake
        our last words. After `LINGER_S` the connection is closed all the same.
        """
        if self.closing:
            return
        self._reason = f"{code}: {reason}"
        self.say(Goodbye(code, reason_text(reason)))
        self.closing = True
        if self._holding:
            self.transport.resume_reading()
        self._end_within(LINGER_S)

    def hang_up(self) -> None:
        """Close without a word; what was written before still goes out, if the peer reads it within `LINGER_S`."""
        self.closing = True
        if self.transport is not None:
            self.transport.close()
            self._end_within(LINGER_S)

    def _end_within(self, linger_s: float) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._handshake_timer = self._loop.call_later(linger_s, self.transport.abort)

    def abort(self) -> None:
        """Close without waiting for what is still to be written: for peers that do not read."""
        self.closing = True
        if self.transport is not None:
            self.transport.abort()

    async def wait_gone(self, at_most_s: float) -> None:
        """Wait until it is closed: in order within this time, then by force."""
        try:
            async with asyncio.timeout(at_most_s):
                await asyncio.shield(self._gone)
        except TimeoutError:
            if self.transport.get_write_buffer_size() or self.transport.get_extra_info("sslcontext") is not None:
                self.abort()
            else:
                # A peer that reads later still finds our last words.
                self.transport.close()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, RefusedError):
            self.close("refused", str(error))
        elif isinstance(error, RemoteProtocolError):
            self.close("protocol", str(error))
        else:
            self.close("internal", f"this end failed to handle it: {type(error).__name__}")
        self._end.at_fault(self, error)

    @property
    def name(self) -> str:
        """Where the peer is, for the log."""
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")
