"""One condition on one attribute: `price > 10`, `name like 'A%'`, `volume is not null`.

A predicate is typed by its constant. Like an absent attribute, a value of another kind satisfies neither the predicate
nor its negation: `x <> 5` means that x is a number other than 5. So one `=` and one `<` serve all kinds. Equality and
hash tell `x = 1` from `x = true`, unlike Python's own, and treat `x = 1` and `x = 1.0` as equal.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import repeat
from typing import Any, Final, TypeAlias

from octopia.errors import LanguageError
from octopia.hints import did_you_mean, shortened
from octopia.language.sql_text import predicate_as_sql
from octopia.language.values import Value, ValueKind, canonical, checked_name, checked_value


class Operator(StrEnum):
    """The operator of a predicate. Predicates of one attribute sort, and print, in this order."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    PREFIX = "prefix"
    POSTFIX = "postfix"
    CONTAINS = "contains"
    NOT_PREFIX = "not prefix"
    NOT_POSTFIX = "not postfix"
    NOT_CONTAINS = "not contains"
    PRESENT = "present"

    @property
    def rank(self) -> int:
        """The position in this enumeration."""
        return _RANKS[self]


_RANKS: Final = {op: rank for rank, op in enumerate(Operator)}

_NEGATIONS: Final = {
    Operator.EQ: Operator.NE,
    Operator.LT: Operator.GE,
    Operator.LE: Operator.GT,
    Operator.PREFIX: Operator.NOT_PREFIX,
    Operator.POSTFIX: Operator.NOT_POSTFIX,
    Operator.CONTAINS: Operator.NOT_CONTAINS,
}
_NEGATIONS.update({negation: op for op, negation in list(_NEGATIONS.items())})

_ORDERS: Final = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
_PATTERNS: Final = frozenset(
    {
        Operator.PREFIX,
        Operator.POSTFIX,
        Operator.CONTAINS,
        Operator.NOT_PREFIX,
        Operator.NOT_POSTFIX,
        Operator.NOT_CONTAINS,
    }
)

# Every string starts with, ends with and contains the empty one: one condition, so one spelling.
_OF_EMPTY: Final = {
    Operator.POSTFIX: Operator.PREFIX,
    Operator.CONTAINS: Operator.PREFIX,
    Operator.NOT_POSTFIX: Operator.NOT_PREFIX,
    Operator.NOT_CONTAINS: Operator.NOT_PREFIX,
}

_Test: TypeAlias = Callable[[Any, Any], bool]


def _not_prefix(value: str, constant: str) -> bool:
    return not value.startswith(constant)


def _not_postfix(value: str, constant: str) -> bool:
    return not value.endswith(constant)


def _not_contains(value: str, constant: str) -> bool:
    return constant not in value


def _always(_value: Value, _constant: None) -> bool:
    return True


_TESTS: Final[dict[Operator, _Test]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
    Operator.PREFIX: str.startswith,
    Operator.POSTFIX: str.endswith,
    Operator.CONTAINS: operator.contains,
    Operator.NOT_PREFIX: _not_prefix,
    Operator.NOT_POSTFIX: _not_postfix,
    Operator.NOT_CONTAINS: _not_contains,
    Operator.PRESENT: _always,
}

# By the type of the constant: its kind, the types of the values it is compared with, and how it sorts among others.
_NUMBERS: Final = frozenset({int, float})
_CONSTANTS: Final[dict[type, tuple[ValueKind | None, frozenset[type], int, str]]] = {
    bool: (ValueKind.BOOL, frozenset({bool}), 0, "bool"),
    int: (ValueKind.NUMBER, _NUMBERS, 1, "int"),
    float: (ValueKind.NUMBER, _NUMBERS, 1, "float"),
    str: (ValueKind.STRING, frozenset({str}), 2, "str"),
    type(None): (None, frozenset({str, int, float, bool}), -1, ""),
}

SortKey: TypeAlias = tuple[str, int, int, Any, str]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Predicate:
    """`attribute operator value`. Frozen, hashable, equal by content; `value` is None for `PRESENT` alone."""

    attribute: str
    operator: Operator
    value: Value | None
    # The fields below are computed once, for `accepts`, which runs for every notification.
    kind: ValueKind | None = field(repr=False)
    sort_key: SortKey = field(repr=False)
    _types: frozenset[type] = field(repr=False)
    _test: _Test = field(repr=False)
    _hash: int = field(repr=False)

    def __init__(self, attribute: str, operator: Operator, value: Value | None = None) -> None:
        name = checked_name(attribute, "attribute name")
        op = operator if type(operator) is Operator else _checked_operator(operator)
        _fill(self, name, op, _checked_constant(name, op, value))

    def accepts(self, value: Value) -> bool:
        """Whether a present attribute of this (checked) value satisfies the predicate."""
        return type(value) in self._types and self._test(value, self.value)

    def accepts_all(self, values: Sequence[Value]) -> bool:
        """Whether `accepts` holds for each of these."""
        return self._types.issuperset(map(type, values)) and all(map(self._test, values, repeat(self.value)))

    def negated(self) -> "Predicate":
        """The predicate that holds for exactly the other values of the same kind.

        `PRESENT` has none: its negation is absence, which a filter cannot ask for.
        """
        if self.operator is Operator.PRESENT:
            raise LanguageError(
                f"not ({self}) asks for the absence of {self.attribute!r}", expected="a condition on what is there"
            )
        opposite = object.__new__(Predicate)
        if type(self.value) is bool:
            _fill(opposite, self.attribute, self.operator, not self.value)
        else:
            _fill(opposite, self.attribute, _NEGATIONS[self.operator], self.value)
        return opposite

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        return self.sort_key[:4] == other.sort_key[:4]

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return predicate_as_sql(self.attribute, self.operator.name, self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Predicate, (self.attribute, self.operator, self.value))


# Predicates are frozen; these setters fill a new one, faster than `object.__setattr__`.
(
    _set_attribute,
    _set_operator,
    _set_value,
    _set_kind,
    _set_sort_key,
    _set_types,
    _set_test,
    _set_hash,
) = (Predicate.__dict__[slot.name].__set__ for slot in fields(Predicate))


def _fill(predicate: Predicate, name: str, op: Operator, value: Value | None) -> None:
    """Give a new predicate its fields; its parts are checked."""
    if value == "":
        op = _OF_EMPTY.get(op, op)
    kind, types, kind_rank, type_name = _CONSTANTS[type(value)]
    rank = _RANKS[op]
    _set_attribute(predicate, name)
    _set_operator(predicate, op)
    _set_value(predicate, value)
    _set_kind(predicate, kind)
    # The type's name comes last: it only decides which of two equal spellings of a huge number is kept.
    _set_sort_key(predicate, (name, rank, kind_rank, value, type_name))
    _set_types(predicate, types)
    _set_test(predicate, _TESTS[op])
    _set_hash(predicate, hash((name, rank, kind_rank, value)))


def _checked_operator(operator: object) -> Operator:
    if not isinstance(operator, str):
        raise TypeError(f"an operator must be Operator or str, not {type(operator).__name__}")
    try:
        return Operator(operator)
    except ValueError:
        hint = did_you_mean(operator, [str(known) for known in Operator])
        raise LanguageError(f"unknown operator '{shortened(operator)}'", hint=hint) from None


def _checked_constant(attribute: str, op: Operator, value: object) -> Value | None:
    if op is Operator.PRESENT:
        if value is not None:
            raise TypeError(f"'{op}' takes no value, not {value!r}")
        return None
    constant = checked_value(value, "the value that %s is compared with", attribute)
    if type(constant) is str:
        return constant
    if type(constant) is bool and op in _ORDERS:
        raise LanguageError(f"{attribute!r} {op} {str(constant).lower()}: booleans have no order", expected="= or <>")
    if op in _PATTERNS:
        raise LanguageError(f"'{op}' on {attribute!r} needs a string, not {constant!r}")
    return canonical(constant)
