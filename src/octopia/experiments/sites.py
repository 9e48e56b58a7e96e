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
    scaled=("notifications_per_publisher",),
    publishes=True,
    has_burst=False,
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
        Shown(metric="notification_delay", part="mean", title="Mean delivery delay", on_page=True),
        Shown(metric="notification_delay", part="p99", title="Delivery delay, 99th percentile"),
        Shown(
            metric="copies_between_sites",
            part="per_notification",
            title="Copies between sites, per notification",
            on_page=True,
        ),
        Shown(metric="copies_between_sites", part="share", title="Share of copies that go between sites"),
        Shown(metric="messages_between_sites", part="advertise", title="IMs between sites of advertising"),
        Shown(metric="messages_between_sites", part="subscribe", title="IMs between sites of subscribing"),
        Shown(metric="messages_between_sites", part="publish", title="IMs between sites of publishing"),
        Shown(metric="advertisement_delay", part="mean", title="Advertisement delay"),
        Shown(metric="subscription_ready_delay", part="mean", title="Subscription delay, until all know"),
        Shown(metric="publishing_messages", part="copies", title="IMs of publishing"),
    ),
    paper=False,
)
