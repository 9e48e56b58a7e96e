"""Slow link: one link, any one, takes ten times as long for every message, in both directions. Not the paper's.

A burst at 100K a minute, of a fiftieth of the paper's length, since every link of the overlay is tried; delays under a
burst grow with its length for all routings alike. The result is the worst link of each routing.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings
from octopia.experiments.trouble import EVERY, NONE

SLOW_LINK = Experiment(
    name="slow-link",
    title="Slow link",
    question="how much does it cost when any one link is ten times slower?",
    axis="slow link",
    settings=Settings(
        vary="slow_link",
        points=(NONE, EVERY),
        seeds=1,
        notifications_per_publisher=40,
        burst_notifications=2_000,
    ),
    scaled=("notifications_per_publisher", "burst_notifications"),
    has_burst=True,
    metrics=(
        "notification_delay",
        "in_order_delay",
        "out_of_order",
        "high_rate_delay",
        "others_delay",
        "publishing_messages",
        "deliveries",
        "link_queue",
    ),
    shown=(
        Shown("notification_delay", "mean", "Mean delivery delay", kind="ranked", on_page=True),
        Shown("in_order_delay", "mean", "Mean delivery delay, in order", kind="ranked"),
        Shown("notification_delay", "p99", "Delivery delay, 99th percentile", kind="ranked"),
        Shown("others_delay", "mean", "Mean delivery delay, other publishers", kind="ranked"),
        Shown("publishing_messages", "copies", "IMs of publishing", kind="ranked"),
    ),
    paper=False,
)
