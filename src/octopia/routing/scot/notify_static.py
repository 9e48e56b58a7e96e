"""Static notification routing, SNR: plain copies, decided once at the publisher's host broker.

At the host broker a notification goes along the reverse path of the matching subscriptions of its own cluster and over
the iLink into every cluster whose bit is ON; at any other broker only along the reverse path inside that broker's
cluster. So it takes at most diam(G_af) + 1 hops, enters every target cluster once and reaches nobody twice.
"""

from octopia.routing.actions import Action, Deliver, Send
from octopia.routing.clients import Registered
from octopia.routing.events import Published
from octopia.routing.messages import Notify
from octopia.routing.scot.state import ScotState
from octopia.topology import BrokerId


def publish(state: ScotState, event: Published, conforming: list[Registered], out: list[Action]) -> None:
    """A client of this broker published; `conforming` are its advertisements that the notification satisfies."""
    copy = Notify(event.client, event.id, event.notification)
    for neighbour in deliver_and_find_a_targets(state, copy, None, out):
        out.append(Send(neighbour, copy))
    wanted = target_clusters(state, conforming)
    out.extend(Send(neighbour, copy) for neighbour in state.i_links if wanted >> neighbour.cluster & 1)


def receive_notify(state: ScotState, sender: BrokerId, message: Notify, out: list[Action]) -> None:
    # as `deliver_and_find_a_targets`, written out: of all that a broker does it does this most often
    recipients, onward = state.prt.match(message.notification)
    if recipients:
        out.append(Deliver(message.publisher, message.id, message.notification, recipients))
    for neighbour in onward[sender]:
        out.append(Send(neighbour, message))


def target_clusters(state: ScotState, conforming: list[Registered]) -> int:
    """Bits of the secondary target clusters: of all advertisements the notification satisfies, less the own bit."""
    wanted = 0
    for registered in conforming:
        entry = state.srt.get(registered.key)
        if entry is not None:
            wanted |= entry.civ
    return wanted & ~state.own_bit


def deliver_and_find_a_targets(
    state: ScotState, copy: Notify, came_by: BrokerId | None, out: list[Action]
) -> tuple[BrokerId, ...]:
    """Match once: deliver to this broker's clients, and return the target aLinks, never the one the copy came by."""
    recipients, onward = state.prt.match(copy.notification)
    if recipients:
        out.append(Deliver(copy.publisher, copy.id, copy.notification, recipients))
    return onward[came_by]
