"""OctopiA: content-based publish/subscribe over a structured cyclic overlay of brokers.

Every name is loaded when it is first used: a client needs neither the matcher nor the SQL parser, and a program that
only parses filters needs no sockets.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily
from octopia.version import __version__

if TYPE_CHECKING:
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
        UnconfirmedError,
        UndeliveredError,
        UnreachableError,
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
    from octopia.net import connect, connect_sync
    from octopia.topology import BrokerId, Scot, Tree

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
    "UnconfirmedError",
    "UndeliveredError",
    "UnreachableError",
    "__version__",
    "conforms",
    "connect",
    "connect_sync",
    "covers",
    "matches",
    "overlaps",
    "parse_filter",
    "parse_notification",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.embedded": "Delivery Overlay Publisher Subscriber",
        "octopia.errors": (
            "InputError LanguageError LocalProtocolError OctopiaError PlacementError ProtocolError RefusedError "
            "RemoteProtocolError ScenarioError TopologyError UnconfirmedError UndeliveredError "
            "UnreachableError"
        ),
        "octopia.language": "Filter Notification conforms covers matches overlaps parse_filter parse_notification",
        "octopia.matching": "Matcher",
        "octopia.net": "connect connect_sync",
        "octopia.topology": "BrokerId Scot Tree",
    },
)
