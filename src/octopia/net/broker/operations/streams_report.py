"""The state of a broker's streams at one moment, if its routing has streams."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StreamsReport:
    """Unconfirmed notifications of clients here, and received ones that wait."""

    unconfirmed: int
    waiting: int
    confirmations_total: int
    sent_again_total: int
    repeats_total: int
    given_up_total: int
    missed_total: int


# By field: the name of the metric and its help text.
STREAM_GAUGES = {
    "unconfirmed": "Notifications kept until all their destinations have confirmed them",
    "waiting": "Notifications waiting for an earlier one of their publisher",
}
STREAM_TOTALS = {
    "confirmations": "Confirmations sent to the brokers of publishers",
    "sent_again": "Notifications resent because a link on their path went down",
    "repeats": "Duplicate copies, which were dropped",
    "given_up": "Notifications that cannot be resent because there was no room to keep them",
    "missed": "Notifications not sent to, or not confirmed by, a broker that could not be reached",
}


def streams_report(streams: Any) -> StreamsReport | None:
    """None if the routing has no streams."""
    if streams is None:
        return None
    return StreamsReport(
        unconfirmed=len(streams.log),
        waiting=streams.gate.held,
        confirmations_total=streams.confirmations_total,
        sent_again_total=streams.again_total,
        repeats_total=streams.gate.repeats,
        given_up_total=streams.log.given_up,
        missed_total=sum(streams.missed.values()),
    )
