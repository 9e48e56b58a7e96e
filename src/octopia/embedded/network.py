"""All brokers of an overlay in one process, joined by ordered links: the smallest host of the routing core.

The network moves messages and records the cause of each; it makes no routing decisions. By default it delivers messages
in the order in which they were sent, as if every link took the same time. `delay_link` adds a multiple of that time to
one direction of a link and keeps its order. A test may also pick the oldest message of any link next, which covers
every interleaving that links with arbitrary delays allow. Time stands still while messages are in flight. When none is,
it advances to timers that are due soon (`SOON_S`), such as retransmissions after news of a link; `let_time_pass`
advances to later ones. Received messages are confirmed before a link goes down, so that nothing is resent needlessly.

A link that is down carries nothing: messages in flight on it, and messages that a broker still sends over it, are lost.
The number of messages per run is bounded, so a routing algorithm that loops ends with an error instead of filling
memory.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from operator import itemgetter

from msgspec import Struct

from octopia.errors import InputError, LocalProtocolError, TopologyError
from octopia.protocol import Message
from octopia.routing import (
    Action,
    Broker,
    CongestionParameters,
    Event,
    Limits,
    LinkCameUp,
    LinkSampled,
    LinkWentDown,
    Received,
    Send,
)
from octopia.topology import BrokerId, Scot

MESSAGES_PER_RUN_MAX = 10_000_000
QUEUE_MAX = 1_000_000_000
SOON_S = 1.0
# Far longer than any path through an overlay, so a delayed message arrives last.
DELAY_MAX = 1_000_000
# Each broker keeps the status of each of its links, about 500 bytes a link: half a gigabyte at the bound.
LINKS_MAX = 1_000_000


def check_size(overlay: Scot) -> Scot:
    """The overlay itself, or a `TopologyError` if it is too large for one process."""
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
    priority: int = 0


# Told of every hop when it is sent, or of one that was put on a link that is down; and of every other action with the
# broker that ordered it and the causing hop.
OnHop = Callable[[Hop], None]
OnAction = Callable[[BrokerId, Action, Hop | None], None]


class Network:
    """Brokers, and the messages between them that are still in flight."""

    def __init__(
        self,
        overlay: Scot,
        routing: str,
        *,
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        covering: str = "none",
        on_hop: OnHop | None = None,
        on_lost: OnHop | None = None,
        on_action: OnAction | None = None,
    ) -> None:
        congestion = congestion or CongestionParameters()
        limits = limits or Limits()
        self.overlay = check_size(overlay)
        self.brokers = {
            id: Broker(id, overlay, routing, congestion=congestion, limits=limits, covering=covering)
            for id in overlay.brokers
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
        # extra time by link, in the time that any other link takes; when messages arrive, by number, and the latest
        # that did. Empty where no link has extra time: then messages arrive as they were sent.
        self._extra: dict[tuple[BrokerId, BrokerId], int] = {}
        self._arrivals: dict[int, int] = {}
        self._arrived = 0

    def tell(self, broker: BrokerId, event: Event) -> None:
        """Deliver an event to a broker; the messages it sends are put in flight, not yet received."""
        self._carry_out(broker, self.brokers[broker].handle_whole(event, self.now), None)

    def hold_queue(self, sender: BrokerId, receiver: BrokerId, queue_length: int) -> None:
        """Tell a broker that its output queue towards a neighbour has this length and neither grows nor shrinks."""
        if not 0 <= queue_length <= QUEUE_MAX:
            raise InputError(f"a queue of length {queue_length}: between 0 and {QUEUE_MAX:,} are allowed")
        self.tell(sender, LinkSampled(receiver, queue_length, 0, 0))

    def delay_link(self, sender: BrokerId, receiver: BrokerId, extra: int) -> None:
        """Delay messages on one direction of a link by this many times a link's usual time; 0 removes the delay."""
        if not 0 <= extra <= DELAY_MAX:
            raise InputError(f"a delay of {extra} links' time: between 0 and {DELAY_MAX:,} are allowed")
        self.run_until_quiet()
        self._arrivals, self._arrived = {}, 0
        self._extra.pop((sender, receiver), None)
        if extra:
            self._extra[sender, receiver] = extra

    def take_link_down(self, one: BrokerId, other: BrokerId) -> None:
        """Take a link down; both ends are told."""
        self._settle()
        self._take_down(one, other)
        self.tell(one, LinkWentDown(other))
        self.tell(other, LinkWentDown(one))

    def bring_link_up(self, one: BrokerId, other: BrokerId) -> None:
        """Bring a link up again; both ends are told."""
        self._down.remove(frozenset((one, other)))
        self.tell(one, LinkCameUp(other))
        self.tell(other, LinkCameUp(one))

    def crash(self, broker: BrokerId) -> None:
        """Kill a broker; its live neighbours are told that their links to it are down."""
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
        """Deliver messages until none is in flight or due soon."""
        for _ in range(MESSAGES_PER_RUN_MAX):
            if self.in_flight:
                self._receive(self._next_to_arrive() if self._extra else self.in_flight.popleft())
            elif not (self._streams and self.let_time_pass(SOON_S)):
                return
        raise LocalProtocolError(f"the overlay did not come to rest within {MESSAGES_PER_RUN_MAX} messages")

    def _next_to_arrive(self) -> Hop:
        """Takes time proportional to the messages in flight; meant for scenes, which are small."""
        arrivals = self._arrivals
        hop = min(self.in_flight, key=lambda hop: (arrivals.get(hop.number, 0), hop.number))
        self.in_flight.remove(hop)
        self._arrived = max(self._arrived, arrivals.pop(hop.number, 0))
        return hop

    def let_time_pass(self, most_s: float = inf) -> bool:
        """Advance to the next timer of a broker and run it; False if nothing is due that soon."""
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
        """Confirm received messages, unless something is in flight."""
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
                hop = Hop(self._hops, broker, action.to, action.message, cause, action.priority)
                self._hops += 1
                if self._down and frozenset((broker, action.to)) in self._down:
                    if self._on_lost is not None:
                        self._on_lost(hop)
                    continue
                self.in_flight.append(hop)
                if self._extra:
                    self._arrivals[hop.number] = self._arrived + 1 + self._extra.get((broker, action.to), 0)
                if self._on_hop is not None:
                    self._on_hop(hop)
            elif self._on_action is not None:
                self._on_action(broker, action, cause)
