"""All metrics, by name, in the order of the reference page."""

from collections.abc import Iterable
from typing import Final

from octopia.errors import InputError
from octopia.hints import maybe_meant, shortened
from octopia.metrics import changes, congestion, messages, notifications, queues, registrations
from octopia.metrics.metric import Metric

METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        registrations.ADVERTISEMENT_DELAY,
        registrations.SRT_ENTRIES,
        registrations.SUBSCRIPTION_DELAY,
        registrations.SUBSCRIPTION_READY_DELAY,
        registrations.PRT_ENTRIES,
        messages.MESSAGES,
        messages.MESSAGES_CAUSED,
        messages.MESSAGES_PER_REQUEST,
        messages.PUBLISHING_MESSAGES,
        notifications.NOTIFICATION_DELAY,
        notifications.HIGH_RATE_DELAY,
        notifications.OTHERS_DELAY,
        notifications.BURST_DELAY,
        notifications.IN_ORDER_DELAY,
        notifications.OUT_OF_ORDER,
        notifications.UNDER_BOUND,
        notifications.MAX_DELAY,
        notifications.DELAY_OVER_TIME,
        notifications.STABILISATION_TIME,
        notifications.MATCHING_DELAY,
        messages.DELIVERIES,
        messages.DELIVERY_HOPS,
        messages.PURE_FORWARDS,
        messages.MESSAGES_BETWEEN_SITES,
        messages.COPIES_BETWEEN_SITES,
        queues.HIGH_RATE_QUEUE,
        queues.HIGH_RATE_QUEUE_OVER_TIME,
        queues.LINK_QUEUE,
        queues.LINK_QUEUES,
        queues.QUEUE_OVER_TIME,
        congestion.CONGESTION_ELEMENT,
        congestion.CONGESTION_ELEMENT_OVER_TIME,
        congestion.ROUTING_CASES,
        congestion.ROUTING_CASE_COPIES,
        congestion.ROUTING_CASE_SAVED,
        changes.CHANGE_MESSAGES,
        changes.CHANGE_BROKERS,
        changes.CHANGE_INSIDE,
        changes.CHANGE_DELAY,
    )
}


def metrics_named(names: Iterable[str]) -> list[Metric]:
    """The metrics with these names; `InputError` for an unknown one."""
    found = []
    for name in names:
        if name not in METRICS:
            raise InputError(f"no metric is called {shortened(name)!r}{maybe_meant(name, METRICS)}")
        found.append(METRICS[name])
    return found
