"""From notifications to decisions: match them, and ask the routing once for each new set of matches.

**The key of a decision** consists of the set of matching subscriptions, the header (that of a copy; for a publication,
the one that `Policy.first_header` derives from the satisfied advertisements), the neighbour that sent it (None: a
client) and, if `Decision.by_links` says so, the state of the links as the routing sees it (`Policy.links`). A decision
depends on nothing else. Decisions are cached in one place, with the set that the subscription table found: they are
dropped with it when an entry comes or goes or the table's bound is reached (`tables.REMEMBERED_MAX`). A decision made
for another state of the links is replaced.

A routing whose copies name their destinations (`Policy.pass_on`) matches only at the publisher's broker. For a copy,
only the header and the neighbour count, and decisions are cached by these (`BrokerState.passed`) until the routing
clears them.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from octopia.protocol import Header
from octopia.routing.decision import Decision
from octopia.routing.index import Values
from octopia.routing.policy import Policy
from octopia.routing.rows import Rows
from octopia.routing.state import remember_passed
from octopia.routing.tables import Matched, SubscriptionTable
from octopia.topology import BrokerId


class Decisions:
    """The decisions of one broker, cached."""

    __slots__ = (
        "_by_ways",
        "_find",
        "_find_by_ways",
        "_found",
        "_links",
        "_match_keys",
        "_pass_on",
        "_remember",
        "_route",
        "_state",
    )

    def __init__(self, state: Any, policy: Policy[Any]) -> None:
        table: SubscriptionTable[Any, Any] = state.prt
        self._state = state
        self._match_keys, self._found, self._find = table.match_keys, table.found, table.find
        self._by_ways, self._find_by_ways = table.by_ways, table.find_by_ways
        self._remember = table.remember_decision
        self._route = policy.route
        self._links = policy.links
        self._pass_on: Any = policy.pass_on

    def decide(self, notifications: Sequence[Values], header: Header, came_by: BrokerId | None) -> list[Decision]:
        """A decision for each of these notifications, whose values were checked."""
        if len(notifications) == 1:
            return [self._decide_one(notifications, header, came_by)]
        all_found, links = self._found, None if self._links is None else self._links(self._state)
        context = (header, came_by)
        keys = list(self._match_keys(notifications))
        try:
            # most often all are cached
            known = [all_found[key].decisions[context] for key in keys]
        except KeyError:
            pass
        else:
            if links is None or not any(each.by_links and each.links != links for each in known):
                return known
        decisions: list[Decision] = []
        add = decisions.append
        for key in keys:
            try:
                decision = all_found[key].decisions[context]
            except KeyError:
                decision = self._decide(all_found.get(key) or self._find(key), header, came_by, links)
            else:
                if decision.by_links and decision.links != links:
                    decision = self._decide(all_found[key], header, came_by, links)
            add(decision)
        return decisions

    def decide_by_ways(self, ways: bytes, rows: Rows, header: Header, came_by: BrokerId | None) -> Decision:
        """The copies of all notifications that match subscriptions on these ways, a set of bits; no local recipients.

        For hosts that work out local deliveries themselves (`rows.py`).
        """
        matched = self._by_ways.get(ways)
        if matched is None:
            matched = self._find_by_ways(ways, rows.matching(int.from_bytes(ways, "little")))
        decision: Decision | None = matched.decisions.get((header, came_by))
        if decision is not None and not decision.by_links:
            return decision
        links = None if self._links is None else self._links(self._state)
        if decision is not None and decision.links == links:
            return decision
        return self._decide(matched, header, came_by, links)

    def pass_on(self, header: Header, came_by: BrokerId) -> Decision:
        """The decision for copies with this header, of a routing that does not match them."""
        decision: Decision = self._pass_on(self._state, header, came_by)
        remember_passed(self._state.passed[came_by], header, decision)
        return decision

    def _decide_one(self, notification: Sequence[Values], header: Header, came_by: BrokerId | None) -> Decision:
        """Like `decide`, for a single notification, which is the most common case."""
        (key,) = self._match_keys(notification)
        matched = self._found.get(key)
        decision: Decision | None = None if matched is None else matched.decisions.get((header, came_by))
        if decision is not None and not decision.by_links:
            return decision
        links = None if self._links is None else self._links(self._state)
        if decision is not None and decision.links == links:
            return decision
        return self._decide(matched or self._find(key), header, came_by, links)

    def _decide(self, matched: Matched, header: Header, came_by: BrokerId | None, links: Hashable) -> Decision:
        decision = self._route(self._state, matched, header, came_by)
        if decision.by_links:
            decision.links = links
        self._remember(matched, (header, came_by), decision)
        return decision
