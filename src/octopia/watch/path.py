"""The path of one notification, assembled from the brokers' records. No I/O and no clock.

A copy that left one broker and reached the next is one hop; a copy without a record at its other end is still in
flight, waits for a link that is down, or went to a broker that does not answer. Times count from its arrival at the
first broker, by the brokers' own clocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Hop:
    """One copy.

    `after_ns` and `arrived_ns`: when it was sent and when it arrived; None if it did not. `up` and `queue` describe the
    link when it was sent. It carries a CIV, names destinations, or follows a tree.
    """

    sender: str
    receiver: str
    after_ns: int
    arrived_ns: int | None
    up: bool
    queue: int
    civ: str = ""
    destinations: tuple[str, ...] = ()
    tree: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Gets:
    """A client that got it, or would. `trouble`: why it may still not get it."""

    client: str
    broker: str
    subscriptions: tuple[str, ...]
    after_ns: int
    queue: int
    trouble: str
    way: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """All hops of a notification in order of time, and its recipients."""

    publisher: str
    sequence: int
    broker: str = ""
    probe: bool = False
    refused: str = ""
    notification: dict[str, Any] | None = None
    hops: tuple[Hop, ...] = ()
    gets: tuple[Gets, ...] = ()
    visited: tuple[tuple[str, int], ...] = field(default=())  # brokers that had it, and when

    @property
    def under_way(self) -> tuple[Hop, ...]:
        """Copies that did not arrive."""
        return tuple(hop for hop in self.hops if hop.arrived_ns is None)

    def to(self, client: str) -> Gets | None:
        """The recipient of this name; None if it is not one."""
        return next((each for each in self.gets if each.client == client), None)


def path_of(publisher: str, sequence: int, records: Sequence[dict[str, Any]]) -> Path:
    """The path according to the brokers' records, in order of time; empty if there are none."""
    records = [r for r in records if r["publisher"] == publisher and r["sequence"] == sequence]
    brokers = {record["broker"] for record in records}
    first = next((record for record in records if record["came_from"] not in brokers), None)
    if first is None:
        return Path(publisher, sequence)
    start, taken = first["time_ns"], {id(first)}
    ways: dict[int, tuple[Hop, ...]] = {id(first): ()}
    hops: list[Hop] = []
    gets: list[Gets] = []
    visited: list[tuple[str, int]] = []
    waiting = [first]
    while waiting:
        record = waiting.pop(0)
        way, after_ns = ways[id(record)], record["time_ns"] - start
        visited.append((record["broker"], after_ns))
        gets += [_gets(record, each, after_ns, way) for each in record["recipients"]]
        for copy in record["copies"]:
            came = next(
                (
                    r
                    for r in records
                    if r["broker"] == copy["to"] and r["came_from"] == record["broker"] and id(r) not in taken
                ),
                None,
            )
            hop = _hop(record["broker"], copy, after_ns, None if came is None else came["time_ns"] - start)
            hops.append(hop)
            if came is not None:
                taken.add(id(came))
                ways[id(came)] = (*way, hop)
                waiting.append(came)
    return Path(
        publisher,
        sequence,
        first["broker"],
        first["probe"],
        first["refused"],
        first["notification"],
        tuple(sorted(hops, key=lambda hop: hop.after_ns)),
        tuple(gets),
        tuple(sorted(visited, key=lambda visit: visit[1])),
    )


def _hop(sender: str, copy: dict[str, Any], after_ns: int, arrived_ns: int | None) -> Hop:
    return Hop(
        sender,
        copy["to"],
        after_ns,
        arrived_ns,
        copy["up"],
        copy["queue"],
        copy["civ"],
        tuple(copy["destinations"]),
        copy["tree"],
        copy["priority"],
    )


def _gets(record: dict[str, Any], each: dict[str, Any], after_ns: int, way: tuple[Hop, ...]) -> Gets:
    return Gets(
        each["client"],
        record["broker"],
        tuple(each["subscriptions"]),
        after_ns,
        each["queue"],
        each["trouble"],
        way,
    )
