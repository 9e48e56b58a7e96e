"""A workload as five Arrow tables, and back: its storage form.

The way there and back gives an equal workload, whatever the order in which rows come back, so every
table has the columns that order it. Filters are SQL text; texts that repeat are parsed once.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from octopia.errors import InputError
from octopia.language import Filter, parse_filter
from octopia.topology import BrokerId
from octopia.workload.notifications import NOTIFICATIONS_SCHEMA
from octopia.workload.workload import Change, Publications, Registration, Workload


def _schema(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


def _numbered(attributes: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("row", pa.int32(), nullable=False), *attributes])


_CLIENT: Final = (
    ("client", pa.string()),
    ("region", pa.string()),
    ("cluster", pa.int32()),
    ("id", pa.string()),
    ("filter", pa.string()),
    ("selectivity", pa.float64()),
)
# By name; the first columns, up to those in `_ORDERS`, say the order of the rows.
TABLE_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "publishers": _schema(("publisher", pa.int32()), *_CLIENT, ("high_rate", pa.bool_())),
    "subscribers": _schema(("subscriber", pa.int32()), *_CLIENT),
    "publications": _schema(("at_ns", pa.int64()), ("publisher", pa.int32()), ("row", pa.int32())),
    "notifications": _numbered(NOTIFICATIONS_SCHEMA),
    "changes": _schema(("change", pa.int32()), ("at_ns", pa.int64()), ("kind", pa.string()), *_CLIENT),
}
_ORDERS: Final = {
    "publishers": ("publisher",),
    "subscribers": ("subscriber",),
    "publications": ("at_ns", "publisher"),
    "notifications": ("row",),
    "changes": ("change",),
}


def workload_tables(workload: Workload) -> dict[str, pa.Table]:
    """The tables `publishers`, `subscribers`, `publications`, `notifications` and `changes`, in `TABLE_SCHEMAS`.

    Notifications of another kind than quotes keep their own columns.
    """
    if workload.wishes:
        raise InputError("a workload with priorities or deadlines is made where it is used; it cannot be stored")
    publishers = [
        {"publisher": n, **_row(registration), "high_rate": n in workload.high_rate}
        for n, registration in enumerate(workload.advertisements)
    ]
    subscribers = [{"subscriber": n, **_row(registration)} for n, registration in enumerate(workload.subscriptions)]
    changes = [
        {"change": n, "at_ns": change.at_ns, "kind": change.kind, **_row(change.registration)}
        for n, change in enumerate(workload.changes)
    ]
    published = workload.publications
    rows = pa.array(np.arange(workload.notifications.num_rows, dtype=np.int32))
    notifications = workload.notifications.add_column(0, "row", rows)
    times = [pa.array(column) for column in (published.at_ns, published.publisher, published.row)]
    return {
        "publishers": pa.Table.from_pylist(publishers, TABLE_SCHEMAS["publishers"]),
        "subscribers": pa.Table.from_pylist(subscribers, TABLE_SCHEMAS["subscribers"]),
        "publications": pa.Table.from_arrays(times, schema=TABLE_SCHEMAS["publications"]),
        "notifications": notifications.cast(_numbered(workload.notifications.schema)),
        "changes": pa.Table.from_pylist(changes, TABLE_SCHEMAS["changes"]),
    }


def workload_from_tables(tables: Mapping[str, pa.Table], attributes: pa.Schema = NOTIFICATIONS_SCHEMA) -> Workload:
    """The workload in these tables; their rows may be in any order. `attributes` are those of notifications."""
    schemas = {**TABLE_SCHEMAS, "notifications": _numbered(attributes)}
    ordered = {name: _ordered(tables, name, schema) for name, schema in schemas.items()}
    parsed: dict[str, Filter] = {}
    publishers = ordered["publishers"]
    fast = np.flatnonzero(publishers["high_rate"].to_numpy(zero_copy_only=False)).tolist()
    at_ns, publisher, row = (
        np.array(ordered["publications"][name].to_numpy()) for name in TABLE_SCHEMAS["publications"].names
    )
    changes = ordered["changes"]
    moments, kinds = (changes[name].to_pylist() for name in ("at_ns", "kind"))
    return Workload(
        ordered["notifications"].drop_columns(["row"]).cast(attributes).combine_chunks(),
        _registrations(publishers, parsed),
        _registrations(ordered["subscribers"], parsed),
        Publications(at_ns, publisher, row),
        tuple(fast),
        tuple(map(Change, moments, kinds, _registrations(changes, parsed))),
    )


def _row(registration: Registration) -> dict[str, str | int | float]:
    return {
        "client": registration.client,
        "region": registration.broker.region,
        "cluster": registration.broker.cluster,
        "id": registration.id,
        "filter": str(registration.filter),
        "selectivity": registration.selectivity,
    }


def _ordered(tables: Mapping[str, pa.Table], name: str, schema: pa.Schema) -> pa.Table:
    if name not in tables:
        raise InputError(f"the workload has no table {name!r}")
    missing = [column for column in schema.names if column not in tables[name].schema.names]
    if missing:
        raise InputError(f"table {name!r} of the workload has no column {missing[0]!r}")
    table = tables[name].select(schema.names).cast(schema)
    return table.sort_by([(column, "ascending") for column in _ORDERS[name]])


def _registrations(table: pa.Table, parsed: dict[str, Filter]) -> tuple[Registration, ...]:
    made = []
    for row in table.to_pylist():
        text = row["filter"]
        if text not in parsed:
            parsed[text] = parse_filter(text)
        broker = BrokerId(row["region"], row["cluster"])
        made.append(Registration(row["client"], broker, row["id"], parsed[text], row["selectivity"]))
    return tuple(made)
