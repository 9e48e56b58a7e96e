"""Filters and notifications to PADRES text.

Rules of this file: it writes what the PADRES parser reads back to an equal value, or raises; `padres_text` knows the
spelling of each part.
"""

from octopia.errors import LanguageError
from octopia.language.filter import Conjunction, Filter
from octopia.language.notification import Notification
from octopia.language.padres_text import CLASS, class_triple, notification_as_padres, triple
from octopia.language.predicate import Operator


def to_padres(value: Filter | Notification) -> str:
    """`value` as PADRES text; a union is written `{{…}||{…}}`. `LanguageError` where the form has no way to say it."""
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
