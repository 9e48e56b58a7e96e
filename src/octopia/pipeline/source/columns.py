"""Columns and attributes: which column holds which attribute, which values fit, and rows from notifications and back.

| column                        | values that fit                                                              |
| string                        | strings                                                                      |
| boolean                       | booleans                                                                     |
| byte, short, int, long        | whole numbers in its range, floats of whole value among them                 |
| float, double                 | numbers in its range, rounded if they are too precise                        |
| decimal(p,s)                  | numbers that it holds exactly                                                |
| timestamp                     | strings in ISO 8601, of UTC where they name no time zone                     |

No network. A missing attribute is null. A value that does not fit becomes null, too (PERMISSIVE), the row is left out
(DROPMALFORMED), or it is an error (FAILFAST). A column has the name of its attribute unless its metadata say
`{"attribute": "…"}`; the columns of `EXTRA` are not attributes. Values are checked column by column, and one by one
only in columns where some value may not fit.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from octopia.errors import InputError
from octopia.hints import shortened
from octopia.language import Conjunction, Filter, Operator, Value, overlaps
from octopia.pipeline.source.options import DROP_MALFORMED, FAIL_FAST
from octopia.wire import (
    NO_FIT,
    Batch,
    Codec,
    ParcelColumn,
    TypedParcels,
    WireLimits,
    fit_of_type,
    load_kernels,
    loading_pays,
    parcel_columns,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

PUBLISHER, ID, RECEIVED, JSON, UNFIT = "_publisher", "_id", "_received", "_json", "_unfit"
EXTRA: Final = {
    PUBLISHER: "string",
    ID: "bigint",
    RECEIVED: "timestamp",
    JSON: "string",
    UNFIT: "array<string>",
}
ATTRIBUTE: Final = "attribute"
ROWS_AT_ONCE: Final = 10_000
_INTEGER_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_TYPES: Final = ("string", "boolean", *_INTEGER_BITS, "float", "double", "decimal", "timestamp")
_HOW: Final = "read it as string, boolean, long, double, decimal or timestamp, and cast"

_WANTED: Final[dict[str, Any]] = {
    "string": str,
    "boolean": bool,
    "double": float,
    **dict.fromkeys(_INTEGER_BITS, int),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute as a column."""

    name: str
    attribute: str
    type_name: str
    shown: str
    precision: int = 0
    scale: int = 0


def attribute_columns(schema: "StructType", *, reading: bool) -> list[Column]:
    """The attribute columns, checked."""
    columns: list[Column] = []
    for field in schema.fields:
        if field.name in EXTRA:
            _check_extra(field, reading)
            continue
        columns.append(_column(field, reading))
    if not columns:
        raise InputError("the schema has no column for any attribute")
    seen: dict[str, str] = {}
    for column in columns:
        if column.attribute in seen:
            raise InputError(
                f"columns {seen[column.attribute]!r} and {column.name!r} are both for {column.attribute!r}"
            )
        seen[column.attribute] = column.name
    return columns


def _check_extra(field: "StructField", reading: bool) -> None:
    if not reading:
        raise InputError(
            f"column {field.name!r} is one that reading adds, not an attribute: drop it, or rename it to publish it"
        )
    if field.dataType.simpleString() != EXTRA[field.name]:
        raise InputError(f"column {field.name!r} is {EXTRA[field.name]}, not {field.dataType.simpleString()}")


def _column(field: "StructField", reading: bool) -> Column:
    kind: Any = field.dataType
    shown = kind.simpleString()
    known = kind.typeName() in _TYPES or (kind.typeName() == "void" and not reading)
    if not known:
        fix = _HOW if reading else "cast it to string, boolean, long, double or timestamp, or drop it"
        raise InputError(f"column {field.name!r} is {shown}, which no notification carries: {fix}")
    if kind.typeName() == "decimal" and kind.scale and not reading:
        raise InputError(
            f"column {field.name!r} is {shown}: numbers travel as integers or doubles, so cast it to double"
        )
    if reading and not field.nullable:
        raise InputError(
            f"column {field.name!r} is NOT NULL, and any notification may lack it: leave that out of the schema"
        )
    attribute = (field.metadata or {}).get(ATTRIBUTE, field.name)
    if not isinstance(attribute, str) or not attribute:
        raise InputError(f"column {field.name!r}: its metadata give {attribute!r} as {ATTRIBUTE!r}, not a name")
    return Column(
        field.name, attribute, kind.typeName(), shown, getattr(kind, "precision", 0), getattr(kind, "scale", 0)
    )


# -- the schema that an advertisement implies


def implied_schema(advertisement: Filter, wanted: Filter) -> str:
    """The columns of the advertised notifications that can match: each attribute with its stated type."""
    conjunctions = [one for one in advertisement if overlaps(Filter((one,)), wanted)]
    if not conjunctions:
        raise InputError(f"option 'advertisement': it cannot match the filter {wanted}")
    names = sorted({name for one in conjunctions for name in one.by_attribute})
    columns = [f"{_quoted(name)} {_implied_type(name, conjunctions, wanted)}" for name in names if name not in EXTRA]
    return ", ".join([f"{PUBLISHER} string", f"{ID} bigint", *columns])


def _implied_type(name: str, conjunctions: Sequence[Conjunction], wanted: Filter) -> str:
    found = {_type_of(name, one) for one in conjunctions if name in one.by_attribute}
    if "" in found:
        # If the advertisement leaves a type open, the filter may settle it, if all its parts agree.
        asked = {_type_of(name, one) if name in one.by_attribute else "" for one in wanted}
        found = (found - {""}) | asked
    if len(found) == 1 and (only := found.pop()):
        return only
    why = f"is {' or '.join(sorted(found - {''}))}" if len(found - {""}) > 1 else "could be of any type"
    raise InputError(
        f"option 'advertisement': {name!r} {why} there; give the schema, for example .schema(\"{name} string, …\")"
    )


def _type_of(name: str, conjunction: Conjunction) -> str:
    kinds = {type(p.value) for p in conjunction.by_attribute[name] if p.operator is not Operator.PRESENT}
    if str in kinds:
        return "string"
    if bool in kinds:
        return "boolean"
    return "double" if kinds else ""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- rows from notifications


class RowMaker:
    """Makes Arrow batches of a schema from parcels."""

    def __init__(self, schema: "StructType", mode: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        columns = attribute_columns(schema, reading=True)
        self._columns = {column.name: column for column in columns}
        self._mode = mode
        self._attributes = [column.attribute for column in columns]
        self._typed = TypedParcels({column.attribute: _WANTED.get(column.type_name, object) for column in columns})
        self._needs_all = JSON in schema.fieldNames()
        self._arrow: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._codec = Codec(WireLimits())

    def batches(self, chunks: Iterator[tuple[int, list[bytes]]]) -> Iterator[pa.RecordBatch]:
        """Rows in batches, from parcels with their times of arrival."""
        waiting: list[bytes] = []
        times: list[int] = []
        for at_us, parcels in chunks:
            waiting += parcels
            times += [at_us] * len(parcels)
            if len(times) >= ROWS_AT_ONCE:
                yield self._batch(waiting, times)
                waiting, times = [], []
        if times:
            yield self._batch(waiting, times)

    def _batch(self, parcels: list[bytes], times: Sequence[int]) -> pa.RecordBatch:
        seen = self._read(parcels)
        unfit: dict[int, list[str]] = {}
        arrays: list[Any] = []
        for field in self._arrow:
            column = self._columns.get(field.name)
            if column is None:
                arrays.append(None)
                continue
            given = seen.columns[column.name]
            if column.type_name == "timestamp":
                array = None
            elif isinstance(given, list):
                array = _at_first_sight(column, given, field.type)
            else:
                array = given.array(field.type)
            if array is None:
                values = given if isinstance(given, list) else given.to_list()
                array = pa.array(self._fitting(column, field.type, values, seen, unfit), field.type)
            arrays.append(array)
        for at, field in enumerate(self._arrow):
            if arrays[at] is None:
                arrays[at] = pa.array(self._extra(field.name, seen, times, unfit), field.type)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow)
        if unfit and self._mode == DROP_MALFORMED:
            batch = batch.take(pa.array([row for row in range(len(times)) if row not in unfit], pa.int64()))
        return batch

    def _read(self, parcels: list[bytes]) -> "_Seen":
        if loading_pays(len(parcels)):
            load_kernels()
        if not self._needs_all and (read := parcel_columns(parcels, self._attributes)) is not None:
            cells = dict(zip(self._columns, read.columns.values(), strict=True))
            return _Seen(cells, read.publishers.to_list(), read.sequences.tolist(), [])
        typed = None if self._needs_all else self._typed.read(parcels)
        if typed is not None:
            columns, publishers, sequences = typed
            return _Seen(dict(zip(self._columns, columns, strict=True)), publishers, sequences, [])
        seen = Batch()
        self._codec.read_parcels(parcels, seen)
        by_name = {
            name: [values.get(column.attribute) for values in seen.values] for name, column in self._columns.items()
        }
        return _Seen(by_name, seen.publishers, seen.sequences, seen.values)

    def _fitting(
        self, column: Column, kind: pa.DataType, given: list[Any], seen: "_Seen", unfit: dict[int, list[str]]
    ) -> list[Any]:
        fit = _moment if column.type_name == "timestamp" else fit_of_type(kind)
        out: list[Any] = []
        for row, value in enumerate(given):
            fitted = None if value is None or fit is None else fit(value)
            if fitted is NO_FIT:
                if self._mode == FAIL_FAST:
                    raise _does_not_fit(column, value, seen.publishers[row], seen.sequences[row])
                unfit.setdefault(row, []).append(column.attribute)
                fitted = None
            out.append(fitted)
        return out

    def _extra(self, name: str, seen: "_Seen", times: Sequence[int], unfit: dict[int, list[str]]) -> Sequence[Any]:
        if name == PUBLISHER:
            return seen.publishers
        if name == ID:
            return seen.sequences
        if name == RECEIVED:
            return times
        if name == JSON:
            return [_as_json(values) for values in seen.whole]
        return [unfit.get(row) for row in range(len(times))]


@dataclass(frozen=True, slots=True)
class _Seen:
    """Notifications, column by column; decoded as a whole only on demand."""

    columns: Mapping[str, list[Any] | ParcelColumn]
    publishers: list[str]
    sequences: list[int]
    whole: list[dict[str, Value]]


def _does_not_fit(column: Column, value: Value, publisher: str, sequence: int) -> InputError:
    return InputError(
        f"notification {sequence} of {publisher}: {column.attribute!r} is {shortened(repr(value))}, "
        f"which does not fit column {column.name!r}, {column.shown}; mode=PERMISSIVE makes it null"
    )


# If all values of a column have these types, Arrow takes them as they are, or reports one out of range.
_AT_FIRST_SIGHT: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "double": frozenset({float, int, type(None)}),
    **dict.fromkeys(_INTEGER_BITS, frozenset({int, type(None)})),
}


def _at_first_sight(column: Column, given: list[Any], kind: pa.DataType) -> pa.Array | None:
    if set(map(type, given)) <= _AT_FIRST_SIGHT.get(column.type_name, frozenset()):
        try:
            return pa.array(given, kind)
        except (pa.ArrowInvalid, OverflowError):
            return None
    return None


def _as_json(values: dict[str, Value]) -> str:
    try:
        return msgspec.json.encode(values).decode()
    except OverflowError:
        # Integers beyond 64 bits.
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _moment(value: Value) -> Any:
    """A number has no unit, so it is not a time."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        return NO_FIT
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


# -- notifications from rows


def notifications_of(batch: pa.RecordBatch, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The rows of a batch as attributes. Null is absent, a decimal without a fraction is an integer, a time is text."""
    lists = []
    for place, column in enumerate(columns):
        values = batch.column(place).to_pylist()
        if column.type_name == "decimal":
            values = [None if value is None else int(value) for value in values]
        elif column.type_name == "timestamp":
            moments = [None if value is None else value.astimezone(UTC) for value in values]
            values = [None if value is None else value.isoformat(timespec="microseconds") for value in moments]
        lists.append(values)
    names = [column.attribute for column in columns]
    if all(batch.column(place).null_count == 0 for place in range(len(columns))):
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*lists, strict=True)
    ]


def check_advertised(columns: Sequence[Column], advertisement: Filter) -> None:
    """Refuse columns whose values no conjunction of the advertisement allows, before anything is published."""
    known = {name for one in advertisement for name in one.by_attribute}
    missing = [column.attribute for column in columns if column.attribute not in known]
    if missing:
        raise InputError(
            f"option 'advertise' does not name {', '.join(map(repr, missing))}: a notification may have no attribute "
            f'that was not advertised; add "{missing[0]} is not null", or drop the column'
        )
