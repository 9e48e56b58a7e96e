"""The metrics of a broker for Prometheus.

Figures are read from the broker on request; nothing is counted twice. Names follow the usual form,
`octopia_<what>_<unit>`, totals end in `_total`, and every sample names its broker.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from octopia.net.broker.operations.report import Report
from octopia.net.broker.operations.streams_report import STREAM_GAUGES, STREAM_TOTALS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "blocks_lost": "Times that a subscriber with policy block was too slow to hold up its publishers",
    "clients_asked_to_move": "Clients asked to go to another broker because this one is overloaded",
    "deliveries": "Notifications handed to clients",
    "deliveries_dropped_for_memory": "Deliveries dropped because the broker needed the memory",
    "duplicates": "Publications received again after a broken connection",
    "faults": "Connections closed because of a fault in this broker; each is an error in the log",
    "frames_unfinished_closed": "Connections closed because a frame was not completed and the broker needed the memory",
    "handshakes_crowded_out": "Connections closed before they identified themselves, to make room for others",
    "http_crowded_out": "Connections to the HTTP port closed to make room for others",
    "newcomers_refused": "Clients refused because all client connections were in use or memory was full",
    "notifications": "Notifications published by clients of this broker",
    "peers_at_fault": "Connections closed because the peer broke the protocol or was refused",
    "refusals": "Requests and publications refused",
    "sessions_ended_for_memory": "Clients disconnected because the broker needed the memory",
    "sessions_ended_slow": "Clients disconnected because they were too slow",
    "sessions_resumed": "Clients that resumed their session",
    "stamps_wrong": "Copies dropped because their stamp is invalid (fdr)",
    "sources_held": "Times that reading from a connection paused because a queue was filling up",
}


# Of a report: what the metric is called, its name there, and its help text.
_TOTALS = {
    "held_back": ("held_back_total", "Notifications that waited for an earlier one of their publisher"),
    "out_of_order": ("out_of_order_total", "Notifications delivered after a later one of their publisher"),
    "dropped": ("dropped_total", "Deliveries dropped at full queues"),
    "too_old": ("too_old_total", "Deliveries dropped because their deadline had passed"),
}
_GAUGES = {
    "clients": "Sessions of clients",
    "connections": "Connections of any kind",
    "connections_max": "Maximum number of client connections",
    "handshakes": "Connections that have not identified themselves",
    "memory_bytes": "Memory used for data of peers",
    "memory_bytes_max": "Its bound",
    "subscriptions": "Entries of the PRT",
    "advertisements": "Entries of the SRT",
    "publishers_held": "Publishers that were asked to pause",
}
# The same of a link.
_LINK_GAUGES = {
    "up": ("up", "Whether the link is up"),
    "queue_frames": ("queue", "Q_l: messages waiting for the link"),
    "overloaded": ("overloaded", "Whether the link is overloaded by Eq. 10"),
    "congestion_element": ("element", "CE of Eq. 10: (1 + Q_in) / (1 + Q_out) in the last window t_w"),
}
_LINK_TOTALS = {
    "messages_sent": ("sent", "Messages handed to the link"),
    "messages_lost": ("lost", "Messages lost with a broken link"),
}
_BY_PRIORITY = "Of these, by priority"


class _Collector:
    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report = self._report
        for name, text in _COUNTERS.items():
            yield self._counter(f"octopia_{name}", text, getattr(report.counters, name))
        for name, (field, text) in _TOTALS.items():
            yield self._counter(f"octopia_{name}", text, getattr(report, field))
        yield self._gauge("octopia_overloaded", "Whether the broker is overloaded", bool(report.overloaded))
        for name, text in _GAUGES.items():
            yield self._gauge(f"octopia_{name}", text, getattr(report, name))
        waits = report.client_queue_frames
        yield self._gauge("octopia_client_queue_frames", "Frames waiting for clients", sum(waits))
        labels = ["broker", "priority"]
        by_priority = GaugeMetricFamily("octopia_client_queue_priority_frames", _BY_PRIORITY, labels=labels)
        for priority, count in enumerate(waits):
            by_priority.add_metric([report.broker, str(priority)], count)
        yield by_priority
        yield from self._streams()
        yield from self._cases()
        yield from self._links()

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["broker"])
        family.add_metric([self._report.broker], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=["broker"])
        family.add_metric([self._report.broker], value)
        return family

    def _streams(self) -> Iterator[Metric]:
        streams = self._report.streams
        if streams is not None:
            for name, text in STREAM_GAUGES.items():
                yield self._gauge(f"octopia_{name}", text, getattr(streams, name))
            for name, text in STREAM_TOTALS.items():
                yield self._counter(f"octopia_{name}", text, getattr(streams, f"{name}_total"))

    def _cases(self) -> Iterator[Metric]:
        if self._report.cases:
            labels, name = ["broker", "case"], "octopia_routing_case"
            about = "Notifications with target iLinks, by case of the routing decision"
            seen = CounterMetricFamily(f"{name}_notifications", about, labels=labels)
            made = CounterMetricFamily(f"{name}_copies", "Copies put on links in this case", labels=labels)
            for each in self._report.cases:
                seen.add_metric([self._report.broker, each.case], each.notifications)
                made.add_metric([self._report.broker, each.case], each.copies)
            yield from (seen, made)

    def _links(self) -> Iterator[Metric]:
        broker, labels = self._report.broker, ["broker", "neighbour"]
        for kind, table in ((GaugeMetricFamily, _LINK_GAUGES), (CounterMetricFamily, _LINK_TOTALS)):
            for name, (field, text) in table.items():
                family = kind(f"octopia_link_{name}", text, labels=labels)
                for link in self._report.links:
                    family.add_metric([broker, link.neighbour], getattr(link, field))
                yield family
        name, labels = "octopia_link_queue_priority_frames", [*labels, "priority"]
        lanes = GaugeMetricFamily(name, _BY_PRIORITY, labels=labels)
        for link in self._report.links:
            for priority, count in enumerate(link.queue_by_priority):
                lanes.add_metric([broker, link.neighbour, str(priority)], count)
        yield lanes


def render(report: Report) -> tuple[str, bytes]:
    """The text of `/metrics` and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(report))
    return CONTENT_TYPE, generate_latest(registry)
