"""A Spark SQL condition on a stream; the broker checks as much of it as the language can express.

Spark does not push `where` down to streaming sources written in Python. So `subscribe` takes the condition itself and
splits it at its outermost `and`s. Each part that a filter can express goes into the subscription, and Spark applies the
whole condition again. The broker must therefore pass all rows for which the condition holds, and may pass more. That is
checked for every comparison: a constant is compared with a column of its own kind, and rounding cannot matter.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from octopia.errors import InputError, OctopiaError
from octopia.language import Conjunction, Filter, Operator, Predicate, parse_filter
from octopia.pipeline.source.columns import attribute_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_WHOLE: Final = ("byte", "short", "integer", "long")
_ORDER: Final = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
# Larger whole numbers are rounded in a column of doubles.
_EXACT_MAX: Final = 2**53
_TOKEN: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\w+|\S|\s+")


def subscribe(spark: "SparkSession", condition: str, schema: "StructType | str", **options: str) -> "DataFrame":
    """The stream `spark.readStream.format("octopia")` of the rows for which a Spark SQL condition holds.

    The broker checks as much of it as it can, and rows that fail are never sent; `pushed_filter` shows that part. An
    option `filter` is added to it. Without one, the condition must contain at least one comparison that the broker can
    check.
    """
    reader = spark.readStream.format("octopia").schema(schema)
    known = reader.options(**{**options, "filter": options.get("filter") or "x is not null"}).load().schema
    pushed = pushed_filter(condition, known)
    given = parse_filter(options["filter"]) if options.get("filter") else None
    if pushed is None and given is None:
        raise InputError(
            f"no part of {condition!r} can be checked by a broker: compare an attribute with a constant of its type, "
            "or give option 'filter'"
        )
    both = [f"({one})" for one in (given, pushed) if one is not None]
    return reader.options(**{**options, "filter": " and ".join(both)}).load().where(condition)


def pushed_filter(condition: str, schema: "StructType") -> Filter | None:
    """The part of a condition that goes to the broker; None if there is none."""
    columns: dict[str, tuple[str, str]] = {}
    for column in attribute_columns(schema, reading=True):
        columns[column.name.lower()] = column.attribute, schema[column.name].dataType.typeName()
    found: list[str] = []
    for part in conjuncts(condition):
        try:
            filter = parse_filter(part)
        except OctopiaError:
            continue
        asked = [[_asked(predicate, columns) for predicate in conjunction] for conjunction in filter]
        if all(None not in predicates for predicates in asked):
            found.append(f"({Filter(Conjunction(p for p in ps if p is not None) for ps in asked)})")
    if not found:
        return None
    try:
        return parse_filter(" and ".join(found))
    except OctopiaError:
        # Too large together; the first part is better than nothing.
        return parse_filter(found[0])


def _asked(predicate: Predicate, columns: dict[str, tuple[str, str]]) -> Predicate | None:
    """The same condition for the broker; None if the broker might drop a row that Spark would keep."""
    attribute, kind = columns.get(predicate.attribute.lower(), ("", ""))
    if not attribute:
        return None
    if predicate.operator is Operator.PRESENT:
        return Predicate(attribute, Operator.PRESENT)
    value: Any = predicate.value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = (
        (kind == "string" and isinstance(value, str))
        or (kind == "boolean" and isinstance(value, bool))
        or (kind in _WHOLE and number)
        or (kind == "double" and number and abs(value) < _EXACT_MAX)
    )
    return Predicate(attribute, predicate.operator, value) if fits and predicate.operator in _ORDER else None


def conjuncts(condition: str) -> Iterator[str]:
    """The parts of a condition between its outermost `and`s; the whole condition if there is an `or` at that level."""
    parts: list[str] = [""]
    depth = cases = betweens = 0
    for piece in _TOKEN.findall(condition):
        word = piece.lower()
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece, 0)
        cases += (word == "case") - (word == "end" and cases > 0)
        if not depth and not cases:
            if word == "or":
                yield condition
                return
            betweens += word == "between"
            if word == "and":
                if not betweens:
                    parts.append("")
                    continue
                betweens -= 1
        parts[-1] += piece
    yield from (part.strip() for part in parts)
