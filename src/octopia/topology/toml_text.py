"""The text of an overlay file: TOML, with the line of every key for error messages.

`toml_file` reads and parses; this module only finds the line of a table or key. If the line cannot be found (a key
inside an inline table), the error names the key alone. An error is one line: file, line, key, the fault and the fix.
Every reader of a table goes through here: `overlay_file` for its own tables, the network layer for the rest.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from octopia.errors import InputError, OctopiaError, PlacementError, TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.toml_file import decoded, parse_toml, read_bounded
from octopia.topology.limits import BROKERS_MAX

# Room for the largest overlay with the longest labels, and no more: the file is read whole.
BYTES_MAX = BROKERS_MAX * 200
_KINDS: dict[str, type[InputError]] = {"overlay": TopologyError, "placement": PlacementError, "sites": TopologyError}
_T = TypeVar("_T")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_HEADER = re.compile(rf"^\s*\[\[?\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]\]?\s*(?:#.*)?$")


class TomlText:
    """A parsed overlay file."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = Path(path)
        try:
            self.text = decoded(read_bounded(self.file, BYTES_MAX))
            self.document = parse_toml(self.text)
        except InputError as error:
            raise TopologyError(f"{self.file}: {error}") from None

    def line_of(self, table: str, key: str | None = None, number: int = 0) -> int | None:
        """The line of a key in a table, or of the table's head; `number` counts tables of the same name."""
        seen = -1
        inside = before_tables = False
        for at, line in enumerate(self.text.split("\n"), 1):
            header = self._header(line)
            before_tables = header is None and (at == 1 or before_tables)
            if before_tables and key is None and _key_of(line) == table:
                return at
            if header is not None:
                if header == f"{table}.{key}" and seen <= number:
                    return at
                inside = header == table
                seen += inside
                if inside and seen == number and key is None:
                    return at
            elif inside and seen == number and key is not None and _key_of(line) == key:
                return at
        return None

    def _header(self, line: str) -> str | None:
        """The table that begins at this line. A line inside a list of lists may look like one, but names no table."""
        found = _HEADER.match(line)
        if found is None:
            return None
        name = re.sub(r"[\s\"']", "", found[1])
        return name if name.partition(".")[0] in self.document else None

    def error(self, table: str, key: str | None, problem: str, number: int = 0) -> InputError:
        """The error to raise about a key, or a whole table."""
        line = self.line_of(table, key, number)
        where = f"{self.file}: " + (f"line {line}: " if line else "")
        kind = _KINDS.get(table, InputError)
        return kind(f"{where}{table}{'.' + key if key else ''}: {problem}")

    @contextmanager
    def at(self, table: str, key: str | None, number: int = 0) -> Iterator[None]:
        """Attribute errors raised in the block to this key, or this table."""
        try:
            yield
        except OctopiaError as error:
            raise self.error(table, key, str(error), number) from None

    def check_keys(self, table: str, content: dict[str, Any], known: tuple[str, ...], number: int = 0) -> None:
        for key in content:
            if key not in known:
                hint = maybe_meant(key, known)
                raise self.error(table, key, f"unknown key{hint}; known are {', '.join(known)}", number)

    def check_tables(self, known: tuple[str, ...]) -> None:
        """Refuse an unknown table, or an unknown key before all tables."""
        for name in self.document:
            if name not in known:
                raise self.error(name, None, f"unknown{maybe_meant(name, known)}; known are {', '.join(known)}")

    def table(self, name: str, known: tuple[str, ...]) -> dict[str, Any]:
        """A table of the file, empty where it is missing."""
        content = self.document.get(name, {})
        if not isinstance(content, dict):
            raise self.error(name, None, f"must be a table: write [{name}]")
        self.check_keys(name, content, known)
        return content

    def typed(
        self, table: str, content: dict[str, Any], key: str, kind: type[_T], words: str, default: _T, number: int = 0
    ) -> _T:
        value: Any = content.get(key, default)
        if kind is float and type(value) is int:
            value = float(value)
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        raise self.error(table, key, f"must be {words}, not {shortened(repr(value))}", number)


def _key_of(line: str) -> str:
    name = line.partition("=")[0].strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name
