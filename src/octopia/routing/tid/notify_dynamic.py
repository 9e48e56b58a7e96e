"""Dynamic TID routing: if a subscription is bound to several trees, the least loaded next hop is taken.

A subscription that overlaps several advertisements is bound to several trees and may have come to a broker by several
neighbours. Each of them leads to its subscriber, so the copy for that subscriber may change to any of these trees.

A copy names its destination brokers; each rides on exactly one copy and is delivered to only there, so no client gets a
notification twice even where trees cross. A destination changes only to a tree that all its matching subscriptions
share, so that the withdrawal of one cannot strand the others; never back to a tree it has left, and on one tree each
hop comes closer to it, so routing ends. Staying is always possible. One copy per next hop. Ties go to the present tree.

The consequences for the routes of a copy are computed once per set of matching subscriptions (`plans.py`); for each
copy, only the queues are compared.
"""

from octopia.protocol import Routes, TreeHeader
from octopia.routing.decision import Decision
from octopia.routing.tid.state import TidState, TreeMatched
from octopia.topology import BrokerId


def links_seen(state: TidState) -> int:
    """How long the queues are."""
    return state.lst.queues_changed


def route(state: TidState, matched: TreeMatched, header: Routes | TreeHeader, came_by: BrokerId | None) -> Decision:
    """At the host broker the header is a tree, and the copy is for all destinations on it."""
    plan = matched.plan(header)
    delivers = came_by is None or plan.is_for_us
    recipients = matched.recipients if delivers else ()
    copies = plan.copies(state.lst, came_by)
    priorities = matched.route_priorities(copies) if matched.urgent else None
    return Decision(recipients, copies, by_links=plan.has_choice, priorities=priorities, delivers=delivers)
