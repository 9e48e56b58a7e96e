"""The one way from an event to the queues: the core decides, dispatch carries out, traces remember.

Rules of this file: what the core ordered is carried out before the next event is handled. `link_up`, `link_down` and
`link_given_up` are the one place where the core learns that a neighbour came or went.
"""

from collections.abc import Callable

from octopia.net.broker.barriers import Barriers
from octopia.net.broker.dispatch import Dispatch
from octopia.net.broker.operations.log import Log
from octopia.net.broker.operations.traces import Traces
from octopia.routing import (
    NOTIFICATION_MESSAGES,
    Action,
    Broker,
    Event,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Message,
    Published,
    PublishedMany,
    Received,
    ReceivedMany,
    policy_named,
)
from octopia.topology import BrokerId
from octopia.wire import Parcels, WireNotification


class Router:
    """The core of one broker, and everything it orders done."""

    def __init__(
        self,
        broker: Broker,
        dispatch: Dispatch,
        barriers: Barriers,
        traces: Traces,
        log: Log,
        now: Callable[[], float],
    ) -> None:
        self.id = broker.id
        # Bound once: these are called for every notification.
        self._decide = broker.handle
        self._decide_batch = broker.handle_batch
        self._carry_out = dispatch.carry_out
        self._carry_out_batch = dispatch.carry_out_batch
        self._barriers = barriers
        self._traces = traces
        self._log = log
        self._now = now
        # TID routing cannot bring tables back in line, so it is not told of links.
        self._recovers = policy_named(broker.routing).recovery is not None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Something happened; returns what was done about it."""
        actions = self._decide(event, now)
        self._carry_out(actions)
        return actions

    # -- notifications

    def publish(self, client: str, seen: WireNotification, now: float) -> None:
        """A client's notification."""
        actions = self._decide(Published(client, str(seen.sequence), seen), now)
        if seen.header is not None:
            self._traces.note(client, seen, actions)
        self._carry_out(actions)

    def publish_batch(self, client: str, batch: Parcels, now: float) -> None:
        """As `publish`, for plain ones, one after the other."""
        orders = self._decide_batch(PublishedMany(client, batch.values), now)
        self._carry_out_batch(batch, orders)

    def receive(self, sender: BrokerId, message: Message, now: float) -> None:
        """A message of a neighbour's core."""
        actions = self._decide(Received(sender, message), now)
        if isinstance(message, NOTIFICATION_MESSAGES):
            seen = message.notification
            if isinstance(seen, WireNotification) and seen.header is not None:
                self._traces.note(str(sender), seen, actions)
        self._carry_out(actions)

    def receive_batch(self, sender: BrokerId, batch: Parcels, now: float) -> None:
        """As `receive`, for plain copies of notifications, one after the other."""
        orders = self._decide_batch(ReceivedMany(sender, batch.values), now)
        self._carry_out_batch(batch, orders)

    # -- links

    def link_up(self, neighbour: BrokerId) -> None:
        """A neighbour is there: for the first time, or again after it was gone or restarted."""
        if self._recovers:
            self.handle(LinkCameUp(neighbour), self._now())
        # After what brings the tables in line, so that questions follow it.
        self._barriers.link_up(neighbour)

    def link_down(self, neighbour: BrokerId) -> None:
        """A neighbour is gone; what was queued for it is lost."""
        self._log.warning("link down", neighbour=str(neighbour))
        if self._recovers:
            self.handle(LinkWentDown(neighbour), self._now())
        self._barriers.link_down(neighbour)

    def link_given_up(self, neighbour: BrokerId) -> None:
        """A neighbour that is gone is not expected back soon."""
        self._log.warning("link given up", neighbour=str(neighbour))
        if self._recovers:
            self.handle(LinkGivenUp(neighbour), self._now())
        self._barriers.link_given_up(neighbour)

    def link_sampled(self, neighbour: BrokerId, sample: tuple[int, int, int], now: float) -> None:
        """What waits for a link, what came for it so far, and what left."""
        self.handle(LinkSampled(neighbour, *sample), now)
