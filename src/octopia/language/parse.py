"""The two doors of the language: text in, values out.

Rules of this file: text that starts with `[` or `{` is PADRES text, everything else is SQL. Length is checked before
anything reads the text. Values that are already parsed pass through, so callers need not care which they have.
"""

from collections.abc import Mapping
from typing import TypeAlias

from octopia.errors import LanguageError
from octopia.language.filter import Filter
from octopia.language.limits import FILTER_TEXT_CHARS_MAX, NOTIFICATION_TEXT_CHARS_MAX
from octopia.language.notification import Notification
from octopia.language.padres_parser import padres_filter, padres_notification
from octopia.language.sql_parser import sql_filter
from octopia.language.values import Value, checked_string

FilterLike: TypeAlias = Filter | str
NotificationLike: TypeAlias = Notification | Mapping[str, Value] | str


def parse_filter(text: FilterLike) -> Filter:
    """The filter of a subscription or an advertisement, from PADRES text or an SQL where-clause."""
    if isinstance(text, Filter):
        return text
    checked = _checked_text(text, "filter", FILTER_TEXT_CHARS_MAX)
    if checked.lstrip().startswith(("[", "{")):
        return padres_filter(checked)
    return sql_filter(checked)


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
