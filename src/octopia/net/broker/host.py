"""One broker on the network: it is put together here, and here time passes.

Rules of this file: the parts know each other only as far as they were given one another below, and none knows the host.
The core decides (`octopia.routing`), the router carries its decisions to the queues, sessions and links move frames
between queues and channels. `tick` is the one place where time passes.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from octopia.errors import InputError
from octopia.net.addresses import Address
from octopia.net.broker import restart
from octopia.net.broker.barriers import Barriers
from octopia.net.broker.channels import LOOK_S, Channels
from octopia.net.broker.dialler import Dialler
from octopia.net.broker.dispatch import Dispatch
from octopia.net.broker.handshake import Door, check_certificate
from octopia.net.broker.identity import Identity
from octopia.net.broker.intake import Intake
from octopia.net.broker.links import RESTART, Link
from octopia.net.broker.memory import Memory
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.operations.report import LinkReport, Report
from octopia.net.broker.operations.streams_report import streams_report
from octopia.net.broker.operations.traces import Traces
from octopia.net.broker.rights import Authority
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedBroker, SavedLink, SavedSession
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.net.broker.stamped import StampedDispatch
from octopia.net.channel import SILENT_HEARTBEATS
from octopia.net.limits import NetLimits
from octopia.net.outbox import Turn
from octopia.routing import Broker, CongestionParameters, Limits, policy_named, why_not_live
from octopia.topology import BrokerId, Scot
from octopia.wire import Barrier, BarrierDone, Codec, WireLimits

# The code of a goodbye for good.
SHUTDOWN = "shutdown"


class BrokerHost:
    """A broker and everything that is connected to it."""

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        *,
        routing: str = "idr",
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        wire_limits: WireLimits | None = None,
        net_limits: NetLimits | None = None,
        authority: Authority | None = None,
        overlay_digest: str = "",
        tls_dial: ssl.SSLContext | None = None,
        turn: Turn | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.id = id
        self.net_limits = net_limits or NetLimits()
        self.congestion = congestion or CongestionParameters()
        self.now = now or loop.time
        self.log = Log(str(id))
        self.counters = Counters()
        self.traces = Traces(id)
        policy = policy_named(routing)
        if (reason := why_not_live(routing)) is not None:
            raise InputError(reason)
        self.broker = Broker(
            id,
            overlay,
            routing,
            congestion=self.congestion,
            limits=limits or Limits(),
            # Serials must lie above those of an earlier life: the clock does.
            first_serial=time.time_ns() // 1000,
            links_up=policy.recovery is None,
        )
        # TID routing cannot bring tables back in line, so it does not come back as if nothing had happened either.
        self.can_restart = policy.recovery is not None
        self._together: Collection[BrokerId] = ()
        self._saves = False
        self._authority = authority = authority or Authority()
        self._codec = codec = Codec(wire_limits or WireLimits(), overlay)
        identity = Identity(id, overlay_digest, codec.limits.frame_bytes_max, self.net_limits.link_heartbeat_s)
        self._identity = identity
        self.channels = Channels(
            codec, self.net_limits, loop, self.counters, self.log, detours=self.broker.streams is not None
        )
        turn = turn or Turn(loop)
        self.intake = intake = Intake(self.counters)

        # Dispatch puts into the queues of those who, by way of the router, make it do so: it looks them up here.
        sessions: dict[str, Session] = {}
        self.links: dict[BrokerId, Link] = {}
        # By then the other end of a link that went down has noticed it, too.
        noticed_s = SILENT_HEARTBEATS * self.net_limits.link_heartbeat_s + LOOK_S + self.net_limits.detour_grace_s
        self._barriers = barriers = Barriers(
            overlay.a_links(id),
            overlay.i_links(id),
            self._send_barrier,
            settle_s=0.0 if self.broker.streams is None else noticed_s,
            now=self.now,
        )
        self.dispatch = Dispatch(
            id,
            policy,
            self.net_limits,
            sessions=sessions,
            links=self.links,
            barriers=barriers,
            counters=self.counters,
            traces=self.traces,
            now=self.now,
            soon=loop.call_soon,
        )
        stamped = None
        if self.broker.streams is not None:
            stamped = StampedDispatch(
                self.broker.streams,
                self.dispatch,
                codec.dests.stamp,
                sessions=sessions,
                links=self.links,
                intake=intake,
                counters=self.counters,
                traces=self.traces,
            )
        self._router = router = Router(self.broker, self.dispatch, stamped, barriers, self.log, self.now)
        self.sessions = Sessions(
            sessions,
            self.net_limits,
            tick_s=self.congestion.window_s / 2,
            turn=turn,
            router=router,
            intake=intake,
            counters=self.counters,
            log=self.log,
            now=self.now,
            soon=loop.call_soon,
        )
        for neighbour in overlay.a_links(id) + overlay.i_links(id):
            self.links[neighbour] = Link(
                neighbour,
                identity,
                self.net_limits,
                turn=turn,
                router=router,
                barriers=barriers,
                intake=intake,
                log=self.log,
                now=self.now,
                soon=loop.call_soon,
                on_connected=self.sessions.expect_a_rush,
                repeats=self.broker.streams is not None,
            )
        self.memory = Memory(
            self.net_limits,
            clients=self.sessions,
            links=self.links,
            connections=self.channels,
            held_bytes=lambda: self.dispatch.reorder.held_bytes,
            counters=self.counters,
            log=self.log,
        )
        self.door = Door(
            identity,
            authority,
            self.channels,
            self.sessions,
            self.links,
            self.counters,
            self.log,
            self.net_limits,
            lambda: self.memory.is_full,
            self.now,
            loop.call_later,
        )
        self.diallers = {
            neighbour: Dialler(
                id,
                link,
                authority,
                self.channels,
                partial(check_certificate, authority),
                tls_dial,
                self.net_limits.handshake_s,
                loop,
                self.log,
            )
            for neighbour, link in self.links.items()
            if link.dials
        }

    def _send_barrier(self, to: BrokerId, message: Barrier | BarrierDone) -> None:
        self.links[to].send_barrier(message)

    # -- time

    def tick(self) -> None:
        """Called every half window: samples, signs of life, and whatever has waited too long."""
        now = self.now()
        for link in self.links.values():
            link.check_time(now)
        self._router.check_time(now)
        self._barriers.check_time(now)
        self.dispatch.check_time(now)
        self.channels.check_time(now)
        self.sessions.check_time(now)
        self.memory.check(now)

    # -- what others may see

    def report(self) -> Report:
        """The state of the broker at this moment."""
        tables, reorder = self.broker.state, self.dispatch.reorder
        return Report(
            broker=str(self.id),
            overlay=self._identity.overlay_digest,
            routing=self.broker.routing,
            takes_clients=not self.draining,
            counters=self.counters,
            clients=len(self.sessions),
            connections=len(self.channels),
            connections_max=self.door.connections_max,
            handshakes=len(self.door.arrivals),
            memory_bytes=self.memory.used_bytes,
            memory_bytes_max=self.memory.bytes_max,
            subscriptions=len(tables.prt),
            advertisements=len(tables.srt),
            client_queue_frames=sum(len(session.box.waiting) for session in self.sessions.values()),
            publishers_held=self.intake.held,
            dropped_total=self.sessions.dropped_total(),
            held_back_total=reorder.held_total,
            out_of_order_total=reorder.late_total,
            links=tuple(
                LinkReport(
                    str(neighbour),
                    link.is_up,
                    link.channel is not None,
                    len(link.box.waiting),
                    tables.lst.overloaded(neighbour),
                    link.box.left_total,
                    link.dropped,
                )
                for neighbour, link in self.links.items()
            ),
            streams=streams_report(self.broker.streams),
        )

    # -- start and end

    def start(self, addresses: Mapping[BrokerId, Address]) -> None:
        """Look for neighbours, which are at these addresses."""
        for neighbour, dialler in self.diallers.items():
            dialler.address = addresses.get(neighbour)
            dialler.dial()

    @property
    def draining(self) -> bool:
        """Whether it is about to stop and lets nobody in."""
        return self.door.closed

    def drain(self, *, together: Collection[BrokerId] = (), saves: bool = False) -> None:
        """Take nothing more from clients, let nobody in, and ask neighbours to bring nothing more.

        Those who stop `together` with this one, in the same process, are not asked: all of them see when nothing is
        under way between them. With `saves` what waits for clients will be saved, and need not be taken by them.
        """
        self._together, self._saves = together, saves
        self.door.closed = True
        self.door.farewell = RESTART if saves else SHUTDOWN
        self.intake.hold_nobody()
        self.sessions.freeze()
        for session in self.sessions.values():
            session.box.release_all()
        for neighbour, link in self.links.items():
            link.box.release_all()
            if neighbour not in together:
                link.drain()

    @property
    def is_drained(self) -> bool:
        """Whether nothing is under way, and everyone who is connected has confirmed what is not saved for them."""
        if len(self.dispatch.reorder):
            return False
        streams = self.broker.streams
        if streams is not None and not streams.leaves(self.now()):
            # confirmations go with the next tick
            return False
        for session in self.sessions.values():
            if session.channel is not None and session.box.held and not (self._saves and session.session_s):
                return False
        return all(
            (link.channel is None or not link.box.held) if neighbour in self._together else link.is_drained
            for neighbour, link in self.links.items()
        )

    def freeze(self) -> None:
        """Time is over, or nothing is under way: take nothing more from anyone, and write nothing more.

        What is saved then is what every peer knows, but for confirmations that are under way.
        """
        for dialler in self.diallers.values():
            dialler.stop()
        for link in self.links.values():
            link.freeze()
        for session in self.sessions.values():
            session.box.detach()

    def save(self) -> tuple[list[SavedSession], list[SavedLink]]:
        """What our next life needs, once everything is frozen."""
        return restart.save(self.broker, self.sessions, self.links)

    def restore(self, saved: SavedBroker) -> None:
        """Go on where the life before stopped; before links come up, and before anyone is let in."""
        restart.restore(
            saved, self.id, self.sessions, self.links, authority=self._authority, codec=self._codec, log=self.log
        )

    def part(self, code: str, reason: str) -> None:
        """Tell everyone, who then closes."""
        self.channels.part(code, reason)
