"""The settings of a pipeline run: where quotes come from, and the experiment that is run on them.

Clients, overlay, systems and model have the settings of any experiment (`octopia.experiments.Settings`), and the runs
are its cells, one per system. A stage lists the settings that its tables depend on, so changing others does not run it
again. Those lists are also stored with the tables: `made_with` reads them back, so a stage that is run alone describes
the tables on disk and not the settings given to it.
"""

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET, structs

from octopia.errors import InputError
from octopia.experiments import Cell, Experiment, Settings, Shown, changed, make_cells
from octopia.hints import maybe_meant
from octopia.metrics import METRICS
from octopia.pipeline.manifest import record_of
from octopia.pipeline.storage import Store
from octopia.routing import check_routings
from octopia.topology import Scot
from octopia.workload import DayOrder, synthetic_quotes

# Settings that determine which notifications are published; the seed is called `first_seed` among them.
PUBLISHED_SETTINGS: Final = ("first_seed", "publishers", "notifications_per_publisher")
# Of a burst, if there is one.
BURST_SETTINGS: Final = (
    "burst_rate_per_minute",
    "burst_notifications",
    "burst_interested_share",
    "burst_start_s",
    "bursts",
    "burst_rate_shares",
    "burst_stagger_s",
)
WORKLOAD_SETTINGS: Final = (
    *PUBLISHED_SETTINGS,
    *("overlay", "clusters", "subscribers", "selectivity", "shape", "placement", "rate_per_minute"),
    *("changes_per_minute", "changes_of_advertisements"),
)
RUN_SETTINGS: Final = (
    *("systems", "model", "model_parameters", "tau", "window_s", "covering", "sites", "site_count", "site_delay_ms"),
    *("advertise_every_s", "subscribe_every_s", "queue_sample_s", "delay_bound_s", "block_notifications"),
)
# These follow from the others: one point, one seed.
_FIXED: Final = ("vary", "points", "seeds")

# The most telling first. The delays, which the opening of the page shows already, are last.
_SHOWN: Final = (
    Shown("queue_over_time", "total", "Queued messages", kind="series"),
    Shown("high_rate_queue", "until_empty", "Mean Q_l at the high-rate publisher's broker"),
    Shown("messages_per_request", "advertise", "IMs per advertisement"),
    Shown("srt_entries", "mean", "Mean SRT entries per broker"),
    Shown("prt_entries", "mean", "Mean PRT entries per broker"),
    Shown("messages_per_request", "publish", "IMs per notification"),
    Shown("max_delay", "", "Maximum delay of deliveries in a row", kind="series"),
    Shown("others_delay", "mean", "Mean delivery delay, other publishers"),
    Shown("high_rate_delay", "mean", "Mean delivery delay, high-rate publisher"),
    Shown("notification_delay", "mean", "Mean delivery delay"),
    Shown("notification_delay", "p99", "Delivery delay, 99th percentile"),
)
_OF_BURSTS: Final = ("high_rate_queue", "others_delay", "high_rate_delay")
PIPELINE: Final = Experiment(
    name="pipeline",
    title="Pipeline",
    question="one workload, several systems",
    axis="subscribers",
    settings=Settings(
        systems=("snr", "idr", "tid"), vary="subscribers", points=(2000,), seeds=1, first_seed=1, sites="none"
    ),
    scaled=(),
    metrics=tuple(METRICS),
    shown=tuple(shown for shown in _SHOWN if shown.metric not in _OF_BURSTS),
    paper=False,
)
PIPELINE_WITH_BURST: Final = structs.replace(PIPELINE, has_burst=True, shown=_SHOWN)


def pipeline_settings(**changes: Any) -> Settings:
    """The pipeline's default settings with some of them changed."""
    return changed(PIPELINE.settings, changes, "pipeline")


@dataclass(frozen=True)
class QuotesSpec:
    """Where quotes come from: files and folders, or a seed if there are none.

    `strict` makes bad rows and unreadable files an error. `date_order` (`dmy` or `mdy`) settles dates such as
    07-02-2018 if the file itself does not.
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
            # Making the last symbol shows here, and not in a worker, whether the numbers are possible.
            last = range(self.symbols - 1, self.symbols) if self.symbols > 0 else self.symbols
            synthetic_quotes(self.seed, last, self.days, self.start)


@dataclass(frozen=True)
class PipelineSpec:
    """All settings of a pipeline. `burst` adds the high-rate publishers that the settings describe.

    A delivery is late if it takes longer than `late_after_s`; with None, no delivery is late. A failed run is retried
    `retries` times.
    """

    quotes: QuotesSpec = field(default_factory=QuotesSpec)
    settings: Settings = PIPELINE.settings
    burst: bool = False
    late_after_s: float | None = None
    retries: int = 1

    def __post_init__(self) -> None:
        try:
            # Built-in routings only: tables are kept by the names of systems and would not notice a change of code.
            check_routings(self.settings.systems, own=False)
        except InputError as error:
            raise InputError(f"systems: {error}") from None
        for name in ("late_after_s", "retries"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1e6:
                raise InputError(f"{name} is {value!r}: give 0 to 1,000,000")
        usual = PIPELINE.settings
        for setting in structs.fields(Settings):
            name = setting.name
            used = name in (*WORKLOAD_SETTINGS, *BURST_SETTINGS, *RUN_SETTINGS, *_FIXED)
            if not used and getattr(self.settings, name) != getattr(usual, name):
                raise InputError(f"{name}: the pipeline does not have this setting; use octopia simulate")
        one = {"vary": "subscribers", "points": (self.settings.subscribers,), "seeds": 1}
        object.__setattr__(self, "settings", changed(self.settings, one, "pipeline"))
        make_cells(self.experiment, self.settings)

    @property
    def experiment(self) -> Experiment:
        return PIPELINE_WITH_BURST if self.burst else PIPELINE

    @property
    def cells(self) -> list[Cell]:
        """One run for each system."""
        return make_cells(self.experiment, self.settings)

    @property
    def cell(self) -> Cell:
        """The run of the first system, for everything that is the same in all of them."""
        return self.cells[0]


def parameters_of(spec: PipelineSpec, names: tuple[str, ...]) -> dict[str, Any]:
    """These settings as plain values, for the record of a table; the seed has the name that records give it."""
    values = {name: msgspec.to_builtins(getattr(spec.settings, name)) for name in names}
    if "first_seed" in values:
        values["seed"] = values.pop("first_seed")
    return values


def workload_parameters_of(spec: PipelineSpec) -> dict[str, Any]:
    """All settings of the clients, and the overlay that they are placed on: its name may be that of a file."""
    values = parameters_of(spec, (*WORKLOAD_SETTINGS, *BURST_SETTINGS) if spec.burst else WORKLOAD_SETTINGS)
    return {**values, "burst": spec.burst, "brokers": _brokers(spec.cell.overlay)}


def run_parameters_of(spec: PipelineSpec) -> dict[str, Any]:
    """The settings of the runs, with the current meaning of a model's or an overlay file's name."""
    run = spec.cell.run
    meant = {"model_values": msgspec.to_builtins(run.model)}
    if run.sites is not UNSET:
        meant["site_values"] = msgspec.to_builtins(run.sites)
    return {**parameters_of(spec, RUN_SETTINGS), **meant}


def made_with(store: Store, spec: PipelineSpec, *tables: str) -> PipelineSpec:
    """The settings that these tables on disk were made with; everything else as in `spec`."""
    parameters: dict[str, Any] = {}
    for table in tables:
        parameters |= record_of(store, table)["parameters"]
    names = (*WORKLOAD_SETTINGS, *BURST_SETTINGS, *RUN_SETTINGS)
    values = {name: parameters[name] for name in names if name in parameters}
    if "seed" in parameters:
        values["first_seed"] = parameters["seed"]
    burst = parameters.get("burst", spec.burst)
    return replace(spec, settings=changed(spec.settings, values, "the tables on disk"), burst=burst)


def cells_on_disk(store: Store, spec: PipelineSpec) -> list[Cell]:
    """The runs of the workload on disk, on the overlay it was made for: an overlay file may have changed since."""
    brokers = record_of(store, "publishers")["parameters"]["brokers"]
    overlay = {
        "nodes": tuple(brokers["nodes"]),
        "edges": tuple((one, other) for one, other in brokers["edges"]),
        "clusters": brokers["clusters"],
    }
    return [structs.replace(cell, **overlay) for cell in made_with(store, spec, "publishers").cells]


def _brokers(overlay: Scot) -> dict[str, Any]:
    """An overlay as plain values; equal for two overlays with the same brokers and links."""
    edges = sorted(sorted(edge) for edge in overlay.tree.edges)
    return {"nodes": list(overlay.tree.nodes), "edges": edges, "clusters": overlay.clusters}
