"""The text of a scenario file, JSON or TOML, as plain values.

This module knows the two syntaxes and nothing of scenarios. Invalid JSON or TOML is reported with its line and column.
JSON that parses but cannot be intended (a duplicate key, NaN, a number too large for a float) is refused too, with its
place in the document: the parser marks the value, and its place is searched for only then. The size of a file is
bounded while it is read, since a pipe does not have a known size.
"""

import json
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from octopia.errors import InputError, ScenarioError
from octopia.hints import shortened
from octopia.toml_file import decoded, parse_toml, read_bounded

FILE_BYTES_MAX = 8 * 1024 * 1024
# Past the largest integer of a notification, and below what Python refuses to read for its own safety.
INTEGER_DIGITS_MAX = 4000


def read_file(path: Path) -> bytes:
    """The bytes of a file, if it is not too large for a scenario."""
    try:
        return read_bounded(path, FILE_BYTES_MAX)
    except InputError as error:
        raise ScenarioError("", str(error)) from None


def parse_text(data: bytes, *, toml: bool) -> Any:
    """The document as dicts, lists, texts and numbers."""
    try:
        text = decoded(data)
        if not text.strip():
            raise ScenarioError("", "is empty: a scenario has at least a tree and steps")
        return parse_toml(text) if toml else _json(text)
    except ScenarioError:
        raise
    except InputError as error:
        raise ScenarioError("", str(error)) from None
    except RecursionError:
        raise ScenarioError("", "is nested too deeply") from None


def _json(text: str) -> Any:
    marks = _Marks()
    try:
        document = json.loads(
            text,
            object_pairs_hook=marks.on_object,
            parse_constant=marks.on_constant,
            parse_float=marks.on_float,
            parse_int=marks.on_int,
        )
    except json.JSONDecodeError as error:
        found = f"found {error.doc[error.pos]!r}" if error.pos < len(error.doc) else "the text ends"
        # Python's message leads up to a position ("Unterminated string starting at"), which comes first here.
        problem = _lower(error.msg).removesuffix(" at").removesuffix(" starting")
        raise ScenarioError(f"line {error.lineno}, column {error.colno}", f"is not JSON: {problem}, {found}") from None
    marks.check(document)
    return document


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


class _Marks:
    """Hooks of the JSON parser. They see values without their place, so they keep the object itself to find it by.

    A marked value that a later duplicate key replaced is no longer in the document; but then the object that held both
    is marked itself, and is found.
    """

    def __init__(self) -> None:
        self._problems: dict[int, str] = {}
        self._kept: list[object] = []

    def on_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key in counts if counts[key] > 1)
            self._mark(built, f"the key {shortened(twice)!r} is given twice")
        return built

    def on_constant(self, word: str) -> Any:
        return self._mark([], f"{word} is not JSON: a number is written in digits")

    def on_float(self, digits: str) -> Any:
        value = float(digits)
        return value if isfinite(value) else self._mark([], f"{shortened(digits)} is too large for a number")

    def on_int(self, digits: str) -> Any:
        if len(digits) > INTEGER_DIGITS_MAX:
            return self._mark([], f"a number of {len(digits):,} digits is too large")
        return int(digits)

    def check(self, document: object) -> None:
        """Refuse the document for the first of its marked values."""
        if self._problems:
            for place, value in _walk(document):
                if id(value) in self._problems:
                    raise ScenarioError(place, self._problems[id(value)])

    def _mark(self, value: object, problem: str) -> Any:
        # Kept alive, so that no other object can come to have its id.
        self._kept.append(value)
        self._problems[id(value)] = problem
        return value


def _walk(document: object) -> Iterator[tuple[str, object]]:
    """Every value with its place, an object before its members, in the order of the text."""
    stack: list[tuple[str, object]] = [("", document)]
    while stack:
        place, value = stack.pop()
        yield place, value
        if isinstance(value, dict):
            inside = [(f"{place}.{shortened(key)}".lstrip("."), held) for key, held in value.items()]
            stack.extend(reversed(inside))
        elif isinstance(value, list):
            stack.extend((f"{place}[{index}]", value[index]) for index in range(len(value) - 1, -1, -1))
