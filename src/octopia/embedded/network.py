"""All brokers of an overlay in one process, joined by links that keep order: the smallest host of the routing core.

Rules of this file: it moves messages and records where each came from; it decides nothing. Left alone it carries
messages in the order in which they were sent, so that every link takes the same time. A test, or anyone curious, may
take the oldest message of any link next, which is every interleaving that links with arbitrary delays allow. Time
stands still while messages are in flight. When none is, it goes on to what is due soon (`SOON_S`), as what is sent
again after news of a link; `let_time_pass` goes on to what is due later. Whatever came is confirmed before a link goes
down, so that nothing is sent again in vain.

A link that is down carries nothing: what was on it, and what a broker puts on it all the same, is lost. The number of
messages one run may take is bounded, since a routing idea that loops must end with an error, not with a full memory.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from operator import itemgetter

from msgspec import Struct

from octopia.errors import InputError, LocalProtocolError, TopologyError
from octopia.routing import (
    Action,
    Broker,
    CongestionParameters,
    Event,
    Limits,
    LinkCameUp,
    LinkSampled,
    LinkWentDown,
    Message,
    Received,
    Send,
)
from octopia.topology import BrokerId, Scot

MESSAGES_PER_RUN_MAX = 10_000_000
QUEUE_MAX = 1_000_000_000
SOON_S = 1.0
# Each broker keeps the status of each of its links, about 500 bytes a link: half a gigabyte at the bound.
LINKS_MAX = 1_000_000


def check_size(overlay: Scot) -> Scot:
    """The overlay itself, or a `TopologyError` where it is too large for one process."""
    links = overlay.a_link_count + overlay.i_link_count
    if links > LINKS_MAX:
        raise TopologyError(f"{overlay} make {links:,} links, at most {LINKS_MAX:,} fit into one process")
    return overlay


class Hop(Struct, frozen=True):
    """One inter-broker message on one link; `cause` is the hop whose handling made it, None for a client's request."""

    number: int
    sender: BrokerId
    receiver: BrokerId
    message: Message
    cause: "Hop | None"


# Told of every hop when it is sent, or of one that was put on a link that is down; and of every other action with the
# broker that ordered it and the causing hop.
OnHop = Callable[[Hop], None]
OnAction = Callable[[BrokerId, Action, Hop | None], None]


class Network:
    """Brokers and the messages between them that have been sent and not yet received."""

    def __init__(
        self,
        overlay: Scot,
        routing: str,
        *,
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        on_hop: OnHop | None = None,
        on_lost: OnHop | None = None,
        on_action: OnAction | None = None,
    ) -> None:
        congestion = congestion or CongestionParameters()
        limits = limits or Limits()
        self.overlay = check_size(overlay)
        self.brokers = {
            id: Broker(id, overlay, routing, congestion=congestion, limits=limits) for id in overlay.brokers
        }
        self.in_flight: deque[Hop] = deque()
        self._on_hop = on_hop
        self._on_lost = on_lost
        self._on_action = on_action
        self._hops = 0
        self.now = 0.0
        self._streams = [id for id, broker in self.brokers.items() if broker.streams is not None]
        self._down: set[frozenset[BrokerId]] = set()
        self._dead: set[BrokerId] = set()

    def tell(self, broker: BrokerId, event: Event) -> None:
        """Let something happen at a broker; its messages are put in flight, not yet received."""
        self._carry_out(broker, self.brokers[broker].handle_whole(event, self.now), None)

    def hold_queue(self, sender: BrokerId, receiver: BrokerId, queue_length: int) -> None:
        """Tell a broker that its output queue towards a neighbour has this length and neither grows nor shrinks."""
        if not 0 <= queue_length <= QUEUE_MAX:
            raise InputError(f"a queue of length {queue_length}: between 0 and {QUEUE_MAX:,} are allowed")
        self.tell(sender, LinkSampled(receiver, queue_length, 0, 0))

    def take_link_down(self, one: BrokerId, other: BrokerId) -> None:
        """Take a link down; both ends are told."""
        self._settle()
        self._take_down(one, other)
        self.tell(one, LinkWentDown(other))
        self.tell(other, LinkWentDown(one))

    def bring_link_up(self, one: BrokerId, other: BrokerId) -> None:
        """A link that is down comes up; both ends are told."""
        self._down.remove(frozenset((one, other)))
        self.tell(one, LinkCameUp(other))
        self.tell(other, LinkCameUp(one))

    def crash(self, broker: BrokerId) -> None:
        """A broker dies; its neighbours that live are told that their links to it are down."""
        self._settle()
        self._dead.add(broker)
        for neighbour in self.overlay.neighbours(broker):
            was_up = frozenset((broker, neighbour)) not in self._down
            self._take_down(broker, neighbour)
            if was_up and neighbour not in self._dead:
                self.tell(neighbour, LinkWentDown(broker))

    def _take_down(self, one: BrokerId, other: BrokerId) -> None:
        link = frozenset((one, other))
        self._down.add(link)
        self.in_flight = deque(hop for hop in self.in_flight if {hop.sender, hop.receiver} != link)

    def run_until_quiet(self) -> None:
        """Carry messages until none is in flight, nor due soon."""
        for _ in range(MESSAGES_PER_RUN_MAX):
            if self.in_flight:
                self._receive(self.in_flight.popleft())
            elif not (self._streams and self.let_time_pass(SOON_S)):
                return
        raise LocalProtocolError(f"the overlay did not come to rest within {MESSAGES_PER_RUN_MAX} messages")

    def let_time_pass(self, most_s: float = inf) -> bool:
        """Go on to when something is due at a broker, and let it be done; False where nothing is due so soon."""
        dues = [(due, id) for id in self._streams if (due := self._due(id)) is not None]
        due, id = min(dues, default=(inf, None), key=itemgetter(0))
        if id is None or due > self.now + most_s:
            return False
        self.now = max(self.now, due)
        self._carry_out(id, self.brokers[id].tick(self.now), None)
        return True

    def _due(self, id: BrokerId) -> float | None:
        return None if id in self._dead else self.brokers[id].due

    def _settle(self) -> None:
        """Whatever has arrived is confirmed, unless something is under way."""
        while not self.in_flight and self.let_time_pass():
            self.run_until_quiet()

    def oldest_of_each_link(self) -> list[Hop]:
        """The messages that may be received next: of each link the one sent first."""
        heads: dict[tuple[BrokerId, BrokerId], Hop] = {}
        for hop in self.in_flight:
            heads.setdefault((hop.sender, hop.receiver), hop)
        return list(heads.values())

    def receive(self, hop: Hop) -> None:
        """Let one of `oldest_of_each_link` arrive."""
        self.in_flight.remove(hop)
        self._receive(hop)

    def _receive(self, hop: Hop) -> None:
        actions = self.brokers[hop.receiver].handle(Received(hop.sender, hop.message), self.now)
        self._carry_out(hop.receiver, actions, hop)

    def _carry_out(self, broker: BrokerId, actions: list[Action], cause: Hop | None) -> None:
        for action in actions:
            if type(action) is Send:
                hop = Hop(self._hops, broker, action.to, action.message, cause)
                self._hops += 1
                if self._down and frozenset((broker, action.to)) in self._down:
                    if self._on_lost is not None:
                        self._on_lost(hop)
                    continue
                self.in_flight.append(hop)
                if self._on_hop is not None:
                    self._on_hop(hop)
            elif self._on_action is not None:
                self._on_action(broker, action, cause)
