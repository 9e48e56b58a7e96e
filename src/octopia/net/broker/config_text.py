"""TOML text with the line of every key, for errors that say where.

Rules of this file: `tomllib` reads; this only finds where a table or key was written, by looking for its line. Where it
cannot be found (a key inside an inline table) the error names the key alone. An error is one line: file, line, key,
what is wrong and what would be right.
"""

import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from octopia.errors import InputError
from octopia.hints import maybe_meant, shortened

BYTES_MAX = 32 * 1024 * 1024
_T = TypeVar("_T")
_HEADER = re.compile(r"^\s*\[\[?\s*([^\]#]+?)\s*\]\]?")


class ConfigText:
    """A parsed file."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = Path(path)
        try:
            with self.file.open("rb") as stream:
                content = stream.read(BYTES_MAX + 1)
        except FileNotFoundError:
            raise InputError(f"{self.file}: no such file") from None
        except OSError as error:
            raise InputError(f"{self.file}: cannot be read: {error.strerror or error}") from None
        if len(content) > BYTES_MAX:
            raise InputError(f"{self.file}: larger than {BYTES_MAX:,} bytes")
        try:
            self.text = content.decode("utf-8")
            self.document: dict[str, Any] = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise InputError(f"{self.file}: line {line}: the text is not UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{self.file}: no TOML: {error}") from None
        except RecursionError:
            raise InputError(f"{self.file}: no TOML: values are nested too deeply") from None

    def line_of(self, table: str, key: str | None = None, number: int = 0) -> int | None:
        """The line of a key in a table, or of the table's head; `number` counts tables of the same name."""
        seen = -1
        inside = before_tables = False
        for at, line in enumerate(self.text.splitlines(), 1):
            header = _HEADER.match(line)
            before_tables = header is None and (at == 1 or before_tables)
            if before_tables and key is None and _key_of(line) == table:
                return at
            if header is not None:
                inside = header[1].replace(" ", "") == table
                seen += inside
                if inside and seen == number and key is None:
                    return at
            elif inside and seen == number and key is not None and _key_of(line) == key:
                return at
        return None

    def error(self, table: str, key: str | None, problem: str, number: int = 0) -> InputError:
        line = self.line_of(table, key, number)
        where = f"{self.file}: " + (f"line {line}: " if line else "")
        return InputError(f"{where}{table}{'.' + key if key else ''}: {problem}")

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
            raise InputError(f"{self.file}: {name} must be a table: write [{name}]")
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
