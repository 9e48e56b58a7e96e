"""The routing core, sans-IO: one broker class, four routings, no sockets and no clock."""

from octopia.routing.actions import Accepted, Action, Deliver, Recipient, Refused, Send
from octopia.routing.broker import Broker
from octopia.routing.clients import Limits
from octopia.routing.congestion import CongestionParameters
from octopia.routing.events import (
    Advertised,
    ClientLeft,
    Event,
    LinkSampled,
    Published,
    Received,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.routing.index import Index, MakeIndex
from octopia.routing.messages import (
    NOTIFICATION_MESSAGES,
    Advertise,
    CibClear,
    CibSet,
    Key,
    Message,
    Notify,
    NotifyRoutes,
    NotifyTree,
    Route,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from octopia.routing.policy import POLICIES, Policy, policy_named

__all__ = [
    "NOTIFICATION_MESSAGES",
    "POLICIES",
    "Accepted",
    "Action",
    "Advertise",
    "Advertised",
    "Broker",
    "CibClear",
    "CibSet",
    "ClientLeft",
    "CongestionParameters",
    "Deliver",
    "Event",
    "Index",
    "Key",
    "Limits",
    "LinkSampled",
    "MakeIndex",
    "Message",
    "Notify",
    "NotifyRoutes",
    "NotifyTree",
    "Policy",
    "Published",
    "Received",
    "Recipient",
    "Refused",
    "Route",
    "Send",
    "Subscribe",
    "Subscribed",
    "Unadvertise",
    "Unadvertised",
    "Unsubscribe",
    "Unsubscribed",
    "policy_named",
]
