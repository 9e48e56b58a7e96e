"""The routing core, sans-IO: one broker class, five routings, no sockets and no clock."""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.routing.actions import Accept, Action, Deliver, Recipient, Refuse, Send, withdraw_from
    from octopia.routing.broker import Broker
    from octopia.routing.by_ways import ByWays
    from octopia.routing.clients import Limits, Registered
    from octopia.routing.conforming import Terms
    from octopia.routing.congestion import CongestionParameters
    from octopia.routing.covering import COVERINGS
    from octopia.routing.decision import Copy, Decision, Refusal
    from octopia.routing.events import (
        Advertised,
        ClientLeft,
        Event,
        LinkCameUp,
        LinkGivenUp,
        LinkSampled,
        LinkWentDown,
        Published,
        Received,
        Subscribed,
        Unadvertised,
        Unsubscribed,
    )
    from octopia.routing.index import Index, MakeIndex, MatcherIndex, Values
    from octopia.routing.policy import (
        DEFAULT_ROUTING,
        POLICIES,
        Policy,
        Promises,
        Recovery,
        check_covering,
        check_routings,
        policy_if_known,
        policy_named,
        why_not_live,
    )
    from octopia.routing.priorities import why_not_priority
    from octopia.routing.rows import Rows
    from octopia.routing.streams import Released, Streams, Unconfirmed

__all__ = [
    "COVERINGS",
    "DEFAULT_ROUTING",
    "POLICIES",
    "Accept",
    "Action",
    "Advertised",
    "Broker",
    "ByWays",
    "ClientLeft",
    "CongestionParameters",
    "Copy",
    "Decision",
    "Deliver",
    "Event",
    "Index",
    "Limits",
    "LinkCameUp",
    "LinkGivenUp",
    "LinkSampled",
    "LinkWentDown",
    "MakeIndex",
    "MatcherIndex",
    "Policy",
    "Promises",
    "Published",
    "Received",
    "Recipient",
    "Recovery",
    "Refusal",
    "Refuse",
    "Registered",
    "Released",
    "Rows",
    "Send",
    "Streams",
    "Subscribed",
    "Terms",
    "Unadvertised",
    "Unconfirmed",
    "Unsubscribed",
    "Values",
    "check_covering",
    "check_routings",
    "policy_if_known",
    "policy_named",
    "why_not_live",
    "why_not_priority",
    "withdraw_from",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.routing.actions": "Accept Action Deliver Recipient Refuse Send withdraw_from",
        "octopia.routing.broker": "Broker",
        "octopia.routing.by_ways": "ByWays",
        "octopia.routing.clients": "Limits Registered",
        "octopia.routing.conforming": "Terms",
        "octopia.routing.congestion": "CongestionParameters",
        "octopia.routing.covering": "COVERINGS",
        "octopia.routing.decision": "Copy Decision Refusal",
        "octopia.routing.events": (
            "Advertised ClientLeft Event LinkCameUp LinkGivenUp LinkSampled LinkWentDown Published Received "
            "Subscribed Unadvertised Unsubscribed"
        ),
        "octopia.routing.index": "Index MakeIndex MatcherIndex Values",
        "octopia.routing.policy": (
            "DEFAULT_ROUTING POLICIES Policy Promises Recovery check_covering check_routings policy_if_known "
            "policy_named why_not_live"
        ),
        "octopia.routing.priorities": "why_not_priority",
        "octopia.routing.rows": "Rows",
        "octopia.routing.streams": "Released Streams Unconfirmed",
    },
)
