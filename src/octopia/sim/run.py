"""One run: a workload on an overlay under one routing, from the first advertisement to the last delivery.

A run has three phases, each played until nothing moves: the first advertisements, the first subscriptions, then all
publications with the changes among them. A fault begins in the phase that it names. Registrations before publishing
come at a steady pace, so that their delays measure the routing and not a queue of registrations. The output of a run is
a folder with the tables of `octopia.trace` and `run.json`, which describes the run; everything else is computed from
these. Same inputs, same bytes.
"""

import gc
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Meta, Struct, UnsetType

from octopia.errors import InputError
from octopia.language import Notification, Value
from octopia.routing import (
    DEFAULT_ROUTING,
    Advertised,
    CongestionParameters,
    Event,
    Published,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.sim.faults import Fault, check_faults
from octopia.sim.known import KnownMatches, SimNotification
from octopia.sim.model import Model, check_model
from octopia.sim.node import SECOND_NS
from octopia.sim.numbering import first_numbers, registrations
from octopia.sim.recorder import Recorder
from octopia.sim.requests import Request
from octopia.sim.simulation import Simulation
from octopia.sim.stepwise import Stepwise
from octopia.topology import Scot, Sites
from octopia.trace import TraceWriter
from octopia.workload import Change, Registration, Wish, Workload

RUN_FILE = "run.json"
_ROWS_AT_ONCE = 4_096
_PAPER = CongestionParameters()
_NO_WISH = Wish()
# Progress callback: the phase, its requests made so far, their total, and the hops so far.
OnProgress = Callable[[str, int, int, int], None]
Interval = Annotated[int, Meta(ge=0)]


class RunSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a run in addition to its workload and its overlay."""

    routing: str = DEFAULT_ROUTING
    model: Model = Model()
    seed: int = 0
    tau: float = _PAPER.tau
    window_s: float = _PAPER.window_s
    advertise_every_ns: Interval = 200_000_000
    subscribe_every_ns: Interval = 100_000_000
    queue_sample_ns: Annotated[int, Meta(gt=0)] = SECOND_NS
    faults: tuple[Fault, ...] = ()
    # sites of clusters or regions, which add to the delays of links; omitted from files if not given
    sites: Sites | UnsetType = UNSET
    # subscriptions that need not be sent, "host" or "link"; omitted from files if all are sent
    covering: str | UnsetType = UNSET


class Phase(Struct, frozen=True):
    """The start of a phase, and the moment when nothing was in flight anymore."""

    name: str
    from_ns: int
    until_ns: int


class LiveProcess(Struct, frozen=True):
    """A process of a run on live brokers, its resources, and the offset of its clock from that of the run.

    `clock_error_ns` bounds the error of that offset; 0 on the machine of the clients, where the clock is the same.
    """

    machine: str
    brokers: int
    memory_bytes: int
    cpu_ns: int
    clock_offset_ns: int = 0
    clock_error_ns: int = 0


class LiveFault(Struct, frozen=True):
    """A fault of `spec.faults` and when it was certainly in force: it began before, and ended after."""

    fault: int
    from_ns: int
    until_ns: int


class LiveFacts(Struct, frozen=True):
    """The part of `run.json` that only runs on live brokers have.

    `late_*` is how much later than planned clients made their requests: the lateness of the driver, not of a broker.
    `unasked` are messages between brokers that no request caused.
    """

    processes: tuple[LiveProcess, ...]
    late_mean_ns: int
    late_p50_ns: int
    late_p99_ns: int
    late_max_ns: int
    start_ns: int  # from the start of the processes until all links were up
    client_cpu_ns: int
    client_delay_ns: int  # of a publication, from the client's call until its broker had read it; the mean
    unasked: int
    faults: tuple[LiveFault, ...] = ()  # those that ended during the run, in this order


class Run(Struct, frozen=True, omit_defaults=True):
    """The contents of `run.json`: the spec, the overlay, the phases, and the number of rows of every table."""

    spec: RunSpec
    tree: tuple[tuple[str, str], ...]
    clusters: int
    phases: tuple[Phase, ...]
    rows: dict[str, int]
    complete: bool
    live: LiveFacts | None = None  # only for live brokers

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)


def simulate(
    workload: Workload, overlay: Scot, spec: RunSpec, folder: Path, on_progress: OnProgress | None = None
) -> Run:
    """Play a workload and write its trace. An interrupt leaves complete files of what happened so far."""
    check_faults(spec.faults, overlay)
    check_model(spec.model, overlay)
    clients = {client: (number, broker) for number, (client, broker) in enumerate(workload.clients().items())}
    advertised, subscribed = registrations(workload)
    known = KnownMatches(
        (each.registration.filter for each in subscribed),
        workload.notifications,
        (each.registration.filter for each in advertised),
    )
    phases: list[Phase] = []
    deadlines_ns = {client: wish.deadline_ns for client, wish in workload.wishes.items() if wish.deadline_ns}
    writer = TraceWriter(folder, ("expired",) if deadlines_ns else ())
    with writer:
        recorder = Recorder(writer, overlay, clients, None if spec.sites is UNSET else spec.sites)
        # the fate of a message is known when it arrives, unless later events can affect it
        by_steps = spec.model.by_steps or bool(workload.wishes)
        simulation = (partial(Stepwise, deadlines_ns=deadlines_ns) if by_steps else Simulation)(
            overlay,
            spec.routing,
            spec.model,
            recorder,
            make_index=known.make_index,
            congestion=CongestionParameters(spec.tau, spec.window_s),
            seed=spec.seed,
            queue_sample_ns=spec.queue_sample_ns,
            sites=None if spec.sites is UNSET else spec.sites,
            covering="none" if spec.covering is UNSET else spec.covering,
        )
        complete = False
        try:
            with no_garbage_collection():
                for name, count, requests in _phases(workload, known, spec):
                    begin = _next_second(simulation.now_ns)
                    simulation.set_faults([fault for fault in spec.faults if fault.phase == name], begin)
                    simulation.play(_counted(name, count, requests(begin), simulation, on_progress))
                    phases.append(Phase(name, begin, simulation.now_ns))
                    recorder.table_sizes(name, simulation.now_ns, simulation.brokers)
            complete = True
        finally:
            recorder.flush()
            recorder.civs(simulation.brokers)
            edges = tuple((str(a), str(b)) for a, b in overlay.tree.edges)
            run = Run(spec, edges, overlay.clusters, tuple(phases), writer.rows, complete)
            save_run(run, folder)
    return run


def save_run(run: Run, folder: Path) -> None:
    """Write `run.json`."""
    text = msgspec.json.format(msgspec.json.encode(run, order="deterministic"), indent=1)
    (folder / RUN_FILE).write_bytes(text)


def load_run(folder: Path) -> Run:
    """Read the `run.json` of a folder."""
    try:
        return msgspec.json.decode((folder / RUN_FILE).read_bytes(), type=Run)
    except FileNotFoundError:
        raise InputError(f"{folder} does not hold a run: there is no {RUN_FILE} in it") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{folder / RUN_FILE}: {error}") from None


# ---- requests


def _phases(
    workload: Workload, known: KnownMatches, spec: RunSpec
) -> Iterator[tuple[str, int, Callable[[int], Iterator[Request]]]]:
    """Name, number of requests, and a function from the start of the phase to its requests."""
    advertisements, subscriptions = workload.advertisements, workload.subscriptions
    first = first_numbers(workload)
    subscribed = partial(_subscribed, workload.wishes)

    def advertise(begin: int) -> Iterator[Request]:
        return _register(_advertised, advertisements, begin, spec.advertise_every_ns, 0)

    def subscribe(begin: int) -> Iterator[Request]:
        return _register(subscribed, subscriptions, begin, spec.subscribe_every_ns, first.subscription)

    def publish(begin: int) -> Iterator[Request]:
        changes = _change(workload.changes, subscribed, begin, first.change)
        publications = _publish(workload, known, begin, first.publication)
        # at one moment, changes come first
        return heapq.merge(changes, publications, key=attrgetter("at_ns")) if workload.changes else publications

    yield "advertise", len(advertisements), advertise
    yield "subscribe", len(subscriptions), subscribe
    yield "publish", len(workload.publications) + len(workload.changes), publish


def _register(
    event: Callable[[Registration], Event],
    registrations: Sequence[Registration],
    begin: int,
    every_ns: int,
    first: int,
) -> Iterator[Request]:
    for number, registration in enumerate(registrations):
        yield Request(begin + number * every_ns, registration.broker, event(registration), first + number)


def _advertised(registration: Registration) -> Event:
    return Advertised(registration.client, registration.id, registration.filter)


def _subscribed(wishes: Mapping[str, Wish], registration: Registration) -> Event:
    wish = wishes.get(registration.client, _NO_WISH)
    client, id, filter = registration.client, registration.id, registration.filter
    return Subscribed(client, id, filter, ordered=wish.ordered, priority=wish.priority)


def _change(
    changes: Sequence[Change], subscribed: Callable[[Registration], Event], begin: int, first: int
) -> Iterator[Request]:
    for number, change in enumerate(changes, first):
        event: Event
        if change.kind == "advertise":
            event = _advertised(change.registration)
        elif change.kind == "subscribe":
            event = subscribed(change.registration)
        else:
            withdrawn = Unadvertised if change.kind == "unadvertise" else Unsubscribed
            event = withdrawn(change.registration.client, change.registration.id)
        yield Request(begin + change.at_ns, change.registration.broker, event, number)


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
            # The trace identifies it by its number; brokers only pass its id on.
            yield Request(begin + at_ns, broker, Published(client, "", notification), number, row)


def _checked_values(table: pa.Table) -> Iterator[dict[str, Value]]:
    """The rows of a table of notifications as plain values, without nulls."""
    columns = [column.to_pylist() for column in table.columns]
    rows = zip(*columns, strict=True)
    # read once: Arrow makes a new list each time
    names = table.column_names
    if table.num_rows and all(map(_needs_no_check, table.columns)):
        # checked by column instead of by value: no null, no NaN, and Arrow's strings are always valid
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
    """The requests unchanged; reports progress about a thousand times per phase."""
    if on_progress is None:
        yield from requests
        return
    step = max(1, count // 1000)
    for number, request in enumerate(requests):
        if number % step == 0:
            on_progress(name, number, count, simulation.hops)
        yield request
    on_progress(name, count, count, simulation.hops)


def _next_second(now_ns: int) -> int:
    return -(-now_ns // SECOND_NS) * SECOND_NS


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A run creates no reference cycles, and searching millions of small objects for them would double its time.

    What is left of an earlier run is young, and is collected first; searching everything would take longer than a small
    run.
    """
    was_on = gc.isenabled()
    gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
