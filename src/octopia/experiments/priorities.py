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
    has_burst=True,
    metrics=("urgency", "expiries", "notification_delay", "publishing_messages", "deliveries"),
    shown=(
        Shown("urgency", "urgent_mean", "Mean delay, urgent subscribers", on_page=True),
        Shown("urgency", "urgent_p99", "99th percentile, urgent subscribers"),
        Shown("urgency", "ordinary_mean", "Mean delay, ordinary subscribers", on_page=True),
        Shown("urgency", "ordinary_max", "Longest delay, ordinary subscribers"),
        Shown("urgency", "burst_mean", "Mean delay, burst"),
        Shown("urgency", "burst_max", "Longest delay, burst"),
        Shown("publishing_messages", "copies", "IMs of publishing"),
    ),
    paper=False,
)
