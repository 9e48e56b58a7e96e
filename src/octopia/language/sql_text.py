"""Predicates as SQL text, and number literals, which SQL and PADRES text share.

The SQL parser reads the output back to an equal predicate, so a name is left unquoted only where that is certainly
safe. This module works on plain values and knows nothing of filters: `Predicate` itself prints through it.

In a number literal, digits alone are an int of any size up to the limit; a point or an exponent makes it the nearest
float. A literal too large for a float is refused rather than silently read as infinity, which has one spelling only.
"""

import re
from functools import cache
from math import inf, isinf
from typing import Final

from octopia.errors import LanguageError
from octopia.language.limits import INTEGER_DIGITS_MAX, INTEGER_MAX
from octopia.language.values import Number, Value

# Infinity has no SQL literal. This one overflows a float, so it can mean nothing else, and the parsers refuse every
# other literal that overflows.
INFINITY_LITERAL: Final = "9e999"

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
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _reserved():
        return name
    return '"' + name.replace('"', '""') + '"'


@cache
def _reserved() -> frozenset[str]:
    """Words that sqlglot may read as something other than a name, at least in some places."""
    # Loading sqlglot takes longer than the rest of a client, so only programs that read or write SQL load it.
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer

    return frozenset(Tokenizer.KEYWORDS) | frozenset(Parser.NO_PAREN_FUNCTION_PARSERS)


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


_SIGNS: Final = "+-"


def number_from(literal: str, *, text: str, position: int) -> Number:
    """The number that `literal` spells; `text` and `position` are for the error."""
    digits = literal.lstrip(_SIGNS)
    negative = literal.startswith("-")
    if digits == INFINITY_LITERAL:
        return -inf if negative else inf
    if not digits.isdecimal():
        return _float(literal, text, position)
    if len(digits.lstrip("0")) > INTEGER_DIGITS_MAX:
        raise _too_large(literal, text, position)
    number = int(literal)
    if abs(number) > INTEGER_MAX:
        raise _too_large(literal, text, position)
    return number


def _float(literal: str, text: str, position: int) -> float:
    try:
        number = float(literal)
    except ValueError:
        raise LanguageError(f"{literal!r} is not a number", text=text, position=position) from None
    if isinf(number):
        raise _too_large(literal, text, position)
    return number


def _too_large(literal: str, text: str, position: int) -> LanguageError:
    shown = literal if len(literal) <= 20 else f"{literal[:20]}… ({len(literal)} characters)"
    return LanguageError(f"the number {shown} is too large", text=text, position=position)
