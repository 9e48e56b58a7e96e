"""A broker's description of the whole overlay: its shape, and the addresses of all brokers. All brokers agree on it."""

import json
from collections.abc import Mapping

from octopia.topology import BrokerId, Scot


def overlay_report(
    name: str,
    scot: Scot,
    *,
    routing: str,
    digest: str,
    tls: bool,
    addresses: Mapping[BrokerId, str],
    http: Mapping[BrokerId, str],
) -> bytes:
    """The body of `/overlay`. A broker without a known address or HTTP port has none here."""
    scheme = "octopias" if tls else "octopia"
    brokers = [
        {
            "broker": str(broker),
            "region": broker.region,
            "cluster": broker.cluster,
            "url": f"{scheme}://{addresses[broker]}" if broker in addresses else "",
            "http": f"http://{http[broker]}" if broker in http else "",
        }
        for broker in scot.brokers
    ]
    body = {
        "name": name,
        "digest": digest,
        "routing": routing,
        "clusters": scot.clusters,
        "regions": scot.tree.nodes,
        "edges": scot.tree.edges,
        "brokers": brokers,
    }
    return json.dumps(body).encode() + b"\n"
