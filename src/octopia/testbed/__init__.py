"""Experiments on live brokers: processes on one or more machines, the workload's clients, the simulator's trace."""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.testbed.brokers import Brokers
    from octopia.testbed.calibrate import calibrated, model_toml
    from octopia.testbed.faults import check_live
    from octopia.testbed.groups import HERE, Group, Place, Processes, cores, groups_of, places_of
    from octopia.testbed.live_run import run_live
    from octopia.testbed.worker import join
    from octopia.testbed.workers import VARIABLE, Testbed

__all__ = [
    "HERE",
    "VARIABLE",
    "Brokers",
    "Group",
    "Place",
    "Processes",
    "Testbed",
    "calibrated",
    "check_live",
    "cores",
    "groups_of",
    "join",
    "model_toml",
    "places_of",
    "run_live",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.testbed.brokers": "Brokers",
        "octopia.testbed.calibrate": "calibrated model_toml",
        "octopia.testbed.faults": "check_live",
        "octopia.testbed.groups": "HERE Group Place Processes cores groups_of places_of",
        "octopia.testbed.live_run": "run_live",
        "octopia.testbed.worker": "join",
        "octopia.testbed.workers": "VARIABLE Testbed",
    },
)
