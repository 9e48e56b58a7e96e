"""Values to the Arrow type of a column: what fits, and how.

| type                    | values that fit                                                              |
| strings                 | strings                                                                      |
| bool                    | booleans                                                                     |
| integers                | whole numbers in its range, floats of whole value among them                 |
| float32, float64        | numbers in its range, rounded if they are too precise                        |
| decimals                | numbers that it holds exactly                                                |
"""

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from octopia.language import Value
from octopia.wire.arrow.terms import NO_FIT

_FLOAT32_MAX: Final = 3.4028234663852886e38


def fit_of(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The function that converts a value for a column of this type, or returns `NO_FIT`; None: no value ever fits."""
    if is_text(kind):
        return lambda value: value if type(value) is str else NO_FIT
    if pa.types.is_boolean(kind):
        return lambda value: value if type(value) is bool else NO_FIT
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        least = -(2 ** (kind.bit_width - 1)) if signed else 0
        most = 2 ** (kind.bit_width - signed) - 1
        return lambda value: _whole(value, least, most)
    if pa.types.is_decimal(kind):
        return lambda value: _exact(value, kind.precision, kind.scale)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        largest = _FLOAT32_MAX if pa.types.is_float32(kind) else float("inf")
        return lambda value: _real(value, largest)
    return None


def is_text(kind: pa.DataType) -> bool:
    """Strings of any layout."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _whole(value: Value, least: int, most: int) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and least <= value <= most else NO_FIT


def _real(value: Value, largest: float) -> Any:
    if type(value) is not int and type(value) is not float:
        return NO_FIT
    try:
        real = float(value)
    except OverflowError:
        return NO_FIT
    # The infinities themselves are values; a number that would only round to one does not fit.
    return real if abs(real) <= largest or real in (float("inf"), float("-inf")) else NO_FIT


def _exact(value: Value, precision: int, scale: int) -> Any:
    if type(value) is not int and type(value) is not float:
        return NO_FIT
    try:
        # A float is taken as the shortest decimal that means it.
        exact = Decimal(repr(value))
        return exact.quantize(
            Decimal(1).scaleb(-scale), context=Context(prec=precision, traps=[Inexact, InvalidOperation])
        )
    except (Inexact, InvalidOperation, ValueError):
        return NO_FIT
