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
    publishes=True,
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
            metric="max_delay",
            part="",
            title="Maximum delay of 1000 notifications in a row",
            kind="series",
            paper="Dynamic routing analysis (a)-(d)",
        ),
        Shown(
            metric="high_rate_queue_over_time",
            part="mean",
            title="Mean Q_l of the target links at the host broker",
            kind="series",
        ),
        Shown(
            metric="congestion_element_over_time",
            part="mean",
            title="CE of the target links at the host broker",
            kind="series",
            log=True,
        ),
        Shown(metric="notification_delay", part="mean", title="Mean delivery delay"),
        Shown(metric="in_order_delay", part="mean", title="Mean delivery delay, in order"),
        Shown(metric="high_rate_delay", part="mean", title="Mean delivery delay, high-rate publisher"),
        Shown(metric="others_delay", part="mean", title="Mean delivery delay, other publishers"),
        Shown(metric="under_bound", part="overall", title="Deliveries in less than 1 s"),
        Shown(metric="stabilisation_time", part="seconds", title="Stabilisation time"),
        Shown(metric="high_rate_queue", part="until_empty", title="Mean Q_l at the host broker"),
        Shown(metric="congestion_element", part="below", title="CE below 1 at the host broker"),
        Shown(metric="congestion_element", part="longest_below", title="The same without a break"),
        Shown(metric="same_maximum", part="with_snr", title="Greatest delay the same as SNR's"),
        Shown(metric="publishing_messages", part="copies", title="IMs of publishing"),
        Shown(metric="publishing_messages", part="confirmations", title="IMs of confirming"),
    ),
)
