"""The routing core, sans-IO: one broker class, five routings, no sockets and no clock."""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.routing.actions import Accept, Action, Deliver, Recipient, Refuse, Send
    from octopia.routing.broker import Broker
    from octopia.routing.clients import Limits
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
    from octopia.routing.express import Express
    from octopia.routing.index import Index, MakeIndex, MatcherIndex, Values
    from octopia.routing.messages import (
        PLAIN,
        PRIORITY_MAX,
        WAIT_MS_MAX,
        Advertise,
        AdvertisementsComplete,
        CibClear,
        CibSet,
        Civ,
        Confirm,
        Confirmed,
        Dests,
        Header,
        Key,
        Lent,
        LinkNews,
        LinkReport,
        Message,
        Notify,
        Route,
        Routes,
        Stamp,
        Subscribe,
        SubscriptionsComplete,
        SubscriptionsIncomplete,
        Tree,
        Unadvertise,
        Unsubscribe,
        Waits,
    )
    from octopia.routing.policy import (
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
    from octopia.routing.streams import Released, Streams
    from octopia.routing.tests_of_values import satisfied

__all__ = [
    "COVERINGS",
    "PLAIN",
    "POLICIES",
    "PRIORITY_MAX",
    "WAIT_MS_MAX",
    "Accept",
    "Action",
    "Advertise",
    "Advertised",
    "AdvertisementsComplete",
    "Broker",
    "CibClear",
    "CibSet",
    "Civ",
    "ClientLeft",
    "Confirm",
    "Confirmed",
    "CongestionParameters",
    "Copy",
    "Decision",
    "Deliver",
    "Dests",
    "Event",
    "Express",
    "Header",
    "Index",
    "Key",
    "Lent",
    "Limits",
    "LinkCameUp",
    "LinkGivenUp",
    "LinkNews",
    "LinkReport",
    "LinkSampled",
    "LinkWentDown",
    "MakeIndex",
    "MatcherIndex",
    "Message",
    "Notify",
    "Policy",
    "Promises",
    "Published",
    "Received",
    "Recipient",
    "Recovery",
    "Refusal",
    "Refuse",
    "Released",
    "Route",
    "Routes",
    "Rows",
    "Send",
    "Stamp",
    "Streams",
    "Subscribe",
    "Subscribed",
    "SubscriptionsComplete",
    "SubscriptionsIncomplete",
    "Tree",
    "Unadvertise",
    "Unadvertised",
    "Unsubscribe",
    "Unsubscribed",
    "Values",
    "Waits",
    "check_covering",
    "check_routings",
    "policy_if_known",
    "policy_named",
    "satisfied",
    "why_not_live",
    "why_not_priority",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.routing.actions": "Accept Action Deliver Recipient Refuse Send",
        "octopia.routing.broker": "Broker",
        "octopia.routing.clients": "Limits",
        "octopia.routing.congestion": "CongestionParameters",
        "octopia.routing.covering": "COVERINGS",
        "octopia.routing.decision": "Copy Decision Refusal",
        "octopia.routing.events": (
            "Advertised ClientLeft Event LinkCameUp LinkGivenUp LinkSampled LinkWentDown Published Received "
            "Subscribed Unadvertised Unsubscribed"
        ),
        "octopia.routing.express": "Express",
        "octopia.routing.index": "Index MakeIndex MatcherIndex Values",
        "octopia.routing.messages": (
            "PLAIN PRIORITY_MAX WAIT_MS_MAX Advertise AdvertisementsComplete CibClear CibSet Civ Confirm Confirmed "
            "Dests Header Key Lent LinkNews LinkReport Message Notify Route Routes Stamp Subscribe "
            "SubscriptionsComplete SubscriptionsIncomplete Tree Unadvertise Unsubscribe Waits"
        ),
        "octopia.routing.policy": (
            "POLICIES Policy Promises Recovery check_covering check_routings policy_if_known policy_named why_not_live"
        ),
        "octopia.routing.priorities": "why_not_priority",
        "octopia.routing.rows": "Rows",
        "octopia.routing.streams": "Released Streams",
        "octopia.routing.tests_of_values": "satisfied",
    },
)
