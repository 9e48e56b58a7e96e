"""What a run of the pipeline is about: the settings of all stages, and the plain values they become in a manifest.

Rules of this file: values only, checked when they are made. A setting stands once; a stage names the settings that its
tables follow from, so that a change of another stage's settings does not run it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, get_args

from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.routing import CongestionParameters, check_routings
from octopia.sim import Model, load_model
from octopia.topology import Scot, default_clusters, parse_tree
from octopia.workload import BurstSpec, DayOrder, WorkloadSpec, spec_fields, synthetic_quotes

EVALUATION = "evaluation"


def evaluation_overlay() -> Scot:
    """The paper's evaluation overlay: 14 regions, 5 clusters."""
    clusters = default_clusters(EVALUATION)
    assert clusters is not None, "the paper says how many"  # noqa: S101
    return Scot(parse_tree(EVALUATION), clusters)


@dataclass(frozen=True)
class QuotesSpec:
    """Where quotes come from: files and folders, or, where none are named, a seed.

    `strict` makes bad rows an error. `date_order` (`dmy` or `mdy`) settles dates such as 07-02-2018 where a file leaves
    it open.
    """

    paths: tuple[str, ...] = ()
    strict: bool = False
    date_order: DayOrder | None = None
    seed: int = 1
    symbols: int = 500
    days: int = 2000
    start: date = date(2000, 1, 3)

    def __post_init__(self) -> None:
        known = get_args(DayOrder)
        if self.date_order is not None and self.date_order not in known:
            hint = maybe_meant(str(self.date_order), known)
            raise InputError(f"date_order is {self.date_order!r}: give {' or '.join(known)}{hint}")
        if not self.paths:
            # The last symbol is made, to see here and not in a worker whether the numbers are possible.
            last = range(self.symbols - 1, self.symbols) if self.symbols > 0 else self.symbols
            synthetic_quotes(self.seed, last, self.days, self.start)


@dataclass(frozen=True)
class SimulateSpec:
    """Which systems play the workload, on which simulated machines, and how they are judged.

    A delivery is late that takes longer than `late_after_s`; None: no time is promised, and none is late. A run that
    fails is tried `retries` more times.
    """

    systems: tuple[str, ...] = ("snr", "idr", "tid")
    model: Model = field(default_factory=lambda: load_model("paper"))
    tau: float = 10.0
    window_s: float = 0.05
    delay_bound_s: float = 1.0
    block_notifications: int = 1000
    late_after_s: float | None = None
    retries: int = 1

    def __post_init__(self) -> None:
        try:
            # none of one's own: a table is kept by the names of the systems, and would not know of other code
            check_routings(self.systems, own=False)
        except InputError as error:
            raise InputError(f"systems: {error}") from None
        try:
            CongestionParameters(self.tau, self.window_s)
        except ValueError as error:
            raise InputError(str(error)) from None
        for name, least in (("delay_bound_s", 1e-9), ("late_after_s", 0.0), ("block_notifications", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value <= 1e6:
                raise InputError(f"{name} is {value!r}: give {least:g} to 1,000,000")


@dataclass(frozen=True)
class PipelineSpec:
    """The settings of all stages."""

    quotes: QuotesSpec = field(default_factory=QuotesSpec)
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)
    burst: BurstSpec | None = None
    overlay: Scot = field(default_factory=evaluation_overlay)
    simulate: SimulateSpec = field(default_factory=SimulateSpec)


def burst_fields(burst: BurstSpec | None) -> Mapping[str, Any] | None:
    """The settings of a burst, or None."""
    return None if burst is None else spec_fields(burst)


def overlay_fields(overlay: Scot) -> dict[str, Any]:
    """The overlay as plain values: two with the same brokers and links give the same."""
    edges = sorted(sorted(edge) for edge in overlay.tree.edges)
    return {"nodes": list(overlay.tree.nodes), "edges": edges, "clusters": overlay.clusters}
