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
        Shown("notification_delay", "mean", "Mean delay, lead over SNR", kind="lead", on_page=True),
        Shown("in_order_delay", "mean", "Mean delay in order, lead over SNR", kind="lead"),
        Shown("high_rate_delay", "mean", "Mean delay of the bursts, lead over SNR", kind="lead", on_page=True),
        Shown("others_delay", "mean", "Mean delay of other publishers, lead over SNR", kind="lead"),
        Shown("high_rate_queue", "until_empty", "Mean Q_l at host brokers, lead over SNR", kind="lead"),
        Shown("notification_delay", "mean", "Mean delivery delay"),
        Shown("burst_delay", "high-rate", "Mean delay of the first burst"),
        Shown("burst_delay", "high-rate-2", "Mean delay of the second"),
        Shown("burst_delay", "high-rate-3", "Mean delay of the third"),
        Shown("burst_delay", "high-rate-4", "Mean delay of the fourth"),
        Shown("burst_delay", "high-rate-5", "Mean delay of the fifth"),
        Shown("others_delay", "mean", "Mean delivery delay, other publishers"),
        Shown("stabilisation_time", "seconds", "Stabilisation time"),
        Shown("publishing_messages", "copies", "IMs of publishing"),
        *(Shown("routing_cases", case, f"Decisions in case {case}") for case in ("0", "i", "ii", "iv")),
    ),
    questions={"burst_rate_per_minute": "how much does dynamic routing gain as several bursts become slower?"},
)
