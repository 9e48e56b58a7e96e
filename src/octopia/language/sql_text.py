"""Predicates as SQL text, and number literals, which SQL and PADRES text share.

The SQL parser reads the output back to an equal predicate, so a name is left unquoted only where that is certainly
safe. This module works on plain values and knows nothing of filters: `Predicate` itself prints through it.

In a number literal, digits alone are an int of any size up to the limit; a point or an exponent makes it the nearest
float. A literal too large for a float is refused rather than silently read as infinity, which has one spelling only.
"""

import re
from math import isinf
from typing import Final

from octopia.errors import LanguageError
from octopia.language.limits import INTEGER_DIGITS_MAX, INTEGER_MAX
from octopia.language.values import Number, Value

# Infinity has no SQL literal. This one overflows a float, so it can mean nothing else, and the parsers refuse every
# other literal that overflows.
INFINITY_LITERAL: Final = "9e999"

# Words of the grammar. An attribute of such a name stands in quotes.
RESERVED: Final = frozenset({"and", "between", "false", "in", "is", "like", "not", "null", "or", "true", "xor"})
# `exists` names an attribute unless a name follows it. Quotes spare the reader the doubt.
_QUOTED: Final = RESERVED | {"exists"}

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_SPECIAL: Final = re.compile(r"[%_!]")

_COMPARISONS: Final = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_LIKES: Final = {"PREFIX": ("", "%"), "POSTFIX": ("%", ""), "CONTAINS": ("%", "%")}


def predicate_as_sql(attribute: str, operator: str, value: Value | None) -> str:
    """One predicate; `operator` is the name of the operator's enumeration member."""
    name = name_as_sql(attribute)
    if value is None:
        return f"{name} is not null"
    if operator in _COMPARISONS:
        return f"{name} {_COMPARISONS[operator]} {value_as_sql(value)}"
    negation, plain = ("not ", operator[4:]) if operator.startswith("NOT_") else ("", operator)
    before, after = _LIKES[plain]
    return f"{name} {negation}like {_pattern(before, str(value), after)}"


def name_as_sql(name: str) -> str:
    """An attribute name, quoted if it could be read as something else."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _QUOTED:
        return name
    return '"' + name.replace('"', '""') + '"'


def value_as_sql(value: Value) -> str:
    """A literal."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_as_text(value)


def number_as_text(value: int | float) -> str:
    """A number in a spelling that SQL and PADRES text share."""
    if isinstance(value, float) and isinf(value):
        return INFINITY_LITERAL if value > 0 else f"-{INFINITY_LITERAL}"
    return repr(value)


def _pattern(before: str, constant: str, after: str) -> str:
    escaped = _LIKE_SPECIAL.sub(r"!\g<0>", constant)
    literal = value_as_sql(f"{before}{escaped}{after}")
    return literal if escaped == constant else f"{literal} escape '!'"


def number_from(literal: str) -> Number:
    """The number that `literal` spells: digits, with or without a sign, a point and an exponent."""
    digits = literal.lstrip("+-")
    if digits.isdecimal():
        # Python counts leading zeros among the digits that it converts at most.
        significant = digits.lstrip("0") or "0"
        if len(significant) > INTEGER_DIGITS_MAX or (size := int(significant)) > INTEGER_MAX:
            raise _too_large(literal)
        return -size if literal[0] == "-" else size
    number = float(literal)
    if isinf(number) and digits != INFINITY_LITERAL:
        raise _too_large(literal)
    return number


def _too_large(literal: str) -> LanguageError:
    shown = literal if len(literal) <= 20 else f"{literal[:20]}… ({len(literal)} characters)"
    return LanguageError(f"the number {shown} is too large")
