"""Judges of a run: what must hold in every trace, worked out by brute force.

Rules of this file: a checker reads the trace and the workload, nothing else; it shares no code with the index, the
routing or the simulator, so that a fault in those cannot hide here. Every checker gives one `Finding`: how often its
rule was broken, and the first few cases, by name. A rule that a routing does not promise (`routing.Promises`: the hop
bound is SNR's, order nobody's) is reported all the same and marked as such.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from octopia.language import Filter, overlaps
from octopia.routing import Promises, policy_if_known
from octopia.sim.exactly_once import compare
from octopia.sim.run import Run, load_run
from octopia.topology import Scot
from octopia.workload import Workload

EXAMPLES_MAX = 5
Numbers = npt.NDArray[np.int64]
_PLAIN_PROMISES = Promises()


class Finding(Struct, frozen=True):
    """What one checker found. `promised`: the routing promises this, so any case is a fault of it."""

    rule: str
    cases: int
    promised: bool
    examples: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.cases or not self.promised


def check_run(workload: Workload, overlay: Scot, folder: Path) -> tuple[Finding, ...]:
    """All checkers on one run."""
    run = load_run(folder)
    trace = _Trace(workload, overlay, folder)
    # a file is no reason to import a module: a routing of one's own is known where this process has run it
    policy = policy_if_known(run.spec.routing)
    promises = _PLAIN_PROMISES if policy is None else policy.promises
    return (
        *_check_deliveries(trace, promises.exactly_once),
        _check_hop_bound(trace, promises),
        _check_revisits(trace, promises.once_per_broker),
        _check_order(trace, promises.in_order),
        _check_requests(trace),
        _check_lost_messages(trace),
        _check_left_behind(trace, run),
        *_check_civs(trace, None if policy is None else policy.keeps_civ),
    )


class _Trace:
    """The tables of a run, read column by column, and who is who in them."""

    def __init__(self, workload: Workload, overlay: Scot, folder: Path) -> None:
        self.workload = workload
        self.overlay = overlay
        self.folder = folder
        self.clients: dict[str, int] = {}
        for registration in (*workload.advertisements, *workload.subscriptions):
            self.clients.setdefault(registration.client, len(self.clients))
        self.names = list(self.clients)
        self.first_publication = len(workload.advertisements) + len(workload.subscriptions)

    def columns(self, table: str, *names: str) -> list[Numbers]:
        read = pq.read_table(self.folder / f"{table}.parquet", columns=list(names))
        return [read.column(name).to_numpy() for name in names]

    def pair(self, code: int) -> str:
        """A (publication, client) pair by name."""
        request, client = divmod(code, len(self.clients))
        publication = request - self.first_publication
        publisher = self.workload.advertisements[int(self.workload.publications.publisher[publication])].client
        return f"notification {request} of {publisher}, client {self.names[client]}"


def _finding(rule: str, promised: bool, cases: Sequence[str] | Numbers, name: object = str) -> Finding:
    examples = tuple(name(int(case)) for case in cases[:EXAMPLES_MAX]) if callable(name) else ()
    return Finding(rule, len(cases), promised, examples)


def _check_deliveries(trace: _Trace, promised: bool) -> list[Finding]:
    """Exactly once, and nobody unwanted."""
    request, client = trace.columns("deliveries", "request", "client")
    publication = request.astype(np.int64) - trace.first_publication
    wrong = compare(trace.workload, trace.clients, publication, client.astype(np.int64))
    before = trace.first_publication * len(trace.clients)
    return [
        _finding("every notification reaches everyone who wants it", promised, wrong.missing + before, trace.pair),
        _finding("nobody gets a notification twice", promised, wrong.twice + before, trace.pair),
        _finding("nobody gets what it did not ask for", promised, wrong.unwanted + before, trace.pair),
    ]


def _check_hop_bound(trace: _Trace, promises: Promises) -> Finding:
    promised = promises.hops_max is not None
    bound = trace.overlay.diameter if promises.hops_max is None else promises.hops_max(trace.overlay)
    request, client, hop = trace.columns("deliveries", "request", "client", "hop")
    far = np.flatnonzero(hop > bound)
    codes = request[far].astype(np.int64) * len(trace.clients) + client[far]
    return _finding(f"a notification takes at most {bound} hops", promised, codes, trace.pair)


def _check_revisits(trace: _Trace, promised: bool) -> Finding:
    """No loops: a notification comes to a broker once."""
    kind = pq.read_table(trace.folder / "hops.parquet", columns=["kind"]).column("kind")
    request, receiver = trace.columns("hops", "request", "receiver")
    notify = pc.equal(kind, "notify").to_numpy()
    brokers = trace.overlay.broker_count
    visits = np.sort(request[notify].astype(np.int64) * brokers + receiver[notify])
    again = np.unique(visits[1:][visits[1:] == visits[:-1]])
    ids = trace.overlay.brokers
    return _finding(
        "a notification comes to a broker once",
        promised,
        again,
        lambda code: f"notification {code // brokers} at {ids[code % brokers]}",
    )


def _check_order(trace: _Trace, promised: bool) -> Finding:
    """Notifications of one publisher reach a client in the order in which they were published."""
    request, client, at_ns = trace.columns("deliveries", "request", "client", "delivered_ns")
    publisher = trace.workload.publications.publisher[request - trace.first_publication]
    # by client and publisher, in order of receipt; where receipt is at one moment, in order of publishing
    order = _by_moment(at_ns, request)
    for group in (publisher, client):
        small = group.astype(np.int16) if group.max(initial=0) < 1 << 15 else group
        order = order[np.argsort(small[order], kind="stable")]  # of small numbers it takes no comparisons
    request, client, publisher = request[order], client[order], publisher[order]
    same = (client[1:] == client[:-1]) & (publisher[1:] == publisher[:-1])
    late = np.flatnonzero(same & (request[1:] < request[:-1])) + 1
    codes = request[late].astype(np.int64) * len(trace.clients) + client[late]
    return _finding("notifications of a publisher arrive in order", promised, codes, trace.pair)


def _by_moment(at_ns: Numbers, request: Numbers) -> Numbers:
    """The order by moment, then by request; where both fit into one number, which is found much faster."""
    bits = int(request.max(initial=0)).bit_length()
    if int(at_ns.max(initial=0)).bit_length() + bits < 64:
        return np.argsort(at_ns << bits | request, kind="stable")
    return np.lexsort((request, at_ns))


def _check_requests(trace: _Trace) -> Finding:
    read = pq.read_table(trace.folder / "requests.parquet", columns=["request", "refused"])
    refused = (
        [f"request {row['request']}: {row['refused']}" for row in read.to_pylist() if row["refused"] is not None]
        if read.column("refused").null_count < read.num_rows
        else []
    )
    return Finding("no request is refused", len(refused), True, tuple(refused[:EXAMPLES_MAX]))


def _check_lost_messages(trace: _Trace) -> Finding:
    read = pq.read_table(trace.folder / "hops.parquet", columns=["fate"]).column("fate")
    fates = read.combine_chunks().cast("string").value_counts().to_pylist()
    lost = {each["values"]: each["counts"] for each in fates if each["values"] != "handled"}
    examples = tuple(f"{fate}: {count:,} messages" for fate, count in sorted(lost.items()))
    return Finding("no message is lost between brokers", sum(lost.values()), True, examples)


def _check_left_behind(trace: _Trace, run: Run) -> Finding:
    """At the end all queues are empty: whatever entered one has left it by then."""
    (left,) = trace.columns("hops", "left_ns")
    end = max((phase.until_ns for phase in run.phases), default=0)
    return Finding("all queues are empty at the end", int(np.count_nonzero(left > end)), True)


def _check_civs(trace: _Trace, keeps_civ: bool | None) -> list[Finding]:
    """A bit is ON exactly where a subscription of that cluster overlaps the advertisement.

    Of a routing that is not known only the trace says whether it keeps any.
    """
    kept = {row["request"]: row for row in pq.read_table(trace.folder / "civs.parquet").to_pylist()}
    if not (kept if keeps_civ is None else keeps_civ):
        return []
    workload, clusters = trace.workload, trace.overlay.clusters
    by_cluster: list[dict[Filter, None]] = [{} for _ in range(clusters)]
    for subscription in workload.subscriptions:
        by_cluster[subscription.broker.cluster][subscription.filter] = None
    wrong = []
    for number, advertisement in enumerate(workload.advertisements):
        row = kept.get(number)
        bits = "".join(
            "1" if any(overlaps(advertisement.filter, filter) for filter in by_cluster[cluster]) else "0"
            for cluster in reversed(range(clusters))
        )
        own = clusters - 1 - advertisement.broker.cluster
        expected = f"{bits[:own]}1{bits[own + 1 :]}"
        if row is None or row["civ"] != expected or (row["interest"] > 0) != (bits[own] == "1"):
            found = "nothing" if row is None else f"{row['civ']} and interest {row['interest']}"
            wrong.append(f"{advertisement.client}: {found}, {expected} is right (own bit by interest: {bits[own]})")
    return [Finding("every bit of every CIV is exact at the end", len(wrong), True, tuple(wrong[:EXAMPLES_MAX]))]
