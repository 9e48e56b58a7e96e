"""The only path from an event or a notification to the queues: the core and the engine decide, this carries out.

Orders are carried out before the next event is handled. `link_up`, `link_down` and `link_given_up` are the only place
where the core learns that a neighbour came or went.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from octopia.net.broker.barriers import CLUSTER, REGION, Barriers
from octopia.net.broker.client_queue import ClientQueue
from octopia.net.broker.engine.outcome import Engine, Outcome
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.intake import Intake
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle, Turn
from octopia.protocol import Message
from octopia.routing import (
    Accept,
    Action,
    Broker,
    ClientLeft,
    Deliver,
    Event,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Received,
    Send,
    Unsubscribed,
    policy_named,
)
from octopia.topology import BrokerId
from octopia.wire import Unread, deliver_frame, link_frames

# Requests whose answer must wait until they are in force, and the scope.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}
# Queues are flushed when about this much was put into them, however much the event loop still has to read.
UNWRITTEN_BYTES_MAX = 16 * 1024 * 1024


class RouterClient(Protocol):
    """A client of this broker."""

    deliveries: ClientQueue

    def refuse(self, request: str, id: str, reason: str) -> None: ...
    def owe(self, request: str, id: str) -> None: ...
    def accept(self, request: str, id: str) -> None: ...


class RouterLink(Protocol):
    """A neighbour of this broker."""

    def send(self, message: Message, frames: list[bytes], priority: int = 0) -> None: ...


class RouterObserver(Protocol):
    """Is told what a broker handles, and changes nothing."""

    def routed(self, sender: BrokerId | None, outcome: Outcome, now: float) -> None:
        """Notifications of a client (None) or a neighbour are about to be put into queues; bundles may be tagged.

        Whatever is queued until `ended` follows from them.
        """

    def ended(self) -> None:
        """All that follows from these notifications has been queued."""

    def began(self, event: Event) -> None:
        """An event is about to be handled; whatever is queued until `handled` follows from it."""

    def handled(self, event: Event, actions: Sequence[Action], now: float) -> None:
        """An event of a client, a neighbour or a link was handled, and its actions were carried out."""

    def sampled(self, neighbour: BrokerId, queue: int, entered: int, left: int) -> None:
        """The queue of a link was reported to the core."""


class LogMark:
    """The log of a routing with streams, as a queue that makes publishers pause while it is filling up.

    From half of its bound until a quarter is left, long before it gives anything up.
    """

    def __init__(self, log: Any, intake: Intake) -> None:
        self._log = log
        self._intake = intake
        self._asks = False

    def went_in(self, source: Channel | None) -> None:
        """Notifications of this source were added to the log."""
        if not self._asks:
            if self._log.filled < 1 / 2:
                return
            self._asks = True
            self._intake.fills(self)
        self._intake.went_in(self, [], source)

    def check(self) -> None:
        """Let publishers continue if there is room again."""
        if self._asks and self._log.filled <= 1 / 4:
            self._asks = False
            self._intake.has_room(self)

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """The log is not a source."""
        return ()

    def pause(self, publishers: list[str], held: bool) -> None:
        """The log is not a source, so it is never asked to pause."""


class Router:
    """The core and the engine of one broker, and the execution of their orders."""

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        *,
        clients: Mapping[str, RouterClient],
        links: Mapping[BrokerId, RouterLink],
        barriers: Barriers,
        intake: Intake,
        counters: Counters,
        log: Log,
        now: Callable[[], float],
        soon: Callable[..., Any],
        turn: Turn,
    ) -> None:
        self.id = broker.id
        self.engine = engine
        self.observer: RouterObserver | None = None
        self._broker = broker
        self._clients = clients
        self._links = links
        self._barriers = barriers
        self._counters = counters
        self._log = log
        self._now = now
        self._soon = soon
        self._turn = turn
        self._unwritten_bytes = 0
        policy = policy_named(broker.routing)
        self._confirms = policy.confirms
        # TID routing cannot resync tables, so it is not told about links.
        self._recovers = policy.recovery is not None
        self._log_mark = None if broker.streams is None else LogMark(broker.streams.log, intake)

    # -- notifications

    def publish(self, publisher: Publisher, unread: Unread, source: Channel, now: float) -> None:
        """Route the first notifications that a client published."""
        outcome = self.engine.publish(publisher, unread, now)
        self._put(None, outcome, source, now)
        if self._log_mark is not None:
            self._log_mark.went_in(source)
        self._write_if_much(outcome, unread)
        unread.took(outcome.after, outcome.frames)

    def receive_copies(self, sender: BrokerId, unread: Unread, source: Channel, now: float) -> None:
        """Route the first copies from a neighbour."""
        outcome = self.engine.receive(sender, unread, now)
        self._put(sender, outcome, source, now)
        self._write_if_much(outcome, unread)
        unread.took(outcome.after, outcome.frames)

    def _put(self, sender: BrokerId | None, outcome: Outcome, source: Channel | None, now: float) -> None:
        """Put the bundles of an outcome into their queues, and carry out its actions."""
        observer = self.observer
        if observer is not None:
            observer.routed(sender, outcome, now)
        self._counters.deliveries += outcome.deliveries
        for destination, lane, bundle in outcome.bundles:
            destination.put(bundle, lane, source)
        if outcome.actions:
            self._carry_out(outcome.actions)
        if observer is not None:
            observer.ended()

    def _write_if_much(self, outcome: Outcome, unread: Unread) -> None:
        """Do not let the reads of one iteration of the event loop fill memory: write, and count what is left.

        At most all that was read goes into each queue.
        """
        self._unwritten_bytes += (outcome.after - unread.at) * len(outcome.bundles)
        if self._unwritten_bytes > UNWRITTEN_BYTES_MAX:
            self._unwritten_bytes = 0
            self._turn.flush()

    # -- everything else

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle an event; returns the actions carried out."""
        observer = self.observer
        if observer is not None:
            observer.began(event)
        actions: list[Action] = []
        try:
            actions = self._broker.handle(event, now)
            self._carry_out(actions)
        finally:
            if observer is not None:
                observer.handled(event, actions, now)
        return actions

    def unsubscribe(self, client: str, id: str, now: float) -> None:
        """A client withdraws a subscription: it gets what waits for it, and then the answer."""
        self._put_late(self.engine.withdrawn(client, id))
        self.handle(Unsubscribed(client, id), now)

    def restore(self, event: Event, now: float) -> None:
        """Restore a registration of a client that was acknowledged in our previous life."""
        if self.observer is not None:
            self.observer.began(event)
        actions = [action for action in self._broker.handle(event, now) if not isinstance(action, Accept)]
        self._carry_out(actions)
        if self.observer is not None:
            self.observer.handled(event, actions, now)

    def receive(self, sender: BrokerId, message: Message, now: float) -> None:
        """Handle a message of a neighbour's core other than a notification."""
        self.handle(Received(sender, message), now)

    def client_left(self, client: str, now: float) -> bool:
        """A client is gone for good; returns whether to call this again, to withdraw more of its registrations."""
        self.engine.withdrawn(client, None)
        self.handle(ClientLeft(client), now)
        return self._broker.is_leaving(client)

    def check_time(self, now: float) -> None:
        """Run the core's due timers, and release what has waited long enough."""
        due = self._broker.due
        if due is not None and due <= now:
            self._carry_out(self._broker.tick(now))
        self._put_late(self.engine.check_time(now))
        if self._log_mark is not None:
            self._log_mark.check()

    def _put_late(self, outcome: Outcome | None) -> None:
        """Put notifications that waited for an earlier one into their queues."""
        if outcome is not None:
            self._counters.deliveries += outcome.deliveries
            for destination, lane, bundle in outcome.bundles:
                destination.put(bundle, lane, None)

    # -- the core's actions

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Carry out actions, in order; a message is encoded once for all its links."""
        last: Message | None = None
        frames: list[bytes] = []
        for action in actions:
            if type(action) is Send:
                message = action.message
                if message is not last:
                    last, frames = message, link_frames(message)
                self._links[action.to].send(message, frames, action.priority)
            elif type(action) is Deliver:
                self._deliver(action)
            else:
                self._answer(action)

    def _deliver(self, order: Deliver) -> None:
        """Put a notification that waited into the queues of its recipients."""
        # Every notification here came by a wire.
        parcel = order.notification.parcel  # type: ignore[attr-defined]
        for name, subscriptions in order.recipients:
            client = self._clients.get(name)
            if client is not None:
                lane = client.deliveries.priority_of(subscriptions)
                client.deliveries.put(Bundle(deliver_frame(subscriptions, parcel)), lane, None)
        self._counters.deliveries += len(order.recipients)

    def _answer(self, action: Any) -> None:
        client = self._clients.get(action.client)
        if client is None:
            return
        if not isinstance(action, Accept):
            client.refuse(action.request, action.id, action.reason)
            return
        scope = _IN_FORCE.get(action.request) if self._confirms else None
        if scope is None:
            client.accept(action.request, action.id)
        else:
            client.owe(action.request, action.id)
            # The messages of this registration come later in the same list of actions: ask after them.
            self._soon(self._confirm_later, client, action.request, action.id, scope)

    def _confirm_later(self, client: RouterClient, request: str, id: str, scope: bool) -> None:
        self._barriers.when_in_force(scope, lambda: client.accept(request, id))

    # -- links

    def link_up(self, neighbour: BrokerId) -> None:
        """A neighbour is connected: for the first time, or again after it was gone or restarted."""
        if self._recovers:
            self.handle(LinkCameUp(neighbour), self._now())
        # After the resync, so that questions follow it.
        self._barriers.link_up(neighbour)

    def link_down(self, neighbour: BrokerId, *, returns: bool = False) -> None:
        """A neighbour is gone, and frames sent to it are lost; or it restarted, and its link comes up next."""
        self._log.warning("link down", neighbour=str(neighbour))
        if self._recovers:
            self.handle(LinkWentDown(neighbour), self._now())
        self._barriers.link_down(neighbour, returns=returns)

    def link_given_up(self, neighbour: BrokerId) -> None:
        """A neighbour that is gone is not expected back soon."""
        self._log.warning("link given up", neighbour=str(neighbour))
        if self._recovers:
            self.handle(LinkGivenUp(neighbour), self._now())
        self._barriers.link_given_up(neighbour)

    def link_sampled(self, neighbour: BrokerId, sample: tuple[int, int, int], now: float) -> None:
        """Report the queue of a link, with its totals in and out."""
        self.handle(LinkSampled(neighbour, *sample), now)
        if self.observer is not None:
            self.observer.sampled(neighbour, *sample)
