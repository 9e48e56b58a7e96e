"""Priorities: some subscribers are urgent while a burst fills the queues. Not the paper's.

The urgent subscribers subscribe to ordinary publishers, like all others except the burst's subscribers; all share the
links. With priority 0, urgent subscribers are served like all others: that is the baseline of the other points. The
burst is a fiftieth of the paper's. No subscriber may starve: the cost to the burst's and the ordinary subscribers is
shown, too.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

PRIORITIES = Experiment(
    name="priorities",
    title="Priorities",
    question="how much sooner are urgent subscribers served during a burst, and who pays for it?",
    axis="priority of urgent subscribers",
    settings=Settings(
        vary="urgent_priority",
        points=(0, 1, 3),
        seeds=3,
        urgent_share=0.05,
        notifications_per_publisher=40,
        burst_notifications=2_000,
    ),
    scaled=("notifications_per_publisher", "burst_notifications"),
    publishes=True,
    has_burst=True,
    metrics=("urgency", "expiries", "notification_delay", "publishing_messages", "deliveries"),
    shown=(
        Shown(metric="urgency", part="urgent_mean", title="Mean delay, urgent subscribers", on_page=True),
        Shown(metric="urgency", part="urgent_p99", title="99th percentile, urgent subscribers"),
        Shown(metric="urgency", part="ordinary_mean", title="Mean delay, ordinary subscribers", on_page=True),
        Shown(metric="urgency", part="ordinary_max", title="Longest delay, ordinary subscribers"),
        Shown(metric="urgency", part="burst_mean", title="Mean delay, burst"),
        Shown(metric="urgency", part="burst_max", title="Longest delay, burst"),
        Shown(metric="publishing_messages", part="copies", title="IMs of publishing"),
    ),
    paper=False,
)
