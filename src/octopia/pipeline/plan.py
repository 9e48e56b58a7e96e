"""`octopia plan` on Spark: from a trace to proposals proved by replay.

`plan_queries` reads the first part of every publisher's notifications from the trace. Candidates (one for each number
of clusters and each kind of change) and replays are Spark tasks. Replays play the rest of the notifications, which no
candidate has seen, and are checked like every run. The workload of the replays is written to `DIR/.workload`, so all
machines must see DIR. The same input and seed give the same plan.
"""

import fnmatch
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct

from octopia.errors import InputError, PipelineError
from octopia.pipeline.plan_queries import costs_of, flows_of, pairs_of, set_up
from octopia.pipeline.plan_source import SCRATCH, PlanSource, parquet_bytes, read_source
from octopia.pipeline.settings import SparkSettings
from octopia.pipeline.storage import Store, open_store
from octopia.pipeline.tasks import Task, TaskEnd, run_tasks
from octopia.pipeline.views import session_with
from octopia.pipeline.worker_files import read_arrow
from octopia.planning import (
    Candidate,
    CandidateOrder,
    Measured,
    Plan,
    Proposal,
    Traffic,
    Tried,
    cost_of,
    divisors,
    link_count,
    make_traffic,
    merged,
    numbers_by_client,
    overlay_toml,
    paths_of,
    plan_page,
    propose,
    rejected_of,
    relations_of,
    replay,
    slots_of,
    split,
    work_out,
    zones_of,
)
from octopia.routing import policy_named
from octopia.sim import RunSpec
from octopia.topology import BrokerId, Scot
from octopia.workload import TABLE_SCHEMAS, Workload, workload_from_tables, workload_tables

if TYPE_CHECKING:
    from octopia.pipeline.session import Session

BROKERS_MAX: Final = 1_000
CONTROLS: Final = 3
_WORKLOAD: Final = ".workload"
BEFORE: Final = "before"
LINKS, FEW, CLIENTS, BOTH, MERGE, NEAR = "links", "few", "clients", "both", "merge", "near"
FEW_SHARE: Final = 0.1
_WORDS: Final = {
    LINKS: "brokers keep their clients and take other places in another tree",
    FEW: f"the overlay stays, {FEW_SHARE:.0%} of the clients move to other brokers",
    CLIENTS: "the overlay stays, clients move to other brokers",
    BOTH: "another tree, other places of brokers, and clients move",
}
# Called with the step and the share of it that is done.
OnStep = Callable[[str, float], None]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PlanOptions:
    """What may change, and how much. None means a bound taken from the current overlay.

    No broker gets more than `clients_max` clients (default: as the fullest broker now), no overlay more than
    `links_max` links (default: twice as many as now) or fewer than `clusters_min` clusters (default: as many as now).
    Clients whose names match one of `keep` stay. At most `moves_max` clients move. Filters with a similarity of at
    least `likeness_min` are merged.
    """

    system: str | None = None
    plan_share: float = 0.5
    clients_max: int | None = None
    links_max: int | None = None
    clusters_min: int | None = None
    moves_max: int | None = None
    keep: tuple[str, ...] = ()
    likeness_min: float = 0.9
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("plan_share", "likeness_min"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}: give a share between 0 and 1")
        for name, least in (("clients_max", 1), ("links_max", 0), ("clusters_min", 1), ("moves_max", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}: give at least {least}")


class ReplayOrder(Struct, frozen=True):
    """A proposal to play, and the location of the workload."""

    place: str
    proposal: Proposal
    run: RunSpec


def candidate_task(payload: bytes) -> bytes:
    """In a worker: compute a candidate."""
    return msgspec.msgpack.encode(work_out(msgspec.msgpack.decode(payload, type=CandidateOrder)))


def replay_task(payload: bytes) -> bytes:
    """In a worker: play a proposal."""
    order = msgspec.msgpack.decode(payload, type=ReplayOrder)
    tables = {name: read_arrow(order.place, f"{_WORKLOAD}/{name}") for name in TABLE_SCHEMAS}
    # live clients publish what they like
    attributes = tables["notifications"].drop_columns(["row"]).schema
    workload = workload_from_tables(tables, attributes)
    return msgspec.msgpack.encode(replay(workload, order.proposal, order.run))


def make_plan(
    place: str | PathLike[str],
    out: str | PathLike[str],
    options: PlanOptions | None = None,
    *,
    settings: SparkSettings | None = None,
    on_step: OnStep = lambda step, share: None,
) -> Plan:
    """Plan for the trace at a place; the report and the files go to `out`."""
    from octopia.pipeline.whole import LazySession

    with LazySession(settings or SparkSettings()) as sessions:
        on_step("reading", 0.0)
        stores: list[Store] = []

        def opened() -> Store:
            # not before there is something to plan for: opening it makes the folder
            stores.append(open_store(out, lambda: sessions().spark))
            return stores[-1]

        chosen = options or PlanOptions()
        try:
            source = read_source(open_store(place, lambda: sessions().spark), chosen.system, opened)
            _check(source)
            store = stores[0] if stores else opened()
            session = sessions()
            with session.errors("plan"):
                plan = _Planner(session, source, store, chosen, on_step).plan()
        finally:
            for each in stores:
                each.remove(SCRATCH)
        _write(store, plan)
        return plan


def _check(source: PlanSource) -> None:
    if source.overlay.broker_count > BROKERS_MAX:
        raise InputError(f"{source.overlay.broker_count:,} brokers: a plan is made for at most {BROKERS_MAX:,}")
    if not len(source.workload.publications):
        raise InputError(f"{source.place}: nothing was published, so there is nothing to plan for")


class _Planner:
    """One plan: each method is a step of it."""

    def __init__(
        self, session: "Session", source: PlanSource, store: Store, options: PlanOptions, on_step: OnStep
    ) -> None:
        self._session = session
        self._source = source
        self._store = store
        self._options = options
        self._on_step = on_step
        self._clients = source.workload.clients()
        self._slots = slots_of(source.overlay, list(self._clients.values()))
        fullest = max(Counter(self._slots).values())
        self._room = fullest if options.clients_max is None else options.clients_max
        if self._room * source.overlay.broker_count < len(self._clients):
            raise InputError(
                f"clients_max is {self._room}: {source.overlay.broker_count} brokers then take "
                f"{self._room * source.overlay.broker_count:,} clients, and there are {len(self._clients):,}"
            )

    def plan(self) -> Plan:
        source, options = self._source, self._options
        spark = session_with(self._session.spark, source.urls, source.system)
        set_up(spark, options.plan_share)
        self._on_step("flows", 0.0)
        flows, notifications, copies = flows_of(spark)
        traffic = make_traffic(source.workload, flows, notifications)
        self._on_step("costs of clients", 0.3)
        publishers, subscribers = costs_of(spark)
        self._on_step("filters", 0.6)
        relations = relations_of(source.workload.subscriptions)
        pairs = pairs_of(spark, numbers_by_client(relations, source.workload.subscriptions))
        before = self._before(traffic)
        tried, proposals = self._candidates(traffic)
        rest = split(source.workload, options.plan_share)[1]
        with self._stored(rest):
            measured = self._replays([before, *proposals])
            best = _best(proposals, measured)
            merges = self._merges(best or before, merged(relations, pairs, options.likeness_min))
            proposals += merges
            measured += self._replays(merges)
            controls = self._replays(self._controls(best))
            others = self._under_other_routings([before] if best is None else [before, best])
        return Plan(
            source.place,
            source.run.routing,
            options.seed,
            options.plan_share,
            source.overlay.broker_count,
            self._room,
            notifications,
            len(rest.publications),
            len(traffic.flows),
            traffic.kept,
            before.predicted_messages or 0,
            copies,
            tuple(publishers),
            tuple(subscribers),
            relations,
            tuple(pairs),
            options.likeness_min,
            tuple(tried),
            before,
            tuple(proposals),
            "" if best is None else best.name,
            tuple(measured),
            tuple(controls),
            tuple(others),
        )

    def _before(self, traffic: Traffic) -> Proposal:
        overlay = self._source.overlay
        cost = cost_of(traffic, paths_of(overlay), overlay.clusters, self._slots)
        made = self._with_places(BEFORE, "as it is", overlay, list(self._clients.values()))
        covering = self._source.run.covering
        return msgspec.structs.replace(
            made,
            predicted_messages=cost.messages,
            predicted_hops=cost.hops,
            covering="none" if covering is UNSET else covering,
        )

    def _with_places(self, name: str, words: str, overlay: Scot, brokers: Sequence[BrokerId]) -> Proposal:
        places = {
            client: (broker.region, broker.cluster) for client, broker in zip(self._clients, brokers, strict=True)
        }
        return Proposal(name, words, overlay.tree.nodes, overlay.tree.edges, overlay.clusters, places)

    # -- candidates

    def _candidates(self, traffic: Traffic) -> tuple[list[Tried], list[Proposal]]:
        """All allowed shapes with brokers in other places; the best of them also with clients elsewhere."""
        overlay, tried = self._source.overlay, self._shapes()
        allowed = [each.clusters for each in tried if not each.left_out]
        orders = {f"{LINKS}-{k}": self._order(traffic, k, brokers=True, clients=False) for k in allowed}
        orders[CLIENTS] = self._order(traffic, overlay.clusters, brokers=False, clients=True)
        few = math.ceil(FEW_SHARE * len(self._clients))
        most = few if self._options.moves_max is None else min(few, self._options.moves_max)
        orders[FEW] = msgspec.structs.replace(orders[CLIENTS], moves_max=most)
        orders |= {f"{BOTH}-{k}": self._order(traffic, k, brokers=True, clients=True) for k in allowed}
        payloads = {name: msgspec.msgpack.encode(order) for name, order in orders.items()}
        found = self._tasks("candidates", candidate_task, payloads, Candidate)
        proposals = []
        for kind in (LINKS, FEW, CLIENTS, BOTH):
            mine = [candidate for name, candidate in found.items() if name.partition("-")[0] == kind]
            if mine:
                best = min(mine, key=lambda candidate: (candidate.weight, candidate.clusters))
                proposals.append(propose(kind, _WORDS[kind], best, overlay, self._clients))
        costs = {name: (candidate.messages, candidate.hops) for name, candidate in found.items()}
        shown = []
        for each in tried:
            messages, hops = costs.get(f"{LINKS}-{each.clusters}", (None, None))
            shown.append(msgspec.structs.replace(each, messages=messages, hops=hops))
        return shown, proposals

    def _shapes(self) -> list[Tried]:
        overlay, options = self._source.overlay, self._options
        brokers = overlay.broker_count
        least = overlay.clusters if options.clusters_min is None else options.clusters_min
        most = 2 * link_count(brokers, overlay.clusters) if options.links_max is None else options.links_max
        found = []
        for k in divisors(brokers):
            links, reason = link_count(brokers, k), ""
            if self._source.run.sites is not UNSET:
                reason = "brokers stay at their sites"
            elif self._source.run.model.links is not UNSET:
                reason = "the model has settings for single links"
            elif k < least:
                reason = f"fewer than {least} clusters"
            elif links > most:
                reason = f"more than {most:,} links"
            found.append(Tried(k, brokers // k, links, left_out=reason))
        return found

    def _order(self, traffic: Traffic, clusters: int, *, brokers: bool, clients: bool) -> CandidateOrder:
        overlay, options = self._source.overlay, self._options
        paths = paths_of(overlay)
        sites = self._source.run.sites
        zones = () if sites is UNSET else zones_of(overlay, {each: sites.site_of(each) for each in overlay.brokers})
        fixed = [
            number
            for number, client in enumerate(traffic.clients)
            if any(fnmatch.fnmatchcase(client, pattern) for pattern in options.keep)
        ]
        return CandidateOrder(
            traffic,
            paths.regions,
            paths.edges,
            overlay.clusters,
            self._slots,
            clusters,
            brokers,
            clients,
            self._room,
            tuple(fixed),
            options.moves_max,
            zones,
            options.seed,
        )

    def _merges(self, best: Proposal, filters: dict[str, str]) -> list[Proposal]:
        """The best proposal with covering, and with similar filters made equal, if the routing supports covering."""
        if "host" not in policy_named(self._source.run.routing).covering:
            return []
        covered = msgspec.structs.replace(
            best, name=MERGE, words=f"{best.name}, and covered subscriptions stay at their broker", covering="host"
        )
        if not filters:
            return [covered]
        near = msgspec.structs.replace(
            covered,
            name=NEAR,
            words=f"{MERGE}, and {len(filters):,} nearly equal subscriptions get the union of two filters",
            filters=filters,
        )
        return [covered, near]

    # -- replays

    @contextmanager
    def _stored(self, workload: Workload) -> Iterator[None]:
        """The workload of the replays, in a place that the tasks can read."""
        for name, table in workload_tables(workload).items():
            self._store.write_bytes(f"{_WORKLOAD}/{name}/part.parquet", parquet_bytes(table))
        try:
            yield
        finally:
            self._store.remove(_WORKLOAD)

    def _replays(self, proposals: Sequence[Proposal]) -> list[Measured]:
        """Play each under the routing of the trace."""
        return self._played({each.name: (each, self._source.run) for each in proposals})

    def _under_other_routings(self, proposals: Sequence[Proposal]) -> list[Measured]:
        orders = {}
        for routing in self._source.other_routings:
            # not every routing supports covering
            other = msgspec.structs.replace(self._source.run, routing=routing, covering=UNSET)
            for each in proposals:
                orders[f"{each.name} {routing}"] = msgspec.structs.replace(each, covering="none"), other
        return self._played(orders)

    def _played(self, orders: Mapping[str, tuple[Proposal, RunSpec]]) -> list[Measured]:
        place = self._store.url("").rstrip("/")
        payloads = {name: msgspec.msgpack.encode(ReplayOrder(place, *order)) for name, order in orders.items()}
        return list(self._tasks("replays", replay_task, payloads, Measured).values())

    def _controls(self, best: Proposal | None) -> list[Proposal]:
        """Clients at random brokers, with the same bound: on the current overlay, and on the proposed one."""
        overlays = {"present overlay": self._source.overlay}
        if best is not None:
            overlays["proposed overlay"] = best.overlay
        made = []
        for title, overlay in overlays.items():
            for number in range(1, CONTROLS + 1):
                chance = random.Random(f"control/{self._options.seed}/{title}/{number}")  # noqa: S311  no secret
                places = [broker for broker in overlay.brokers for _ in range(self._room)]
                drawn = chance.sample(places, len(self._clients))
                made.append(self._with_places(f"random {number}, {title}", "clients at random", overlay, drawn))
        return made

    def _tasks(
        self, step: str, function: Callable[[bytes], bytes], payloads: dict[str, bytes], answer: type[Answer]
    ) -> dict[str, Answer]:
        if not payloads:
            return {}
        done = 0
        self._on_step(f"{step}: 0 of {len(payloads)}", 0.0)

        def ended(end: TaskEnd) -> None:
            nonlocal done
            done += 1
            self._on_step(f"{step}: {done} of {len(payloads)}", done / len(payloads))

        tasks = [Task(name, payload) for name, payload in payloads.items()]
        ends = run_tasks(self._session, function, tasks, on_end=ended)
        failed = [f"{end.name}: {end.error}" for end in ends.values() if end.answer is None]
        if failed:
            raise PipelineError(f"{len(failed)} of {len(payloads)} {step} failed: {'; '.join(sorted(failed)[:3])}")
        return {name: msgspec.msgpack.decode(ends[name].answer or b"", type=answer) for name in payloads}


def _best(proposals: Sequence[Proposal], measured: Sequence[Measured]) -> Proposal | None:
    """The best by the cost model, among those that the replays do not reject."""
    rejected = rejected_of(measured)
    left = [each for each in proposals if each.name not in rejected]
    return min(left, key=lambda each: (each.predicted_messages or 0, each.predicted_hops or 0), default=None)


def _write(store: Store, plan: Plan) -> None:
    """Write the page, everything as JSON, and for each accepted proposal an overlay file and the moves."""
    store.write_bytes("index.html", plan_page(plan).encode())
    text = msgspec.json.format(msgspec.json.encode(plan, order="deterministic"), indent=1)
    store.write_bytes("plan.json", text)
    rejected = plan.rejected
    for proposal in plan.proposals:
        if proposal.name in rejected:
            # of an earlier plan in this folder
            store.remove(f"{proposal.name}.toml")
            store.remove(f"{proposal.name}-clients.csv")
            continue
        store.write_bytes(f"{proposal.name}.toml", overlay_toml(proposal, plan.routing).encode())
        rows = [
            f"{client},{plan.before.brokers[client][0]}.{plan.before.brokers[client][1]},{region}.{cluster}"
            for client, (region, cluster) in proposal.brokers.items()
        ]
        store.write_bytes(f"{proposal.name}-clients.csv", "\n".join(["client,before,after", *rows, ""]).encode())
