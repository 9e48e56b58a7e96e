"""Dates, timestamps and decimals for filters: columns become whole numbers, and so do constants.

The language has strings, booleans and numbers. A date is a number of days, a timestamp a number of microseconds, a
decimal a number of units of its last digit, so comparisons are exact. A filter can say `day >= '2024-01-02'`,
`at < '2024-01-02 16:00'` and `price > 10.05`, and each constant is read with the type of its column.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from octopia.errors import InputError
from octopia.hints import shortened
from octopia.language import Conjunction, Filter, Operator, Predicate, Value

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

# As many digits as a 64-bit number always holds.
DIGITS_MAX: Final = 18
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ORDER: Final = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
_BEYOND: Final = 1 << 63  # no column holds it


@dataclass(frozen=True, slots=True)
class Exact:
    """How the values of a column become whole numbers."""

    kind: str
    digits: int = 0
    zone: tzinfo | None = None

    def column(self, values: Any) -> Any:
        """A column of whole numbers."""
        if self.kind == "date":
            return values.cast(pa.int32()).cast(pa.int64())
        if self.kind == "timestamp":
            return values.cast(pa.timestamp("us", getattr(values.type, "tz", None))).cast(pa.int64())
        # Arrow stores the number of last digits in 16 bytes; with so few digits, the first 8 hold all of it.
        words = np.frombuffer(values.buffers()[1], dtype="<i8")[::2][values.offset : values.offset + len(values)]
        return pa.array(words, mask=values.is_null().to_numpy(zero_copy_only=False))

    def constant(self, value: Value) -> Fraction:
        """The meaning of a filter's constant in such a column."""
        if self.kind == "decimal":
            if isinstance(value, bool | str):
                raise InputError(f"is compared with {shortened(repr(value))}, and its column is decimal: give a number")
            return Fraction(Decimal(repr(value))) * Fraction(10**self.digits)
        if not isinstance(value, str):
            raise InputError(f"is compared with {value!r}, and its column is {self.kind}: give text, {self._form()}")
        try:
            if self.kind == "date":
                return Fraction(date.fromisoformat(value).toordinal() - _EPOCH)
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(f"is compared with {shortened(repr(value))}: not a {self.kind}, {self._form()}") from None
        if self.zone is None:
            if moment.tzinfo is not None:
                raise InputError(
                    f"is compared with {shortened(repr(value))}, and its column has no time zone: leave it out"
                )
            moment = moment.replace(tzinfo=UTC)
        elif moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return Fraction((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)

    def _form(self) -> str:
        return "such as '2024-01-02'" if self.kind == "date" else "such as '2024-01-02 16:00:00'"


def exact_of(kind: "DataType", zone: Callable[[], tzinfo]) -> Exact | None:
    """How a column of this type becomes whole numbers; None for values of the language, and for unsupported types."""
    match kind.typeName():
        case "date":
            return Exact("date")
        case "timestamp":
            return Exact("timestamp", zone=zone())
        case "timestamp_ntz":
            return Exact("timestamp")
        case "decimal":
            precision, scale = kind.precision, kind.scale  # type: ignore[attr-defined]
            return Exact("decimal", scale) if precision <= DIGITS_MAX and scale >= 0 else None
    return None


def with_exact(filter: Filter, columns: Mapping[str, Exact]) -> Filter:
    """The same filter on whole numbers, for columns that are converted."""
    if not any(name in columns for name in filter.attributes):
        return filter
    return Filter(
        Conjunction(_predicate(one, columns.get(one.attribute)) for one in conjunction) for conjunction in filter
    )


def _predicate(predicate: Predicate, exact: Exact | None) -> Predicate:
    operator, value = predicate.operator, predicate.value
    if exact is None or value is None:
        return predicate
    name = predicate.attribute
    try:
        if operator not in _ORDER:
            raise InputError(f"is asked for a part ({operator.value}), and its column is {exact.kind}")
        number = exact.constant(value)
    except InputError as error:
        raise InputError(f"{name!r} {error}") from None
    below, above = number.numerator // number.denominator, -(-number.numerator // number.denominator)
    if operator in (Operator.EQ, Operator.NE) and below != above:
        # Between two values that the column can have.
        return Predicate(name, Operator.EQ, _BEYOND) if operator is Operator.EQ else Predicate(name, Operator.PRESENT)
    return Predicate(name, operator, above if operator in (Operator.LT, Operator.GE) else below)
