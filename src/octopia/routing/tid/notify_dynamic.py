"""Dynamic TID routing: where a subscription lies on several trees, the least loaded next hop is taken.

A subscription that overlaps several advertisements is bound to several trees and may have come to a broker by several
neighbours. Each of them leads to its subscriber, so the copy for that subscriber may change to any of these trees.

Rules of this file. A copy names its destination brokers; each rides on exactly one copy and is delivered to only
there, so nobody gets a notification twice even where trees cross. A destination changes only to a tree that all its
matching subscriptions share, so that the withdrawal of one cannot strand the others; never back to a tree it has
left, and on one tree each hop comes closer to it, so routing ends. Staying is always possible. One copy per next hop.
Equal queues are decided for the present tree.
"""

from octopia.errors import LocalProtocolError
from octopia.routing.actions import Action, Deliver, Send
from octopia.routing.clients import Registered
from octopia.routing.events import Published
from octopia.routing.messages import Key, NotifyRoutes, Route
from octopia.routing.tid.state import BoundEntry, TidState, TreeMatched
from octopia.topology import BrokerId


def publish(state: TidState, event: Published, conforming: list[Registered], out: list[Action]) -> None:
    tid = conforming[0].key
    matched = state.prt.match(event.notification)
    routes = tuple(Route(destination, tid, ()) for destination in matched.destinations(tid))
    copy = NotifyRoutes(event.client, event.id, event.notification, routes)
    if matched.recipients:
        _deliver(copy, matched, out)
    _forward(state, copy, matched, None, out)


def receive_notify(state: TidState, sender: BrokerId, message: NotifyRoutes, out: list[Action]) -> None:
    matched = state.prt.match(message.notification)
    if matched.recipients and any(route.destination == state.id for route in message.routes):
        _deliver(message, matched, out)
    _forward(state, message, matched, sender, out)


def _deliver(copy: NotifyRoutes, matched: TreeMatched, out: list[Action]) -> None:
    out.append(Deliver(copy.publisher, copy.id, copy.notification, matched.recipients))


def _forward(
    state: TidState, copy: NotifyRoutes, matched: TreeMatched, came_by: BrokerId | None, out: list[Action]
) -> None:
    """Choose a next hop for every destination, and send one copy per next hop."""
    copies: dict[BrokerId, list[Route]] = {}
    for route in copy.routes:
        entries = matched.destinations(route.tid).get(route.destination)
        if entries and route.destination != state.id:
            hop, tid = _choose(state, route, entries, came_by)
            left = route.left if tid == route.tid else (*route.left, route.tid)
            copies.setdefault(hop, []).append(Route(route.destination, tid, left))
    for hop in state.neighbours:
        if hop in copies:
            out.append(Send(hop, NotifyRoutes(copy.publisher, copy.id, copy.notification, tuple(copies[hop]))))


def _choose(state: TidState, route: Route, entries: list[BoundEntry], came_by: BrokerId | None) -> tuple[BrokerId, Key]:
    """The least loaded (next hop, tree) for one destination; the present tree comes first and wins ties."""
    first, *others = entries
    best, best_tid, least = None, route.tid, -1
    for tid in (route.tid, *first.bindings):
        hop = first.bindings[tid]
        if hop is None or tid in route.left or (hop == came_by and best is not None):
            continue
        length = state.lst.queue_length(hop)
        if best is None or (length < least and all(tid in entry.bindings for entry in others)):
            best, best_tid, least = hop, tid, length
    if best is None:
        raise LocalProtocolError(f"{state.id} holds a subscription of {route.destination} without a way to it")
    return best, best_tid
