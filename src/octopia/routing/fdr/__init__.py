"""Full dynamic routing: copies name their destinations, and any copy of the tree may carry them (`fdr`)."""

from octopia.routing.fdr import advertise, flood, interest, notify, resync, streams
from octopia.routing.fdr.why import why

__all__ = ["advertise", "flood", "interest", "notify", "resync", "streams", "why"]
