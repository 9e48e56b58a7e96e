"""Static TID routing: a notification follows the tree of its advertisement.

One tree is enough, whatever the number of advertisements the notification conforms to, since a subscription it matches
overlaps each of them and so is bound to each of their trees; the oldest is taken, whose bindings have had the most time
to settle. A tree is acyclic, so no broker gets a copy twice.
"""

from collections.abc import Sequence

from octopia.protocol import TreeHeader
from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.tid.state import TidState, TreeMatched
from octopia.topology import BrokerId


def first_header(state: TidState, satisfied: Sequence[Registered], now: float = 0.0, counts: int = 1) -> TreeHeader:
    """The tree of the oldest advertisement that a notification satisfies."""
    return TreeHeader(satisfied[0].key)


def route(state: TidState, matched: TreeMatched, header: TreeHeader, came_by: BrokerId | None) -> Decision:
    copies = tuple((hop, header) for hop in matched.hops(header.tid) if hop != came_by)
    priorities = matched.hop_priorities(header.tid, (hop for hop, _ in copies)) if matched.urgent else None
    return Decision(matched.recipients, copies, priorities=priorities)
