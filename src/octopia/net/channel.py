"""One connection, at either end: bytes in and out, confirmations, signs of life, flow control, the goodbye.

A channel lives as long as its connection and knows neither brokers nor clients. Two others speak with it:

- its `End`, from the first moment to the last: it says who we are, answers the handshake, and hears of faults. At a
  broker that is whoever accepts connections, or the link that dialled; at a client, whoever dials.
- its `Owner`, from `carry` on: the session or link whose numbered frames travel here. It has the queue towards the
  peer, gets what one read brought as one batch, and outlives the connection.

        connection made ──▶ End.made ──▶ End.greet(Hello | Welcome | Goodbye) ──carry(owner)──▶ Owner.take_in …
        connection lost ──▶ Owner.lost (where there is one) ──▶ End.gone

How each end uses it:

- Broker: `Channel(Connection(side, codec, joins=True), end, loop, handshake_s=…)`. Its tick calls `confirm` and
  `check_life` for every channel, each kind of peer with its own `Life`.
- Client: `Channel(Connection(Side.CLIENT, codec), end, loop, confirm_s=CONFIRM_S, tells_faults=False)`: its Goodbye is
  only for leaving, since it ends the session. `End.made` says Hello, `End.greet` gets the Welcome and calls `carry`,
  then `watch(welcome.heartbeat_s)`. Nobody ticks there, so the channel has timers.

Rules of this file: an owner hands back every message that is about the connection itself (`manage`), in its order.
What one read brought is confirmed after the owner has dealt with all of it, never before; a question (Ping) is
answered then, too, behind the confirmation. A peer that breaks the protocol is told why and closed; nobody else
notices. Reading stops while anyone asks for it (`hold`). Silence counts only as far as we were there to listen: each
check adds at most twice the time between checks, so that a process that was stopped, or busy, or whose clock jumped,
reads what has come before it gives anybody up.

A read may bring thousands of requests, each with work of its own. At a broker they are dealt with some at a time
(`slice_max`), with a turn of the loop for everyone else in between; meanwhile nothing more is read from that peer, and
what was not dealt with is not confirmed.

A peer that does not read cannot make us keep more and more for it. Confirmations are not written while the socket takes
nothing: the next one says it all. Everything else that is written beside the numbered frames, answers to questions
above all, counts; from `UNREAD_BYTES_MAX` on we do not read from such a peer until it has read, and cut it off if it
takes nothing for `stall_s`. Numbered frames have bounds of their own (`Outbox`).
"""

import asyncio
import socket
from typing import Any, NamedTuple, Protocol, cast

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.backlog import Backlog
from octopia.net.outbox import Outbox, Source
from octopia.wire import Ack, Connection, Goodbye, Ping, Pong, message_frame, reason_text

# Frames that may arrive before they are confirmed, or 25 ms, whichever comes first. Brokers confirm at each tick.
CONFIRM_FRAMES = 512
CONFIRM_S = 0.025
WRITE_BUFFER_BYTES = 32 * 1024
# Of what the system was given, this much may not have left yet. It would take megabytes, and a queue that hides there
# is one that neither Eq. 10 nor a subscription's policy sees.
UNSENT_BYTES = 32 * 1024
# What may be written beside the numbered frames to a peer that does not read; then we do not read from it, either. One
# read may bring as much again.
UNREAD_BYTES_MAX = 256 * 1024
STALL_S = 30.0
# The last words to a peer that does not read them are not kept for longer.
LINGER_S = 5.0
# A peer that was silent for so many heartbeats is not there any more.
SILENT_HEARTBEATS = 3
# The code of a goodbye to a peer that gave no sign of life.
SILENT = "idle"
# How often a channel with a timer of its own looks, in a heartbeat.
_LOOKS_PER_HEARTBEAT = 4
# The reason where nobody gave one.
CLOSED = "the connection was closed"
# What is still taken from a peer whose frames are not taken any more.
_WHEN_FROZEN = frozenset({Ack, Pong, Goodbye})


class Life(NamedTuple):
    """What is expected of a peer, and what it expects of us."""

    every_s: float  # between two checks
    ask_s: float  # silent for so long: ask
    gone_s: float  # silent for so long: it is not there any more
    tell_s: float = 0.0  # give a sign of life when nothing was written for so long; 0 is never


class Holder(Protocol):
    """Something that was full and asked a channel not to read."""

    def forget(self, source: Source) -> None:
        """The channel is gone."""


class Owner(Protocol):
    """The session or link that a channel carries."""

    box: Outbox

    def take_in(self, channel: "Channel", messages: list[Any]) -> None:
        """Deal with what one read brought; what is about the connection goes to `channel.manage`."""

    def lost(self, channel: "Channel", reason: str) -> None:
        """The connection is gone. `channel.goodbye` is what the peer said, if it did."""


class End(Protocol):
    """Who speaks for this end before there is an owner."""

    def made(self, channel: "Channel") -> None:
        """There is a connection: say Hello, or close where there are too many."""

    def greet(self, channel: "Channel", message: Any) -> None:
        """A Hello, a Welcome or a Goodbye came: `carry`, or raise why not."""

    def at_fault(self, channel: "Channel", error: Exception) -> None:
        """The peer broke the protocol or was refused, or, any other error, we failed. The peer has been told."""

    def gone(self, channel: "Channel", reason: str) -> None:
        """The connection is gone, and its owner, where it had one, knows."""


class Channel(asyncio.Protocol):
    """From connection made to connection lost."""

    __slots__ = (
        "_asked",
        "_asked_s",
        "_backlog",
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
        "_is_paused",
        "_left",
        "_life_timer",
        "_loop",
        "_now",
        "_reason",
        "_silent_s",
        "_slice_max",
        "_stall_s",
        "_tells_faults",
        "_told",
        "_unread_bytes",
        "_unread_timer",
        "_untold_s",
        "closing",
        "connection",
        "goodbye",
        "heard_s",
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
        """`handshake_s`: close unless it is carried by then. `confirm_s`: confirm so soon after a frame. 0 is never.

        `slice_max`: deal with at most so many messages of a read in one turn of the loop; 0 is with all. Runs of
        plain notifications are one message.

        `stall_s`: cut off a peer that asks, does not read the answers, and takes nothing for so long.

        Without `tells_faults` the connection is cut where it would be closed with a reason: for ends whose Goodbye
        would end a session that is to go on.
        """
        self.connection = connection
        self.owner: Owner | None = None
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.closing = False
        self.role = ""  # of the peer, once the handshake is done
        self.goodbye: Goodbye | None = None  # what the peer said
        self.heard_s = loop.time()
        self._end = end
        self._loop = loop
        self._now = loop.time
        self._checked_s = loop.time()
        self._silent_s = 0.0  # since the peer was heard, as far as we listened
        self._asked_s = 0.0  # of that, when we asked last
        self._untold_s = 0.0  # since we wrote anything
        self._told = False
        self._left = 0
        self._handshake_s = handshake_s
        self._confirm_s = confirm_s
        self._tells_faults = tells_faults
        self._stall_s = stall_s
        self._confirmed = 0
        self._is_paused = False  # the socket takes nothing at present
        self._unread_bytes = 0  # written beside the numbered frames since then
        self.unfinished_s = 0.0  # for how long a frame has been incomplete
        self._frames_begun = 0
        self._slice_max = slice_max
        self._backlog = Backlog()
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
            # Nobody waits for it any more.
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
        fault: Exception | None = None
        try:
            messages = self.connection.receive(data)
        except RemoteProtocolError as error:
            # What came before it in the same read is good.
            fault, messages = error, self.connection.messages
        if self._backlog and fault is None:
            self._keep_for_later(messages)
        else:
            self._deal_with(messages, fault)

    def _deal_with(self, messages: list[Any], fault: Exception | None = None) -> None:
        try:
            if messages:
                self._hand_on(messages)
        except (RemoteProtocolError, RefusedError) as error:
            fault = fault or error
        except Exception as error:  # noqa: BLE001  a fault of ours ends the connection that met it, and no other
            fault = error
        if fault is not None:
            self._fail(fault)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self.owner is not None and self.owner.box.transport is self.transport:
            self.owner.box.writable = False

    def resume_writing(self) -> None:
        self._is_paused = False
        self._unread_bytes = 0
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        self.release(self)
        if self.owner is not None and self.owner.box.transport is self.transport:
            self.owner.box.resume_writing()
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
        """The handshake is done: a peer in this role, for this session or link, of which so many frames had come."""
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None
        self.owner = owner
        self.role = role
        self._confirmed = received
        self.connection.open(role, received)
        # What came in the same read as the handshake.
        self._loop.call_soon(self.data_received, b"")

    def disown(self) -> None:
        """What it carried goes on elsewhere, or is over: the owner will hear nothing more of this channel."""
        self.owner = None

    def _too_slow(self) -> None:
        self.close("handshake", f"no handshake within {self._handshake_s:g} s")

    # -- messages

    def _hand_on(self, messages: list[Any]) -> None:
        if self._slice_max and len(messages) > self._slice_max and self.owner is not None:
            self._keep_for_later(messages)
            messages = self._backlog.take(self._slice_max)
        last = messages[-1]
        if type(last) is Goodbye:
            # Nothing comes after it.
            self.goodbye = last
        owner = self.owner
        if owner is None:
            for message in messages:
                self._end.greet(self, message)
        else:
            if self._frozen:
                messages = [message for message in messages if type(message) in _WHEN_FROZEN]
            owner.take_in(self, messages)
            if self._asked or self._confirm_s or self.taken - self._confirmed >= CONFIRM_FRAMES:
                self._answer()
        if self.goodbye is not None:
            self.hang_up()

    def _answer(self) -> None:
        """The owner has dealt with what came: confirm it, if it is time, and answer questions."""
        if self._asked:
            asked, self._asked = self._asked, []
            # The question came behind what it confirms, and so does the answer.
            self._confirm()
            if not self.closing:
                self._write(b"".join(message_frame(Pong(number)) for number in asked))
            return
        unconfirmed = self.taken - self._confirmed
        if unconfirmed >= CONFIRM_FRAMES:
            self.confirm()
        elif unconfirmed and self._confirm_s and self._confirm_timer is None:
            self._confirm_timer = self._loop.call_later(self._confirm_s, self.confirm)

    # -- reads that bring much

    def _keep_for_later(self, messages: list[Any]) -> None:
        """Deal with these in slices, one in each turn of the loop, and read no more until that is done."""
        if not self._backlog:
            self.hold(self._backlog)
            self._loop.call_soon(self._next_slice)
        self._backlog.add(messages)

    def _next_slice(self) -> None:
        backlog = self._backlog
        if self.closing or self.owner is None:
            return
        if backlog:
            self._deal_with(backlog.take(self._slice_max))
        if backlog:
            self._loop.call_soon(self._next_slice)
        else:
            self.release(backlog)

    def manage(self, message: Any) -> None:
        """A message about the connection itself."""
        kind = type(message)
        if kind is Ack:
            if self.owner is not None:
                self.owner.box.confirm(message.received)
        elif kind is Ping:
            self._asked.append(message.number)
        elif kind is not Pong and kind is not Goodbye:
            raise RemoteProtocolError(f"{kind.__name__} is not expected here")

    def confirm(self) -> None:
        """Tell the peer how many of its frames were dealt with; if it does not read, as soon as it does."""
        if not self._is_paused:
            self._confirm()

    def _confirm(self) -> None:
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
            self._confirm_timer = None
        taken = self.taken
        if self._frozen or self._confirmed == taken or self.closing or self.owner is None:
            return
        # Answers to these frames go before: who waits for the confirmation knows them by then.
        self.owner.box.flush()
        self._confirmed = taken
        self._write(message_frame(Ack(taken)))

    @property
    def taken(self) -> int:
        """How many numbered frames of the session were dealt with: of those that came after `freeze`, none."""
        return self._confirmed if self._frozen else self.connection.received - self._backlog.numbered

    def freeze(self) -> None:
        """Confirm what has come, and from now on take nothing more: what is not confirmed stays with the peer."""
        self._confirm()
        self._frozen = True

    def say(self, message: Any) -> None:
        """Write a message that is about the connection, beside the numbered frames of the owner's box."""
        if not self.closing:
            self._write(message_frame(message))

    # -- peers that do not read

    def _write(self, data: bytes) -> None:
        """Write something beside the numbered frames."""
        self._told = True
        try:
            self.transport.write(data)
        except RuntimeError:
            # uvloop, of a connection that is closed and not yet said to be lost
            return
        if self._is_paused:
            self._unread_bytes += len(data)
            if self._unread_bytes >= UNREAD_BYTES_MAX:
                self.hold_while_unread()

    def hold_while_unread(self) -> None:
        """Enough waits for the peer: if it does not read at present, do not read from it until it does."""
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
            self.close("stalled", f"it asked, and took nothing for {self._stall_s:g} s")
            self.abort()

    @property
    def unsent_bytes(self) -> int:
        """What the socket has not taken yet, if that is more than usual."""
        return self.transport.get_write_buffer_size() if self._is_paused else 0

    def forget(self, source: Source) -> None:
        """A channel may hold itself, and is gone with itself."""

    # -- frames that are not complete

    def check_frame(self, passed_s: float, frame_s: float) -> None:
        """So much time has passed, in which we listened: close a peer that takes too long to complete a frame."""
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
        """Close, and forget the frame that is not complete at once."""
        self.close("memory", reason)
        self.connection.drop_unfinished()

    # -- signs of life

    def check_life(self, now: float, life: Life) -> None:
        """Ask a peer that has been silent for a sign of life; close where it gave none; give it ours."""
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
            # Also where we do not listen at present: the peer must know that we are there.
            self._asked_s = silent_s
            self.say(Ping())
        if life.tell_s:
            self._tell(passed_s, life.tell_s)

    def _tell(self, passed_s: float, tell_s: float) -> None:
        """Give a sign of life to a peer that we have not written to."""
        box = cast("Owner", self.owner).box
        left = box.left_total
        if self._told or left != self._left or not box.writable:
            # What it has not taken yet is a sign, too.
            self._told, self._left, self._untold_s = False, left, 0.0
            return
        self._untold_s += passed_s
        if self._untold_s >= tell_s:
            self.say(Pong())

    def watch(self, heartbeat_s: float) -> None:
        """Check, where nobody ticks, that a sign of life comes as often as the peer said it would; 0 is never."""
        if heartbeat_s > 0 and not self.closing:
            life = Life(
                heartbeat_s / _LOOKS_PER_HEARTBEAT,
                # It gives signs unasked; the question is for one that does not, or whose sign is late.
                (SILENT_HEARTBEATS - 1) * heartbeat_s,
                SILENT_HEARTBEATS * heartbeat_s,
            )
            self._checked_s = self._now()
            self._life_timer = self._loop.call_later(life.every_s, self._look, life)

    def _look(self, life: Life) -> None:
        self.check_life(self._now(), life)
        if not self.closing:
            self._life_timer = self._loop.call_later(life.every_s, self._look, life)

    # -- reading stops and goes on

    def hold(self, box: Holder) -> None:
        """Stop reading until `release` was called by everyone who asked."""
        if not self._holding and not self.closing:
            self.transport.pause_reading()
        self._holding[box] = None

    def release(self, box: Holder) -> None:
        if self._holding.pop(box, 0) is None and not self._holding and not self.closing:
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
        """Listen to it no more; say why, and close, after this time."""
        self.connection.closed = True
        self.transport.pause_reading()
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._handshake_timer = self._loop.call_later(delay_s, self.close, code, reason)

    def part(self, code: str, reason: str) -> None:
        """Say why, and let the peer close.

        What it still sends is read and passed over: a connection that is closed with something unread is reset, and
        the reset may overtake our last words.
        """
        if self.closing:
            return
        self._reason = f"{code}: {reason}"
        self.say(Goodbye(code, reason_text(reason)))
        self.closing = True
        if self._holding:
            self.transport.resume_reading()

    def hang_up(self) -> None:
        """Close without a word; what was written before still goes out, if the peer reads it within `LINGER_S`."""
        self.closing = True
        if self.transport is not None:
            self.transport.close()
            if self._handshake_timer is not None:
                self._handshake_timer.cancel()
            self._handshake_timer = self._loop.call_later(LINGER_S, self.transport.abort)

    def abort(self) -> None:
        """Close without waiting for what is still to be written: for peers that do not read."""
        self.closing = True
        if self.transport is not None:
            self.transport.abort()

    async def wait_gone(self, at_most_s: float) -> None:
        """Wait until it is closed: in order for so long, then anyhow."""
        try:
            async with asyncio.timeout(at_most_s):
                await asyncio.shield(self._gone)
        except TimeoutError:
            self.abort()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, RefusedError):
            self.close("refused", str(error))
        elif isinstance(error, RemoteProtocolError):
            self.close("protocol", str(error))
        else:
            self.close("internal", f"this end failed at it: {type(error).__name__}")
        self._end.at_fault(self, error)

    @property
    def name(self) -> str:
        """Where the peer is, for the log."""
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")
