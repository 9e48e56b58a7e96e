"""Subscriber scalability: the cost of subscribing as subscribers increase, with 100 publishers. The paper's Fig. 11.

Nothing is published; the notifications of the publishers are made all the same, since the selectivity of a
subscription is measured on them.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

COUNTS = tuple(range(500, 5001, 500))

SUBSCRIBERS = Experiment(
    name="subscribers",
    title="Subscriber scalability",
    question="what does a subscription cost as their number grows?",
    axis="subscribers",
    settings=Settings(vary="subscribers", points=COUNTS),
    scaled=("subscribers",),
    publishes=False,
    metrics=(
        "subscription_delay",
        "subscription_ready_delay",
        "prt_entries",
        "messages",
        "messages_caused",
        "messages_per_request",
    ),
    shown=(
        Shown("subscription_delay", "mean", "Mean subscription delay", paper="Fig. 11(a)"),
        Shown("prt_entries", "mean", "Mean PRT entries per broker", paper="Fig. 11(b)"),
        Shown("messages_caused", "subscribe", "IMs of subscribing", paper="Fig. 11(c)"),
        Shown("subscription_ready_delay", "mean", "Mean subscription delay with CIB messages"),
        Shown("messages_per_request", "subscribe", "IMs per subscription"),
    ),
)
