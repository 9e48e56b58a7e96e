"""Static TID routing: a notification follows the tree of its advertisement.

Rules of this file: one tree is enough, whatever the number of advertisements the notification conforms to, since a
subscription it matches overlaps each of them and so is bound to each of their trees; the oldest is taken, whose
bindings have had the most time to settle. A tree has no cycle, so nobody gets a copy twice.
"""

from octopia.routing.actions import Action, Deliver, Send
from octopia.routing.clients import Registered
from octopia.routing.events import Published
from octopia.routing.messages import NotifyTree
from octopia.routing.tid.state import TidState
from octopia.topology import BrokerId


def publish(state: TidState, event: Published, conforming: list[Registered], out: list[Action]) -> None:
    """A client of this broker published; `conforming` are its advertisements that the notification satisfies."""
    copy = NotifyTree(event.client, event.id, event.notification, conforming[0].key)
    matched = state.prt.match(copy.notification)
    if matched.recipients:
        out.append(Deliver(copy.publisher, copy.id, copy.notification, matched.recipients))
    for hop in matched.onward(copy.tid)[None]:
        out.append(Send(hop, copy))


def receive_notify(state: TidState, sender: BrokerId, message: NotifyTree, out: list[Action]) -> None:
    matched = state.prt.match(message.notification)
    if matched.recipients:
        out.append(Deliver(message.publisher, message.id, message.notification, matched.recipients))
    for hop in matched.onward(message.tid)[sender]:
        out.append(Send(hop, message))
