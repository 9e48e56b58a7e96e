"""Failures: one broker dies, at each kind of place, and comes back. What does it cost, and which clients?

The paper says that the failure of a broker interrupts one cluster (its section on subscriptions). Here no burst hides
the effect: publishers send at an ordinary rate, the broker dies in the middle of publishing and comes back, with empty
tables, a quarter of that time later. Lost and late deliveries are counted by the place of publisher and subscriber
relative to the dead broker (`reach.py`).
"""

from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.settings import Settings
from octopia.experiments.trouble import FAILURES, NONE

_PLACES = {
    "broker": "clients of the dead broker",
    "cluster": "subscribers in its cluster",
    "region": "clients in its region",
    "elsewhere": "everyone else",
}

FAILURES_EXPERIMENT = Experiment(
    name="failures",
    title="Failures",
    question="what does one dead broker cost, and does it stay inside its cluster or region?",
    axis="dead broker",
    settings=Settings(
        vary="failure",
        points=(NONE, *FAILURES),
        seeds=3,
        subscribers=500,
        notifications_per_publisher=60,
        crash_at=0.4,
        crash_for=0.25,
        # without a failure the longest delay is about half of this
        delay_bound_s=0.1,
    ),
    metrics=(
        "reach",
        "recovery",
        "losses",
        "notification_delay",
        "delay_over_time",
        "publishing_messages",
        "deliveries",
    ),
    shown=(
        *(
            Shown("reach", f"lost_{place}", f"Lost, {who}", on_page=place in ("cluster", "elsewhere"))
            for place, who in _PLACES.items()
        ),
        *(Shown("reach", f"late_{place}", f"Late, {who}") for place, who in _PLACES.items()),
        Shown("recovery", "cluster", "IMs of recovery inside its cluster"),
        Shown("recovery", "region", "IMs of recovery inside its region"),
        Shown("recovery", "elsewhere", "IMs of recovery elsewhere"),
        Shown("losses", "repeated", "Repeated in all"),
        Shown("notification_delay", "maximum", "Longest delivery delay"),
    ),
    paper=False,
)
