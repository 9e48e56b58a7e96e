"""File descriptors: the process limit, and the places for clients and strangers that fit in it.

Neighbours come first: two descriptors are reserved for each link. What is left is divided among clients, connections
that have not identified themselves, and HTTP, so that none of them can keep out a neighbour, or each other.
"""

import resource
from typing import NamedTuple

from octopia.net.limits import NetLimits

# For files, libraries, connections of the program itself; at most a quarter of the limit.
FILES_MARGIN = 64
# If there are fewer places for clients than this, strangers and HTTP give up some of theirs.
CONNECTIONS_MIN = 16


class ConnectionRoom(NamedTuple):
    """How many connections a broker has room for."""

    clients: int
    handshakes: int
    http: int


def raise_files_limit() -> int:
    """Raise this process's limit of open files as far as the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems announce more than they allow.
            return soft
    return hard


def places_that_fit(files: int, brokers: int, limits: NetLimits, links: int) -> ConnectionRoom:
    """The connections for which there is room, per broker, for brokers with `links` links each; at most the bounds."""
    wanted = ConnectionRoom(limits.connections_max, limits.handshakes_max, limits.http_connections_max)
    if files == resource.RLIM_INFINITY:
        return wanted
    neighbours = limits.files(links) - sum(wanted)
    room = (files - min(FILES_MARGIN, files // 4)) // max(brokers, 1) - neighbours
    clients = room - wanted.handshakes - wanted.http
    if clients >= CONNECTIONS_MIN:
        return wanted._replace(clients=min(clients, wanted.clients))
    handshakes, http = min(room // 4, wanted.handshakes), min(room // 8, wanted.http)
    return ConnectionRoom(max(1, min(room - handshakes - http, wanted.clients)), max(1, handshakes), max(1, http))
