"""Crash: k-1 brokers die during the burst, at the worst places, and come back. Not the paper's.

The workload is that of the burst at 100K a minute. The brokers die in the middle of the burst and come back, with empty
tables, as long after that as the burst lasts. Lost, repeated and reordered notifications are counted but do not fail a
routing that makes no promise about them. SNR and IDR lose the notifications held by a dead broker and those they cannot
route around it; TID routing has no recovery, and from then on loses everything that its trees carried over the dead
brokers.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings
from octopia.experiments.trouble import NONE, PLACES

CRASH = Experiment(
    name="crash",
    title="Crash",
    question="what is lost, and how late is the rest, when k-1 brokers die during a burst?",
    axis="place of the crash",
    settings=Settings(vary="crash", points=(NONE, *PLACES), seeds=3),
    scaled=("notifications_per_publisher", "burst_notifications"),
    has_burst=True,
    metrics=(
        "losses",
        "notification_delay",
        "in_order_delay",
        "high_rate_delay",
        "others_delay",
        "delay_over_time",
        "stabilisation_time",
        "publishing_messages",
        "deliveries",
        "delivery_hops",
    ),
    shown=(
        Shown("delay_over_time", "mean", "Mean delay of what arrives in a second", kind="series"),
        Shown("losses", "lost_live", "Lost between brokers that stay up", on_page=True),
        Shown("losses", "repeated_live", "Repeated between brokers that stay up"),
        Shown("losses", "out_of_order_live", "Out of order between brokers that stay up"),
        Shown("losses", "lost", "Lost in all"),
        Shown("losses", "repeated", "Repeated in all"),
        Shown("losses", "out_of_order", "Out of order in all"),
        Shown("notification_delay", "mean", "Mean delivery delay"),
        Shown("in_order_delay", "mean", "Mean delivery delay, in order"),
        Shown("others_delay", "mean", "Mean delivery delay, other publishers"),
        Shown("publishing_messages", "copies", "IMs of publishing"),
        Shown("publishing_messages", "confirmations", "IMs of confirming"),
    ),
    paper=False,
)
