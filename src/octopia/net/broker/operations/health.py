"""Health of a broker and the state of its links: `/healthz` for everyone, `/state` with all counters."""

from typing import Any

import msgspec

from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.process import ProcessReport
from octopia.net.broker.operations.report import Report


def health(report: Report) -> tuple[bool, bytes]:
    """Whether the broker accepts new clients, and its state in JSON."""
    return report.takes_clients, msgspec.json.encode(_state(report)) + b"\n"


def whole_state(report: Report, process: ProcessReport, time_s: float) -> bytes:
    """The same with every counter, the process and the time, in JSON: for watchers that poll."""
    state = _state(report)
    state["counters"] = {name: getattr(report.counters, name) for name in Counters.__slots__}
    state["streams"] = report.streams
    state["process"] = process
    for name in ("connections", "connections_max", "handshakes", "publishers_held", "held_back_total"):
        state[name] = getattr(report, name)
    for name in ("out_of_order_total", "started_s", "tau", "window_s", "events_last"):
        state[name] = getattr(report, name)
    state["time_s"] = time_s
    return msgspec.json.encode(state) + b"\n"


def _state(report: Report) -> dict[str, Any]:
    return {
        "broker": report.broker,
        "overlay": report.overlay,
        "routing": report.routing,
        "status": "ok" if report.takes_clients else "stopping",
        "overloaded": report.overloaded,
        "clients": report.clients,
        "memory_bytes": report.memory_bytes,
        "memory_bytes_max": report.memory_bytes_max,
        "published": report.counters.notifications,
        "deliveries": report.counters.deliveries,
        "dropped": report.dropped_total,
        "too_old": report.too_old_total,
        "client_queue_by_priority": report.client_queue_frames,
        "subscriptions": report.subscriptions,
        "advertisements": report.advertisements,
        "cases": {each.case: {"notifications": each.notifications, "copies": each.copies} for each in report.cases},
        "links": report.links,
    }
