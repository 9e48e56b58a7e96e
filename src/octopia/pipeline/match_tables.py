"""Content matching as a Spark operation: notifications and subscriptions in, pairs out.

The subscriptions are compiled into one or more `octopia.Matcher`s on the driver, sent to every worker once, and applied
to whole Arrow batches there. The result is lazy, as everything in Spark: invalid subscriptions or columns raise at
once, an invalid notification when the pairs are computed.

The pairs are exactly those of `octopia.matches`; null means absent. Only key columns and columns used by a filter go to
Python. About `PAIRS_AT_ONCE` pairs are made and handed on at a time: a batch is cut into slices whose length depends on
the number of pairs seen so far.

More subscriptions than `PIECE_SUBSCRIPTIONS` are cut into pieces. A worker has one piece in memory at a time and takes
`CHUNK_ROWS` notifications through all of them, so its memory does not grow with the number of subscriptions. The pieces
travel as broadcasts; Spark Connect has none, so there they travel with the function, up to `CONNECT_BYTES_MAX`.
"""

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from octopia.errors import InputError, LanguageError
from octopia.hints import maybe_meant, shortened
from octopia.language import Filter, parse_filter
from octopia.matching import Matcher
from octopia.pipeline.arrow import map_arrow
from octopia.pipeline.exact import DIGITS_MAX, Exact, exact_of, with_exact
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

# The driver holds their ids and texts, and compiles one piece after the other.
SUBSCRIPTIONS_MAX: Final = 20_000_000
PIECE_SUBSCRIPTIONS: Final = 500_000
CHUNK_ROWS: Final = 200_000
# A message of Spark Connect has at most 128 MiB, and this is most of it.
CONNECT_BYTES_MAX: Final = 96 * 1024 * 1024
PAIRS_AT_ONCE: Final = 1 << 20
_FIRST_SLICE_ROWS: Final = 1024
_ID_TYPES: Final = ("byte", "short", "integer", "long", "string")
_VALUE_TYPES: Final = (*_ID_TYPES, "float", "double", "boolean", "void")
_NAN: Final = ("fail", "absent")

_Batches = Iterator[pa.RecordBatch]


class Subscriptions:
    """Subscriptions that change: read again at every `match`, and compiled again only if they differ.

    subscriptions = Subscriptions(lambda: spark.read.parquet("subscriptions"))
    stream.writeStream.foreachBatch(lambda batch, _: match(batch, subscriptions).write.mode("append").save(...))
    """

    def __init__(self, read: "Callable[[], DataFrame]", *, id: str = "id", filter: str = "filter") -> None:
        self.read = read
        self.id = id
        self.filter = filter
        self.compiled = 0  # the number of compilations so far
        self._known: tuple[Any, _Compiled] | None = None

    def reuse(self, key: Any, make: "Callable[[], _Compiled]") -> "_Compiled":
        """The index that was made for the same subscriptions last time, or a new one."""
        if self._known is None or self._known[0] != key:
            self._known = key, make()
            self.compiled += 1
        return self._known[1]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Subscriptions in the form that workers get."""

    pieces: tuple[Any, ...]  # broadcasts, or the bytes themselves
    asked: tuple[str, ...]
    id_type: pa.DataType


def match(
    notifications: "DataFrame",
    subscriptions: "DataFrame | Subscriptions",
    *,
    keys: Sequence[str] | None = None,
    id: str = "id",
    filter: str = "filter",
    pair_id: str = "subscription",
    absent_ok: bool = False,
    nan: str = "fail",
) -> "DataFrame":
    """All pairs of a notification and a subscription that it matches.

    A notification is a row; its attributes are the columns, and null means absent. A subscription is a row with an id
    (integer or string, unique) and a filter (text, PADRES or SQL). The result has the columns `keys` of the
    notification (by default all) and the subscription's id in column `pair_id`; its order is undefined. `notifications`
    may be a stream. The subscriptions are those at the time of the call; see `Subscriptions` for ones that change.

    Dates and timestamps are compared with text (`day >= '2024-01-02'`), in the session's time zone if none is given;
    decimals of up to 18 digits are compared with numbers, exactly.

    An attribute that a filter uses and no column has is an error, since it is usually a typo; `absent_ok` treats it as
    absent from every notification. Filters cannot compare NaN: `nan="fail"` ends the query with an error that names the
    notification, and `nan="absent"` treats it as absent.
    """
    if nan not in _NAN:
        raise InputError(f"nan is {nan!r}: {' or '.join(_NAN)} is needed{maybe_meant(nan, _NAN)}")
    known: Subscriptions | None = None
    if isinstance(subscriptions, Subscriptions):
        known, id, filter = subscriptions, subscriptions.id, subscriptions.filter
        table = known.read()
    else:
        table = subscriptions
    _check_columns(table, (id, filter), "subscriptions")
    kept = list(notifications.columns if keys is None else keys)
    _check_columns(notifications, kept, "notifications")
    if pair_id in kept:
        raise InputError(f"the notifications have a column {pair_id!r}: name the column of the ids, pair_id='…'")
    exact = _exact_columns(notifications)
    compiled = _compiled(table, id, filter, exact, notifications, known)
    there = _asked_columns(notifications, compiled.asked, exact, absent_ok)
    needed = _needed(notifications, kept, there, nan)
    schema = _pairs_schema(notifications, kept, table.schema[id], pair_id)
    places = [f"a{number}" for number in range(len(there))]
    work = _Work(compiled.pieces, len(kept), tuple(there), tuple(exact.get(name) for name in there), compiled.id_type)
    named = [*(f"k{number}" for number in range(len(kept))), *places]
    return map_arrow(needed.toDF(*named), work, schema)


def compile_subscriptions(
    ids: Sequence[int] | Sequence[str], texts: Sequence[str], exact: Mapping[str, Exact] | None = None
) -> Matcher[Any]:
    """The finished index of these subscriptions; an error names the id, and the place in the text."""
    matcher: Matcher[Any] = Matcher()
    parsed: dict[str, Filter] = {}
    for id, text in zip(ids, texts, strict=True):
        if text not in parsed:
            parsed[text] = _parsed(id, text, exact or {})
        if id in matcher:
            raise InputError(f"subscription {id!r} is there more than once: ids must be unique")
        matcher.add(id, parsed[text])
    matcher.settle()
    return matcher


# -- on the driver


def _compiled(
    subscriptions: "DataFrame",
    id: str,
    filter: str,
    exact: Mapping[str, Exact],
    notifications: "DataFrame",
    known: Subscriptions | None,
) -> _Compiled:
    """The index in pieces, the attributes that its filters use, and Arrow's type of the ids."""
    kind = subscriptions.schema[id].dataType.typeName()
    if kind not in _ID_TYPES:
        raise InputError(f"column {id!r} of the subscriptions is {kind}: ids are integers or strings")
    if (text_kind := subscriptions.schema[filter].dataType.typeName()) != "string":
        raise InputError(f"column {filter!r} of the subscriptions is {text_kind}: filters are text")
    with spark_errors("subscriptions"):
        table = subscriptions.select(_quoted(id), _quoted(filter)).limit(SUBSCRIPTIONS_MAX + 1).toArrow()
    if table.num_rows > SUBSCRIPTIONS_MAX:
        raise InputError(f"there are more than {SUBSCRIPTIONS_MAX:,} subscriptions: match them in parts")
    ids, texts = table.column(0).to_pylist(), table.column(1).to_pylist()
    for number, (one, text) in enumerate(zip(ids, texts, strict=True)):
        if one is None or text is None:
            what = f"subscription {one!r} has no filter" if one is not None else f"subscription {number} has no id"
            raise InputError(f"{what}: column {filter if one is not None else id!r} is null")
    seen: set[Any] = set()
    for one in ids:
        if one in seen:
            raise InputError(f"subscription {one!r} is there more than once: ids must be unique")
        seen.add(one)

    def make() -> _Compiled:
        return _shipped(ids, texts, exact, notifications, table.schema.field(0).type)

    if known is None:
        return make()
    # Rows of a table are unordered: compare them as a set.
    return known.reuse((frozenset(zip(ids, texts, strict=True)), tuple(sorted(exact.items(), key=str))), make)


def _shipped(
    ids: list[Any], texts: list[str], exact: Mapping[str, Exact], notifications: "DataFrame", id_type: pa.DataType
) -> _Compiled:
    connect = is_connect(notifications.sparkSession)
    pieces: list[Any] = []
    asked: dict[str, None] = {}
    size = 0
    for first in range(0, max(len(ids), 1), PIECE_SUBSCRIPTIONS):
        part = slice(first, first + PIECE_SUBSCRIPTIONS)
        matcher = compile_subscriptions(ids[part], texts[part], exact)
        asked |= dict.fromkeys(name for one in matcher for name in matcher.filter_of(one).attributes)
        data = pickle.dumps(matcher, protocol=5)
        size += len(data)
        if connect and size > CONNECT_BYTES_MAX:
            raise InputError(
                f"{len(ids):,} subscriptions take more than {CONNECT_BYTES_MAX >> 20} MiB, the maximum for Spark "
                "Connect: match them in parts, or use a session without Connect"
            )
        pieces.append(_Piece(hashlib.sha256(data).digest(), data if connect else _broadcast(notifications, data)))
    return _Compiled(tuple(pieces), tuple(sorted(asked)), id_type)


def _broadcast(notifications: "DataFrame", data: bytes) -> Any:
    return notifications.sparkSession.sparkContext.broadcast(data)


def _exact_columns(notifications: "DataFrame") -> dict[str, Exact]:
    def zone() -> ZoneInfo:
        return ZoneInfo(str(notifications.sparkSession.conf.get("spark.sql.session.timeZone")))

    found = {field.name: exact_of(field.dataType, zone) for field in notifications.schema}
    return {name: exact for name, exact in found.items() if exact is not None}


def _parsed(id: object, text: str, exact: Mapping[str, Exact]) -> Filter:
    try:
        return with_exact(parse_filter(text), exact)
    except LanguageError as error:
        raise LanguageError(
            f"subscription {id!r}: {error.problem}",
            text=error.text,
            position=error.position,
            expected=error.expected,
            hint=error.hint,
        ) from None
    except InputError as error:
        raise InputError(f"subscription {id!r}: {error}") from None


def _check_columns(frame: "DataFrame", wanted: Iterable[str], what: str) -> None:
    for name in wanted:
        found = frame.columns.count(name)
        if not found:
            known = ", ".join(map(shortened, frame.columns[:20]))
            raise InputError(f"the {what} have no column {name!r}, but {known}{maybe_meant(name, frame.columns)}")
        if found > 1:
            raise InputError(f"the {what} have {found} columns {name!r}: rename all but one")


def _asked_columns(
    notifications: "DataFrame", asked: Sequence[str], exact: Mapping[str, Exact], absent_ok: bool
) -> list[str]:
    """The attributes that have columns, checked: types that the language lacks are refused before anything runs."""
    there = [name for name in asked if name in notifications.columns]
    missing = [name for name in asked if name not in notifications.columns]
    if missing and not absent_ok:
        hint = maybe_meant(missing[0], notifications.columns)
        raise InputError(
            f"filters ask for {', '.join(map(repr, missing[:5]))}, and the notifications have no such column{hint}; "
            "absent_ok=True treats it as absent"
        )
    _check_columns(notifications, there, "notifications")
    for name in there:
        kind = notifications.schema[name].dataType
        if kind.typeName() not in _VALUE_TYPES and name not in exact:
            raise InputError(
                f"column {name!r} of the notifications is {kind.simpleString()}, which filters cannot use: cast it to "
                f"double, long, boolean, string, date, timestamp or a decimal of {DIGITS_MAX} digits or less"
            )
    return there


def _needed(notifications: "DataFrame", kept: Sequence[str], there: Sequence[str], nan: str) -> "DataFrame":
    """Keys, then the columns that filters use; the same column may occur in both."""
    from pyspark.sql import functions as fn

    keys = [fn.col(_quoted(name)) for name in kept]
    told = fn.concat(fn.lit("notification "), *_told(kept[:4]))
    columns: list[Column] = []
    for name in there:
        column = fn.col(_quoted(name))
        if notifications.schema[name].dataType.typeName() in ("float", "double"):
            if nan == "absent":
                column = fn.when(~fn.isnan(column), column)
            else:
                reason = f": column {name!r} is NaN, which no filter can compare; nan='absent' treats it as absent"
                column = fn.when(fn.isnan(column), fn.raise_error(fn.concat(told, fn.lit(reason)))).otherwise(column)
        columns.append(column.alias(name))
    return notifications.select(*keys, *columns)


def _told(kept: Sequence[str]) -> "list[Column]":
    """The keys of a notification, for people."""
    from pyspark.sql import functions as fn

    parts: list[Column] = []
    for number, name in enumerate(kept):
        value = fn.coalesce(fn.col(_quoted(name)).cast("string"), fn.lit("null"))
        parts += [fn.lit(f"{', ' if number else ''}{name}="), value]
    return parts


def _pairs_schema(needed: "DataFrame", kept: Sequence[str], id_field: "StructField", pair_id: str) -> Any:
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [*(needed.schema[name] for name in kept), StructField(pair_id, id_field.dataType, nullable=False)]
    )


def _quoted(name: str) -> str:
    """A name that `select` accepts, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


# -- on the workers

# The last index that this worker used: most have one piece, and use it again and again.
_LOADED: dict[bytes, Matcher[Any]] = {}


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some of the subscriptions, compiled."""

    digest: bytes
    data: Any

    def load(self) -> Matcher[Any]:
        found = _LOADED.get(self.digest)
        if found is None:
            data = self.data if isinstance(self.data, bytes) else self.data.value
            _LOADED.clear()
            found = _LOADED[self.digest] = pickle.loads(data)  # noqa: S301  the driver made it
            if data is not self.data:
                # the broadcast would keep it in memory beside the index; it is read from its file if needed
                del self.data._value  # noqa: SLF001
        return found


@dataclass(frozen=True, slots=True)
class _Work:
    """The function for `mapInArrow`."""

    pieces: tuple[_Piece, ...]
    keys: int
    asked: tuple[str, ...]
    exact: tuple[Exact | None, ...]
    id_type: pa.DataType

    def __call__(self, batches: _Batches) -> _Batches:
        for group in _groups(batches, CHUNK_ROWS if len(self.pieces) > 1 else 0):
            for piece in self.pieces:
                yield from pairs_of(piece.load(), map(self._events, group), self.id_type)

    def _events(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The keys of a batch, and the columns that filters use."""
        asked = [
            batch.column(self.keys + at) if exact is None else exact.column(batch.column(self.keys + at))
            for at, exact in enumerate(self.exact)
        ]
        events = (
            pa.RecordBatch.from_arrays(asked, names=list(self.asked))
            if asked
            # no filter uses an existing column: as many notifications without attributes
            else pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=[""])
        )
        return batch.select(list(range(self.keys))), events


def _groups(batches: _Batches, rows: int) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(one.num_rows for one in group) >= rows:
            yield group
            group = []
    if group:
        yield group


def pairs_of(
    matcher: Matcher[Any],
    batches: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]],
    id_type: pa.DataType,
) -> _Batches:
    """The pairs of batches one after the other: key columns, then the id, in the type of the column it came from."""
    rows = _FIRST_SLICE_ROWS
    for kept, events in batches:
        at = 0
        while at < events.num_rows:
            part = events.slice(at, rows)
            pairs = _pairs(matcher, kept.slice(at, rows), part, id_type)
            at += part.num_rows
            yield from (pairs.slice(first, PAIRS_AT_ONCE) for first in range(0, pairs.num_rows, PAIRS_AT_ONCE))
            # Twice as many rows next time, or fewer, so that about the wanted number of pairs is made at once.
            fitting = part.num_rows * PAIRS_AT_ONCE // max(1, pairs.num_rows)
            rows = max(1, min(2 * rows, fitting))


def _pairs(matcher: Matcher[Any], kept: pa.RecordBatch, events: pa.RecordBatch, id_type: pa.DataType) -> pa.RecordBatch:
    found = matcher.match_batch(events)
    rows, ids = found.column("event"), found.column("id")
    columns = [column.take(rows) for column in kept.columns]
    return pa.RecordBatch.from_arrays([*columns, ids.cast(id_type)], names=[*kept.schema.names, "id"])
