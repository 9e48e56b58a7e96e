"""Checkers of a run: invariants of every trace, verified by brute force.

A checker reads only the trace and the workload. It shares no code with the index, the routing or the simulator, so a
bug in those cannot hide here. Every checker returns one `Finding`: the number of violations, and the first few cases by
name. A rule that a routing does not promise (`routing.Promises`: only SNR and FDR promise a hop bound, and only FDR
promises order) is still reported and marked as such.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from octopia.language import Filter, overlaps
from octopia.routing import Promises, policy_if_known
from octopia.sim.exactly_once import compare
from octopia.sim.in_order import late_for_one_subscription
from octopia.sim.numbering import first_numbers, registrations
from octopia.sim.run import Run, load_run
from octopia.sim.terms import terms_of
from octopia.topology import Scot
from octopia.trace import moments_of_requests, read_columns
from octopia.workload import Workload

EXAMPLES_MAX = 5
Numbers = npt.NDArray[np.int64]
_PLAIN_PROMISES = Promises()
# Exactly-once delivery, by the names that the pipeline's audit has for violations.
DELIVERY_RULES: Final = {
    "lost": "every notification reaches every interested client",
    "duplicated": "no client gets a notification twice",
    "unwanted": "no client gets an unwanted notification",
}


class Finding(Struct, frozen=True):
    """The result of one checker. `promised`: the routing promises this rule, so any case is a fault."""

    rule: str
    cases: int
    promised: bool
    examples: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.cases or not self.promised


def check_run(workload: Workload, overlay: Scot, folder: Path, *, deliveries: bool = True) -> tuple[Finding, ...]:
    """All checkers on one run, the gravest rule first; without those of `DELIVERY_RULES` if something else compares its
    deliveries."""
    run = load_run(folder)
    trace = _Trace(workload, overlay, folder)
    # A file must not cause an import: a user's own routing is known only if this process has run it.
    policy = policy_if_known(run.spec.routing)
    promises = _PLAIN_PROMISES if policy is None else policy.promises
    return (
        *(_check_deliveries(trace, promises.exactly_once) if deliveries else ()),
        _check_order(trace, promises.in_order),
        *_check_deadlines(trace, run),
        _check_requests(trace),
        _check_lost_messages(trace),
        _check_left_behind(trace, run),
        *_check_civs(trace, None if policy is None else policy.keeps_civ),
        _check_revisits(trace, promises.once_per_broker),
        _check_hop_bound(trace, promises),
    )


class _Trace:
    """The tables of a run, read column by column, and the identities of its clients."""

    def __init__(self, workload: Workload, overlay: Scot, folder: Path) -> None:
        self.workload = workload
        self.overlay = overlay
        self.folder = folder
        self.names = list(workload.clients())
        self.clients = {name: number for number, name in enumerate(self.names)}
        self.first_publication = first_numbers(workload).publication
        wishes = workload.wishes.items()
        # by number, for clients that have one
        self.deadlines_ns = {self.clients[client]: wish.deadline_ns for client, wish in wishes if wish.deadline_ns}
        self.unordered = [self.clients[client] for client, wish in wishes if not wish.ordered]

    def columns(self, table: str, *names: str) -> list[Numbers]:
        return read_columns(self.folder, table, *names)

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
    """Exactly once, and no unwanted deliveries."""
    request, client = trace.columns("deliveries", "request", "client")
    if trace.deadlines_ns:
        # a notification dropped for its age counts as its delivery: once, to a client that wants it
        # (`_check_deadlines`)
        both = zip((request, client), trace.columns("expired", "request", "client"), strict=True)
        request, client = (np.concatenate(columns) for columns in both)
    publication = request.astype(np.int64) - trace.first_publication
    terms = terms_of(trace.workload, trace.folder)
    wrong = compare(trace.workload, trace.clients, publication, client.astype(np.int64), terms)
    before = trace.first_publication * len(trace.clients)
    return [
        _finding(rule, promised, codes + before, trace.pair)
        for rule, codes in zip(DELIVERY_RULES.values(), wrong, strict=True)
    ]


def _check_deadlines(trace: _Trace, run: Run) -> list[Finding]:
    """A client with a deadline gets what its broker sent in time, and nothing else is dropped.

    The age of a notification counts from acceptance by the publisher's broker until the subscriber's broker sends it.
    For live brokers, neither moment is in the trace: we know only that dropped deliveries are too old counted from the
    publisher's call, since deliveries may be in flight for any time.
    """
    if not trace.deadlines_ns:
        return []
    accepted = moments_of_requests(trace.folder, "handled_ns" if run.live is None else "issued_ns")
    limit = np.full(len(trace.names), np.inf)
    limit[list(trace.deadlines_ns)] = list(trace.deadlines_ns.values())
    findings = []
    rules = [
        ("nothing is delivered after its deadline", "deliveries", "delivered_ns", run.spec.model.client.delay_ns),
        ("nothing is dropped before its deadline", "expired", "at_ns", 0 if run.live is None else -_live_error_ns(run)),
    ]
    for rule, table, moment, delay_ns in rules if run.live is None else rules[1:]:
        request, client, at_ns = trace.columns(table, "request", "client", moment)
        late = at_ns - delay_ns - accepted[request] > limit[client]
        wrong = np.flatnonzero(late if table == "deliveries" else ~late)
        codes = request[wrong].astype(np.int64) * len(trace.clients) + client[wrong]
        findings.append(_finding(rule, True, codes, trace.pair))
    return findings


def _live_error_ns(run: Run) -> int:
    """The possible error of a notification's age: brokers count whole milliseconds, and clocks differ."""
    processes = () if run.live is None else run.live.processes
    return 2_000_000 + 2 * max((process.clock_error_ns for process in processes), default=0)


def _check_hop_bound(trace: _Trace, promises: Promises) -> Finding:
    promised = promises.hops_max is not None
    bound = trace.overlay.diameter if promises.hops_max is None else promises.hops_max(trace.overlay)
    request, client, hop = trace.columns("deliveries", "request", "client", "hop")
    far = np.flatnonzero(hop > bound)
    codes = request[far].astype(np.int64) * len(trace.clients) + client[far]
    return _finding(f"a notification takes at most {bound} hops", promised, codes, trace.pair)


def _check_revisits(trace: _Trace, promised: bool) -> Finding:
    """No loops: a notification visits a broker once each time that its host broker sends it.

    A routing with streams resends notifications that a destination requests, and a destination that has heard nothing
    of a publisher requests them after a while, although they may only be late. Copies sent at one moment are sent once.
    """
    kind = pq.read_table(trace.folder / "hops.parquet", columns=["kind"]).column("kind")
    notify = pc.equal(kind, "notify").to_numpy()
    request, receiver, hop, queued = (
        column[notify] for column in trace.columns("hops", "request", "receiver", "hop", "queued_ns")
    )
    brokers = trace.overlay.broker_count
    visits, times = np.unique(request.astype(np.int64) * brokers + receiver, return_counts=True)
    again, times = visits[times > 1], times[times > 1]
    if len(again):
        first = (hop == 1) & np.isin(request, again // brokers)
        sent = Counter(one for one, _ in set(zip(request[first].tolist(), queued[first].tolist(), strict=True)))
        again = again[times > np.array([sent[code] for code in (again // brokers).tolist()])]
    ids = trace.overlay.brokers
    return _finding(
        "a notification comes to a broker once each time it is sent",
        promised,
        again,
        lambda code: f"notification {code // brokers} at {ids[code % brokers]}",
    )


def _check_order(trace: _Trace, promised: bool) -> Finding:
    """Notifications of one publisher reach a client in the order in which they were published.

    Of a routing that promises order, deliveries to a client with changes are judged by subscription (`in_order.py`).
    """
    request, client, at_ns = trace.columns("deliveries", "request", "client", "delivered_ns")
    if trace.unordered:
        # these clients accept notifications in any order
        ordered = ~np.isin(client, trace.unordered)
        request, client, at_ns = request[ordered], client[ordered], at_ns[ordered]
    publisher = trace.workload.publications.publisher[request - trace.first_publication]
    # by client and publisher, in order of receipt; at equal times, in order of publishing
    order = _by_moment(at_ns, request)
    for group in (publisher, client):
        small = group.astype(np.int16) if group.max(initial=0) < 1 << 15 else group
        order = order[np.argsort(small[order], kind="stable")]  # small numbers are sorted without comparisons
    request, client, publisher = request[order], client[order], publisher[order]
    same = (client[1:] == client[:-1]) & (publisher[1:] == publisher[:-1])
    late = np.flatnonzero(same & (request[1:] < request[:-1])) + 1
    if promised:
        late = late_for_one_subscription(trace.workload, trace.folder, request, client, at_ns[order], late)
    codes = request[late].astype(np.int64) * len(trace.clients) + client[late]
    return _finding("notifications of a publisher arrive in order", promised, codes, trace.pair)


def _by_moment(at_ns: Numbers, request: Numbers) -> Numbers:
    """The order by time, then by request; much faster if both fit into one number."""
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
    """A bit is ON exactly if a subscription of that cluster, held at the end, overlaps the advertisement.

    For an unknown routing, only the trace tells whether it keeps bits.
    """
    kept = {row["request"]: row for row in pq.read_table(trace.folder / "civs.parquet").to_pylist()}
    if not (kept if keeps_civ is None else keeps_civ):
        return []
    clusters = trace.overlay.clusters
    advertised, subscribed = ([r for r in kind if r.ended_by is None] for kind in registrations(trace.workload))
    by_cluster: list[dict[Filter, None]] = [{} for _ in range(clusters)]
    for each in subscribed:
        by_cluster[each.registration.broker.cluster][each.registration.filter] = None
    withdrawn = sorted(kept.keys() - {each.begun_by for each in advertised})
    wrong = [f"request {number}: the advertisement was withdrawn and is still there" for number in withdrawn]
    for each in advertised:
        advertisement, row = each.registration, kept.get(each.begun_by)
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
