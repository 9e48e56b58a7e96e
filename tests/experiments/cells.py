"""Small cells for the tests of experiments: an overlay of nine brokers, few clients."""

from typing import Any

from octopia.experiments import EXPERIMENTS, Cell, Experiment, Settings, changed, make_cells

SMALL: dict[str, Any] = {
    "overlay": "path:3",
    "clusters": 3,
    "publishers": 4,
    "subscribers": 12,
    "selectivity": 0.25,
    "notifications_per_publisher": 5,
    "symbols": 10,
    "seeds": 1,
    "systems": ["snr", "tid"],
}
SMALL_BURST: dict[str, Any] = {"burst_notifications": 40, "burst_interested_share": 0.5, "queue_sample_s": 0.05}


def link_fault(kind: str, sender: str, receiver: str, cluster: int, **more: Any) -> dict[str, Any]:
    """A setting: what a link of a cluster does for as long as a run lasts."""
    ends = {"sender": [sender, cluster], "receiver": [receiver, cluster]}
    return {"what": "link", **ends, "kind": kind, "from_ns": 0, "until_ns": 10**12, **more}


def small(name: str, **changes: Any) -> tuple[Experiment, Settings]:
    """An experiment with settings that run in well under a second."""
    experiment = EXPERIMENTS[name]
    points: dict[str, list[Any]] = {
        "publishers": [2, 4],
        "subscribers": [6, 12],
        "delivery": [6, 12],
        "delivery-publishers": [3, 4],
        "burst": [100_000, 60_000],
        "bursts": [2, 1],
        "crash": ["next-region", "none"],
        "slow-link": ["host-alink", "none"],
        "priorities": [0, 3],
        "churn": [600, 6000],
        "failures": ["inner", "none"],
        "sites": ["region", "none"],
    }
    settings = {**SMALL, **(SMALL_BURST if experiment.has_burst else {}), "points": points[name], **changes}
    return experiment, changed(experiment.settings, settings, "test")


def small_cells(name: str, **changes: Any) -> list[Cell]:
    return make_cells(*small(name, **changes))
