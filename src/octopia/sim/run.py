"""One run: a workload on an overlay under one routing, from the first advertisement to the last delivery.

A run has three phases, each played until nothing moves: all advertisements, all subscriptions, then all publications
and the faults. Registrations come at a steady pace, so that their delays measure the routing and not a queue of
registrations. Rules of this file: what a run leaves behind is a folder with the tables of `octopia.trace` and
`run.json`, which says what was run; everything else is worked out from these. Same inputs, same bytes.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Struct

from octopia.errors import InputError
from octopia.language import Notification, Value
from octopia.routing import Advertised, CongestionParameters, Published, Subscribed
from octopia.sim.faults import Fault, check_faults
from octopia.sim.known import KnownMatches, SimNotification
from octopia.sim.model import Model
from octopia.sim.node import SECOND_NS
from octopia.sim.recorder import Recorder
from octopia.sim.requests import Request
from octopia.sim.simulation import Simulation
from octopia.topology import BrokerId, Scot
from octopia.trace import TraceWriter
from octopia.workload import Registration, Workload

RUN_FILE = "run.json"
_ROWS_AT_ONCE = 4_096
_PAPER = CongestionParameters()
# Told what is going on: the phase, the requests made in it, all of them, and the hops so far.
OnProgress = Callable[[str, int, int, int], None]
Interval = Annotated[int, Meta(ge=0)]


class RunSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run is made of beside its workload and its overlay."""

    routing: str = "idr"
    model: Model = Model()
    seed: int = 0
    tau: float = _PAPER.tau
    window_s: float = _PAPER.window_s
    advertise_every_ns: Interval = 200_000_000
    subscribe_every_ns: Interval = 100_000_000
    queue_sample_ns: Annotated[int, Meta(gt=0)] = SECOND_NS
    faults: tuple[Fault, ...] = ()


class Phase(Struct, frozen=True):
    """When a phase began and when nothing moved any more."""

    name: str
    from_ns: int
    until_ns: int


class Run(Struct, frozen=True):
    """What `run.json` says: the spec, the overlay, the phases, and the rows of every table."""

    spec: RunSpec
    tree: tuple[tuple[str, str], ...]
    clusters: int
    phases: tuple[Phase, ...]
    rows: dict[str, int]
    complete: bool

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)


def simulate(
    workload: Workload, overlay: Scot, spec: RunSpec, folder: Path, on_progress: OnProgress | None = None
) -> Run:
    """Play a workload and write its trace. An interrupt leaves complete files of what happened so far."""
    check_faults(spec.faults, overlay)
    clients = _clients(workload)
    known = KnownMatches(
        (subscription.filter for subscription in workload.subscriptions),
        workload.notifications,
        (advertisement.filter for advertisement in workload.advertisements),
    )
    phases: list[Phase] = []
    writer = TraceWriter(folder)
    with writer:
        recorder = Recorder(writer, overlay, clients)
        simulation = Simulation(
            overlay,
            spec.routing,
            spec.model,
            recorder,
            make_index=known.make_index,
            congestion=CongestionParameters(spec.tau, spec.window_s),
            seed=spec.seed,
            queue_sample_ns=spec.queue_sample_ns,
        )
        complete = False
        try:
            with _no_garbage_collection():
                for name, count, requests in _phases(workload, known, spec):
                    begin = _next_second(simulation.now_ns)
                    if name == "publish":
                        simulation.set_faults(spec.faults, begin)
                    simulation.play(_counted(name, count, requests(begin), simulation, on_progress))
                    phases.append(Phase(name, begin, simulation.now_ns))
                    recorder.table_sizes(name, simulation.now_ns, simulation.brokers)
            complete = True
        finally:
            recorder.flush()
            recorder.civs(simulation.brokers)
            edges = tuple((str(a), str(b)) for a, b in overlay.tree.edges)
            run = Run(spec, edges, overlay.clusters, tuple(phases), writer.rows, complete)
            text = msgspec.json.format(msgspec.json.encode(run, order="deterministic"), indent=1)
            (folder / RUN_FILE).write_bytes(text)
    return run


def load_run(folder: Path) -> Run:
    """What `run.json` of a folder says."""
    try:
        return msgspec.json.decode((folder / RUN_FILE).read_bytes(), type=Run)
    except FileNotFoundError:
        raise InputError(f"{folder} holds no run: there is no {RUN_FILE} in it") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{folder / RUN_FILE}: {error}") from None


# ---- requests


def _phases(
    workload: Workload, known: KnownMatches, spec: RunSpec
) -> Iterator[tuple[str, int, Callable[[int], Iterator[Request]]]]:
    """Name, number of requests, and a function from the start of the phase to its requests."""
    advertisements, subscriptions = workload.advertisements, workload.subscriptions
    first_subscription = len(advertisements)
    first_publication = first_subscription + len(subscriptions)

    def advertise(begin: int) -> Iterator[Request]:
        return _register(Advertised, advertisements, begin, spec.advertise_every_ns, 0)

    def subscribe(begin: int) -> Iterator[Request]:
        return _register(Subscribed, subscriptions, begin, spec.subscribe_every_ns, first_subscription)

    def publish(begin: int) -> Iterator[Request]:
        return _publish(workload, known, begin, first_publication)

    yield "advertise", len(advertisements), advertise
    yield "subscribe", len(subscriptions), subscribe
    yield "publish", len(workload.publications.at_ns), publish


def _register(
    event: type[Advertised] | type[Subscribed],
    registrations: Sequence[Registration],
    begin: int,
    every_ns: int,
    first: int,
) -> Iterator[Request]:
    for number, registration in enumerate(registrations):
        happened = event(registration.client, registration.id, registration.filter)
        yield Request(begin + number * every_ns, registration.broker, happened, first + number)


def _publish(workload: Workload, known: KnownMatches, begin: int, first: int) -> Iterator[Request]:
    publications, publishers = workload.publications, workload.advertisements
    for start in range(0, len(publications.at_ns), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows = publications.row[part]
        several = zip(
            publications.at_ns[part].tolist(),
            publications.publisher[part].tolist(),
            rows.tolist(),
            _checked_values(workload.notifications.take(pa.array(rows))),
            known.set_of_row[rows].tolist(),
            strict=True,
        )
        for number, (at_ns, publisher, row, values, match_set) in enumerate(several, first + start):
            notification = SimNotification.number(values, match_set, number)
            client, broker = publishers[publisher].client, publishers[publisher].broker
            # The trace knows it by its number; to brokers, which only pass it on, its id means nothing.
            yield Request(begin + at_ns, broker, Published(client, "", notification), number, row)


def _checked_values(table: pa.Table) -> Iterator[dict[str, Value]]:
    """The rows of a table of notifications as plain values, without those that are null."""
    columns = [column.to_pylist() for column in table.columns]
    rows = zip(*columns, strict=True)
    # asked for once: Arrow makes a list of them each time
    names = table.column_names
    if table.num_rows and all(map(_needs_no_check, table.columns)):
        # a column at a time there is nothing to find: no null, no NaN, and strings of Arrow are always good
        return (dict(zip(names, row, strict=True)) for row in rows)
    named = (zip(names, row, strict=True) for row in rows)
    return (Notification.of({name: value for name, value in row if value is not None}).to_dict() for row in named)


def _needs_no_check(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if column.null_count:
        return False
    if pa.types.is_floating(kind):
        return not pc.any(pc.is_nan(column)).as_py()
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _counted(
    name: str, count: int, requests: Iterator[Request], simulation: Simulation, on_progress: OnProgress | None
) -> Iterator[Request]:
    """The requests as they are, telling how far they are about a thousand times a phase."""
    if on_progress is None:
        yield from requests
        return
    step = max(1, count // 1000)
    for number, request in enumerate(requests):
        if number % step == 0:
            on_progress(name, number, count, simulation.hops)
        yield request
    on_progress(name, count, count, simulation.hops)


def _clients(workload: Workload) -> dict[str, tuple[int, BrokerId]]:
    clients: dict[str, tuple[int, BrokerId]] = {}
    for registration in (*workload.advertisements, *workload.subscriptions):
        clients.setdefault(registration.client, (len(clients), registration.broker))
    return clients


def _next_second(now_ns: int) -> int:
    return -(-now_ns // SECOND_NS) * SECOND_NS


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A run makes no cycles; walking its millions of small objects again and again would double its time."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def plain(spec: RunSpec) -> dict[str, Any]:
    """A spec as plain values, for files and tables."""
    values: dict[str, Any] = msgspec.to_builtins(spec)
    return values
