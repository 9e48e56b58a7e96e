"""Sites: the overlay in one place, with a site for each cluster, and with as many sites of regions. Not the paper's.

The paper proposes clusters in different geographic regions and does not measure it. The workload is that of delivery,
without a high-rate publisher: the subject is the effect of distance, not of load. Clients are anywhere, so that
every cluster and every region has subscribers of everything. The delay between two sites is one for all pairs; sites of
regions hold neighbours in the tree, so that few links go between them.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

SITES = Experiment(
    name="sites",
    title="Sites",
    question="how do sites of clusters and sites of regions affect delay and traffic between sites?",
    axis="what a site holds",
    settings=Settings(
        vary="sites",
        points=("none", "cluster", "region"),
        seeds=3,
        notifications_per_publisher=100,
    ),
    metrics=(
        "notification_delay",
        "advertisement_delay",
        "subscription_delay",
        "subscription_ready_delay",
        "messages_between_sites",
        "copies_between_sites",
        "messages_caused",
        "publishing_messages",
        "deliveries",
        "delivery_hops",
    ),
    shown=(
        Shown("notification_delay", "mean", "Mean delivery delay", on_page=True),
        Shown("notification_delay", "p99", "Delivery delay, 99th percentile"),
        Shown("copies_between_sites", "per_notification", "Copies between sites, per notification", on_page=True),
        Shown("copies_between_sites", "share", "Share of copies that go between sites"),
        Shown("messages_between_sites", "advertise", "IMs between sites of advertising"),
        Shown("messages_between_sites", "subscribe", "IMs between sites of subscribing"),
        Shown("messages_between_sites", "publish", "IMs between sites of publishing"),
        Shown("advertisement_delay", "mean", "Advertisement delay"),
        Shown("subscription_ready_delay", "mean", "Subscription delay, until all know"),
        Shown("publishing_messages", "copies", "IMs of publishing"),
    ),
    paper=False,
)
