"""The only path from an event to the queues: the core decides, dispatch carries out, traces record.

The orders of the core are carried out before the next event is handled. `link_up`, `link_down` and `link_given_up` are
the only place where the core learns that a neighbour came or went.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from octopia.net.broker.barriers import Barriers
from octopia.net.broker.dispatch import Dispatch
from octopia.net.broker.express import Batch, ExpressWay
from octopia.net.broker.operations.log import Log
from octopia.net.broker.probing import Probing
from octopia.net.broker.short_cut import ShortCuts
from octopia.net.broker.stamped import StampedDispatch
from octopia.net.broker.stamped_express import StampedExpress
from octopia.net.channel import Channel
from octopia.routing import (
    Accept,
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
    Values,
    policy_named,
)
from octopia.topology import BrokerId
from octopia.wire import Haul, Parcels, is_probe

# Copies with the same header all get the same decision, if the routing has streams.
_ONE: tuple[Values, ...] = ({},)


class Router:
    """The core of one broker, and the execution of its orders."""

    def __init__(
        self,
        broker: Broker,
        dispatch: Dispatch,
        stamped: StampedDispatch | None,
        probing: Probing,
        barriers: Barriers,
        log: Log,
        now: Callable[[], float],
        express: ExpressWay | None = None,
        short_cuts: ShortCuts | None = None,
    ) -> None:
        self.id = broker.id
        self.short_cuts = short_cuts
        self._express = express
        # Bound once: these are called for every notification.
        self._decide = broker.handle
        self._publish = broker.publish
        self._probe = broker.probe
        self._receive = broker.receive
        self._is_leaving = broker.is_leaving
        self._carry_out = dispatch.carry_out
        self._carry_out_batch = dispatch.carry_out_batch
        self._stamped = stamped
        self._probing = probing
        self._broker = broker
        self._barriers = barriers
        self._log = log
        self._now = now
        # The names of copies' sources in traces.
        self._names = {neighbour: str(neighbour) for neighbour in broker.state.neighbours}
        # TID routing cannot resync tables, so it is not told about links.
        self._recovers = policy_named(broker.routing).recovery is not None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle an event; returns the actions carried out."""
        actions = self._decide(event, now)
        self._carry_out(actions)
        return actions

    def restore(self, event: Event, now: float) -> None:
        """Restore a registration of a client that was acknowledged in our previous life."""
        self._carry_out([action for action in self._decide(event, now) if not isinstance(action, Accept)])

    def client_left(self, client: str, now: float) -> bool:
        """A client is gone for good; returns whether to call this again, to withdraw more of its registrations."""
        self.handle(ClientLeft(client), now)
        return self._is_leaving(client)

    # -- notifications

    def offer_short_cut(self, session: Any, channel: Channel) -> None:
        """A client connected: with compiled code, it takes the short cut from its first publication on."""
        if self.short_cuts is not None:
            channel.short_cut = partial(self.short_cuts.open, session)

    def publish(self, client: str, batch: Parcels, now: float) -> None:
        """Route a client's notifications, one after the other."""
        decisions = self._publish(client, batch.values, now)
        if self._stamped is None:
            self._carry_out_batch(batch, decisions, client)
        else:
            self._stamped.published(batch, decisions, client)

    def publish_haul(self, client: str, haul: Haul, now: float, accepted_ms: int = -1) -> None:
        """Like `publish`, by the express way as far as possible.

        `accepted_ms` is the time of acceptance unless negative.
        """
        batch = None
        # entries in the log of a routing with streams have their time, and become objects anyway
        if self._express is not None and self._express.is_open and (self._stamped is None or accepted_ms < 0):
            batch = self._express.published(client, haul, now)

        def ordinary(start: int, stop: int) -> None:
            some = haul.parcels(start, stop)
            if accepted_ms >= 0:
                some.accept(accepted_ms)
            self.publish(client, some, now)

        self._carry_out_haul(haul, batch, accepted_ms, ordinary)

    def receive_haul(self, sender: BrokerId, haul: Haul, now: float) -> None:
        """Like `receive_copies`, by the express way as far as possible."""
        if isinstance(self._express, StampedExpress):
            (decision,) = self._receive(sender, haul.carried, _ONE, now)
            self._express.take_copies(haul, decision, now)
            return
        batch = None
        if self._express is not None and self._express.is_open:
            self._broker.check_copies(sender, haul.carried, now)
            batch = self._express.received(sender, haul)

        def ordinary(start: int, stop: int) -> None:
            self.receive_copies(sender, haul.carried, haul.parcels(start, stop), now)

        self._carry_out_haul(haul, batch, -1, ordinary)

    def _carry_out_haul(
        self, haul: Haul, batch: Batch | None, accepted_ms: int, ordinary: Callable[[int, int], None]
    ) -> None:
        """Carry out a batch in order; `ordinary` carries out a range of it by the ordinary way."""
        start, end, express = 0, len(haul), self._express
        if batch is not None and express is not None:
            for stop in batch.ordinary:
                if not express.is_open:
                    break
                if start < stop:
                    express.carry_out(batch, start, stop, accepted_ms)
                if stop < end:
                    ordinary(stop, stop + 1)
                start = stop + 1
        if start < end:
            ordinary(start, end)

    def probe(self, client: str, batch: Parcels, now: float) -> str | None:
        """Route a client's probe; brokers record it. Returns why it would be refused."""
        return self._probing.carry_out(batch, self._probe(client, batch.values, now), client)

    def receive_copies(self, sender: BrokerId, header: Header, batch: Parcels, now: float) -> None:
        """Route copies of notifications from a neighbour, all with this header, one after the other."""
        decisions = self._receive(sender, header, batch.values, now)
        if batch.header is not None and is_probe(batch.header):
            self._probing.carry_out(batch, decisions, self._names[sender])
        elif self._stamped is None:
            self._carry_out_batch(batch, decisions, self._names[sender])
        elif decisions:
            # copies with one header from one neighbour all take the same path
            self._stamped.received(batch, decisions[0], self._names[sender], now)

    def receive(self, sender: BrokerId, message: Message, now: float) -> None:
        """Handle any other message of a neighbour's core."""
        self._carry_out(self._decide(Received(sender, message), now))

    # -- time

    def check_time(self, now: float) -> None:
        """Run the core's due timers."""
        due = self._broker.due
        if due is not None and due <= now:
            self._carry_out(self._broker.tick(now))
        if self._stamped is not None:
            self._stamped.mark.check()

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
