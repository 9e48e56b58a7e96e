"""Number literals, as SQL and PADRES text share them.

Rules of this file: digits alone are an int of any size up to the limit; with a point or an exponent it is the nearest
float. A literal that no float can hold is refused and does not quietly become infinity, which has one spelling only.
"""

from math import inf, isinf
from typing import Final

from octopia.errors import LanguageError
from octopia.language.limits import INTEGER_DIGITS_MAX, INTEGER_MAX
from octopia.language.sql_text import INFINITY_LITERAL
from octopia.language.values import Number

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
