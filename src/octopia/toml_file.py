"""Reads the TOML files that people write: overlays, settings, models, scenarios.

A file is read whole, so it has a maximum size. Errors are one line without the file's name, which the caller knows and
puts in front: `line 2, column 7: is not TOML: invalid value`.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from octopia.errors import InputError

_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """The bytes of a file of at most this size."""
    try:
        with path.open("rb") as stream:
            data = stream.read(bytes_max + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        # A name with a null byte in it never reaches the file system.
        raise InputError(f"cannot be read: {error}") from None
    if len(data) > bytes_max:
        raise InputError(f"is too large: it may have at most {bytes_max:,} bytes")
    return data


def decoded(data: bytes) -> str:
    """The text of a file."""
    try:
        # Some editors write a byte order mark first; it is ignored.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line}: is not UTF-8 text") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The document in a text."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        problem, place = str(error), ""
        if found := _PLACE.fullmatch(problem):
            problem, line, column = found.groups()
            place = f"line {line}, column {column}: " if line else f"line {len(text.splitlines())}: "
            problem += "" if line else ", and the text ends"
        raise InputError(f"{place}is not TOML: {problem[:1].lower()}{problem[1:]}") from None
