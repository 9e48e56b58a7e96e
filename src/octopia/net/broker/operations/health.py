"""Whether a broker is well, and the state of its links, for `/healthz` and for the status commands."""

import json
from dataclasses import asdict

from octopia.net.broker.operations.report import Report


def health(report: Report) -> tuple[bool, bytes]:
    """Whether the broker takes new clients, and its state in JSON."""
    state = {
        "broker": report.broker,
        "overlay": report.overlay,
        "routing": report.routing,
        "status": "ok" if report.takes_clients else "stopping",
        "clients": report.clients,
        "memory_bytes": report.memory_bytes,
        "memory_bytes_max": report.memory_bytes_max,
        "published": report.counters.notifications,
        "deliveries": report.counters.deliveries,
        "subscriptions": report.subscriptions,
        "advertisements": report.advertisements,
        "links": [asdict(link) for link in report.links],
    }
    return report.takes_clients, json.dumps(state).encode() + b"\n"
