"""A cell of an experiment: one system at one point with one seed, described so fully that it can be run anywhere.

A cell contains values, not names of things that may change: the model's parameters, the tree's edges, and digests of
the contents of quote files and of the code of a user's own routing. Equal cells give equal results, byte for byte. So a
finished run is recognised by its cell, and a cell can be sent to another process or to a Spark task as JSON. Everything
is checked when cells are made, before the first one runs.
"""

import hashlib
import sys
from collections.abc import Iterator
from itertools import product
from math import floor
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from octopia.errors import InputError
from octopia.experiments import bound, trouble
from octopia.experiments.experiment import Experiment
from octopia.experiments.settings import MODEL_PREFIX, Point, Settings, changed, check_name, point_text, value_of
from octopia.hints import maybe_meant, shortened
from octopia.routing import CongestionParameters, check_covering, check_routings, policy_named, why_not_live
from octopia.sim import MODEL_PARTS, Fault, Model, RunSpec, check_model, load_model, model_from
from octopia.testbed import Place, check_live, groups_of, places_of
from octopia.topology import Scot, Sites, Tree, find_overlay
from octopia.version import __version__
from octopia.workload import BurstSpec, ChurnSpec, WishSpec, WorkloadSpec, quote_files

DAYS_LEAST, DAYS_MOST = 250, 2000
SECOND_NS = 1_000_000_000
SIMULATED: Final = "simulated"
LIVE: Final = "live"
# Values of the setting `sites`.
NO_SITES: Final = "none"
SITE_UNITS: Final[tuple[Literal["cluster", "region"], ...]] = ("cluster", "region")


class QuoteFile(Struct, frozen=True):
    """A file of quotes, with the digest of its contents when the cell was made."""

    path: str
    sha256: str


class SyntheticQuotes(Struct, frozen=True, tag=True):
    """Quotes drawn from the seed of the cell."""

    symbols: int
    days: int


class QuoteFiles(Struct, frozen=True, tag=True):
    """Quotes read from files."""

    files: tuple[QuoteFile, ...]


class WorkloadTables(Struct, frozen=True, tag=True):
    """A workload that was drawn before and is kept in tables, each with the key of its contents."""

    keys: dict[str, str]


class Cell(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of an experiment."""

    experiment: str
    system: str
    point: Point
    seed: int
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    clusters: int
    workload: WorkloadSpec
    bursts: tuple[BurstSpec, ...]
    publishes: bool
    quotes: SyntheticQuotes | QuoteFiles | WorkloadTables
    run: RunSpec
    metrics: tuple[str, ...]
    delay_bound_ns: int
    block_notifications: int
    churn: ChurnSpec | None = None
    wishes: WishSpec | None = None
    # computed on one tree that is k times as fast, see `bound.py`
    folded: bool = False
    code: str = ""
    version: str = __version__
    # the host of its brokers; live: in how many processes (0: one per core), and where, if not all here
    host: Literal["simulated", "live"] = "simulated"
    processes: int = 0
    places: tuple[Place, ...] = ()

    @property
    def overlay(self) -> Scot:
        return Scot(Tree.from_edges(self.edges, self.nodes), self.clusters)

    @property
    def name(self) -> str:
        """The name of its folder; the same cell of a later run, with other settings, has the same name."""
        return f"{_safe(point_text(self.point))}-{_safe(self.system)}-seed{self.seed}"

    @property
    def weights(self) -> dict[str, int]:
        """By phase of its run, about how many messages between brokers a request causes."""
        brokers = len(self.nodes) * self.clusters
        return {
            "advertise": self.clusters if policy_named(self.run.routing).keeps_civ else 5 * brokers,
            "subscribe": len(self.nodes),
            "publish": min(brokers, 40),
        }

    @property
    def cost(self) -> float:
        """Estimated run time relative to others, in messages between brokers."""
        weights, clients = self.weights, self.workload
        registering = clients.publishers * weights["advertise"] + clients.subscribers * weights["subscribe"]
        publications = clients.publishers * clients.notifications_per_publisher
        publications += sum(burst.notifications for burst in self.bursts)
        return registering + (publications * weights["publish"] if self.publishes else 0) + 10_000


def _safe(text: str) -> str:
    """A text that is valid as the name of a folder on any system."""
    return "".join(character if character.isalnum() or character in ".-" else "_" for character in text)[:60]


def cell_bytes(cell: Cell) -> bytes:
    """A cell as JSON; equal cells give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(cell, order="deterministic"), indent=1)


def make_cells(experiment: Experiment, settings: Settings) -> list[Cell]:
    """All cells of an experiment with these settings: seeds first, so that results for all systems appear early."""
    _check_systems(settings.systems)
    check_name(settings.vary, "vary")
    if not settings.points:
        raise InputError(f"points is empty: give the values of {settings.vary} to go through")
    files = tuple(_quote_file(path) for path in quote_files(settings.quotes)) if settings.quotes else ()
    at_points = list(_at_points(experiment, settings))
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    cells = [
        _cell(experiment, at, point, seed, system, files)
        for seed, (point, at), system in product(seeds, at_points, settings.systems)
        if settings.host == SIMULATED or system != bound.BOUND
    ]
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise InputError(f"points {list(settings.points)}: two of them would have the same folder; give one of them")
    return cells


def _at_points(experiment: Experiment, settings: Settings) -> Iterator[tuple[Point, Settings]]:
    """The settings at each point, scaled; points that are equal, or become equal by scaling, are merged."""
    seen: dict[Point, None] = {}
    for number, given in enumerate(_every_link(settings)):
        at = changed(settings, {settings.vary: given}, f"points[{number}]")
        scaled = {name: max(1, floor(value_of(at, name) * settings.scale + 0.5)) for name in experiment.scaled}
        if settings.scale < 1:
            at = changed(at, scaled, "scale")
        point = given if settings.vary.startswith(MODEL_PREFIX) else value_of(at, settings.vary)
        if not isinstance(point, int | float | str) or isinstance(point, bool):
            raise InputError(f"vary: {settings.vary} is not a single number or word and cannot be varied")
        if point not in seen:
            seen[point] = None
            yield point, at


def _every_link(settings: Settings) -> Iterator[Point]:
    """The points; the word for all links is replaced by the links."""
    for point in settings.points:
        if settings.vary == "slow_link" and point == trouble.EVERY:
            yield from trouble.links_of(overlay_of(settings))
        else:
            yield point


def _cell(
    experiment: Experiment, settings: Settings, point: Point, seed: int, system: str, files: tuple[QuoteFile, ...]
) -> Cell:
    overlay = overlay_of(settings)
    bursts = _bursts(settings, overlay.clusters) if experiment.has_burst else ()
    run = _run_spec(settings, seed, system, trouble.faults_of(settings, overlay, seed, has_burst=bool(bursts)))
    check_model(run.model, overlay)
    folded = system == bound.BOUND
    if folded:
        bound.check_no_faults(run.faults)
        if run.sites is not UNSET:
            raise InputError("systems: bound is worked out for an overlay in one place; leave it out, or sites")
        model = bound.folded_model(run.model, overlay.clusters)
        run = structs.replace(run, routing=bound.ROUTING, model=model)
    if settings.host == LIVE:
        _check_live(settings, run, system)
    days = min(max(settings.notifications_per_publisher, DAYS_LEAST), DAYS_MOST)
    return Cell(
        experiment=experiment.name,
        system=system,
        point=point,
        seed=seed,
        nodes=overlay.tree.nodes,
        edges=overlay.tree.edges,
        clusters=overlay.clusters,
        workload=_workload(settings, seed),
        bursts=bursts,
        churn=_churn(settings) if experiment.publishes else None,
        wishes=_wishes(settings) if experiment.publishes else None,
        publishes=experiment.publishes,
        quotes=QuoteFiles(files) if files else SyntheticQuotes(settings.symbols, days),
        run=run,
        metrics=experiment.metrics,
        delay_bound_ns=_nanoseconds(settings.delay_bound_s),
        block_notifications=settings.block_notifications,
        folded=folded,
        code=_code_digest(system),
        host=settings.host,
        processes=settings.processes if settings.host == LIVE else 0,
        places=_places(settings, overlay) if settings.host == LIVE else (),
    )


def _check_live(settings: Settings, run: RunSpec, system: str) -> None:
    """Refuse settings that live brokers do not support; computed systems beside the routings are omitted there."""
    check_live(run.faults)
    if (reason := why_not_live(system)) is not None:
        raise InputError(f"host: {reason}; leave it out of --systems")


def _places(settings: Settings, overlay: Scot) -> tuple[Place, ...]:
    """Where an overlay file places its brokers; part of the cell, so that another placement is another run."""
    if not Path(settings.overlay).is_file():
        return ()
    places = places_of(settings.overlay, overlay)
    groups_of(overlay, settings.processes, places)
    return places


def overlay_of(settings: Settings) -> Scot:
    """The overlay that the settings name: a tree with its clusters, or an overlay file."""
    return find_overlay(settings.overlay, settings.clusters).scot


def sites_of(settings: Settings) -> Sites | UnsetType:
    """The sites in the settings, or those of the overlay file."""
    overlay = find_overlay(settings.overlay, settings.clusters)
    if not settings.sites:
        return UNSET if overlay.sites is None else overlay.sites
    if settings.sites == NO_SITES:
        return UNSET
    by = next((unit for unit in SITE_UNITS if unit == settings.sites), None)
    if by is None:
        words = (NO_SITES, *SITE_UNITS)
        raise InputError(
            f"sites: {shortened(settings.sites)!r}{maybe_meant(settings.sites, words)}; choose from {', '.join(words)}"
        )
    count = overlay.scot.clusters if settings.site_count is None else settings.site_count
    try:
        return Sites.even(overlay.scot, by, count, delay_ms=settings.site_delay_ms)
    except InputError as error:
        raise InputError(f"sites: {error}") from None


def model_of(settings: Settings) -> Model:
    """The model in the settings, with its parameters overridden."""
    model = load_model(settings.model)
    values: dict[str, Any] = msgspec.to_builtins(model)
    for part, inside in settings.model_parameters.items():
        if part not in MODEL_PARTS:
            known = ", ".join(MODEL_PARTS)
            raise InputError(f"model.{part}: the model has no such part{maybe_meant(part, MODEL_PARTS)}; {known}")
        values.setdefault(part, {}).update(inside)
    return model_from(values, "model")


def _workload(settings: Settings, seed: int) -> WorkloadSpec:
    return WorkloadSpec(
        publishers=settings.publishers,
        subscribers=settings.subscribers,
        selectivity=settings.selectivity,
        shape=settings.shape,  # type: ignore[arg-type]  # the spec checks the word itself
        notifications_per_publisher=settings.notifications_per_publisher,
        rate_per_minute=settings.rate_per_minute,
        placement=settings.placement,  # type: ignore[arg-type]
        seed=seed,
    )


def _bursts(settings: Settings, clusters: int) -> tuple[BurstSpec, ...]:
    shares = settings.burst_rate_shares
    try:
        bursts = tuple(
            BurstSpec(
                rate_per_minute=settings.burst_rate_per_minute * shares[number % len(shares)],
                notifications=settings.burst_notifications,
                interested_share=settings.burst_interested_share,
                start_s=settings.burst_start_s + number * settings.burst_stagger_s,
            )
            for number in range(settings.bursts)
        )
    except InputError as error:
        raise InputError(f"burst_{error}") from None
    interested = bursts[0].interested(settings.subscribers)
    if interested < clusters:
        raise InputError(
            f"{interested} of {settings.subscribers:,} subscribers are interested in the "
            f"burst, and each of the {clusters} clusters must have one; raise subscribers or burst_interested_share"
        )
    if interested * len(bursts) > settings.subscribers:
        raise InputError(
            f"bursts is {len(bursts)}: each interests {interested:,} subscribers of its own, and there are "
            f"{settings.subscribers:,}; lower burst_interested_share or raise subscribers"
        )
    return bursts


def _churn(settings: Settings) -> ChurnSpec | None:
    if settings.changes_per_minute == 0:
        return None
    try:
        return ChurnSpec(settings.changes_per_minute, settings.changes_of_advertisements)
    except InputError as error:
        raise InputError(str(error).replace("advertisements_share", "changes_of_advertisements")) from None


def _wishes(settings: Settings) -> WishSpec | None:
    if settings.urgent_share == 0 == settings.deadline_share:
        return None
    return WishSpec(settings.urgent_share, settings.urgent_priority, settings.deadline_share, settings.deadline_s)


def _run_spec(settings: Settings, seed: int, system: str, faults: tuple[Fault, ...]) -> RunSpec:
    check_covering(bound.ROUTING if system == bound.BOUND else system, settings.covering)
    try:
        CongestionParameters(settings.tau, settings.window_s)
    except ValueError as error:
        raise InputError(str(error)) from None
    return RunSpec(
        routing=system,
        model=model_of(settings),
        seed=seed,
        tau=settings.tau,
        window_s=settings.window_s,
        advertise_every_ns=_nanoseconds(settings.advertise_every_s),
        subscribe_every_ns=_nanoseconds(settings.subscribe_every_s),
        queue_sample_ns=_nanoseconds(settings.queue_sample_s),
        faults=faults,
        sites=sites_of(settings),
        covering=UNSET if settings.covering == "none" else settings.covering,
    )


def _nanoseconds(seconds: float) -> int:
    return max(1, round(seconds * SECOND_NS))


def _check_systems(systems: tuple[str, ...]) -> None:
    try:
        # A computed system such as the bound is not a routing.
        check_routings([system for system in systems if system != bound.BOUND] or [bound.ROUTING], own=True)
        if systems.count(bound.BOUND) > 1:
            raise InputError(f"{bound.BOUND} is named twice")
    except InputError as error:
        raise InputError(f"systems: {error}") from None


def _code_digest(system: str) -> str:
    """The digest of the module of a user's own routing; its imports are not followed."""
    module, own, _ = system.partition(":")
    if not own:
        return ""
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        raise InputError(f"systems: {system}: put it into a file, since runs are kept with the code they were made by")
    return _digest(file)


def _quote_file(path: str) -> QuoteFile:
    return QuoteFile(str(Path(path).resolve()), _digest(path))


def _digest(path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
