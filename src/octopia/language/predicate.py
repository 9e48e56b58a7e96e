"""One condition on one attribute: `price > 10`, `name like 'A%'`, `volume is not null`.

A predicate is typed by its constant. Like an absent attribute, a value of another kind satisfies neither the predicate
nor its negation: `x <> 5` means that x is a number other than 5. So one `=` and one `<` serve all kinds. Equality and
hash tell `x = 1` from `x = true`, unlike Python's own, and treat `x = 1` and `x = 1.0` as equal.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from typing import Any, Final, TypeAlias

from octopia.errors import LanguageError
from octopia.hints import did_you_mean, shortened
from octopia.language.sql_text import predicate_as_sql
from octopia.language.values import Kind, Value, canonical, checked_name, checked_value, kind_of


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

_TYPES: Final[dict[Kind | None, frozenset[type]]] = {
    Kind.BOOL: frozenset({bool}),
    Kind.NUMBER: frozenset({int, float}),
    Kind.STRING: frozenset({str}),
    None: frozenset({str, int, float, bool}),
}

SortKey: TypeAlias = tuple[str, int, int, Any, str]


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """`attribute operator value`. Frozen, hashable, equal by content; `value` is None for `PRESENT` alone."""

    attribute: str
    operator: Operator
    value: Value | None = None
    # The fields below are computed once, for `accepts`, which runs for every notification.
    kind: Kind | None = field(init=False, repr=False)
    sort_key: SortKey = field(init=False, repr=False)
    _types: frozenset[type] = field(init=False, repr=False)
    _test: _Test = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = checked_name(self.attribute, "attribute name")
        op = _checked_operator(self.operator)
        value = _checked_constant(name, op, self.value)
        if value == "":
            op = _OF_EMPTY.get(op, op)
        kind = None if value is None else kind_of(value)
        # The type's name comes last: it only decides which of two equal spellings of a huge number is kept.
        key = (name, op.rank, -1 if kind is None else int(kind), 0 if value is None else value, type(value).__name__)
        for slot, content in (
            ("attribute", name),
            ("operator", op),
            ("value", value),
            ("kind", kind),
            ("sort_key", key),
            ("_types", _TYPES[kind]),
            ("_test", _TESTS[op]),
            ("_hash", hash(key[:4])),
        ):
            object.__setattr__(self, slot, content)

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
        if type(self.value) is bool:
            return Predicate(self.attribute, self.operator, not self.value)
        return Predicate(self.attribute, _NEGATIONS[self.operator], self.value)

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
    constant = canonical(checked_value(value, f"the value that {attribute!r} is compared with"))
    if type(constant) is bool and op in _ORDERS:
        raise LanguageError(f"{attribute!r} {op} {str(constant).lower()}: booleans have no order", expected="= or <>")
    if type(constant) is not str and op in _PATTERNS:
        raise LanguageError(f"'{op}' on {attribute!r} needs a string, not {constant!r}")
    return constant
