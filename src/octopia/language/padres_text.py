"""Filters and notifications as PADRES text.

The PADRES parser reads the output of `padres` back to an equal value. Anything the text form cannot express (no class,
a name with a space, a string with both quotes, a boolean in a notification) is an error, never an approximation.
`notification_as_text` is for people: it follows the same form and always succeeds. It works on plain values and knows
nothing of filters: `Notification` itself prints through it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from octopia.errors import LanguageError
from octopia.language.sql_text import number_as_text
from octopia.language.values import Value

# The operators of the text form by the name of the enumeration member: for numbers and booleans, and for strings.
NUMBER_OPERATORS: Final = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
STRING_OPERATORS: Final = {
    "EQ": "eq",
    "NE": "neq",
    "LT": "str-lt",
    "LE": "str-le",
    "GT": "str-gt",
    "GE": "str-ge",
    "PREFIX": "str-prefix",
    "POSTFIX": "str-postfix",
    "CONTAINS": "str-contains",
    "NOT_PREFIX": "str-not-prefix",
    "NOT_POSTFIX": "str-not-postfix",
    "NOT_CONTAINS": "str-not-contains",
}
PRESENT_OPERATOR: Final = "isPresent"
CLASS: Final = "class"

# Words of PADRES itself: as a name or as an unquoted value they would be read as what they stand for. Our own operators
# (str-not-...) are not among them: to PADRES they are plain words, and outside the operator's place they stay so.
RESERVED: Final = frozenset(
    {CLASS, PRESENT_OPERATOR, *(word for name, word in STRING_OPERATORS.items() if not name.startswith("NOT_"))}
)

# PADRES allows letters, digits and _ - : / in a name. `%` is our addition: stock data has names like `openDiff%`, and
# PADRES does not use the character outside quotes.
NAME: Final = re.compile(r"(?!:(?![A-Za-z0-9_\-:/%]))[A-Za-z_:/][A-Za-z0-9_\-:/%]*")


def triple(attribute: str, operator: str, value: Value | None) -> str:
    """One predicate; `operator` is the name of the operator's enumeration member."""
    name = checked_name_text(attribute)
    if value is None:
        return f"[{name},{PRESENT_OPERATOR},'']"
    if isinstance(value, str):
        return f"[{name},{STRING_OPERATORS[operator]},{_quoted(attribute, value)}]"
    if isinstance(value, bool):
        return f"[{name},{NUMBER_OPERATORS[operator]},{_boolean(value)}]"
    return f"[{name},{NUMBER_OPERATORS[operator]},{number_as_text(value)}]"


def class_triple(value: str) -> str:
    """The predicate that every PADRES filter starts with."""
    return f"[{CLASS},eq,{_quoted(CLASS, value)}]"


def notification_as_padres(values: Mapping[str, Value]) -> str:
    """A notification as text that parses back to an equal one."""
    if not isinstance(values.get(CLASS), str):
        raise LanguageError("the notification has no PADRES form", expected="a string as its 'class'")
    pairs = []
    for name, value in _class_first(values):
        if isinstance(value, bool):
            raise LanguageError(f"{name!r} is a boolean, which a PADRES notification cannot carry")
        shown = _quoted(name, value) if isinstance(value, str) else number_as_text(value)
        pairs.append(f"[{name if name == CLASS else checked_name_text(name)},{shown}]")
    return ",".join(pairs)


def notification_as_text(values: Mapping[str, Value]) -> str:
    """A notification for people: PADRES text where there is one, the same shape where there is not."""
    return ",".join(f"[{name},{value_as_text(value)}]" for name, value in _class_first(values))


def value_as_text(value: Value) -> str:
    """A value for people."""
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value else f'"{value}"'
    return _boolean(value) if isinstance(value, bool) else number_as_text(value)


def checked_name_text(name: str) -> str:
    """`name`, if it can be written as it is."""
    if name in RESERVED:
        raise LanguageError(f"{name!r} is a word of the PADRES form and cannot be the name of a further attribute")
    if not NAME.fullmatch(name):
        raise LanguageError(
            f"{name!r} has no PADRES form", expected="a name of letters, digits and _ - : / % that starts with no digit"
        )
    return name


def _class_first(values: Mapping[str, Value]) -> Iterable[tuple[str, Value]]:
    if CLASS in values:
        yield CLASS, values[CLASS]
    yield from ((name, value) for name, value in values.items() if name != CLASS)


def _quoted(attribute: str, value: str) -> str:
    if "'" not in value:
        return f"'{value}'"
    if '"' not in value:
        return f'"{value}"'
    raise LanguageError(f"the value of {attribute!r} has both kinds of quote, for which there is no PADRES form")


def _boolean(value: bool) -> str:
    return "true" if value else "false"
