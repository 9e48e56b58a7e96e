"""Several bursts: a high-rate publisher in each of several clusters, at different rates, all at once.

The paper's last sentences about its experiments. The first publisher sends at 100,000 notifications a minute, the
second at 80,000, then 60,000, 40,000 and 20,000; each is in a cluster of its own and has its own 2 % of the
subscribers, in all clusters. Each sends 20,000 notifications, so that five of them together send as many as the one of
`burst`. The result is the lead over SNR as their number grows. If `burst_rate_per_minute` is varied instead of their
number, it is the rate of the fastest, and the others keep their ratio to it.
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

BURSTS = Experiment(
    name="bursts",
    title="Several bursts",
    question="how much does dynamic routing gain as the number of high-rate publishers grows?",
    axis="high-rate publishers",
    settings=Settings(
        vary="bursts",
        points=(1, 2, 3, 4, 5),
        burst_notifications=20_000,
        burst_rate_shares=(1.0, 0.8, 0.6, 0.4, 0.2),
        notifications_per_publisher=400,
    ),
    scaled=("notifications_per_publisher", "burst_notifications"),
    publishes=True,
    has_burst=True,
    metrics=(
        "notification_delay",
        "high_rate_delay",
        "others_delay",
        "burst_delay",
        "in_order_delay",
        "under_bound",
        "max_delay",
        "stabilisation_time",
        "high_rate_queue",
        "link_queue",
        "congestion_element",
        "publishing_messages",
        "deliveries",
        "delivery_hops",
        "routing_cases",
        "routing_case_copies",
        "routing_case_saved",
    ),
    shown=(
        Shown(metric="notification_delay", part="mean", title="Mean delay, lead over SNR", kind="lead", on_page=True),
        Shown(metric="in_order_delay", part="mean", title="Mean delay in order, lead over SNR", kind="lead"),
        Shown(
            metric="high_rate_delay",
            part="mean",
            title="Mean delay of the bursts, lead over SNR",
            kind="lead",
            on_page=True,
        ),
        Shown(metric="others_delay", part="mean", title="Mean delay of other publishers, lead over SNR", kind="lead"),
        Shown(
            metric="high_rate_queue", part="until_empty", title="Mean Q_l at host brokers, lead over SNR", kind="lead"
        ),
        Shown(metric="notification_delay", part="mean", title="Mean delivery delay"),
        Shown(metric="burst_delay", part="high-rate", title="Mean delay of the first burst"),
        Shown(metric="burst_delay", part="high-rate-2", title="Mean delay of the second"),
        Shown(metric="burst_delay", part="high-rate-3", title="Mean delay of the third"),
        Shown(metric="burst_delay", part="high-rate-4", title="Mean delay of the fourth"),
        Shown(metric="burst_delay", part="high-rate-5", title="Mean delay of the fifth"),
        Shown(metric="others_delay", part="mean", title="Mean delivery delay, other publishers"),
        Shown(metric="stabilisation_time", part="seconds", title="Stabilisation time"),
        Shown(metric="publishing_messages", part="copies", title="IMs of publishing"),
        Shown(metric="routing_cases", part="0", title="Decisions in case 0"),
        Shown(metric="routing_cases", part="i", title="Decisions in case i"),
        Shown(metric="routing_cases", part="ii", title="Decisions in case ii"),
        Shown(metric="routing_cases", part="iv", title="Decisions in case iv"),
    ),
    questions={"burst_rate_per_minute": "how much does dynamic routing gain as several bursts become slower?"},
)
