"""Churn: clients subscribe, unsubscribe, advertise and unadvertise while others publish. The paper claims it and shows
no figures: an advertisement concerns one region, a subscription one cluster, whatever the rate of changes.

A fifth of the changes is about advertisements. Withdrawals and registrations take turns, so that there are as many
registrations at the end as at the beginning (`workload/churn.py`).
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings

_NAMES = {
    "subscribe": "subscribing",
    "unsubscribe": "unsubscribing",
    "advertise": "advertising",
    "unadvertise": "unadvertising",
}

CHURN = Experiment(
    name="churn",
    title="Churn",
    question="which brokers and how many messages does a change of a subscription or an advertisement touch?",
    axis="changes a minute",
    settings=Settings(
        vary="changes_per_minute",
        points=(60, 600, 6000),
        seeds=3,
        subscribers=500,
        notifications_per_publisher=60,
    ),
    metrics=(
        "change_messages",
        "change_brokers",
        "change_inside",
        "change_delay",
        "losses",
        "notification_delay",
        "others_delay",
        "publishing_messages",
        "deliveries",
        "srt_entries",
        "prt_entries",
    ),
    shown=(
        *(
            Shown("change_messages", kind, f"IMs of {name}", on_page=kind == "subscribe")
            for kind, name in _NAMES.items()
        ),
        *(
            Shown("change_brokers", kind, f"Brokers touched by {name}", on_page=kind == "subscribe")
            for kind, name in _NAMES.items()
        ),
        *(Shown("change_inside", kind, f"IMs of {name} inside its cluster or region") for kind, name in _NAMES.items()),
        Shown("change_delay", "subscribe", "Until subscribing is settled, mean"),
        Shown("change_delay", "advertise", "Until advertising is settled, mean"),
        Shown("losses", "lost", "Lost although in force"),
        Shown("notification_delay", "mean", "Mean delivery delay"),
    ),
    paper=False,
)
