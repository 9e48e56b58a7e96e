"""One broker on the network: the sans-IO core, its links and its clients.

Rules of this file: the core decides, this host moves bytes and time. What happens becomes an event (`Published`,
`Received`, `LinkSampled` …), and what the core orders is carried out at once (`dispatch.py`). `link_up` and `link_down`
are the one place where the core learns that a neighbour came or went, `tick` the one place where time passes.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, get_args

from octopia.net.addresses import Address
from octopia.net.barriers import Barriers
from octopia.net.counters import Counters
from octopia.net.dispatch import Dispatch
from octopia.net.failures import Failures
from octopia.net.handshake import SECRET_BYTES, check_certificate, greet, prove
from octopia.net.limits import NetLimits
from octopia.net.links import Link
from octopia.net.log import Log
from octopia.net.outbox import Source, Turn
from octopia.net.peer import Peer
from octopia.net.rights import Authority
from octopia.net.sessions import Session
from octopia.net.traces import TRACES_MAX, TraceRecord, trace_record
from octopia.routing import (
    Action,
    Broker,
    CongestionParameters,
    Limits,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Message,
    policy_named,
)
from octopia.topology import BrokerId, Scot
from octopia.wire import (
    Barrier,
    BarrierDone,
    Codec,
    CopyHeader,
    Hello,
    Ping,
    Proof,
    WireLimits,
    WireNotification,
    message_frame,
)

# Nothing is under way to a broker that stops when its neighbours have brought no notification for so long.
QUIET_S = 0.1


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
        self.failures = Failures()
        self.peers: dict[Peer, None] = {}
        self.source: Source | None = None
        addresses = neighbours or {}
        a_links, i_links = overlay.a_links(id), overlay.i_links(id)
        self.links = {n: Link(self, n, addresses.get(n)) for n in a_links + i_links}
        self.sessions: dict[str, Session] = {}
        self._by_secret: dict[bytes, Session] = {}
        self.barriers = Barriers(a_links, i_links, self._send_barrier)
        self.core_messages: frozenset[type[Any]] = frozenset(get_args(Message))
        self.dispatch = Dispatch(self, routing, policy_named(routing).uses_civ)
        self.carry_out = self.dispatch.carry_out
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

    def note_trace(self, came_from: str, seen: WireNotification, actions: list[Action]) -> None:
        """Remember what was done with a notification that is traced."""
        header = seen.header
        if header is True or (isinstance(header, CopyHeader) and header.traced):
            self.traces.append(trace_record(self.id, came_from, seen, actions))

    def _send_barrier(self, to: BrokerId, message: Barrier | BarrierDone) -> None:
        self.links[to].send_barrier(message)

    # -- sessions

    def greet(self, peer: Peer, hello: Hello) -> None:
        """A peer said who it is: let it in, or raise `RefusedError`."""
        greet(self, peer, hello)

    def prove(self, peer: Peer, proof: Proof) -> None:
        """A broker that was challenged answered: let it in, or raise `RefusedError`."""
        prove(self, peer, proof)

    def check_certificate(self, peer: Peer, neighbour: BrokerId) -> None:
        """The neighbour that we dialled must prove who it is, too."""
        check_certificate(self, peer, neighbour)

    def add_session(self, session: Session) -> None:
        self.sessions[session.name] = session
        self._by_secret[session.secret] = session

    def session_of(self, secret: bytes) -> Session | None:
        """The session that has this secret."""
        return self._by_secret.get(secret) if secret else None

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
        self.dispatch.ways.forget_old(now)
        self.dispatch.reorder.release_due(now)
        for peer in list(self.peers):
            peer.confirm()
            self._check_life(peer, now)
        for session in list(self.sessions.values()):
            if session.left_s is not None and now - session.left_s > session.session_s:
                self.forget(session)
            elif (session.box.is_full or session.box.holds_up) and self._is_stalled(session, now):
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
        if (box.is_full or box.holds_up) and link.peer is not None and self._is_stalled(link, now):
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

    def drain(self) -> None:
        """Take nothing more from clients, and let nobody in; neighbours may still bring what was under way."""
        self.draining = True
        for peer in list(self.peers):
            if isinstance(peer.owner, Session):
                peer.freeze()

    @property
    def is_drained(self) -> bool:
        """Whether everyone who is connected has confirmed all there was for them, and nothing seems under way."""
        boxes = [s.box for s in self.sessions.values()] + [link.box for link in self.links.values()]
        if any(box.held for box in boxes if box.transport is not None) or len(self.dispatch.reorder):
            return False
        now = self.now()
        return all(now - link.notified_s > QUIET_S for link in self.links.values() if link.peer is not None)

    def stop(self) -> None:
        self.draining = True
        for link in self.links.values():
            link.close()
        for peer in list(self.peers):
            peer.close("shutdown", "the broker stops")
