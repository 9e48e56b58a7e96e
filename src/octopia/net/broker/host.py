"""One broker on the network: assembles its parts and drives their time.

The parts know each other only through the references passed below, and none knows the host. The core decides
(`octopia.routing`), the router carries its decisions to the queues, and sessions and links move frames between queues
and channels. `tick` is the only place where time advances.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from octopia.errors import InputError
from octopia.net.addresses import Address
from octopia.net.broker import restart
from octopia.net.broker.aliases import Aliases
from octopia.net.broker.barriers import Barriers
from octopia.net.broker.channels import LOOK_S, Channels
from octopia.net.broker.client_queue import LEAVING
from octopia.net.broker.counting import Counting
from octopia.net.broker.dialler import Dialler
from octopia.net.broker.engine.order import Order
from octopia.net.broker.engine.reference import ReferenceEngine
from octopia.net.broker.flushes import Flushes
from octopia.net.broker.handshake import Door, check_certificate
from octopia.net.broker.heap import give_back
from octopia.net.broker.identity import Identity, OverlayIdentity
from octopia.net.broker.intake import Intake
from octopia.net.broker.links import RESTART, SHUTDOWN, Link
from octopia.net.broker.load import LoadWatch
from octopia.net.broker.memory import GROWTH_PART, Memory
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.episodes import Episodes, LinkVerdict
from octopia.net.broker.operations.log import Log
from octopia.net.broker.operations.paging import Pages
from octopia.net.broker.operations.report import LinkFigures, Report
from octopia.net.broker.operations.streams_report import streams_report
from octopia.net.broker.operations.traces import Traces
from octopia.net.broker.qos import ORDINARY, Qos
from octopia.net.broker.recorder import Recorder
from octopia.net.broker.rights import Authority
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedBroker, SavedState
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.net.broker.tables import sources
from octopia.net.channel import SILENT_HEARTBEATS
from octopia.net.frame_queue import WEIGHTS, FrameQueue, Ledger, Turn
from octopia.net.limits import NetLimits
from octopia.routing import DEFAULT_ROUTING, Broker, CongestionParameters, Limits, Policy, policy_named, why_not_live
from octopia.topology import BrokerId, Scot
from octopia.wire import Codec, Crowded, WireLimits

# The share of `drain_s` in which destinations may confirm what was published here: if a link has fallen silent, that
# takes until the silence is noticed and everything was sent again by other links.
CONFIRM_SHARE = 0.7


class HostParts(NamedTuple):
    """The settings of a broker that its parts share."""

    id: BrokerId
    overlay: Scot
    policy: Policy[Any]
    limits: NetLimits
    congestion: CongestionParameters
    qos: Qos
    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    wall: Callable[[], float]
    log: Log
    counters: Counters

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        return self.overlay.a_links(self.id) + self.overlay.i_links(self.id)


class BrokerHost:
    """A broker and everything that is connected to it."""

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        *,
        routing: str = DEFAULT_ROUTING,
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        covering: str = "none",
        wire_limits: WireLimits | None = None,
        net_limits: NetLimits | None = None,
        authority: Authority | None = None,
        name: str = "",
        tls_dial: ssl.SSLContext | None = None,
        turn: Turn | None = None,
        now: Callable[[], float] | None = None,
        wall: Callable[[], float] = time.time,
        qos: Sequence[Qos] = (),
        recorder: Recorder | None = None,
        alias_token: str = "",
        compiled: bool = False,
    ) -> None:
        """`name` is the overlay's; `qos` is per cluster; `wall` is the wall clock, for deadlines only.

        For `alias_token` see `aliases`. `compiled`: whether to use the compiled engine from the start; `use_compiled`
        changes to it later.
        """
        if (reason := why_not_live(routing)) is not None:
            raise InputError(reason)
        loop = asyncio.get_running_loop()
        own = qos[id.cluster] if qos else ORDINARY
        self._parts = parts = HostParts(
            id,
            overlay,
            policy_named(routing),
            own.net_limits(net_limits or NetLimits()),
            own.congestion(congestion or CongestionParameters()),
            own,
            loop,
            now or loop.time,
            wall,
            Log(str(id)),
            Counters(),
        )
        self.id, self.now, self.log, self.counters = id, parts.now, parts.log, parts.counters
        self.net_limits, self.congestion = parts.limits, parts.congestion
        # TID routing cannot resync tables, so its broker does not resume as if nothing had happened.
        self.can_restart = parts.policy.recovery is not None
        self.broker = Broker(
            id,
            overlay,
            routing,
            congestion=self.congestion,
            limits=limits or Limits(),
            # Serials must exceed those from before a restart: the clock does.
            first_serial=time.time_ns() // 1000,
            links_up=not self.can_restart,
            covering=covering,
        )
        self._together: Collection[BrokerId] = ()
        self._saves = False
        self._confirm_until_s = 0.0
        self._links_drain = False  # whether neighbours were asked
        self._authority = authority or Authority()
        self._codec = Codec(wire_limits or WireLimits(), overlay)
        self._identity = Identity(
            id,
            OverlayIdentity(name, overlay, routing),
            self._codec.limits.frame_bytes_max,
            self.net_limits.client_sign_s,
        )
        self.channels = Channels(
            self._codec, self.net_limits, loop, self.counters, self.log, detours=self.broker.streams is not None
        )
        # Engine, router and queues refer to each other through these.
        self._clients: dict[str, Session] = {}
        self.links: dict[BrokerId, Link] = {}
        self.intake = Intake(self.counters)
        bounds = self.net_limits.away_bytes_max, self.net_limits.memory_bytes_max
        self._ledger = Ledger(min(bounds) // GROWTH_PART, lambda: self.memory.grew(self.now()))
        self.traces = Traces(id, overlay.brokers, overlay.clusters, self._link_now, self._fate)
        turn = turn or Turn(loop)
        self._make_routing(turn)
        self._make_queues(turn, Aliases(alias_token) if alias_token else None)
        if recorder is not None:
            self._observe(recorder)
        self._make_watches()
        self._make_doors(tls_dial)
        if compiled:
            self.use_compiled()

    def _make_routing(self, turn: Turn) -> None:
        """The engine, the router, and the questions that brokers ask each other."""
        parts = self._parts
        id, overlay = parts.id, parts.overlay
        # By then, the other end of a failed link has noticed it, too.
        noticed_s = SILENT_HEARTBEATS * parts.limits.link_heartbeat_s + LOOK_S + parts.limits.detour_grace_s
        self._barriers = Barriers(
            overlay.a_links(id),
            overlay.i_links(id),
            lambda to, message: self.links[to].send_barrier(message),
            settle_s=0.0 if self.broker.streams is None else noticed_s,
            now=self.now,
        )
        srt = self.broker.state.srt
        self._counting = Counting(
            # A routing whose registrations need no confirmation stores advertisements everywhere.
            overlay.a_links(id) if parts.policy.confirms else (),
            lambda filter: len(srt.overlapping(filter)),
            lambda to, frame: self.links[to].send_beside(frame),
        )
        limits = parts.limits
        self.order: Order | None = None
        if parts.policy.overtakes and self.broker.streams is None:
            # streams keep order themselves
            self.order = Order(id, limits.reorder_hold_s, limits.reorder_notifications_max, limits.reorder_bytes_max)
        self.cases = CaseCounts(parts.policy.cases)
        self._reference = ReferenceEngine(
            self.broker,
            self._codec,
            clients=self._clients,
            links=self.links,
            order=self.order,
            cases=self.cases,
            counters=self.counters,
            traces=self.traces,
            wall=parts.wall if parts.qos.is_timed else None,
        )
        self._router = Router(
            self.broker,
            self._reference,
            clients=self._clients,
            links=self.links,
            barriers=self._barriers,
            intake=self.intake,
            counters=self.counters,
            log=self.log,
            now=self.now,
            soon=parts.loop.call_soon,
            turn=turn,
        )

    def use_compiled(self) -> None:
        """Change to the compiled engine, whose code is loaded: between two reads, and for good."""
        from octopia.net.broker.engine.compiled import CompiledEngine

        engine = CompiledEngine(
            self.broker,
            self._codec,
            self._reference,
            clients=self._clients,
            links=self.links,
            order=self.order,
            cases=self.cases,
            wall=self._parts.wall if self._parts.qos.is_timed else None,
        )
        engine.observed = self._reference.observed
        self._router.engine = engine

    def _make_queues(self, turn: Turn, aliases: Aliases | None) -> None:
        """Sessions and links."""
        parts = self._parts
        self._flushes = Flushes(self.broker.streams, self.broker.routing, self.now)
        self.sessions = Sessions(
            self._clients,
            self.net_limits,
            tick_s=self.congestion.window_s / 2,
            turn=turn,
            router=self._router,
            intake=self.intake,
            counters=self.counters,
            log=self.log,
            now=self.now,
            soon=parts.loop.call_soon,
            count=self._counting.ask,
            flush=self._flushes.ask,
            qos=parts.qos,
            wall=parts.wall,
            aliases=aliases,
            ledger=self._ledger,
        )
        for neighbour in parts.neighbours:
            self.links[neighbour] = Link(
                neighbour,
                self._identity,
                self.net_limits,
                turn=turn,
                router=self._router,
                barriers=self._barriers,
                counting=self._counting,
                intake=self.intake,
                log=self.log,
                now=self.now,
                soon=parts.loop.call_soon,
                on_connected=self.sessions.expect_a_rush,
                repeats=self.broker.streams is not None,
            )
            self.links[neighbour].queue.ledger = self._ledger

    def _observe(self, recorder: Recorder) -> None:
        """Let a recorder see everything that is handled and queued."""
        self._reference.observed = True
        self._router.observer = recorder
        self.sessions.observe = recorder.client_observer
        for neighbour, link in self.links.items():
            recorder.observe_link(neighbour, link.queue)

    def _make_watches(self) -> None:
        """Bounds, and the operator's view."""
        parts = self._parts
        self.memory = Memory(
            self.net_limits,
            clients=self.sessions,
            links=self.links,
            connections=self.channels,
            ledger=self._ledger,
            held_bytes=self._held_bytes,
            counters=self.counters,
            log=self.log,
            give_back=give_back,
        )
        self.load = LoadWatch(self.congestion.window_s / 2, self.net_limits.overload_s)
        self._episodes = Episodes(self.log)
        self._verdicts = -1
        self._started_s = time.time()
        # Whether the routing takes detours while a link is overloaded or down.
        self._avoids = parts.policy.links is not None
        self.pages = Pages(
            sources(self.broker, self._clients, self.links, self.congestion.tau, self._avoids, self.now, parts.wall),
            clock=self.now,
        )

    def _held_bytes(self) -> int:
        """The size of notifications that wait here for earlier ones."""
        if self.broker.streams is not None:
            return self.broker.streams.held_bytes
        return 0 if self.order is None else self.order.reorder.held_bytes

    def _make_doors(self, tls_dial: ssl.SSLContext | None) -> None:
        """Where connections begin."""
        loop = self._parts.loop
        self.door = Door(
            self._identity,
            self._authority,
            self.channels,
            self.sessions,
            self.links,
            self.counters,
            self.log,
            self.net_limits,
            lambda: self.memory.is_full,
            lambda: self.load.overloaded,
            self.now,
            loop.call_later,
        )
        self.diallers = {
            neighbour: Dialler(
                self.id,
                link,
                self._authority,
                self.channels,
                partial(check_certificate, self._authority),
                tls_dial,
                self.net_limits.handshake_s,
                loop,
                self.log,
            )
            for neighbour, link in self.links.items()
            if link.dials
        }

    # -- for traces

    def _link_now(self, to: BrokerId) -> tuple[bool, int]:
        """Whether a link is up, and the length of its queue."""
        link = self.links[to]
        return link.is_up, link.queue.waits

    def _fate(self, client: str, subscriptions: tuple[str, ...]) -> tuple[int, str]:
        """The queue of a client, and what would happen to a delivery now."""
        session = self._clients.get(client)
        return (0, LEAVING) if session is None else session.deliveries.fate(subscriptions)

    # -- time

    def tick(self) -> None:
        """Called every half window: take samples, check signs of life and timeouts."""
        now = self.now()
        for link in self.links.values():
            link.check_time(now)
        self._router.check_time(now)
        self._flushes.check()
        self._barriers.check_time(now)
        self.channels.check_time(now)
        self.sessions.check_time(now)
        self.memory.check(now)
        memory, door = self.memory, self.door
        if self.load.check(now, memory.used_bytes / memory.bytes_max, len(door.guests) / door.connections_max):
            self._ask_to_move()
        self._tell_episodes(now)

    def _tell_episodes(self, now: float) -> None:
        """Write the beginnings and ends of episodes to the event log."""
        lst, episodes = self.broker.state.lst, self._episodes
        due = episodes.is_due(now)
        if lst.verdicts_changed == self._verdicts and not due:
            return
        self._verdicts = lst.verdicts_changed
        episodes.check_links(
            now,
            [
                LinkVerdict(str(neighbour), lst.overloaded(neighbour), link.queue.waits, lst.element(neighbour))
                for neighbour, link in self.links.items()
                if link.is_up
            ],
        )
        episodes.check_broker(self.load.reason)
        if due:
            lost = self.sessions.dropped_total() + self.sessions.too_old_total()
            episodes.check_drops(lost, ((session.name, session.queue) for session in self.sessions.values()))
            self.log.events.check_time()
            self.pages.check_time()

    def _ask_to_move(self) -> None:
        """This broker is overloaded: ask some of its clients to move."""
        if self.draining:
            return
        asked = self.load.chosen(channel for channel, moves in self.door.guests.items() if moves)
        for channel in asked:
            channel.say(Crowded(self.load.reason))
        self.counters.clients_asked_to_move += len(asked)
        self.log.warning("overloaded", reason=self.load.reason, asked_to_move=len(asked))

    # -- reporting

    def report(self) -> Report:
        """The state of the broker at this moment."""
        tables, order = self.broker.state, self.order
        return Report(
            broker=str(self.id),
            overlay=self.overlay_identity.digest,
            routing=self.broker.routing,
            takes_clients=not self.draining,
            overloaded=self.load.reason,
            counters=self.counters,
            clients=len(self.sessions),
            connections=len(self.channels),
            connections_max=self.door.connections_max,
            handshakes=len(self.door.arrivals),
            memory_bytes=self.memory.used_bytes,
            memory_bytes_max=self.memory.bytes_max,
            subscriptions=len(tables.prt),
            advertisements=len(tables.srt),
            client_queue_frames=_by_priority(session.queue for session in self.sessions.values()),
            publishers_held=self.intake.held,
            dropped_total=self.sessions.dropped_total(),
            too_old_total=self.sessions.too_old_total(),
            held_back_total=0 if order is None else order.reorder.held_total,
            out_of_order_total=0 if order is None else order.reorder.late_total,
            links=tuple(
                LinkFigures(
                    str(neighbour),
                    link.is_up,
                    link.channel is not None,
                    link.queue.waits,
                    tables.lst.overloaded(neighbour),
                    link.queue.left_total,
                    link.outgoing.dropped,
                    link.queue.waits_by_priority,
                    tables.lst.element(neighbour),
                    link.queue.waiting_bytes,
                    self._avoids and (tables.lst.overloaded(neighbour) or not link.is_up),
                )
                for neighbour, link in self.links.items()
            ),
            streams=streams_report(self.broker.streams),
            cases=self.cases.report(),
            started_s=round(self._started_s, 3),
            tau=self.congestion.tau,
            window_s=self.congestion.window_s,
            events_last=self.log.events.last,
        )

    # -- start and end

    def start(self, addresses: Mapping[BrokerId, Address]) -> None:
        """Start dialling the neighbours at these addresses."""
        for neighbour, dialler in self.diallers.items():
            dialler.address = addresses.get(neighbour)
            dialler.dial()

    @property
    def overlay_identity(self) -> OverlayIdentity:
        return self._identity.overlay

    @property
    def draining(self) -> bool:
        """Whether it is about to stop and admits no peers."""
        return self.door.closed

    def drain(self, *, together: Collection[BrokerId] = (), saves: bool = False) -> None:
        """Stop reading from clients, admit no more of them, and ask neighbours to send nothing more,
        now or soon.

        If the routing has streams, neighbours are asked when the destinations have confirmed what was published here,
        since confirmations come by them: see `is_drained`. Brokers that stop `together` with this one, in the same
        process, are not asked: they all see when nothing is in flight between them. With `saves`, queues of clients
        will be saved, and clients need not read them now.
        """
        self._together, self._saves = together, saves
        self._confirm_until_s = self.now() + CONFIRM_SHARE * self.net_limits.drain_s
        self.door.closed = True
        self.door.farewell = RESTART if saves else SHUTDOWN
        self.intake.hold_nobody()
        self.sessions.freeze()
        for session in self.sessions.values():
            session.queue.release_all()
        for link in self.links.values():
            link.queue.release_all()
        self._drain_links()

    def _drain_links(self) -> bool:
        """Ask neighbours to send nothing more, unless destinations have yet to confirm; returns whether it is done."""
        if self._links_drain:
            return True
        now, streams = self.now(), self.broker.streams
        if streams is not None and streams.ask(None, now) and now < self._confirm_until_s:
            return False
        if not self._saves and streams is not None and (missing := streams.log.unconfirmed()):
            brokers = [str(self.broker.state.overlay.brokers[place]) for place in sorted(missing)]
            self.log.warning(
                "not confirmed", brokers=brokers, reason="they may not have all that clients of this broker published"
            )
        self._flushes.answer_all()
        self._links_drain = True
        for neighbour, link in self.links.items():
            if neighbour not in self._together:
                link.drain(self.door.farewell)
        return True

    @property
    def is_drained(self) -> bool:
        """Whether nothing is in flight, and every connected peer has confirmed what is not saved for it.

        Ask again and again: this also takes the next step towards it.
        """
        if not self._drain_links() or (self.order is not None and len(self.order.reorder)):
            return False
        streams = self.broker.streams
        if streams is not None and not streams.leaves(self.now()):
            # confirmations go with the next tick
            return False
        for session in self.sessions.values():
            if session.channel is not None and session.queue.held and not (self._saves and session.session_s):
                return False
        return all(
            (link.channel is None or not link.queue.held) if neighbour in self._together else link.is_drained
            for neighbour, link in self.links.items()
        )

    def freeze(self) -> None:
        """Stop all reading and writing, when time is up or nothing is in flight.

        The state saved after this is what every peer knows, except for confirmations in flight.
        """
        for dialler in self.diallers.values():
            dialler.stop()
        for link in self.links.values():
            link.freeze()
        for session in self.sessions.values():
            session.queue.detach()

    def state_bytes(self) -> int:
        """The size of the saved state if the broker stopped now; rather more than less."""
        return restart.size_of_saved(self.broker, self.sessions, self.links)

    def save(self) -> SavedState:
        """The state needed after a restart; call it once everything is frozen."""
        return restart.save(self.broker, self.sessions, self.links)

    def restore(self, saved: SavedBroker) -> None:
        """Resume from saved state, before links come up and before peers are admitted."""
        restart.restore(
            saved, self.broker, self.sessions, self.links, authority=self._authority, codec=self._codec, log=self.log
        )


def _by_priority(queues: Iterable[FrameQueue]) -> tuple[int, ...]:
    """The number of waiting frames in all of these, by priority."""
    waits = [0] * len(WEIGHTS)
    for queue in queues:
        if queue.waits:
            for priority, count in enumerate(queue.waits_by_priority):
                waits[priority] += count
    return tuple(waits)
