"""A recording of live brokers as the input of a plan: its trace, and a workload that does the same again.

The trace is that of `octopia.trace.assemble`. The workload has the recorded clients at their brokers, their
subscriptions and advertisements, and the recorded notifications at their times:

- All registrations that were in force while something was published count as in force throughout.
- Notifications keep the attributes that some filter tests; the others decide nothing.
- A client whose registrations are no longer in the logs, because it left long ago, is left out of both.

The newest `WINDOW_FACTS_MAX` facts are used, as a trace of more does not fit the driver.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from octopia.errors import InputError
from octopia.hints import shortened
from octopia.language import parse_filter
from octopia.pipeline.live import WINDOW_FACTS_MAX
from octopia.pipeline.recordings import newest_facts, read_log
from octopia.sim import RunSpec, load_model
from octopia.topology import BrokerId, Scot
from octopia.trace import RecordedOverlay, assemble, content_of, read_overlay, subscriptions_between
from octopia.workload import Publications, Registration, Workload

# What simulated brokers take is what live brokers on one machine were measured to take.
MODEL: Final = "live"
_FOREVER_NS: Final = 1 << 62
# A float holds every integer up to this.
_EXACT_MAX: Final = 1 << 53
_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
# Column of a stored notification that is not an attribute.
_ROW: Final = "row"


class Recorded(NamedTuple):
    """A trace, the workload it is a trace of, the overlay and the run."""

    tables: dict[str, pa.Table]
    workload: Workload
    overlay: Scot
    run: RunSpec


def read_recorded(folder: Path) -> Recorded:
    """Read a folder of `octopia serve --record`; raises `InputError` if a plan cannot be made from it."""
    about = read_overlay(folder)
    facts, since_ns = newest_facts(folder, WINDOW_FACTS_MAX)
    subscribed, advertised = read_log([folder]), read_log([folder], "advertised")
    found = assemble(facts, pa.concat_tables([subscribed, advertised]), since_ns, _FOREVER_NS)
    if not found["requests"].num_rows:
        raise InputError(f"{folder}: nothing was published while it was recorded, so there is nothing to plan for")
    overlay = about.scot
    brokers = _brokers(found, overlay, folder)
    times = [since_ns + ns for ns in pc.min_max(found["requests"]["issued_ns"]).as_py().values()]
    span = times[0], times[1] + 1
    places = {row["name"]: brokers[row["broker"]] for row in found["clients"].to_pylist()}
    subscriptions = _registrations(subscriptions_between(subscribed.to_pylist(), *span), places)
    advertisements = _registrations(subscriptions_between(advertised.to_pylist(), *span), places)
    tables = _known(found, {each.client for each in (*subscriptions, *advertisements)}, _clients(advertisements))
    if not tables["requests"].num_rows:
        raise InputError(f"{folder}: no publisher has an advertisement there; record again with octopia serve --record")
    used = {name for each in (*subscriptions, *advertisements) for name in each.filter.attributes}
    workload = _workload(tables, found["published"], advertisements, subscriptions, used)
    return Recorded(tables, workload, overlay, _run(about))


def _run(about: RecordedOverlay) -> RunSpec:
    return RunSpec(
        routing=about.routing,
        model=load_model(MODEL),
        tau=about.tau,
        window_s=about.window_s,
        sites=UNSET if about.sites is None else about.sites,
        covering=UNSET if about.covering == "none" else about.covering,
    )


def _brokers(found: Mapping[str, pa.Table], overlay: Scot, folder: Path) -> dict[int, BrokerId]:
    brokers = {row["broker"]: BrokerId(row["region"], row["cluster"]) for row in found["brokers"].to_pylist()}
    strange = [str(broker) for broker in brokers.values() if broker not in overlay]
    if strange:
        raise InputError(
            f"{folder} has facts of broker {strange[0]}, which is not in its overlay.json: record each overlay in a "
            "folder of its own"
        )
    return brokers


def _registrations(rows: Iterable[Mapping[str, Any]], places: Mapping[str, BrokerId]) -> tuple[Registration, ...]:
    """Each once, however often its client came back; with ids that no other client has."""
    made: dict[tuple[str, str], Registration] = {}
    for row in rows:
        client, id = row["client"], row["id"]
        made[client, id] = Registration(client, places[client], f"{client}/{id}", parse_filter(row["filter"]), 0.0)
    return tuple(made.values())


def _clients(registrations: Iterable[Registration]) -> set[str]:
    return {each.client for each in registrations}


def _known(found: Mapping[str, pa.Table], clients: set[str], publishers: set[str]) -> dict[str, pa.Table]:
    """The trace without what clients did, or got, whose registrations are not known."""
    numbers = {row["name"]: row["client"] for row in found["clients"].to_pylist()}
    requests = _among(found["requests"], "client", [numbers[name] for name in publishers])
    published = requests["request"].unique()
    deliveries = _among(
        _among(found["deliveries"], "request", published), "client", [numbers[name] for name in clients]
    )
    return {
        "requests": requests,
        "deliveries": deliveries,
        "hops": _among(found["hops"], "request", published),
        "clients": _among(found["clients"], "name", sorted(clients)),
        "brokers": found["brokers"],
    }


def _among(table: pa.Table, column: str, values: Any) -> pa.Table:
    known = values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(column).type)
    return table.filter(pc.is_in(table[column], value_set=known))


def _workload(
    tables: Mapping[str, pa.Table],
    published: pa.Table,
    advertisements: Sequence[Registration],
    subscriptions: Sequence[Registration],
    used: set[str],
) -> Workload:
    requests = tables["requests"].filter(pc.is_null(tables["requests"]["refused"])).sort_by("request")
    contents = dict(zip(published["request"].to_pylist(), published["content"].to_pylist(), strict=True))
    # 1, 1.0 and true are three values, and equal in Python
    rows: dict[tuple[tuple[str, type, Any], ...], int] = {}
    row_of = []
    for request in requests["request"].to_pylist():
        content = content_of(contents[request])
        kept = tuple((name, type(value), value) for name, value in sorted(content.items()) if name in used)
        row_of.append(rows.setdefault(kept, len(rows)))
    names = dict(zip(tables["clients"]["client"].to_pylist(), tables["clients"]["name"].to_pylist(), strict=True))
    first = {each.client: number for number, each in reversed(list(enumerate(advertisements)))}
    at_ns = np.array(requests["issued_ns"].to_pylist(), dtype=np.int64)
    at_ns -= at_ns.min(initial=at_ns[0] if len(at_ns) else 0)
    publisher = np.array([first[names[client]] for client in requests["client"].to_pylist()], dtype=np.int32)
    order = np.lexsort((publisher, at_ns))
    publications = Publications(at_ns[order], publisher[order], np.array(row_of, dtype=np.int32)[order])
    notifications = notifications_table([{name: value for name, _, value in row} for row in rows])
    return Workload(notifications, tuple(advertisements), tuple(subscriptions), publications)


def notifications_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Notifications as columns, an absent attribute as null; an attribute must have values of one type."""
    names = sorted({name for row in rows for name in row})
    if _ROW in names:
        raise InputError(f"the attribute {_ROW!r} cannot be planned with: a table of notifications has such a column")
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    return pa.table(columns) if columns else pa.table({"none": pa.nulls(len(rows), pa.bool_())})


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float} and all(abs(value) <= _EXACT_MAX for value in values if isinstance(value, int)):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        told = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"attribute {shortened(name)!r} has values of several types ({told}): a plan needs one")
    try:
        return pa.array(values, _TYPES[kinds.pop()])
    except OverflowError:
        raise InputError(
            f"attribute {shortened(name)!r} has integers beyond 64 bits, with which a plan cannot be made"
        ) from None
