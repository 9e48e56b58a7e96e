"""Predicates as SQL text.

Rules of this file: what it writes, the SQL parser reads back to an equal predicate; so a name is written bare only
where that is beyond doubt, and quoted otherwise. It works on plain values and knows nothing of filters: `Predicate`
itself prints through it.
"""

import re
from math import isinf
from typing import Final

from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from octopia.language.values import Value

# Infinity has no SQL literal. This one is too large for a float, so it can mean nothing else, and the parsers accept
# no other literal that overflows.
INFINITY_LITERAL: Final = "9e999"

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_SPECIAL: Final = re.compile(r"[%_!]")

# Words that sqlglot may read as something else than a name, at least in some places.
_RESERVED: Final = frozenset(Tokenizer.KEYWORDS) | frozenset(Parser.NO_PAREN_FUNCTION_PARSERS)

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
    """An attribute name, quoted where it could be read as something else."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _RESERVED:
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
