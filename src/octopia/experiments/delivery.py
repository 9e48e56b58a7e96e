"""Notification delivery: delays and messages of publishing as the number of subscribers grows, with 100 publishers.

The paper gives plots without numbers and does not say how many notifications were published: 200 by each publisher
here, at the 60 a minute of its burst experiment. Nothing is overloaded at that rate, so that means do not depend on the
length of the run.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings
from octopia.experiments.subscribers import COUNTS

AS_PUBLISHERS_GROW = "what does a notification cost as the number of publishers grows?"

DELIVERY = Experiment(
    name="delivery",
    title="Notification delivery",
    question="what does a notification cost as the number of subscribers grows?",
    axis="subscribers",
    settings=Settings(vary="subscribers", points=COUNTS, notifications_per_publisher=200),
    metrics=(
        "matching_delay",
        "notification_delay",
        "under_bound",
        "messages",
        "messages_caused",
        "messages_per_request",
        "publishing_messages",
        "deliveries",
        "delivery_hops",
        "pure_forwards",
        "link_queue",
    ),
    shown=(
        Shown("matching_delay", "mean", "Mean matching delay per broker", paper="Matching Delay"),
        Shown("notification_delay", "mean", "Mean delivery delay", paper="Publication Delay"),
        Shown("messages_caused", "publish", "IMs of publishing", paper="IMs"),
        Shown("notification_delay", "p99", "Delivery delay, 99th percentile"),
        Shown("messages_per_request", "publish", "IMs per notification"),
        Shown("pure_forwards", "per_notification", "Pure forwards per notification"),
    ),
    questions={"publishers": AS_PUBLISHERS_GROW},
)
