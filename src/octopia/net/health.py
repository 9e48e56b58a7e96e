"""Whether a broker is well, and the state of its links, for `/healthz` and for the status commands."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost


def link_rows(host: "BrokerHost") -> list[dict[str, Any]]:
    """The state of every link, for metrics and status."""
    return [
        {
            "neighbour": str(neighbour),
            "up": link.is_up,
            "connected": link.peer is not None,
            "queue": len(link.box.waiting),
            "overloaded": host.broker.state.lst.overloaded(neighbour),
            "sent": link.box.left_total,
            "lost": link.dropped,
        }
        for neighbour, link in host.links.items()
    ]


def health(host: "BrokerHost") -> tuple[bool, bytes]:
    """Whether the broker takes new clients, and its state in JSON."""
    well = not host.draining
    state = {
        "broker": str(host.id),
        "overlay": host.overlay_digest,
        "routing": host.broker.routing,
        "status": "ok" if well else "stopping",
        "clients": len(host.sessions),
        "published": host.counters.notifications,
        "deliveries": host.counters.deliveries,
        "subscriptions": len(host.broker.state.prt),
        "advertisements": len(host.broker.state.srt),
        "links": link_rows(host),
    }
    return well, json.dumps(state).encode() + b"\n"
