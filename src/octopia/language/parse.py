"""The entry points of the language: text in, values out, and back to PADRES text.

Text that starts with `[` or `{` is PADRES text, everything else is SQL. The length is checked before the text is read.
Parsed values pass through unchanged, so callers can pass either.

The PADRES parser reads the output of `to_padres` back to an equal value; a value without a PADRES form raises.
"""

from collections.abc import Mapping
from typing import TypeAlias

from octopia.errors import LanguageError
from octopia.language.filter import Conjunction, Filter
from octopia.language.limits import FILTER_TEXT_CHARS_MAX, NOTIFICATION_TEXT_CHARS_MAX
from octopia.language.notification import Notification
from octopia.language.padres_parser import padres_filter, padres_notification
from octopia.language.padres_text import CLASS, class_triple, notification_as_padres, triple
from octopia.language.predicate import Operator
from octopia.language.sql_parser import sql_filter
from octopia.language.values import Value, checked_string

FilterLike: TypeAlias = Filter | str
NotificationLike: TypeAlias = Notification | Mapping[str, Value] | str


def parse_filter(text: FilterLike) -> Filter:
    """The filter of a subscription or an advertisement, from PADRES text or an SQL where-clause."""
    if isinstance(text, Filter):
        return text
    checked = _checked_text(text, "filter", FILTER_TEXT_CHARS_MAX)
    return padres_filter(checked) if checked.lstrip().startswith(("[", "{")) else sql_filter(checked)


def parse_notification(text: NotificationLike) -> Notification:
    """A notification, from PADRES text or a plain mapping."""
    if isinstance(text, Notification):
        return text
    if isinstance(text, Mapping):
        return Notification.of(text)
    return padres_notification(_checked_text(text, "notification", NOTIFICATION_TEXT_CHARS_MAX))


def _checked_text(text: object, what: str, chars_max: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a {what} is parsed from str, not {type(text).__name__}")
    if len(text) > chars_max:
        raise LanguageError(f"the {what} text has {len(text)} characters", expected=f"at most {chars_max}")
    checked = checked_string(text, f"the {what} text")
    if not checked.strip():
        example = "[class,eq,'STOCK'],[price,>,10] or price > 10" if what == "filter" else "[class,'STOCK'],[price,10]"
        raise LanguageError(f"the {what} text is empty", text=text, position=0, expected=f"something like {example}")
    return checked


def to_padres(value: Filter | Notification) -> str:
    """`value` as PADRES text; a union is written `{{…}||{…}}`. `LanguageError` if PADRES text cannot express it."""
    if isinstance(value, Notification):
        return notification_as_padres(value)
    conjunctions = [_conjunction(conjunction) for conjunction in value]
    if len(conjunctions) == 1:
        return conjunctions[0]
    return "{" + "||".join(f"{{{text}}}" for text in conjunctions) + "}"


def _conjunction(conjunction: Conjunction) -> str:
    about_class = conjunction.by_attribute.get(CLASS, ())
    only = about_class[0] if len(about_class) == 1 else None
    if only is None or only.operator is not Operator.EQ or not isinstance(only.value, str):
        raise LanguageError(
            f"'{conjunction}' has no PADRES form", expected="exactly one condition on class, such as class = 'STOCK'"
        )
    others = [triple(p.attribute, p.operator.name, p.value) for p in conjunction if p is not only]
    return ",".join([class_triple(only.value), *others])
