"""The text of an overlay file: TOML, with the line of every key for errors that say where.

`tomllib` reads; this only finds where a table or key was written, by looking for its line. Where it cannot be found (a
key inside an inline table) the error names the key alone. An error is one line: file, line, key, what is wrong and what
would be right. Whoever reads a table of the file asks here: `overlay_file` for its own, the network layer for the rest.
"""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from octopia.errors import InputError, OctopiaError, PlacementError, TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.topology.limits import BROKERS_MAX

# Room for the largest overlay with the longest labels, and no more: the file is read whole.
BYTES_MAX = BROKERS_MAX * 200
_KINDS: dict[str, type[InputError]] = {"overlay": TopologyError, "placement": PlacementError}
_T = TypeVar("_T")
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_HEADER = re.compile(rf"^\s*\[\[?\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]\]?\s*(?:#.*)?$")


class TomlText:
    """A parsed overlay file."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = Path(path)
        content = self._read()
        try:
            self.text = content.decode("utf-8")
            self.document: dict[str, Any] = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise TopologyError(f"{self.file}: line {line}: the text is not UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise TopologyError(f"{self.file}: no TOML: {error}") from None
        except RecursionError:
            raise TopologyError(f"{self.file}: no TOML: values are nested too deeply") from None

    def _read(self) -> bytes:
        try:
            with self.file.open("rb") as stream:
                content = stream.read(BYTES_MAX + 1)
        except FileNotFoundError:
            raise TopologyError(f"{self.file}: no such file") from None
        except OSError as error:
            raise TopologyError(f"{self.file}: cannot be read: {error.strerror or error}") from None
        if len(content) > BYTES_MAX:
            raise TopologyError(f"{self.file}: the file is larger than {BYTES_MAX:,} bytes")
        return content

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
        """The table that begins at this line. What looks like one inside a list of lists names none of the file."""
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
        """Errors from inside are about this key, or this table."""
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
        """Refuse a table, or a key before all tables, that is not known."""
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
