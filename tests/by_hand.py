"""Random conditions and notifications, with their truth worked out by hand.

The truth of a condition is three-valued, as in SQL: a comparison with an absent attribute, or with a value of another
kind, is neither true nor false. Nothing here uses `octopia`: brokers are judged by it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

Values = Mapping[str, Any]
Truth = Callable[[Values], bool | None]

TEXTS = ("", "A", "AA", "AAPL", "AMD", "IBM", "B%", "it's", "é", "éa", "日本", "日", "\U0001f419", "a\0b", "x" * 40)
NUMBERS = (
    0, 1, 2, 3, -1, -5, 0.5, 1.0, 2.5, -0.0, 1e300, -1e300, 2**53, 2**53 - 1, 2.0**53, -(2**53),
    127, 128, 255, 256, 65535, 65536, -32, -33, -129, 2**32,
)  # fmt: skip
# Not floats, or not even of 64 bits: readers and indexes treat them apart.
RARE = (2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**30, -(10**400), inf, -inf)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
# The usual type of each attribute.
USUAL = {"symbol": "text", "name": "text", "price": "number", "size": "number", "open": "flag"}


@dataclass(frozen=True)
class Condition:
    """A where-clause, and its value for a notification."""

    text: str
    truth: Truth

    def holds(self, values: Values) -> bool:
        return self.truth(values) is True


@dataclass(frozen=True)
class Promise:
    """An advertisement: alternatives, each with conditions by attribute."""

    alternatives: tuple[Mapping[str, tuple[Condition, ...]], ...]

    @property
    def text(self) -> str:
        conjunctions = (
            " and ".join(condition.text for conditions in each.values() for condition in conditions)
            for each in self.alternatives
        )
        return " or ".join(conjunctions)

    def allows(self, values: Values) -> bool:
        """Whether an alternative names every attribute of a notification and accepts its value."""
        return any(
            all(name in each and all(c.holds(values) for c in each[name]) for name in values)
            for each in self.alternatives
        )


def kind_of(value: Any) -> str:
    return "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def compared(name: str, operator: str, constant: Any) -> Condition:
    holds = COMPARISONS[operator]

    def truth(values: Values) -> bool | None:
        value = values.get(name)
        return None if value is None or kind_of(value) != kind_of(constant) else holds(value, constant)

    return Condition(f"{name} {operator} {literal(constant)}", truth)


def like(name: str, text: str, before: bool, after: bool, negated: bool) -> Condition:
    """`text` at the end, at the beginning, or anywhere."""
    escaped = text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    pattern = literal(("%" if before else "") + escaped + ("%" if after else ""))

    def truth(values: Values) -> bool | None:
        value = values.get(name)
        if not isinstance(value, str):
            return None
        found = text in value if before and after else value.endswith(text) if before else value.startswith(text)
        return found is not negated

    return Condition(f"{name} {'not ' if negated else ''}like {pattern} escape '!'", truth)


def present(name: str) -> Condition:
    return Condition(f"{name} is not null", lambda values: name in values)


def both(some: list[Condition]) -> Condition:
    def truth(values: Values) -> bool | None:
        each = [condition.truth(values) for condition in some]
        return False if False in each else None if None in each else True

    return Condition(" and ".join(f"({c.text})" for c in some), truth)


def either(some: list[Condition]) -> Condition:
    def truth(values: Values) -> bool | None:
        each = [condition.truth(values) for condition in some]
        return True if True in each else None if None in each else False

    return Condition(" or ".join(f"({c.text})" for c in some), truth)


def negated(condition: Condition) -> Condition:
    def truth(values: Values) -> bool | None:
        inner = condition.truth(values)
        return None if inner is None else not inner

    return Condition(f"not ({condition.text})", truth)


class Words:
    """Draws conditions and notifications over some attributes: the usual ones, and as many more."""

    def __init__(self, draw: random.Random, more: int, rare: bool) -> None:
        """`rare`: numbers may be huge, or infinite.

        Brokers keep much of what they work out until filters of a new kind come. So in some stories nearly all
        notifications have the same attributes, and patterns, presence tests and other types come now and then only.
        """
        self.draw = draw
        self.alike = draw.random() < 0.6
        self.unusual = draw.choice((0.02, 0.1, 0.5))
        self.numbers = (*NUMBERS, *RARE) if rare else NUMBERS
        self.names = (*USUAL, *(f"a{n}" for n in range(more)))

    def constant(self, name: str) -> Any:
        draw = self.draw
        kind = (
            USUAL.get(name, "number") if draw.random() > 0.3 * self.unusual else draw.choice(("text", "number", "flag"))
        )
        if kind == "flag":
            return draw.random() < 0.5
        if kind == "text":
            return draw.choice(TEXTS)
        return (
            draw.choice(self.numbers)
            if draw.random() < 0.3
            else draw.choice((draw.randint(-4, 6), draw.uniform(-4, 6)))
        )

    def name(self) -> str:
        draw = self.draw
        return draw.choice(tuple(USUAL)) if draw.random() < (0.98 if self.alike else 0.7) else draw.choice(self.names)

    def simple(self, name: str | None = None) -> Condition:
        """One comparison, range, list, pattern or presence test."""
        draw = self.draw
        name = name or self.name()
        form = draw.random()
        if form < 0.2 * self.unusual:
            return present(name)
        constant = self.constant(name)
        if isinstance(constant, bool):
            return compared(name, draw.choice(("=", "<>")), constant)
        if form < 0.2:
            listed = [constant, *(self.constant(name) for _ in range(draw.randint(0, 3)))]
            some = either([compared(name, "=", each) for each in listed])
            return Condition(f"{name} in ({', '.join(map(literal, listed))})", some.truth)
        if form < 0.3 and not isinstance(constant, str):
            other = draw.choice(self.numbers)
            low, high = compared(name, ">=", constant), compared(name, "<=", other)
            return Condition(f"{name} between {literal(constant)} and {literal(other)}", both([low, high]).truth)
        if isinstance(constant, str) and constant and draw.random() < self.unusual:
            before = draw.random() < 0.5
            return like(name, constant, before, not before or draw.random() < 0.5, draw.random() < 0.3)
        usual = ("=", "<>") if isinstance(constant, str) and draw.random() > self.unusual else tuple(COMPARISONS)
        return compared(name, draw.choice(usual), constant)

    def condition(self, depth: int = 2) -> Condition:
        draw = self.draw
        form = draw.random() if depth else 0.0
        if form < 0.35:
            return self.simple()
        if form < 0.75:
            return both([self.condition(depth - 1) for _ in range(draw.randint(2, 3))])
        if form < 0.9:
            return either([self.condition(depth - 1) for _ in range(draw.randint(2, 3))])
        inner = self.condition(depth - 1)
        return inner if "is not null" in inner.text else negated(inner)

    def subscription(self) -> Condition:
        if self.draw.random() < 0.04:
            return Condition("true", lambda _: True)
        # lists and alternatives under an `and` multiply, and brokers take filters of a certain size only
        while (drawn := self.condition()).text.count(",") + drawn.text.count(" or ") > 5:
            pass
        return drawn

    def of_all_kinds(self) -> Condition:
        """A condition on every usual attribute."""
        some = [compared(name, "=", self.constant(name)) for name in USUAL]
        return both([*some, compared("price", ">", self.draw.randint(-4, 6))])

    def promise(self) -> Promise:
        """Most allow everything; some test values, or leave attributes out."""
        draw = self.draw
        if draw.random() < 0.5:
            return Promise(({name: (present(name),) for name in self.names},))
        alternatives = []
        for _ in range(draw.choice((1, 1, 2))):
            named = [name for name in self.names if draw.random() < 0.9] or ["price"]
            tested = draw.sample(named, min(len(named), draw.randint(0, 3)))
            alternatives.append({name: ((self.simple if name in tested else present)(name),) for name in named})
        return Promise(tuple(alternatives))

    def values(self) -> dict[str, Any]:
        draw = self.draw
        if self.alike and draw.random() < 0.97:
            return {name: self.constant(name) for name in USUAL}
        made = {name: self.constant(name) for name in USUAL if draw.random() < 0.8}
        for _ in range(draw.choice((0, 0, 1, 3)) if len(self.names) > len(USUAL) else 0):
            name = draw.choice(self.names)
            made[name] = self.constant(name)
        if draw.random() < 0.3:
            made = dict(sorted(made.items(), key=lambda _: draw.random()))
        return made or {"price": draw.randint(-4, 6)}
