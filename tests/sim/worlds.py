"""Small workloads for tests of the simulator, written by hand or drawn from a seed."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from octopia.language import parse_filter
from octopia.topology import BrokerId, Scot
from octopia.workload import Change, Publications, Registration, Workload

Place = tuple[str, int]


def registration(client: str, at: Place, filter: str) -> Registration:
    return Registration(client, BrokerId(*at), "1", parse_filter(filter), 0.0)


def workload(
    advertisements: Sequence[tuple[str, Place, str]],
    subscriptions: Sequence[tuple[str, Place, str]],
    publications: Sequence[tuple[int, int, dict[str, Any]]],
) -> Workload:
    """Clients as (name, broker, filter); publications as (moment, number of the publisher, attributes)."""
    inorder = sorted(publications, key=lambda each: each[:2])
    rows = [attributes for _, _, attributes in inorder]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Workload(
        pa.Table.from_pydict({name: [row.get(name) for row in rows] for name in names}),
        tuple(registration(*each) for each in advertisements),
        tuple(registration(*each) for each in subscriptions),
        Publications(
            np.array([at for at, _, _ in inorder], dtype=np.int64),
            np.array([publisher for _, publisher, _ in inorder], dtype=np.int32),
            np.arange(len(rows), dtype=np.int32),
        ),
    )


def drawn(overlay: Scot, seed: int, *, publishers: int, subscribers: int, notifications: int, span_ns: int) -> Workload:
    """Random clients and moments; each subscription wants a range of one attribute."""
    draw = random.Random(seed)
    advertisements = [(f"p{i}", draw.choice(overlay.brokers), "x >= 0 and y >= 0") for i in range(publishers)]
    subscriptions = []
    for i in range(subscribers):
        low = draw.randrange(90)
        wanted = f"{draw.choice('xy')} >= {low} and {draw.choice('xy')} < {low + draw.randrange(5, 60)}"
        subscriptions.append((f"s{i}", draw.choice(overlay.brokers), wanted))
    publications = [
        (draw.randrange(span_ns), draw.randrange(publishers), {"x": draw.randrange(100), "y": draw.randrange(100)})
        for _ in range(notifications)
    ]
    return workload(advertisements, subscriptions, publications)


def changing(overlay: Scot, seed: int, *, changes: int, span_ns: int, **clients: int) -> Workload:
    """The same, with changes at random moments of clients that register, some several times, and withdraw."""
    world = drawn(overlay, seed, span_ns=span_ns, **clients)
    draw = random.Random(seed + 1)
    held = {
        kind: list(first) for kind, first in (("advertise", world.advertisements), ("subscribe", world.subscriptions))
    }
    listed: list[Change] = []
    for number, at_ns in enumerate(sorted(draw.randrange(span_ns) for _ in range(changes))):
        kind: Any = draw.choice(("advertise", "subscribe", "subscribe"))
        if draw.random() < 0.5 and held[kind]:
            listed.append(Change(at_ns, cast("Any", f"un{kind}"), held[kind].pop(draw.randrange(len(held[kind])))))
        else:
            # an id may come again once it was withdrawn, another client's at any time
            like = draw.choice(world.advertisements if kind == "advertise" else world.subscriptions)
            taken = {each.id for each in held[kind] if each.client == like.client}
            fresh = next(str(n) for n in range(1, number + 3) if str(n) not in taken)
            other = draw.choice(world.subscriptions).filter if kind == "subscribe" else like.filter
            held[kind].append(replace(like, id=fresh, filter=other))
            listed.append(Change(at_ns, kind, held[kind][-1]))
    return replace(world, changes=tuple(listed))


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return read
