"""The shape of a scenario: its fields and their permitted values.

Each value is checked on its own, without an overlay; `scenario.py` checks names and order. Every error is one line with
the place, the expected value and the actual one. Unknown fields are refused, since ignoring a misspelt one would run a
different scenario than intended. Names must be printable, since they are shown on a terminal.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from octopia.embedded.network import DELAY_MAX, QUEUE_MAX
from octopia.errors import ScenarioError
from octopia.hints import maybe_meant, shortened
from octopia.routing import COVERINGS, CongestionParameters

STEPS_MAX = 100_000
NAME_CHARS_MAX = 200
# Upper bound of any number in a scenario: a larger one is a mistake, and its digits are not printed.
NUMBER_MAX = QUEUE_MAX

# All the covering that the routing can do.
MOST_COVERING = "most"

At = str | tuple[str, int]


class StepForm(Struct, frozen=True):
    """One step as written; fields that its kind does not have are None."""

    do: str
    client: str = ""
    id: str = ""
    filter: str = ""
    notification: str | dict[str, Any] = ""
    at: At | None = None
    link: tuple[At, At] | None = None
    queue: int = 0
    delay: int = 0
    broker: At | None = None


class ScenarioForm(Struct, frozen=True):
    """A scenario as written."""

    tree: str | list[tuple[str, str]]
    steps: list[StepForm]
    clusters: int | None = None
    routing: str = "idr"
    title: str = ""
    tau: float = CongestionParameters().tau
    covering: str = "none"


class _Field(NamedTuple):
    """A field's check, which returns None for a value that is not `words`."""

    check: Callable[[Any], Any]
    words: str
    required: bool = True


def scenario_form(document: object) -> ScenarioForm:
    """Check the shape of a whole document."""
    if not isinstance(document, dict):
        raise ScenarioError("", f"must be an object with a tree and steps, not {shown(document)}")
    fields = _fields("", "a scenario", document, _SCENARIO)
    steps = [step_form(f"steps[{number}]", step) for number, step in enumerate(fields.pop("steps"))]
    return ScenarioForm(steps=steps, **fields)


def step_form(place: str, step: object) -> StepForm:
    """Check the shape of one step."""
    if not isinstance(step, dict):
        raise ScenarioError(place, f"must be a step such as {_EXAMPLE}, not {shown(step)}")
    if "do" not in step:
        raise ScenarioError(f"{place}.do", f"missing: say what to do, {_one_of(STEP_NAMES)}")
    do = step["do"]
    if not isinstance(do, str) or do not in STEPS:
        near = maybe_meant(do, STEPS) if isinstance(do, str) else ""
        raise ScenarioError(f"{place}.do", f"unknown step {shown(do)}{near}; steps are {', '.join(STEP_NAMES)}")
    return StepForm(do, **_fields(place, do, {key: held for key, held in step.items() if key != "do"}, STEPS[do]))


def _fields(place: str, whose: str, given: dict[str, Any], known: dict[str, _Field]) -> dict[str, Any]:
    inside = f"{place}." if place else ""
    for name in given:
        if name not in known:
            raise ScenarioError(
                f"{inside}{shortened(str(name))}",
                f"unknown field{maybe_meant(str(name), known)}; {whose} has {', '.join(known)}",
            )
    for name, field in known.items():
        if field.required and name not in given:
            raise ScenarioError(f"{inside}{name}", f"missing: {whose} needs {field.words}")
    checked = {}
    for name, value in given.items():
        checked[name] = known[name].check(value)
        if checked[name] is None:
            raise ScenarioError(f"{inside}{name}", f"must be {known[name].words}, not {shown(value)}")
    return checked


def shown(value: object) -> str:
    """A value as the file spells it, shortened to fit on one line."""
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= NAME_CHARS_MAX and value.isprintable() else None


def _title(value: object) -> str | None:
    return "" if value == "" else _name(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= NUMBER_MAX else None


def _up_to(most: int) -> Callable[[object], int | None]:
    def check(value: object) -> int | None:
        number = _whole(value)
        return number if number is not None and 0 <= number <= most else None

    return check


def _tau(value: object) -> float | None:
    number = value if isinstance(value, float) else _whole(value)
    # NaN, which TOML has, is not over 0 either.
    return float(number) if number is not None and 0 < number <= NUMBER_MAX else None


def _covering(value: object) -> str | None:
    if isinstance(value, bool):
        return MOST_COVERING if value else "none"
    return value if isinstance(value, str) and value in COVERINGS else None


def _at(value: object) -> At | None:
    if isinstance(value, str):
        return _name(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    region, cluster = _name(value[0]), _whole(value[1])
    return None if region is None or cluster is None else (region, cluster)


def _link(value: object) -> tuple[At, At] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    sender, receiver = _at(value[0]), _at(value[1])
    return None if sender is None or receiver is None else (sender, receiver)


def _notification(value: object) -> str | dict[str, Any] | None:
    return value if isinstance(value, str | dict) else None


def _tree(value: object) -> str | list[tuple[str, str]] | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        return None
    edges = []
    for place, edge in enumerate(value):
        if not isinstance(edge, list | tuple) or len(edge) != 2 or not all(isinstance(label, str) for label in edge):
            raise ScenarioError(f"tree[{place}]", f'must be an edge such as ["a", "b"], not {shown(edge)}')
        edges.append((edge[0], edge[1]))
    return edges


def _steps(value: object) -> list[Any] | None:
    if not isinstance(value, list | tuple):
        return None
    if len(value) > STEPS_MAX:
        raise ScenarioError("steps", f"{len(value):,} steps, at most {STEPS_MAX:,} are allowed")
    return list(value)


_NAME_WORDS = f"a name of 1 to {NAME_CHARS_MAX} printable characters"
_BROKER_WORDS = '["b", 2] or "b,2"'

_CLIENT = {"client": _Field(_name, _NAME_WORDS)}
_ID = {"id": _Field(_name, _NAME_WORDS)}
_FILTER = {"filter": _Field(_text, 'a filter as text, such as "[class,eq,\'STOCK\'],[x,>,3]" or "x > 3"')}
_AT = {"at": _Field(_at, f"a broker such as {_BROKER_WORDS}", required=False)}
_LINK = {"link": _Field(_link, 'a link, two brokers such as [["b", 2], ["b", 0]]')}

STEPS: dict[str, dict[str, _Field]] = {
    "advertise": _CLIENT | _ID | _FILTER | _AT,
    "unadvertise": _CLIENT | _ID | _AT,
    "subscribe": _CLIENT | _ID | _FILTER | _AT,
    "unsubscribe": _CLIENT | _ID | _AT,
    "publish": _CLIENT
    | _ID
    | {"notification": _Field(_notification, 'a notification such as "[class,\'STOCK\'],[x,5]" or {"x": 5}')}
    | _AT,
    "overload": _LINK
    | {"queue": _Field(_up_to(NUMBER_MAX), f"a queue length, a whole number from 0 to {NUMBER_MAX:,}")}
    | {"delay": _Field(_up_to(DELAY_MAX), f"a delay in links, a whole number from 0 to {DELAY_MAX:,}", required=False)},
    "relieve": _LINK,
    "leave": _CLIENT | _AT,
    "cut": _LINK,
    "mend": _LINK,
    "crash": {"broker": _Field(_at, f"a broker such as {_BROKER_WORDS}")},
}
STEP_NAMES = tuple(STEPS)

_SCENARIO: dict[str, _Field] = {
    "tree": _Field(_tree, 'a tree, a name such as "path:3" or edges such as [["a", "b"], ["b", "c"]]'),
    "steps": _Field(_steps, "a list of steps"),
    "clusters": _Field(_whole, "a number of clusters, a whole number from 1", required=False),
    "routing": _Field(_name, "the name of a routing", required=False),
    "title": _Field(_title, f"one line of at most {NAME_CHARS_MAX} printable characters", required=False),
    "tau": _Field(_tau, f"a number over 0 and at most {NUMBER_MAX:,}", required=False),
    "covering": _Field(_covering, 'true, false, "none", "host" or "link"', required=False),
}

_EXAMPLE = '{"do": "publish", "client": "P", "id": "n1", "notification": {"x": 5}}'
