"""Scenes drawn over an overlay: clients, messages, overloaded links, links that are down, dead brokers.

Plain values, checked against the overlay before anything is drawn, so that a picture never shows a
message on a link that does not exist.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from octopia.errors import TopologyError
from octopia.topology import BrokerId, Link, Scot

ClientKind = Literal["publisher", "subscriber"]
MessageStyle = Literal["plain", "civ", "control", "detour"]
_KINDS, _STYLES = get_args(ClientKind), get_args(MessageStyle)


@dataclass(frozen=True)
class DrawnClient:
    """A client beside its host broker."""

    name: str
    broker: BrokerId
    kind: ClientKind


@dataclass(frozen=True)
class DrawnMessage:
    """An arrow along a link. `plain` is a copy, `civ` a copy that carries a CIV, `control` anything else.

    With `tree`, a copy on that cluster's copy of the tree: it has that cluster's colour. `detour` is such a copy that
    was handed over because a link is down.
    """

    source: BrokerId
    target: BrokerId
    label: str = ""
    style: MessageStyle = "plain"
    tree: int | None = None


@dataclass(frozen=True)
class Scene:
    """Everything drawn over one overlay. Links are pairs of brokers, in either order."""

    title: str | None = None
    clients: tuple[DrawnClient, ...] = ()
    messages: tuple[DrawnMessage, ...] = ()
    overloaded: tuple[Link, ...] = ()
    highlights: tuple[BrokerId, ...] = ()
    dead: tuple[BrokerId, ...] = ()
    down: tuple[Link, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether arrows or clients need extra room."""
        return bool(self.clients or self.messages)


def check_scene(scot: Scot, scene: Scene) -> None:
    """A `TopologyError` for the first broker or link of the scene that the overlay does not have."""
    _check_brokers(scot, (*(client.broker for client in scene.clients), *scene.highlights, *scene.dead))
    for source, target in (*((m.source, m.target) for m in scene.messages), *scene.overloaded, *scene.down):
        if target not in scot.neighbours(source):
            raise TopologyError(f"no link {BrokerId(*source)}-{BrokerId(*target)} in the overlay")
    for client in scene.clients:
        if client.kind not in _KINDS:
            raise TopologyError(f"client {client.name}: kind {client.kind!r} is none of {', '.join(_KINDS)}")
    for message in scene.messages:
        if message.style not in _STYLES:
            raise TopologyError(f"message {message.label!r}: style {message.style!r} is none of {', '.join(_STYLES)}")
        if message.tree is not None and not 0 <= message.tree < scot.clusters:
            raise TopologyError(f"message {message.label!r}: no cluster {message.tree}: {scot.clusters} clusters")


def _check_brokers(scot: Scot, brokers: Iterable[BrokerId]) -> None:
    for broker in brokers:
        scot.neighbours(broker)
