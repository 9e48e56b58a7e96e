"""Full dynamic routing: copies name their destinations, and any copy of the tree may carry them (`fdr`)."""

from octopia.routing.fdr import advertise, notify, resync, streams

__all__ = ["advertise", "notify", "resync", "streams"]
