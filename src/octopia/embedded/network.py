"""All brokers of an overlay in one process, joined by links that keep order: the smallest host of the routing core.

Rules of this file: it moves messages and records where each came from; it decides nothing. Left alone it carries
messages in the order in which they were sent, so that every link takes the same time. A test, or anyone curious, may
take the oldest message of any link next, which is every interleaving that links with arbitrary delays allow. Time
stands still: `now` is 0 for every event. The number of messages one run may take is bounded, since a routing idea
that loops must end with an error, not with a full memory.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from octopia.errors import InputError, LocalProtocolError, TopologyError
from octopia.routing import (
    Action,
    Broker,
    CongestionParameters,
    Event,
    Limits,
    LinkSampled,
    Message,
    Received,
    Send,
)
from octopia.topology import BrokerId, Scot

MESSAGES_PER_RUN_MAX = 10_000_000
QUEUE_MAX = 1_000_000_000
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


# Told of every hop when it is sent, and of every other action with the broker that ordered it and the causing hop.
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
        self._on_action = on_action
        self._hops = 0

    def tell(self, broker: BrokerId, event: Event) -> None:
        """Let something happen at a broker; its messages are put in flight, not yet received."""
        self._carry_out(broker, self.brokers[broker].handle_whole(event, 0.0), None)

    def hold_queue(self, sender: BrokerId, receiver: BrokerId, queue_length: int) -> None:
        """Tell a broker that its output queue towards a neighbour has this length and neither grows nor shrinks."""
        if not 0 <= queue_length <= QUEUE_MAX:
            raise InputError(f"a queue of length {queue_length}: between 0 and {QUEUE_MAX:,} are allowed")
        self.tell(sender, LinkSampled(receiver, queue_length, 0, 0))

    def run_until_quiet(self) -> None:
        """Carry messages until none is in flight."""
        for _ in range(MESSAGES_PER_RUN_MAX):
            if not self.in_flight:
                return
            self._receive(self.in_flight.popleft())
        raise LocalProtocolError(f"the overlay did not come to rest within {MESSAGES_PER_RUN_MAX} messages")

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
        actions = self.brokers[hop.receiver].handle(Received(hop.sender, hop.message), 0.0)
        self._carry_out(hop.receiver, actions, hop)

    def _carry_out(self, broker: BrokerId, actions: list[Action], cause: Hop | None) -> None:
        for action in actions:
            if type(action) is Send:
                hop = Hop(self._hops, broker, action.to, action.message, cause)
                self._hops += 1
                self.in_flight.append(hop)
                if self._on_hop is not None:
                    self._on_hop(hop)
            elif self._on_action is not None:
                self._on_action(broker, action, cause)
