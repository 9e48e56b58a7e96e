"""The values that notifications carry and predicates compare with.

A value is a str, an int, a float or a bool, and nothing else. Three kinds of value never mix: ints and floats are one
kind (numbers, compared by value), strings are another, and bools a third. Python says `True == 1`, so nothing outside
this file may compare values without comparing their kinds first. Values that cannot be ordered (NaN), printed (integers
of millions of digits) or sent as UTF-8 (lone surrogates) are refused here, once.
"""

from enum import IntEnum
from math import isfinite
from typing import Any, Final, TypeAlias

from octopia.errors import LanguageError
from octopia.language.limits import INTEGER_BITS_MAX, STRING_CHARS_MAX

Value: TypeAlias = str | int | float | bool
Number: TypeAlias = int | float

# Below this, integral floats and integers are the same set of numbers, so a constant has one spelling.
_INTEGRAL_MAX: Final = 2.0**63


class ValueKind(IntEnum):
    """The kind of a value; values of different kinds are never equal or ordered. The order is for sorting only."""

    BOOL = 0
    NUMBER = 1
    STRING = 2


_KINDS: Final[dict[type, ValueKind]] = {
    bool: ValueKind.BOOL,
    int: ValueKind.NUMBER,
    float: ValueKind.NUMBER,
    str: ValueKind.STRING,
}


def kind_of(value: Value) -> ValueKind:
    """The kind of a checked value."""
    return _KINDS[type(value)]


def checked_value(value: object, what: str, name: str) -> Value:
    """`value` as one of the four exact types, or an error. `what`, with `name` in it, says what the value is for."""
    exact: Any = value if type(value) in _KINDS else _exact(value, what, name)
    if isinstance(exact, str):
        if len(exact) > STRING_CHARS_MAX:
            raise LanguageError(
                f"{what % repr(name)} is a string of {len(exact)} characters",
                expected=f"at most {STRING_CHARS_MAX}",
                hint="cut it into several attributes",
            )
        return exact if exact.isascii() else checked_string(exact, what % repr(name))
    if type(exact) is int and exact.bit_length() > INTEGER_BITS_MAX:
        raise LanguageError(
            f"{what % repr(name)} is an integer of {exact.bit_length()} bits", expected=f"at most {INTEGER_BITS_MAX}"
        )
    if exact != exact:
        raise LanguageError(f"{what % repr(name)} is NaN", expected="a number that can be compared")
    checked: Value = exact
    return checked


def _exact(value: object, what: str, name: str) -> Value:
    """Subclasses (an `IntEnum` member, a numpy float) as their plain type: they may redefine comparison."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{what % repr(name)} must be str, int, float or bool, not {type(value).__name__}")


def checked_string(value: str, what: str) -> str:
    """`value` as a plain str without lone surrogates, which no UTF-8 message could carry."""
    plain = value if type(value) is str else str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise LanguageError(f"{what} has a lone surrogate at offset {error.start}") from None
    return plain


def checked_name(name: object, what: str) -> str:
    """An attribute name: any string but the empty one."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be str, not {type(name).__name__}")
    if not name:
        raise LanguageError(f"{what} is empty")
    return name if type(name) is str and name.isascii() else checked_string(name, what)


def canonical(value: Value) -> Value:
    """The one spelling of a constant: `10.0` is `10` and `-0.0` is `0`, so equal filters print alike."""
    if type(value) is float and isfinite(value) and abs(value) < _INTEGRAL_MAX and value.is_integer():
        return int(value)
    return value


def same_value(left: Value, right: Value) -> bool:
    """Equality by value, within one kind."""
    return kind_of(left) is kind_of(right) and left == right
