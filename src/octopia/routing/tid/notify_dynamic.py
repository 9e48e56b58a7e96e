"""Dynamic TID routing: where a subscription lies on several trees, the least loaded next hop is taken.

A subscription that overlaps several advertisements is bound to several trees and may have come to a broker by several
neighbours. Each of them leads to its subscriber, so the copy for that subscriber may change to any of these trees.

Rules of this file. A copy names its destination brokers; each rides on exactly one copy and is delivered to only
there, so nobody gets a notification twice even where trees cross. A destination changes only to a tree that all its
matching subscriptions share, so that the withdrawal of one cannot strand the others; never back to a tree it has
left, and on one tree each hop comes closer to it, so routing ends. Staying is always possible. One copy per next hop.
Equal queues are decided for the present tree.

What all this comes to for the routes of a copy is worked out once per set of matching subscriptions (`plans.py`); what
is left for each copy is to compare queues.
"""

from octopia.routing.actions import Action, Deliver, Send
from octopia.routing.clients import Registered
from octopia.routing.events import Published
from octopia.routing.messages import NotifyRoutes
from octopia.routing.tid.state import TidState
from octopia.topology import BrokerId


def publish(state: TidState, event: Published, conforming: list[Registered], out: list[Action]) -> None:
    matched = state.prt.match(event.notification)
    if matched.recipients:
        out.append(Deliver(event.client, event.id, event.notification, matched.recipients))
    for hop, routes in matched.first_plan(conforming[0].key).copies(state.lst, None):
        out.append(Send(hop, NotifyRoutes(event.client, event.id, event.notification, routes)))


def receive_notify(state: TidState, sender: BrokerId, message: NotifyRoutes, out: list[Action]) -> None:
    notification, routes = message.notification, message.routes
    matched = state.prt.match(notification)
    plan = matched.latest_plan
    if plan is None or plan.routes is not routes:
        plan = matched.plan(routes)
    if plan.recipients:
        out.append(Deliver(message.publisher, message.id, notification, plan.recipients))
    copies = plan.only
    if copies is None:
        copies = plan.copies(state.lst, sender)
    for hop, onward in copies:
        if onward is not routes:
            message, routes = NotifyRoutes(message.publisher, message.id, notification, onward), onward
        out.append(Send(hop, message))
