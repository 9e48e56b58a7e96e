"""A notification: attributes and their values, frozen.

A notification is checked once, when it is made, and its values can be trusted from then on. It keeps the values and
their order as given (`10.0` stays a float). Equality and hash go by content regardless of order, and tell `1` from
`True`.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar, overload

from octopia.errors import LanguageError
from octopia.language.limits import NOTIFICATION_ATTRIBUTES_MAX
from octopia.language.padres_text import notification_as_text
from octopia.language.values import Value, checked_name, checked_value, kind_of, same_value

Default = TypeVar("Default")


class Notification(Mapping[str, Value]):
    """A frozen mapping of attribute to value; at least one attribute. Make one with `Notification.of`."""

    __slots__ = ("_hash", "_values")
    _values: dict[str, Value]
    _hash: int | None

    @classmethod
    def of(cls, attributes: Mapping[str, Value]) -> "Notification":
        """The notification of these attributes, or an error: `TypeError` for a wrong type, else `LanguageError`."""
        if isinstance(attributes, Notification):
            return attributes
        if not isinstance(attributes, Mapping):
            raise TypeError(f"a notification is made of a mapping, not {type(attributes).__name__}")
        if not attributes:
            raise LanguageError("the notification is empty", expected="at least one attribute")
        if len(attributes) > NOTIFICATION_ATTRIBUTES_MAX:
            raise LanguageError(
                f"the notification has {len(attributes)} attributes", expected=f"at most {NOTIFICATION_ATTRIBUTES_MAX}"
            )
        values = {}
        for key, value in attributes.items():
            name = checked_name(key, "attribute name")
            values[name] = checked_value(value, "the value of %s", name)
        return cls.trusted(values)

    @classmethod
    def trusted(cls, values: dict[str, Value]) -> "Notification":
        """A notification from values already checked as `of` does; takes ownership of the dict."""
        notification = _new(cls)
        _set_values(notification, values)
        _set_hash(notification, None)
        return notification

    def __init__(self) -> None:
        raise TypeError("make a notification with Notification.of(mapping)")

    def to_dict(self) -> dict[str, Value]:
        """A plain copy."""
        return dict(self._values)

    # Mapping's own versions of these work through __getitem__ and KeyError; matching calls them for every predicate.
    @overload
    def get(self, key: str, /) -> Value | None: ...
    @overload
    def get(self, key: str, /, default: Value | Default) -> Value | Default: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        return self._values.get(key, default)

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        return self._values.keys()

    def values(self) -> ValuesView[Value]:
        return self._values.values()

    def items(self) -> ItemsView[str, Value]:
        return self._values.items()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a notification is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a notification is frozen: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Notification):
            return NotImplemented
        return len(self) == len(other) and all(
            name in other and same_value(value, other[name]) for name, value in self._values.items()
        )

    def __hash__(self) -> int:
        if self._hash is None:
            content = frozenset((name, kind_of(value), value) for name, value in self._values.items())
            object.__setattr__(self, "_hash", hash(content))
        return self._hash or 0

    def __str__(self) -> str:
        return notification_as_text(self._values)

    def __repr__(self) -> str:
        return f"Notification.of({self._values!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Notification.of, (self._values,))


# Notifications are frozen; these setters fill a new one, faster than `object.__setattr__`.
_new = object.__new__
_set_values = Notification._values.__set__  # type: ignore[attr-defined]  # noqa: SLF001
_set_hash = Notification._hash.__set__  # type: ignore[union-attr]  # noqa: SLF001
