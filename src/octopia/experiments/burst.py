"""Burst: one publisher sends 100,000 notifications at a high rate beside 100 ordinary ones. The paper's last figure.

2 % of the 2,000 subscribers, in all clusters, subscribe to the high-rate publisher, and none of them is at its broker.
Each ordinary publisher sends 2,000 notifications at 60 a minute. τ is 10, t_w 50 ms. The routings are compared with a
single tree whose links are k times as fast, under the same workload (`bound.py`).
"""

from octopia.experiments.bound import BOUND
from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

BURST = Experiment(
    name="burst",
    title="Burst",
    question="who copes with one publisher that is far too fast?",
    axis="notifications a minute of the high-rate publisher",
    settings=Settings(
        systems=(*Settings().systems, BOUND),
        vary="burst_rate_per_minute",
        points=(100_000, 80_000, 60_000, 40_000),
    ),
    scaled=("notifications_per_publisher", "burst_notifications"),
    has_burst=True,
    metrics=(
        "notification_delay",
        "high_rate_delay",
        "others_delay",
        "in_order_delay",
        "out_of_order",
        "under_bound",
        "max_delay",
        "same_maximum",
        "stabilisation_time",
        "high_rate_queue",
        "high_rate_queue_over_time",
        "congestion_element",
        "congestion_element_over_time",
        "routing_cases",
        "routing_case_copies",
        "routing_case_saved",
        "link_queue",
        "queue_over_time",
        "messages",
        "messages_caused",
        "messages_per_request",
        "publishing_messages",
        "matching_delay",
        "deliveries",
        "delivery_hops",
        "pure_forwards",
    ),
    shown=(
        Shown(
            "max_delay",
            "",
            "Maximum delay of 1000 notifications in a row",
            kind="series",
            paper="Dynamic routing analysis (a)-(d)",
        ),
        Shown("high_rate_queue_over_time", "mean", "Mean Q_l of the target links at the host broker", kind="series"),
        Shown(
            "congestion_element_over_time", "mean", "CE of the target links at the host broker", kind="series", log=True
        ),
        Shown("notification_delay", "mean", "Mean delivery delay"),
        Shown("in_order_delay", "mean", "Mean delivery delay, in order"),
        Shown("high_rate_delay", "mean", "Mean delivery delay, high-rate publisher"),
        Shown("others_delay", "mean", "Mean delivery delay, other publishers"),
        Shown("under_bound", "overall", "Deliveries in less than 1 s"),
        Shown("stabilisation_time", "seconds", "Stabilisation time"),
        Shown("high_rate_queue", "until_empty", "Mean Q_l at the host broker"),
        Shown("congestion_element", "below", "CE below 1 at the host broker"),
        Shown("congestion_element", "longest_below", "The same without a break"),
        Shown("same_maximum", "with_snr", "Greatest delay the same as SNR's"),
        Shown("publishing_messages", "copies", "IMs of publishing"),
        Shown("publishing_messages", "confirmations", "IMs of confirming"),
    ),
)
