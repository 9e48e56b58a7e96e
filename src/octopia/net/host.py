"""One broker on the network: the sans-IO core, its links and its clients.

Rules of this file: the core decides, this host moves bytes and time. What happens becomes an event (`Published`,
`Received`, `LinkSampled` …), and the actions that come back are carried out at once, in order: a delivery is encoded
once for all its recipients, a message once for all its links. `link_up` and `link_down` are the one place where the
core learns that a neighbour came or went.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, get_args

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import Address, is_loopback
from octopia.net.barriers import CLUSTER, REGION, Barriers
from octopia.net.counters import Counters
from octopia.net.limits import NetLimits
from octopia.net.links import Link, frames_of
from octopia.net.log import Log
from octopia.net.order import Reorder, Ways
from octopia.net.outbox import Source, Turn
from octopia.net.peer import Peer
from octopia.net.rights import Authority, Rights
from octopia.net.sessions import Session
from octopia.net.traces import TRACES_MAX, TraceRecord, trace_record
from octopia.routing import (
    Accepted,
    Action,
    Broker,
    CongestionParameters,
    Deliver,
    Limits,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Message,
    Notify,
    Send,
    policy_named,
)
from octopia.topology import BrokerId, Scot
from octopia.wire import (
    NAME_CHARS_MAX,
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Barrier,
    BarrierDone,
    Codec,
    CopyHeader,
    Hello,
    Ping,
    Welcome,
    WireLimits,
    WireNotification,
    deliver_frame,
    link_frames,
    message_frame,
)

SECRET_BYTES = 16
CAPABILITIES = ["trace"]
# A request whose answer must wait until it is in force, and where.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}


class BrokerHost:
    """A broker and everything that is connected to it."""

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        *,
        routing: str = "idr",
        neighbours: Mapping[BrokerId, Address] | None = None,
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        wire_limits: WireLimits | None = None,
        net_limits: NetLimits | None = None,
        authority: Authority | None = None,
        overlay_digest: str = "",
        turn: Turn | None = None,
    ) -> None:
        self.id = id
        self.overlay = overlay
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time
        self.turn = turn or Turn(self.loop)
        self.codec = Codec(wire_limits or WireLimits())
        self.net_limits = net_limits or NetLimits()
        self.authority = authority or Authority()
        self.overlay_digest = overlay_digest
        self.congestion = congestion or CongestionParameters()
        # Serials must lie above those of an earlier life: the clock does.
        # TID routing cannot bring tables back in line, so it is not told of links.
        self._recovers = policy_named(routing).recovery is not None
        self.broker = Broker(
            id,
            overlay,
            routing,
            congestion=self.congestion,
            limits=limits or Limits(),
            first_serial=time.time_ns() // 1000,
            links_up=not self._recovers,
        )
        self.life = secrets.token_bytes(SECRET_BYTES)
        self.log = Log(str(id))
        self.counters = Counters()
        self.peers: dict[Peer, None] = {}
        self.source: Source | None = None
        addresses = neighbours or {}
        a_links, i_links = overlay.a_links(id), overlay.i_links(id)
        self.links = {n: Link(self, n, addresses.get(n)) for n in a_links + i_links}
        self.sessions: dict[str, Session] = {}
        self._by_secret: dict[bytes, Session] = {}
        self.barriers = Barriers(a_links, i_links, self._send_barrier)
        # TID routing registers along advertisement trees, which these questions do not follow.
        self._confirms_in_force = policy_named(routing).uses_civ
        self.core_messages: frozenset[type[Any]] = frozenset(get_args(Message))
        self.ways = Ways(id, self.net_limits.reorder_hold_s)
        self.reorder = Reorder(self.deliver, self.net_limits.reorder_notifications_max)
        # Static routing keeps order by itself.
        self._orders = routing == "idr"
        self.unordered_subscriptions = 0
        self.traces: deque[TraceRecord] = deque(maxlen=TRACES_MAX)
        self.dropped_before = 0
        self.draining = False
        self.tls_dial: Any = None

    # -- the core learns of links

    def link_up(self, neighbour: BrokerId) -> None:
        """A neighbour is there: for the first time, or again after it was gone or restarted."""
        if self._recovers:
            self.carry_out(self.broker.handle(LinkCameUp(neighbour), self.now()))
        # After what brings the tables in line, so that questions follow it.
        self.barriers.link_up(neighbour)

    def link_down(self, neighbour: BrokerId) -> None:
        """A neighbour is gone; what was queued for it is lost."""
        self.log.warning("link down", neighbour=str(neighbour))
        if self._recovers:
            self.carry_out(self.broker.handle(LinkWentDown(neighbour), self.now()))
        self.barriers.link_down(neighbour)

    def link_given_up(self, neighbour: BrokerId) -> None:
        """A neighbour that is gone is not expected back soon."""
        self.log.warning("link given up", neighbour=str(neighbour))
        if self._recovers:
            self.carry_out(self.broker.handle(LinkGivenUp(neighbour), self.now()))
        self.barriers.link_given_up(neighbour)

    # -- actions

    def carry_out(self, actions: list[Action]) -> None:
        """Do what the core ordered."""
        last: Message | None = None
        frames: list[bytes] = []
        for action in actions:
            kind = type(action)
            if kind is Deliver:
                if self._orders:
                    self._deliver_in_order(action)  # type: ignore[arg-type]
                else:
                    self.deliver(action)  # type: ignore[arg-type]
            elif kind is Send:
                message = action.message  # type: ignore[union-attr]
                if type(message) is Notify and (message.civ or self.ways):
                    self._send_stamped(action.to, message)  # type: ignore[union-attr]
                    continue
                if message is not last:
                    last, frames = message, frames_of(message)
                self.links[action.to].send(message, frames)  # type: ignore[union-attr]
            else:
                self._answer(action)

    def note_trace(self, came_from: str, seen: WireNotification, actions: list[Action]) -> None:
        """Remember what was done with a notification that is traced."""
        header = seen.header
        if header is True or (isinstance(header, CopyHeader) and header.traced):
            self.traces.append(trace_record(self.id, came_from, seen, actions))

    def _send_stamped(self, to: BrokerId, message: Notify) -> None:
        """A copy that is diverted, or follows one that was: it may overtake others, and says so."""
        header = self.ways.header(to, message, self.now())
        self.links[to].send(message, link_frames(message, header))

    def _deliver_in_order(self, order: Deliver) -> None:
        seen = order.notification
        if seen.header is None and not self.reorder.waiting and not self.unordered_subscriptions:  # type: ignore[attr-defined]
            # Nothing was diverted, nothing waits.
            self.reorder.last[order.publisher] = seen.sequence  # type: ignore[attr-defined]
            self.deliver(order)
            return
        now = self.now()
        if not self.unordered_subscriptions:
            self.reorder.take(order, now)
            return
        sessions = self.sessions
        anyhow = tuple(r for r in order.recipients if r.client in sessions and sessions[r.client].takes_any(r[1]))
        if anyhow:
            self.deliver(Deliver(order.publisher, order.id, order.notification, anyhow))
        if len(anyhow) < len(order.recipients):
            rest = tuple(r for r in order.recipients if r not in anyhow)
            self.reorder.take(Deliver(order.publisher, order.id, order.notification, rest), now)

    def deliver(self, order: Deliver) -> None:
        """Put a notification into the queues of its recipients: one frame for all whose subscription ids are equal."""
        # Every notification here came by a wire.
        parcel = order.notification.parcel  # type: ignore[attr-defined]
        frames: dict[tuple[str, ...], bytes] = {}
        sessions = self.sessions
        for client, subscriptions in order.recipients:
            frame = frames.get(subscriptions)
            if frame is None:
                frame = frames[subscriptions] = deliver_frame(subscriptions, parcel)
            session = sessions.get(client)
            if session is None:
                continue
            box = session.box
            box.put(frame)
            if (len(box.waiting) >= box.frames_max or box.waiting_bytes >= box.bytes_max) and box.is_full:
                session.overflow(frame, subscriptions)
        self.counters.deliveries += len(order.recipients)

    def _answer(self, action: Any) -> None:
        session = self.sessions.get(action.client)
        if session is None:
            return
        if not isinstance(action, Accepted):
            session.refuse(action.request, action.id, action.reason)
            return
        scope = _IN_FORCE.get(action.request) if self._confirms_in_force else None
        if scope is None:
            session.accept(action.request, action.id)
        else:
            # The messages of this registration come later in the same list of actions: ask after them.
            self.loop.call_soon(self._confirm_later, session, action.request, action.id, scope)

    def _confirm_later(self, session: Session, request: str, id: str, scope: bool) -> None:
        self.barriers.when_in_force(scope, lambda: session.accept(request, id))

    def _send_barrier(self, to: BrokerId, message: Barrier | BarrierDone) -> None:
        self.links[to].send_barrier(message)

    # -- handshakes

    def greet(self, peer: Peer, hello: Hello) -> None:
        """A peer said who it is: let it in, or raise `RefusedError`."""
        if VERSION not in hello.versions:
            raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
        if self.draining:
            raise RefusedError("this broker is about to stop")
        if hello.role == ROLE_CLIENT:
            self._greet_client(peer, hello)
        elif hello.role == ROLE_BROKER:
            self._greet_broker(peer, hello)
        else:
            raise RefusedError(f"unknown role {hello.role!r}; there are {ROLE_CLIENT} and {ROLE_BROKER}")

    def _greet_broker(self, peer: Peer, hello: Hello) -> None:
        link = next((link for n, link in self.links.items() if str(n) == hello.name), None)
        if link is None:
            raise RefusedError(f"{hello.name!r} is no neighbour of {self.id}")
        if hello.to != str(self.id):
            raise RefusedError(f"this is broker {self.id}, not {hello.to}; an address is wrong")
        if hello.overlay != self.overlay_digest:
            raise RefusedError(f"{hello.name} was started with another overlay; use the same file everywhere")
        address = peer.transport.get_extra_info("peername")
        loopback = isinstance(address, tuple) and is_loopback(address[0])
        self.authority.check_broker(hello, link.neighbour, certificate_name(peer), loopback)
        link.accept(peer, hello)

    def check_certificate(self, peer: Peer, neighbour: BrokerId) -> None:
        """The neighbour that we dialled must prove who it is, too."""
        if self.authority.tls and certificate_name(peer) != str(neighbour):
            raise RemoteProtocolError(
                f"the certificate at the address of {neighbour} is for {certificate_name(peer)!r}"
            )

    def _greet_client(self, peer: Peer, hello: Hello) -> None:
        rights = self.authority.client(hello, certificate_name(peer), self.id)
        session = self._by_secret.get(hello.session) if hello.session else None
        resumed = session is not None and session.rights == rights
        if session is None or not resumed:
            session = self._new_session(hello, rights)
        elif session.peer is not None:
            # The old connection is dead, and we had not noticed.
            old = session.peer
            session.lost(old, False)
            old.owner = None
            old.close("replaced", "the session goes on with another connection")
        received = session.received if resumed else 0
        peer.transport.write(
            message_frame(
                Welcome(
                    VERSION,
                    str(self.id),
                    session.name,
                    [name for name in hello.capabilities if name in CAPABILITIES],
                    session.secret,
                    resumed,
                    received,
                    session.session_s,
                    self.codec.limits.frame_bytes_max,
                    self.net_limits.heartbeat_s,
                )
            )
        )
        self.counters.sessions_resumed += resumed
        session.attach(peer, hello.received if resumed else 0)
        peer.carry(session, ROLE_CLIENT, received)

    def _new_session(self, hello: Hello, rights: Rights) -> Session:
        name = hello.name or (f"{rights.name}/" if rights.name else "") + f"c-{secrets.token_hex(6)}"
        if not name.isprintable() or len(name) > NAME_CHARS_MAX:
            raise RefusedError(f"a client's name is printable and has at most {NAME_CHARS_MAX} characters")
        rights.check_name(name)
        known = self.sessions.get(name)
        if known is not None:
            if known.peer is not None or known.rights != rights:
                raise RefusedError(f"a client named {name!r} is connected already; choose another name")
            # It came back without its session, having forgotten it: the old one has nobody to wait for.
            self.forget(known)
        session_s = min(hello.session_s, self.net_limits.session_s_max)
        session = Session(self, name, secrets.token_bytes(SECRET_BYTES), session_s, rights)
        self.sessions[name] = session
        self._by_secret[session.secret] = session
        return session

    def forget(self, session: Session) -> None:
        """A client is gone for good and leaves nothing behind."""
        if self.sessions.get(session.name) is session:
            session.leave(self.now())
            self.dropped_before += session.box.dropped_total
            del self.sessions[session.name]
            del self._by_secret[session.secret]

    def end_session(self, session: Session, code: str, reason: str) -> None:
        """We end it, and say why."""
        if session.ended:
            return
        session.ended = True
        self.counters.sessions_ended_slow += 1
        self.log.warning("client disconnected", client=session.name, reason=reason)
        peer = session.peer
        if peer is not None:
            session.lost(peer, False)
            peer.owner = None
            peer.close(code, reason)
        # Not from inside the delivery that filled its queue.
        self.loop.call_soon(self.forget, session)

    # -- time

    def tick(self) -> None:
        """Called every half window: samples, signs of life, and whatever has waited too long."""
        now = self.now()
        for link in self.links.values():
            self._sample(link, now)
            link.check_time(now)
        self.ways.forget_old(now)
        self.reorder.release_due(now)
        for peer in list(self.peers):
            peer.confirm()
            self._check_life(peer, now)
        for session in list(self.sessions.values()):
            if session.left_s is not None and now - session.left_s > session.session_s:
                self.forget(session)
            elif session.box.is_full and self._is_stalled(session, now):
                self.end_session(session, "stalled", f"it took nothing for {self.net_limits.stall_s:g} s")

    def _check_life(self, peer: Peer, now: float) -> None:
        """Ask who has been silent for a sign of life; close who gives none."""
        heartbeat_s = self.net_limits.heartbeat_s
        silent_s = now - peer.heard_s
        if silent_s < heartbeat_s or peer.owner is None:
            return
        if silent_s > 3 * heartbeat_s and not peer.is_held:
            peer.close("idle", f"no sign of life for {3 * heartbeat_s:g} s")
            peer.abort()
        elif now - peer.pinged_s >= heartbeat_s:
            # Also to whom we do not listen at present: it must know that we are there.
            peer.pinged_s = now
            peer.transport.write(message_frame(Ping()))

    def _sample(self, link: Link, now: float) -> None:
        box = link.box
        waiting = len(box.waiting)
        left = box.left_total
        sample = (waiting, left + waiting, left)
        if sample != link.sampled or waiting:
            link.sampled = sample
            self.broker.handle(LinkSampled(link.neighbour, *sample), now)
        if box.is_full and link.peer is not None and self._is_stalled(link, now):
            self.log.warning("link stalled", neighbour=str(link.neighbour))
            link.peer.abort()

    def _is_stalled(self, owner: Session | Link, now: float) -> bool:
        confirmed = owner.box.confirmed
        if owner.stalled_since is None or owner.stalled_since[1] != confirmed:
            owner.stalled_since = (now, confirmed)
        return now - owner.stalled_since[0] > self.net_limits.stall_s

    def dropped_total(self) -> int:
        """Deliveries dropped at full queues, of clients that are here and of those that have gone."""
        return self.dropped_before + sum(session.box.dropped_total for session in self.sessions.values())

    # -- start and end

    def dial_options(self, address: Address) -> dict[str, Any]:
        if self.tls_dial is None:
            return {}
        return {"ssl": self.tls_dial, "server_hostname": address.host}

    def start(self) -> None:
        for link in self.links.values():
            link.start()

    def stop(self) -> None:
        self.draining = True
        for link in self.links.values():
            link.close()
        for peer in list(self.peers):
            peer.close("shutdown", "the broker stops")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be written to anyone who is connected."""
        boxes = [s.box for s in self.sessions.values()] + [link.box for link in self.links.values()]
        return not any(box.waiting for box in boxes if box.transport is not None)


def certificate_name(peer: Peer) -> str:
    """The common name of the peer's certificate; empty where it has none."""
    certificate = peer.transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
