"""Full dynamic routing: copies name their destinations, and any copy of the tree may carry them (`fdr`)."""

from octopia.routing.fdr import advertise, beyond, flood, notify, resync, streams
from octopia.routing.fdr.why import why

__all__ = ["advertise", "beyond", "flood", "notify", "resync", "streams", "why"]
