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


class _Collector:
    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report = self._report
        for name, text in _COUNTERS.items():
            yield self._counter(f"octopia_{name}", text, getattr(report.counters, name))
        yield self._counter(
            "octopia_held_back",
            "Notifications that waited for an earlier one of their publisher",
            report.held_back_total,
        )
        yield self._counter(
            "octopia_out_of_order",
            "Notifications delivered after a later one of their publisher",
            report.out_of_order_total,
        )
        yield self._gauge("octopia_overloaded", "Whether the broker is overloaded", bool(report.overloaded))
        yield self._gauge("octopia_clients", "Sessions of clients", report.clients)
        yield self._gauge("octopia_connections", "Connections of any kind", report.connections)
        yield self._gauge("octopia_connections_max", "Maximum number of client connections", report.connections_max)
        yield self._gauge("octopia_handshakes", "Connections that have not identified themselves", report.handshakes)
        yield self._gauge("octopia_memory_bytes", "Memory used for data of peers", report.memory_bytes)
        yield self._gauge("octopia_memory_bytes_max", "Its bound", report.memory_bytes_max)
        yield self._gauge("octopia_subscriptions", "Entries of the PRT", report.subscriptions)
        yield self._gauge("octopia_advertisements", "Entries of the SRT", report.advertisements)
        waits = report.client_queue_frames
        yield self._gauge("octopia_client_queue_frames", "Frames waiting for clients", sum(waits))
        by_priority = GaugeMetricFamily(
            "octopia_client_queue_priority_frames", "Of these, by priority", labels=["broker", "priority"]
        )
        for priority, count in enumerate(waits):
            by_priority.add_metric([report.broker, str(priority)], count)
        yield by_priority
        yield self._gauge("octopia_publishers_held", "Publishers that were asked to pause", report.publishers_held)
        yield self._counter("octopia_dropped", "Deliveries dropped at full queues", report.dropped_total)
        yield self._counter(
            "octopia_too_old", "Deliveries dropped because their deadline had passed", report.too_old_total
        )
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
        labels = ["broker", "neighbour"]
        up = GaugeMetricFamily("octopia_link_up", "Whether the link is up", labels=labels)
        queue = GaugeMetricFamily("octopia_link_queue_frames", "Q_l: messages waiting for the link", labels=labels)
        lanes = GaugeMetricFamily(
            "octopia_link_queue_priority_frames", "Of these, by priority", labels=[*labels, "priority"]
        )
        overloaded = GaugeMetricFamily(
            "octopia_link_overloaded", "Whether the link is overloaded by Eq. 10", labels=labels
        )
        about = "CE of Eq. 10: (1 + Q_in) / (1 + Q_out) in the last window t_w"
        element = GaugeMetricFamily("octopia_link_congestion_element", about, labels=labels)
        sent = CounterMetricFamily("octopia_link_messages_sent", "Messages handed to the link", labels=labels)
        lost = CounterMetricFamily("octopia_link_messages_lost", "Messages lost with a broken link", labels=labels)
        for link in self._report.links:
            at = [self._report.broker, link.neighbour]
            up.add_metric(at, link.up)
            queue.add_metric(at, link.queue)
            for priority, count in enumerate(link.queue_by_priority):
                lanes.add_metric([*at, str(priority)], count)
            overloaded.add_metric(at, link.overloaded)
            element.add_metric(at, link.element)
            sent.add_metric(at, link.sent)
            lost.add_metric(at, link.lost)
        yield from (up, queue, lanes, overloaded, element, sent, lost)


def render(report: Report) -> tuple[str, bytes]:
    """The text of `/metrics` and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(report))
    return CONTENT_TYPE, generate_latest(registry)
