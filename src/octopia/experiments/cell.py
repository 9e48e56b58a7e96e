"""A cell of an experiment: one system at one point with one seed, described so fully that it can be run anywhere.

Rules of this file: a cell holds values, not names of things that may change: the model's parameters, the tree's edges,
the contents of quote files, and the code of a routing of one's own, as digests. Two cells that are equal give equal
results, byte for byte; so a finished run is known again by its cell, and a cell can be sent to another process, or to a
Spark task, as JSON. Everything is checked while cells are made, before the first one runs.
"""

import hashlib
import sys
from collections.abc import Iterator
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from octopia.errors import InputError
from octopia.experiments import bound, trouble
from octopia.experiments.experiment import Experiment
from octopia.experiments.settings import MODEL_PREFIX, Point, Settings, changed, check_name, value_of
from octopia.hints import maybe_meant
from octopia.routing import CongestionParameters, check_routings, policy_named
from octopia.sim import Fault, Model, RunSpec, load_model
from octopia.topology import Scot, Tree, find_overlay
from octopia.version import __version__
from octopia.workload import BurstSpec, WorkloadSpec, quote_files

DAYS_LEAST, DAYS_MOST = 250, 2000
SECOND_NS = 1_000_000_000
_CHUNK_BYTES = 1 << 20


class QuoteFile(Struct, frozen=True):
    """A file of quotes, and what was in it when the cell was made."""

    path: str
    sha256: str


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
    burst: BurstSpec | None
    publishes: bool
    symbols: int
    days: int
    quotes: tuple[QuoteFile, ...]
    run: RunSpec
    metrics: tuple[str, ...]
    delay_bound_ns: int
    block_notifications: int
    # worked out on one tree that is k times as fast, see `bound.py`
    folded: bool = False
    code: str = ""
    version: str = __version__

    @property
    def overlay(self) -> Scot:
        return Scot(Tree.from_edges(self.edges, self.nodes), self.clusters)

    @property
    def name(self) -> str:
        """For a folder: the same cell of a later run, with other settings, has the same."""
        point = f"{self.point:.12g}" if not isinstance(self.point, str) else self.point
        return f"{_safe(point)}-{_safe(self.system)}-seed{self.seed}"

    @property
    def cost(self) -> float:
        """About how long it runs, beside others; in messages between brokers."""
        brokers = len(self.nodes) * self.clusters
        per_advertisement = self.clusters if policy_named(self.run.routing).keeps_civ else 5 * brokers
        registering = self.workload.publishers * per_advertisement + self.workload.subscribers * len(self.nodes)
        publications = self.workload.publishers * self.workload.notifications_per_publisher
        publications += 0 if self.burst is None else self.burst.notifications
        return registering + (publications * min(brokers, 40) if self.publishes else 0) + 10_000


def _safe(text: str) -> str:
    """For the name of a folder, anywhere."""
    return "".join(character if character.isalnum() or character in ".-" else "_" for character in text)[:60]


def cell_bytes(cell: Cell) -> bytes:
    """A cell as JSON; equal cells give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(cell, order="deterministic"), indent=1)


def cell_from_bytes(text: bytes) -> Cell:
    """Undo `cell_bytes`."""
    return msgspec.json.decode(text, type=Cell)


def make_cells(experiment: Experiment, settings: Settings) -> list[Cell]:
    """All cells of an experiment with these settings: seeds first, so that a first look at all systems is early."""
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
    ]
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise InputError(f"points {list(settings.points)}: two of them would have the same folder; give one of them")
    return cells


def _at_points(experiment: Experiment, settings: Settings) -> Iterator[tuple[Point, Settings]]:
    """The settings at each point, scaled; points that are the same, or become so by scaling, are one."""
    seen: dict[Point, None] = {}
    for number, given in enumerate(_every_link(settings)):
        at = changed(settings, {settings.vary: given}, f"points[{number}]")
        scaled = {name: max(1, floor(value_of(at, name) * settings.scale + 0.5)) for name in experiment.scaled}
        if settings.scale < 1:
            at = changed(at, scaled, "scale")
        point = given if settings.vary.startswith(MODEL_PREFIX) else value_of(at, settings.vary)
        if not isinstance(point, int | float | str) or isinstance(point, bool):
            raise InputError(f"vary: {settings.vary} is no single number or word and cannot be varied")
        if point not in seen:
            seen[point] = None
            yield point, at


def _every_link(settings: Settings) -> Iterator[Point]:
    """The points, with all links in place of the word for them."""
    for point in settings.points:
        if settings.vary == "slow_link" and point == trouble.EVERY:
            yield from trouble.links_of(overlay_of(settings))
        else:
            yield point


def _cell(
    experiment: Experiment, settings: Settings, point: Point, seed: int, system: str, files: tuple[QuoteFile, ...]
) -> Cell:
    overlay = overlay_of(settings)
    burst = _burst(settings, overlay.clusters) if experiment.has_burst else None
    run = _run_spec(settings, seed, system, trouble.faults_of(settings, overlay, seed, has_burst=burst is not None))
    folded = system == bound.BOUND
    if folded:
        bound.check_no_faults(run.faults)
        model = bound.folded_model(run.model, overlay.clusters)
        run = structs.replace(run, routing=bound.ROUTING, model=model)
    return Cell(
        experiment=experiment.name,
        system=system,
        point=point,
        seed=seed,
        nodes=overlay.tree.nodes,
        edges=overlay.tree.edges,
        clusters=overlay.clusters,
        workload=_workload(settings, seed),
        burst=burst,
        publishes=experiment.publishes,
        symbols=settings.symbols,
        days=min(max(settings.notifications_per_publisher, DAYS_LEAST), DAYS_MOST),
        quotes=files,
        run=run,
        metrics=experiment.metrics,
        delay_bound_ns=_nanoseconds(settings.delay_bound_s),
        block_notifications=settings.block_notifications,
        folded=folded,
        code=_code_digest(system),
    )


def overlay_of(settings: Settings) -> Scot:
    """The overlay that the settings name: a tree with its clusters, or an overlay file."""
    return find_overlay(settings.overlay, settings.clusters).scot


def model_of(settings: Settings) -> Model:
    """The model that the settings name, with the parameters that are to be different."""
    model = load_model(settings.model)
    values: dict[str, Any] = msgspec.to_builtins(model)
    for part, inside in settings.model_parameters.items():
        if not isinstance(values.get(part), dict):
            parts = [name for name, value in values.items() if isinstance(value, dict)]
            raise InputError(f"model.{part}: the model has no such part{maybe_meant(part, parts)}; {', '.join(parts)}")
        values[part].update(inside)
    try:
        return msgspec.convert(values, Model)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"model: {error}") from None


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


def _burst(settings: Settings, clusters: int) -> BurstSpec:
    try:
        burst = BurstSpec(
            rate_per_minute=settings.burst_rate_per_minute,
            notifications=settings.burst_notifications,
            interested_share=settings.burst_interested_share,
            start_s=settings.burst_start_s,
        )
    except InputError as error:
        raise InputError(f"burst_{error}") from None
    if burst.interested(settings.subscribers) < clusters:
        raise InputError(
            f"{burst.interested(settings.subscribers)} of {settings.subscribers:,} subscribers are interested in the "
            f"burst, and each of the {clusters} clusters must have one; raise subscribers or burst_interested_share"
        )
    return burst


def _run_spec(settings: Settings, seed: int, system: str, faults: tuple[Fault, ...]) -> RunSpec:
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
    )


def _nanoseconds(seconds: float) -> int:
    return max(1, round(seconds * SECOND_NS))


def _check_systems(systems: tuple[str, ...]) -> None:
    try:
        # what is worked out beside the routings is no routing
        check_routings([system for system in systems if system != bound.BOUND] or [bound.ROUTING], own=True)
        if systems.count(bound.BOUND) > 1:
            raise InputError(f"{bound.BOUND} is named twice")
    except InputError as error:
        raise InputError(f"systems: {error}") from None


def _code_digest(system: str) -> str:
    """Of the module that a routing of one's own is in: what it imports in turn is not looked at."""
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
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()
