"""OctopiA: content-based publish/subscribe over a structured cyclic overlay of brokers.

Clients of a live overlay (`connect`, `connect_sync`) are loaded when they are first used, since sockets and TLS take
longer to load than all the rest together.
"""

from typing import TYPE_CHECKING, Any

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
from octopia.topology import BrokerId, Scot, Tree
from octopia.version import __version__

if TYPE_CHECKING:
    from octopia.net import connect, connect_sync

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


def __getattr__(name: str) -> Any:
    if name in ("connect", "connect_sync"):
        from octopia import net

        return getattr(net, name)
    raise AttributeError(f"module 'octopia' has no attribute {name!r}")
