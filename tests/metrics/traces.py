"""Traces written by hand or by chance, for the tests of metrics: no simulator, no broker."""

from pathlib import Path
from random import Random
from typing import Any

from octopia.trace import TABLES, TraceWriter

S = 10**9
Rows = list[dict[str, Any]]
Trace = dict[str, Rows]


def write_trace(folder: Path, trace: Trace) -> None:
    """The rows as a trace; columns that a row leaves out are null."""
    with TraceWriter(folder) as writer:
        for table, schema in TABLES.items():
            rows = trace.get(table, [])
            if rows:
                writer.write(table, {name: [row.get(name) for row in rows] for name in schema.names})


def hop(
    kind: str, request: int, link: tuple[int, int], times: tuple[int, int, int, int | None], **more: Any
) -> dict[str, Any]:
    """A row of `hops`; times are queued, left, arrived, handled."""
    queued, left, arrived, handled = times
    row = {"kind": kind, "request": request, "sender": link[0], "receiver": link[1], "hop": 1, "queue": 0}
    row |= {"queued_ns": queued, "left_ns": left, "arrived_ns": arrived, "handled_ns": handled}
    return {**row, "fate": "handled" if handled is not None else "lost", **more}


def random_trace(seed: int) -> Trace:
    """Rows that keep to the schema and to nothing else: metrics must not need more."""
    random = Random(seed)
    brokers, clients = 6, 9
    names = [f"c{number}" for number in range(clients - 1)] + ["high-rate"]
    if seed % 3 == 0:
        names[4] = "high-rate-2"
    kinds = ["advertise"] * 6 + ["subscribe"] * 8 + ["publish"] * 40
    # changes come later, as random as the rest
    kinds += random.choices(["advertise", "unadvertise", "subscribe", "unsubscribe"], k=12)
    requests: Rows = []
    for number, kind in enumerate(kinds):
        client = random.randrange(clients) if random.random() < 0.6 else clients - 1
        issued = number * 50_000_000 + random.randrange(40_000_000)
        lost = random.random() < 0.05
        handled = None if lost else issued + random.randrange(1, 10**9)
        row: dict[str, Any] = {"request": number, "kind": kind, "client": client, "broker": client % brokers}
        row |= {"issued_ns": issued}
        requests.append({**row, "handled_ns": handled, "refused": "no" if random.random() < 0.05 else None})
    hops: Rows = []
    of_kind = {"advertise": ["advertise"], "subscribe": ["subscribe", "cib_set"], "publish": ["notify"]}
    of_kind |= {"unadvertise": ["unadvertise"], "unsubscribe": ["unsubscribe", "cib_clear"]}
    for row in requests:
        for _ in range(random.randrange(9)):
            queued = row["issued_ns"] + random.randrange(10**9)
            left = queued + random.randrange(10**8)
            arrived = left + random.randrange(10**6)
            handled = None if random.random() < 0.1 else arrived + random.randrange(10**7)
            sender = row["broker"] if random.random() < 0.5 else random.randrange(brokers)
            link = (sender, (sender + random.randrange(1, brokers)) % brokers)
            kind = random.choice(of_kind[row["kind"]])
            hops.append(hop(kind, row["request"], link, (queued, left, arrived, handled), queue=random.randrange(20)))
    # drawn apart, so that the rest of a trace is what it was before there were cases
    cases = Random(seed + 1000)
    for row in hops:
        if row["kind"] == "notify" and cases.random() < 0.7:
            row["routing_case"] = cases.choice(["0", "i", "ii", "iv", "down"])
            row["civ"] = cases.choice([None, None, "00100", "11010"])
    for _ in range(random.randrange(5)):
        # what no request led to
        queued = random.randrange(10**9)
        times = (queued, queued + 5, queued + 9, queued + 20)
        hops.append(hop(random.choice(["confirm", "link_news", "waits"]), -1, (0, random.randrange(1, brokers)), times))
    deliveries: Rows = []
    for row in requests:
        if row["kind"] == "publish":
            for client in random.sample(range(clients), random.randrange(clients)):
                at = row["issued_ns"] + random.randrange(2 * 10**9)
                got = {"request": row["request"], "client": client, "broker": client % brokers}
                deliveries.append({**got, "hop": random.randrange(7), "delivered_ns": at, "subscriptions": 1})
    queues = [
        {"at_ns": at * S, "sender": one, "receiver": other, "queue": random.randrange(1, 50), "entered": 0, "left": 0}
        for at in range(5)
        for one in range(brokers)
        for other in range(brokers)
        if one != other and random.random() < 0.5
    ]
    sizes = [
        {"phase": phase, "at_ns": at, "broker": broker, "srt": random.randrange(9), "prt": random.randrange(99)}
        for at, phase in enumerate(("advertise", "subscribe", "publish"))
        for broker in range(brokers)
    ]
    return {
        "hops": hops,
        "deliveries": deliveries,
        "requests": requests,
        "queues": queues,
        "table_sizes": sizes,
        "brokers": [
            {
                "broker": n,
                "region": f"r{n // 3}",
                "cluster": n % 3,
                "inner": False,
                "site": random.choice(("x", "y", None)),
            }
            for n in range(brokers)
        ],
        "clients": [{"client": n, "name": name, "broker": n % brokers} for n, name in enumerate(names)],
    }
