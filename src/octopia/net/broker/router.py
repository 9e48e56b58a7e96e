"""The one way from an event to the queues: the core decides, dispatch carries out, traces remember.

Rules of this file: what the core ordered is carried out before the next event is handled. `link_up`, `link_down` and
`link_given_up` are the one place where the core learns that a neighbour came or went.
"""

from collections.abc import Callable

from octopia.net.broker.barriers import Barriers
from octopia.net.broker.dispatch import Dispatch
from octopia.net.broker.operations.log import Log
from octopia.net.broker.stamped import StampedDispatch
from octopia.routing import (
    Accepted,
    Action,
    Broker,
    ClientLeft,
    Event,
    Header,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Message,
    Received,
    policy_named,
)
from octopia.topology import BrokerId
from octopia.wire import Parcels


class Router:
    """The core of one broker, and everything it orders done."""

    def __init__(
        self,
        broker: Broker,
        dispatch: Dispatch,
        stamped: StampedDispatch | None,
        barriers: Barriers,
        log: Log,
        now: Callable[[], float],
    ) -> None:
        self.id = broker.id
        # Bound once: these are called for every notification.
        self._decide = broker.handle
        self._publish = broker.publish
        self._receive = broker.receive
        self._is_leaving = broker.is_leaving
        self._carry_out = dispatch.carry_out
        self._carry_out_batch = dispatch.carry_out_batch
        self._stamped = stamped
        self._broker = broker
        self._barriers = barriers
        self._log = log
        self._now = now
        # What traces call those that copies come from.
        self._names = {neighbour: str(neighbour) for neighbour in broker.state.neighbours}
        # TID routing cannot bring tables back in line, so it is not told of links.
        self._recovers = policy_named(broker.routing).recovery is not None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Something happened; returns what was done about it."""
        actions = self._decide(event, now)
        self._carry_out(actions)
        return actions

    def restore(self, event: Event, now: float) -> None:
        """What a client had registered in our earlier life, and was told then."""
        self._carry_out([action for action in self._decide(event, now) if not isinstance(action, Accepted)])

    def client_left(self, client: str, now: float) -> bool:
        """A client is gone for good; returns whether this is to be said again, to withdraw more of what it had."""
        self.handle(ClientLeft(client), now)
        return self._is_leaving(client)

    # -- notifications

    def publish(self, client: str, batch: Parcels, now: float) -> None:
        """A client's notifications, one after the other."""
        decisions = self._publish(client, batch.values, now)
        if self._stamped is None:
            self._carry_out_batch(batch, decisions, client)
        else:
            self._stamped.published(batch, decisions, client)

    def receive_copies(self, sender: BrokerId, header: Header, batch: Parcels, now: float) -> None:
        """Copies of notifications that a neighbour sent, all with this header, one after the other."""
        decisions = self._receive(sender, header, batch.values, now)
        if self._stamped is None:
            self._carry_out_batch(batch, decisions, self._names[sender])
        elif decisions:
            # copies with one header from one neighbour all go the same way
            self._stamped.received(batch, decisions[0], self._names[sender], now)

    def receive(self, sender: BrokerId, message: Message, now: float) -> None:
        """Any other message of a neighbour's core."""
        self._carry_out(self._decide(Received(sender, message), now))

    # -- time

    def check_time(self, now: float) -> None:
        """Do what is due in the core."""
        due = self._broker.due
        if due is not None and due <= now:
            self._carry_out(self._broker.tick(now))
        if self._stamped is not None:
            self._stamped.mark.check()

    # -- links

    def link_up(self, neighbour: BrokerId) -> None:
        """A neighbour is there: for the first time, or again after it was gone or restarted."""
        if self._recovers:
            self.handle(LinkCameUp(neighbour), self._now())
        # After what brings the tables in line, so that questions follow it.
        self._barriers.link_up(neighbour)

    def link_down(self, neighbour: BrokerId, *, returns: bool = False) -> None:
        """A neighbour is gone, and what it was sent is lost; or it restarted, and its link comes up next."""
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
        """What waits for a link, what came for it so far, and what left."""
        self.handle(LinkSampled(neighbour, *sample), now)
