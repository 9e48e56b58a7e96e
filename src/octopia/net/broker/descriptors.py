"""File descriptors: the process limit, and the number of client connections per broker that fit in it."""

import resource

from octopia.net.limits import NetLimits

# For files, libraries, connections of the program itself.
FILES_MARGIN = 64
# A broker has at least this many places for clients, whatever the limit: accepting may fail and is retried later.
CONNECTIONS_MIN = 16


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


def connections_that_fit(files: int, brokers: int, limits: NetLimits, links: int) -> int:
    """The number of client connections per broker that fit, for brokers with `links` links each; at most the bound."""
    if files == resource.RLIM_INFINITY:
        return limits.connections_max
    others = limits.files(links) - limits.connections_max
    room = (files - FILES_MARGIN) // max(brokers, 1) - others
    return min(limits.connections_max, max(room, CONNECTIONS_MIN))
