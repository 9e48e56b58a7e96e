"""What a broker tells Prometheus.

Rules of this file: figures are read from the broker when someone asks; nothing is counted twice. Names follow the usual
form, `octopia_<what>_<unit>`, totals end in `_total`; every sample names its broker.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from octopia.net.broker.operations.health import link_rows

if TYPE_CHECKING:
    from octopia.net.broker.host import BrokerHost

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "notifications": "Notifications published by clients of this broker",
    "deliveries": "Notifications handed to clients",
    "duplicates": "Publications that came again after a broken connection",
    "faults": "Connections closed because this broker failed at something; each is an error in the log",
    "peers_at_fault": "Connections closed because the peer broke the protocol or was refused",
    "refusals": "Requests and publications refused",
    "sessions_ended_slow": "Clients disconnected because they were too slow",
    "sessions_resumed": "Clients that came back to their session",
    "sources_held": "Times that a connection was not read from because a queue was full",
}


class _Collector:
    def __init__(self, host: "BrokerHost") -> None:
        self._host = host

    def collect(self) -> Iterator[Metric]:
        host, broker = self._host, str(self._host.id)
        for name, text in _COUNTERS.items():
            family = CounterMetricFamily(f"octopia_{name}", text, labels=["broker"])
            family.add_metric([broker], getattr(host.counters, name))
            yield family
        for name, text, value in (
            (
                "held_back",
                "Notifications that waited for an earlier one of their publisher",
                host.dispatch.reorder.held_total,
            ),
            (
                "out_of_order",
                "Notifications delivered after a later one of their publisher",
                host.dispatch.reorder.late_total,
            ),
        ):
            family = CounterMetricFamily(f"octopia_{name}", text, labels=["broker"])
            family.add_metric([broker], value)
            yield family
        yield self._gauge("octopia_clients", "Sessions of clients", len(host.sessions))
        yield self._gauge("octopia_connections", "Connections of any kind", len(host.peers))
        yield self._gauge("octopia_subscriptions", "Entries of the PRT", len(host.broker.state.prt))
        yield self._gauge("octopia_advertisements", "Entries of the SRT", len(host.broker.state.srt))
        queued = sum(len(session.box.waiting) for session in host.sessions.values())
        yield self._gauge("octopia_client_queue_frames", "Frames that wait for clients", queued)
        dropped = CounterMetricFamily("octopia_dropped", "Deliveries dropped at full queues", labels=["broker"])
        dropped.add_metric([broker], host.dropped_total())
        yield dropped
        yield from self._links()

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["broker"])
        family.add_metric([str(self._host.id)], value)
        return family

    def _links(self) -> Iterator[Metric]:
        labels = ["broker", "neighbour"]
        up = GaugeMetricFamily("octopia_link_up", "Whether the link is up", labels=labels)
        queue = GaugeMetricFamily("octopia_link_queue_frames", "Q_l: messages that wait for the link", labels=labels)
        overloaded = GaugeMetricFamily("octopia_link_overloaded", "Whether Eq. 10 says overloaded", labels=labels)
        sent = CounterMetricFamily("octopia_link_messages_sent", "Messages handed to the link", labels=labels)
        lost = CounterMetricFamily("octopia_link_messages_lost", "Messages lost with a broken link", labels=labels)
        for row in link_rows(self._host):
            at = [str(self._host.id), row["neighbour"]]
            up.add_metric(at, row["up"])
            queue.add_metric(at, row["queue"])
            overloaded.add_metric(at, row["overloaded"])
            sent.add_metric(at, row["sent"])
            lost.add_metric(at, row["lost"])
        yield from (up, queue, overloaded, sent, lost)


def render(host: "BrokerHost") -> tuple[str, bytes]:
    """The text of `/metrics` and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(host))
    return CONTENT_TYPE, generate_latest(registry)
