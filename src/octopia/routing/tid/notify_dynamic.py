"""Dynamic TID routing: where a subscription lies on several trees, the least loaded next hop is taken.

A subscription that overlaps several advertisements is bound to several trees and may have come to a broker by several
neighbours. Each of them leads to its subscriber, so the copy for that subscriber may change to any of these trees.

Rules of this file. A copy names its destination brokers; each rides on exactly one copy and is delivered to only
there, so nobody gets a notification twice even where trees cross. A destination changes only to a tree that all its
matching subscriptions share, so that the withdrawal of one cannot strand the others; never back to a tree it has
left, and on one tree each hop comes closer to it, so routing ends. Staying is always possible. One copy per next hop.
Equal queues are decided for the present tree.
"""

from octopia.routing.actions import Action, Deliver, Send
from octopia.routing.clients import Registered
from octopia.routing.events import Published
from octopia.routing.messages import Key, NotifyRoutes, Route
from octopia.routing.tid.state import TidState, TreeMatched, Way
from octopia.topology import BrokerId


def publish(state: TidState, event: Published, conforming: list[Registered], out: list[Action]) -> None:
    tid = conforming[0].key
    matched = state.prt.match(event.notification)
    routes = tuple(Route(destination, tid, ()) for destination in matched.ways(tid))
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
        ways = matched.ways(route.tid).get(route.destination)
        if ways is None:
            continue
        hop, tid = ways[0] if len(ways) == 1 else _least_loaded(state, ways, route.left, came_by)
        if tid != route.tid:
            route = Route(route.destination, tid, (*route.left, route.tid))
        copies.setdefault(hop, []).append(route)
    for hop in state.neighbours:
        if hop in copies:
            out.append(Send(hop, NotifyRoutes(copy.publisher, copy.id, copy.notification, tuple(copies[hop]))))


def _least_loaded(state: TidState, ways: tuple[Way, ...], left: tuple[Key, ...], came_by: BrokerId | None) -> Way:
    """The way with the least Q_l, never back nor to a tree that was left; the present tree is first and wins ties."""
    best, *others = ways
    least = state.lst.queue_length(best[0])
    for way in others:
        hop, tid = way
        length = state.lst.queue_length(hop)
        if length < least and tid not in left and hop != came_by:
            best, least = way, length
    return best
