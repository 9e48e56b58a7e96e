"""What predicates mean, written a second time, for judging the package.

It shares no code with `octopia.language` beyond the enumeration of operators. It is slow and plain:
relations are decided by trying every notification of a small universe that has the neighbours of every constant in it.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from math import ceil, floor, inf, nextafter

from octopia.language import Conjunction, Filter, Operator, Predicate, Value

Attributes = Mapping[str, Value]


def kind(value: object) -> str:
    if value is True or value is False:
        return "bool"
    return "string" if isinstance(value, str) else "number"


def holds(predicate: Predicate, value: Value) -> bool:
    """Whether the value satisfies the predicate, from the definition."""
    constant = predicate.value
    if predicate.operator is Operator.PRESENT:
        return True
    if kind(constant) != kind(value):
        return False
    match predicate.operator:
        case Operator.EQ:
            return value == constant
        case Operator.NE:
            return value != constant
        case Operator.LT:
            return value < constant  # type: ignore[operator]
        case Operator.LE:
            return not value > constant  # type: ignore[operator]
        case Operator.GT:
            return value > constant  # type: ignore[operator]
        case Operator.GE:
            return not value < constant  # type: ignore[operator]
        case _:
            return _holds_pattern(predicate.operator, str(constant), str(value))


def _holds_pattern(operator: Operator, piece: str, value: str) -> bool:
    places = [i for i in range(len(value) - len(piece) + 1) if value[i : i + len(piece)] == piece]
    answers = {
        Operator.PREFIX: 0 in places,
        Operator.POSTFIX: len(value) - len(piece) in places,
        Operator.CONTAINS: bool(places),
        Operator.NOT_PREFIX: 0 not in places,
        Operator.NOT_POSTFIX: len(value) - len(piece) not in places,
        Operator.NOT_CONTAINS: not places,
    }
    return answers[operator]


def satisfies(conjunction: Iterable[Predicate], attributes: Attributes) -> bool:
    return all(p.attribute in attributes and holds(p, attributes[p.attribute]) for p in conjunction)


def matches(wanted: Filter, attributes: Attributes) -> bool:
    return any(satisfies(conjunction, attributes) for conjunction in wanted)


def conforms(attributes: Attributes, promised: Filter) -> bool:
    def one(conjunction: Conjunction) -> bool:
        named = {p.attribute for p in conjunction}
        return set(attributes) <= named and all(
            holds(p, attributes[p.attribute]) for p in conjunction if p.attribute in attributes
        )

    return any(one(conjunction) for conjunction in promised)


def neighbours(constant: object) -> list[Value]:
    """The constant and its neighbours, above and below."""
    if kind(constant) == "bool":
        return [True, False]
    if isinstance(constant, str):
        return [constant, constant + "\0", constant + "~", constant[:-1], "~" + constant, constant + constant]
    assert isinstance(constant, int | float)
    if constant in (inf, -inf):
        return [constant]
    around: list[Value] = [constant, constant - 1, constant + 1, floor(constant), ceil(constant)]
    if abs(constant) < 2**53:
        around += [nextafter(constant, inf), nextafter(constant, -inf), float(constant)]
    return around


def universe(filters: Iterable[Filter]) -> list[dict[str, Value]]:
    """Every non-empty notification over the attributes of the filters, with the interesting values of each."""
    found: dict[str, list[Value | None]] = {}
    for predicate in (p for f in filters for conjunction in f for p in conjunction):
        values = found.setdefault(predicate.attribute, [None, inf, -inf, "", "~", True, False])
        if predicate.value is not None:
            values.extend(neighbours(predicate.value))
    distinct = {name: list({(kind(v), v): v for v in values}.values()) for name, values in found.items()}
    every = (dict(zip(distinct, values, strict=True)) for values in product(*distinct.values()))
    present = ({name: value for name, value in one.items() if value is not None} for one in every)
    return [one for one in present if one]
