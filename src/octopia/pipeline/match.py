"""Content matching as an operation of Spark: notifications and subscriptions in, pairs out.

The subscriptions are compiled into one `octopia.Matcher` on the driver, sent to every worker once, and asked with whole
Arrow batches there. The result is lazy, as everything in Spark: what is wrong with the subscriptions or the columns is
told at once, what is wrong with a notification when the pairs are asked for.

Rules of this file: the pairs are exactly those of `octopia.matches`; null is absent. Only the columns that are keys, or
that some filter asks for, travel to Python. About `PAIRS_AT_ONCE` pairs are made and handed on at a time: a batch is
cut into slices whose length follows the number of pairs seen so far.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InputError, LanguageError
from octopia.hints import maybe_meant, shortened
from octopia.language import Filter, parse_filter
from octopia.matching import Matcher
from octopia.pipeline.failures import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

# The driver holds them all, at about half a kilobyte each, and so does every worker.
SUBSCRIPTIONS_MAX: Final = 2_000_000
PAIRS_AT_ONCE: Final = 1 << 20
_FIRST_SLICE_ROWS: Final = 1024
_ID_TYPES: Final = ("byte", "short", "integer", "long", "string")
_VALUE_TYPES: Final = (*_ID_TYPES, "float", "double", "boolean", "void")

_Batches = Iterator[pa.RecordBatch]


def match(
    notifications: "DataFrame",
    subscriptions: "DataFrame",
    *,
    keys: Sequence[str] | None = None,
    id: str = "id",
    filter: str = "filter",
    pair_id: str = "subscription",
    absent_ok: bool = False,
) -> "DataFrame":
    """All pairs of a notification and a subscription that it matches.

    A notification is a row, its attributes are the columns, null is absent. A subscription is a row with an id (integer
    or string, each once) and a filter (text, PADRES or SQL). The result has the columns `keys` of the notification (all
    columns, if not given) and the subscription's id in column `pair_id`; its order is not defined.

    An attribute that a filter asks for and no column has is an error, most often a slip of the pen; `absent_ok` takes
    it as absent from every notification.
    """
    _check_columns(subscriptions, (id, filter), "subscriptions")
    kept = list(notifications.columns if keys is None else keys)
    _check_columns(notifications, kept, "notifications")
    if pair_id in kept:
        raise InputError(f"the notifications have a column {pair_id!r}: name the column of the ids, pair_id='…'")
    matcher, asked, id_type = _compiled(subscriptions, id, filter)
    there = _asked_columns(notifications, asked, absent_ok)
    needed = notifications.select(*(_quoted(name) for name in dict.fromkeys([*kept, *there])))
    schema = _pairs_schema(needed, kept, subscriptions.schema[id], pair_id)
    return needed.mapInArrow(_matching(needed, matcher, kept, there, id_type), schema)


def compile_subscriptions(ids: Sequence[int] | Sequence[str], texts: Sequence[str]) -> Matcher[Any]:
    """The settled index of these subscriptions; an error names the id, and the place in the text."""
    matcher: Matcher[Any] = Matcher()
    parsed: dict[str, Filter] = {}
    for id, text in zip(ids, texts, strict=True):
        if text not in parsed:
            parsed[text] = _parsed(id, text)
        if id in matcher:
            raise InputError(f"subscription {id!r} is there more than once: ids must be unique")
        matcher.add(id, parsed[text])
    matcher.settle()
    return matcher


# -- on the driver


def _compiled(subscriptions: "DataFrame", id: str, filter: str) -> tuple[Matcher[Any], list[str], pa.DataType]:
    """The index, the attributes that its filters ask for, and Arrow's type of the ids."""
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
    matcher = compile_subscriptions(ids, texts)
    asked = dict.fromkeys(name for one in matcher for name in matcher.filter_of(one).attributes)
    return matcher, sorted(asked), table.schema.field(0).type


def _parsed(id: object, text: str) -> Filter:
    try:
        return parse_filter(text)
    except LanguageError as error:
        raise LanguageError(
            f"subscription {id!r}: {error.problem}",
            text=error.text,
            position=error.position,
            expected=error.expected,
            hint=error.hint,
        ) from None


def _check_columns(frame: "DataFrame", wanted: Iterable[str], what: str) -> None:
    for name in wanted:
        found = frame.columns.count(name)
        if not found:
            known = ", ".join(map(shortened, frame.columns[:20]))
            raise InputError(f"the {what} have no column {name!r}, but {known}{maybe_meant(name, frame.columns)}")
        if found > 1:
            raise InputError(f"the {what} have {found} columns {name!r}: rename all but one")


def _asked_columns(notifications: "DataFrame", asked: list[str], absent_ok: bool) -> list[str]:
    """The attributes that are columns, checked: what the language has no value for is refused before anything runs."""
    there = [name for name in asked if name in notifications.columns]
    missing = [name for name in asked if name not in notifications.columns]
    if missing and not absent_ok:
        hint = maybe_meant(missing[0], notifications.columns)
        raise InputError(
            f"filters ask for {', '.join(map(repr, missing[:5]))}, and the notifications have no such column{hint}; "
            "absent_ok=True takes it as absent"
        )
    _check_columns(notifications, there, "notifications")
    for name in there:
        kind = notifications.schema[name].dataType
        if kind.typeName() not in _VALUE_TYPES:
            raise InputError(
                f"column {name!r} of the notifications is {kind.simpleString()}, which filters cannot ask for: "
                f"cast it to double, long, boolean or string"
            )
    return there


def _pairs_schema(needed: "DataFrame", kept: Sequence[str], id_field: "StructField", pair_id: str) -> Any:
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [*(needed.schema[name] for name in kept), StructField(pair_id, id_field.dataType, nullable=False)]
    )


def _quoted(name: str) -> str:
    """A name for `select`, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


# -- on the workers


def _matching(
    frame: "DataFrame", matcher: Matcher[Any], kept: Sequence[str], asked: Sequence[str], id_type: pa.DataType
) -> Callable[[_Batches], _Batches]:
    """The function for mapInArrow, with a broadcast: a worker loads the matcher once, however many tasks it gets."""
    sent = frame.sparkSession.sparkContext.broadcast(matcher)

    def matched(batches: _Batches) -> _Batches:
        return pairs_of(sent.value, batches, kept, asked, id_type)

    return matched


def pairs_of(
    matcher: Matcher[Any], batches: _Batches, kept: Sequence[str], asked: Sequence[str], id_type: pa.DataType
) -> _Batches:
    """The pairs of batches one after the other: key columns, then the id, in the type of the column it came from."""
    rows = _FIRST_SLICE_ROWS
    for batch in batches:
        at = 0
        while at < batch.num_rows:
            part = batch.slice(at, rows)
            pairs = _pairs(matcher, part, kept, asked, id_type)
            at += part.num_rows
            yield from (pairs.slice(first, PAIRS_AT_ONCE) for first in range(0, pairs.num_rows, PAIRS_AT_ONCE))
            # Twice as many rows next time, or fewer, so that about the wanted number of pairs is made at once.
            fitting = part.num_rows * PAIRS_AT_ONCE // max(1, pairs.num_rows)
            rows = max(1, min(2 * rows, fitting))


def _pairs(
    matcher: Matcher[Any], part: pa.RecordBatch, kept: Sequence[str], asked: Sequence[str], id_type: pa.DataType
) -> pa.RecordBatch:
    try:
        found = matcher.match_batch(part.select(list(asked)))
    except LanguageError as error:
        raise _with_keys(part, kept, asked, error) from None
    events, ids = found.column("event"), found.column("id")
    columns = [part.column(name).take(events) for name in kept]
    return pa.RecordBatch.from_arrays([*columns, ids.cast(id_type)], names=[*kept, "id"])


def _with_keys(part: pa.RecordBatch, kept: Sequence[str], asked: Sequence[str], error: LanguageError) -> InputError:
    """The same error with the notification's keys: its row number in a batch tells nobody anything."""
    for name in asked:
        column = part.column(name)
        if pa.types.is_floating(column.type):
            rows = np.flatnonzero(pc.fill_null(pc.is_nan(column), False).to_numpy(zero_copy_only=False))
            if len(rows):
                keys = ", ".join(f"{key}={part.column(key)[int(rows[0])].as_py()!r}" for key in kept[:4])
                return InputError(
                    f"notification {keys}: column {name!r} is NaN, which no filter can compare; "
                    f"make it null before: nullif({name}, double('NaN'))"
                )
    return InputError(str(error))
