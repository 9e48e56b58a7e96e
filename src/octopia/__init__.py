"""OctopiA: content-based publish/subscribe over a structured cyclic overlay of brokers."""

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

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "LanguageError",
    "LocalProtocolError",
    "OctopiaError",
    "PlacementError",
    "ProtocolError",
    "RefusedError",
    "RemoteProtocolError",
    "ScenarioError",
    "TopologyError",
]
