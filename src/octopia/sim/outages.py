"""Outages of links and brokers: what the brokers are told, and when.

A host tells its broker when a connection is gone and when there is a fresh one (`LinkWentDown`, `LinkCameUp`); the
routing does the rest, also in the simulator. Both ends of a link are told. A link is broken as long as it has a fault
of its own or a broker at either end is down. The neighbours of a crashed broker notice after its last message has
arrived. A restarted broker has empty tables; its links come up, or it is told that they are down, and its clients,
which keep their registrations themselves, register again (without those they withdrew while it was down). A routing
without recovery (TID routing) is told nothing, and stays as the fault left it.
"""

from collections.abc import Callable
from functools import partial

from octopia.routing import Event, LinkCameUp, LinkWentDown
from octopia.sim.node import Node
from octopia.topology import BrokerId

Act = Callable[[Node, Event, int], None]
At = Callable[[int, Callable[[int], None]], None]
IsUp = Callable[[Node, BrokerId], bool]


class Outages:
    """The current outages.

    `act` lets a broker handle an event, `at` schedules a call for a later moment, `is_up` tells whether a broker
    considers its link to a neighbour up.
    """

    def __init__(self, recovers: bool, act: Act, at: At, is_up: IsUp) -> None:
        self.recovers = recovers
        self._act = act
        self._at = at
        self._is_up = is_up
        # by link, how many faults break it
        self._broken: dict[tuple[BrokerId, BrokerId], int] = {}

    def link_down(self, one: Node, other: Node, now: int) -> None:
        if self._breaks(one, other):
            self._notice(one, other, now)
            self._notice(other, one, now)

    def link_up(self, one: Node, other: Node, now: int) -> None:
        if self._mends(one, other):
            one.links[other.id].renewed_ns = other.links[one.id].renewed_ns = now
            for node, neighbour in ((one, other), (other, one)):
                self._notice(node, neighbour, now)
                if self.recovers:
                    self._act(node, LinkCameUp(neighbour.id), now)

    def broker_down(self, node: Node, now: int) -> None:
        for link in node.links.values():
            neighbour = link.receiver
            if self._breaks(node, neighbour):
                self._at(max(now, link.last_arrival_ns), partial(self._late_notice, neighbour, node))

    def broker_up(self, node: Node, now: int) -> None:
        for link in node.links.values():
            self.link_up(node, link.receiver, now)
            if self.recovers and self._broken.get(_pair(node, link.receiver)):
                self._act(node, LinkWentDown(link.receiver.id), now)
        if self.recovers:
            for event in node.registered:
                self._act(node, event, now)

    def _late_notice(self, node: Node, neighbour: Node, now: int) -> None:
        if self._broken.get(_pair(node, neighbour)):
            self._notice(node, neighbour, now)

    def _notice(self, node: Node, neighbour: Node, now: int) -> None:
        """Unless it knows already: a restarted broker has all its links down."""
        if self.recovers and self._is_up(node, neighbour.id):
            self._act(node, LinkWentDown(neighbour.id), now)

    def _breaks(self, one: Node, other: Node) -> bool:
        pair = _pair(one, other)
        self._broken[pair] = self._broken.get(pair, 0) + 1
        return self._broken[pair] == 1

    def _mends(self, one: Node, other: Node) -> bool:
        pair = _pair(one, other)
        self._broken[pair] -= 1
        return self._broken[pair] == 0


def _pair(one: Node, other: Node) -> tuple[BrokerId, BrokerId]:
    return (one.id, other.id) if one.index < other.index else (other.id, one.id)
