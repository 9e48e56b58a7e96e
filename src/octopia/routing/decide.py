"""From notifications to decisions: match them, and ask the routing once for each set that it has not seen.

**The key of a decision** is the set of subscriptions that matched, and with it: the header (of a copy, what it carries;
of a publication, what the routing reads off the satisfied advertisements, `Policy.first_header`), the neighbour it came
by (None: a client), and how the links look to the routing (`Policy.links`). A routing decides by nothing else.
Decisions are remembered in one place, the set that the subscription table found: they go with it when an entry comes or
goes or the table's bound is reached (`tables.REMEMBERED_MAX`), and those of a set go when the links look different.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from octopia.routing.decision import Decision
from octopia.routing.index import Values
from octopia.routing.messages import Header
from octopia.routing.policy import Policy
from octopia.routing.tables import Matched, SubscriptionTable
from octopia.topology import BrokerId

Context = tuple[Header, BrokerId | None, Hashable]


class Decisions:
    """What one broker decides, and remembers of it."""

    __slots__ = ("_links", "_match_many", "_prt", "_route", "_state")

    def __init__(self, state: Any, policy: Policy[Any]) -> None:
        self._state = state
        self._prt: SubscriptionTable[Any, Any] = state.prt
        self._match_many = self._prt.match_many
        self._route = policy.route
        self._links = policy.links

    def decide(self, notifications: Sequence[Values], header: Header, came_by: BrokerId | None) -> list[Decision]:
        """A decision for each of these notifications, whose values were checked."""
        links = self._links
        context = (header, came_by, None if links is None else links(self._state))
        all_matched = self._match_many(notifications)
        try:
            return [matched.decisions[context] for matched in all_matched]
        except KeyError:
            return [matched.decisions.get(context) or self._decide(matched, context) for matched in all_matched]

    def _decide(self, matched: Matched, context: Context) -> Decision:
        header, came_by, links = context
        if matched.links != links:
            matched.links = links
            self._prt.forget_decisions(matched)
        decision = self._route(self._state, matched, header, came_by)
        self._prt.remember_decision(matched, context, decision)
        return decision
