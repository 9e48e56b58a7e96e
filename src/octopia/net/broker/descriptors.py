"""File descriptors: how many the process may open, and how many connections of clients each broker can have then."""

import resource

from octopia.net.limits import NetLimits

# For files, libraries, connections of the program itself.
FILES_MARGIN = 64
# A broker has so many places for clients at least, whatever the system says: accepting fails then, and goes on later.
CONNECTIONS_MIN = 16


def raise_files_limit() -> int:
    """Allow this process as many open files as the system lets it. Returns how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems promise more than they give.
            return soft
    return hard


def connections_that_fit(files: int, brokers: int, limits: NetLimits, links: int) -> int:
    """How many clients' connections each of so many brokers, with so many links each, can have: at most its bound."""
    if files == resource.RLIM_INFINITY:
        return limits.connections_max
    others = limits.files(links) - limits.connections_max
    room = (files - FILES_MARGIN) // max(brokers, 1) - others
    return min(limits.connections_max, max(room, CONNECTIONS_MIN))
