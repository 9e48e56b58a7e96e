"""The text of a scenario file, JSON or TOML, as plain values.

Rules of this file: it knows the two syntaxes and nothing of scenarios. What is no JSON or TOML is told with its line
and column. What JSON's syntax lets pass although no reader could mean it (a key given twice, NaN, a number past every
float) is refused too, with its place in the document: the parser marks it when it comes by, and the place is looked
for only then. The size of a file is bounded while it is read, as a pipe has no size to ask for.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from octopia.errors import ScenarioError
from octopia.hints import shortened

FILE_BYTES_MAX = 8 * 1024 * 1024
# Past the largest integer of a notification, and below what Python refuses to read for its own safety.
INTEGER_DIGITS_MAX = 4000

_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def read_file(path: Path) -> bytes:
    """The bytes of a file that is not too large to be a scenario."""
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ScenarioError("", f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        # A name with a null byte in it never reaches the file system.
        raise ScenarioError("", f"cannot be read: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ScenarioError("", f"is too large: a scenario has at most {FILE_BYTES_MAX:,} bytes")
    return data


def parse_text(data: bytes, *, toml: bool) -> Any:
    """The document as dicts, lists, texts and numbers."""
    try:
        # Some editors put a byte order mark first; it says nothing.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"line {line}", "is not UTF-8 text") from None
    if not text.strip():
        raise ScenarioError("", "is empty: a scenario has at least a tree and steps")
    try:
        return _toml(text) if toml else _json(text)
    except RecursionError:
        raise ScenarioError("", "is nested too deeply to be a scenario") from None


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
        # Python leads up to a position ("Unterminated string starting at"), which is told first here.
        problem = _lower(error.msg).removesuffix(" at").removesuffix(" starting")
        raise ScenarioError(f"line {error.lineno}, column {error.colno}", f"is not JSON: {problem}, {found}") from None
    marks.check(document)
    return document


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        found = _TOML_PLACE.fullmatch(str(error))
        if found is None:
            raise ScenarioError("", f"is not TOML: {_lower(str(error))}") from None
        problem, line, column = found.groups()
        place = f"line {line}, column {column}" if line else f"line {len(text.splitlines())}"
        raise ScenarioError(place, f"is not TOML: {_lower(problem)}{'' if line else ', and the text ends'}") from None


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


class _Marks:
    """Hooks of the JSON parser. They see values without their place, so they keep the very object to find it by.

    A marked value that a later, equal key replaced is not in the document any more; but then the object that held both
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
        return self._mark([], f"{word} is no JSON: a number is written in digits")

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
    """Every value with its place, an object before what it holds, in the order of the text."""
    stack: list[tuple[str, object]] = [("", document)]
    while stack:
        place, value = stack.pop()
        yield place, value
        if isinstance(value, dict):
            inside = [(f"{place}.{shortened(key)}".lstrip("."), held) for key, held in value.items()]
            stack.extend(reversed(inside))
        elif isinstance(value, list):
            stack.extend((f"{place}[{index}]", value[index]) for index in range(len(value) - 1, -1, -1))
