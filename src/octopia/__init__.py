"""OctopiA: content-based publish/subscribe over a structured cyclic overlay of brokers."""

from octopia.embedded import Delivery, Overlay, Publisher, Subscriber
from octopia.errors import (
    InputError,
    LanguageError,
    LocalProtocolError,
    OctopiaError,
    PlacementError,
    ProtocolError,
    RefusedError,
    RemoteProtocolError,
    ScenarioError,
    TopologyError,
)
from octopia.language import (
    Filter,
    Notification,
    conforms,
    covers,
    matches,
    overlaps,
    parse_filter,
    parse_notification,
)
from octopia.matching import Matcher
from octopia.topology import BrokerId, Scot, Tree
from octopia.version import __version__

__all__ = [
    "BrokerId",
    "Delivery",
    "Filter",
    "InputError",
    "LanguageError",
    "LocalProtocolError",
    "Matcher",
    "Notification",
    "OctopiaError",
    "Overlay",
    "PlacementError",
    "ProtocolError",
    "Publisher",
    "RefusedError",
    "RemoteProtocolError",
    "ScenarioError",
    "Scot",
    "Subscriber",
    "TopologyError",
    "Tree",
    "__version__",
    "conforms",
    "covers",
    "matches",
    "overlaps",
    "parse_filter",
    "parse_notification",
]
