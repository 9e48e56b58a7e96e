"""Printing: the two consoles and the forms that several commands share.

Rules of this file: what is printed is text, never markup, since names and paths may hold brackets. Lines are not
folded: a terminal folds them itself, and in a pipe each stays one line. A terminal or a pipe that cannot show a
character gets the nearest it can: no locale makes a command fail. JSON stays exact everywhere: what cannot be shown is
escaped.
"""

import codecs
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from octopia.hints import one_line

TEXT_CHARS_MAX = 300

# The characters of our own screens, for a terminal that has only ASCII.
_ASCII = {
    "→": "->", "×": "x", "–": "-", "…": "...", "●": "*", "○": "o", "□": "x", "τ": "tau", "≥": ">=", "≤": "<=",
    "─": "-", "│": "|", "├": "+", "└": "+", "┌": "+", "┐": "+", "┘": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
}  # fmt: skip
_FALLBACK = "octopia-ascii"


def _nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_ASCII.get(character, "?") for character in error.object[error.start : error.end]), error.end


def prepare_streams() -> None:
    """Let standard output and standard error take every character, whatever their encoding."""
    codecs.register_error(_FALLBACK, _nearest)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by the caller (`>&-`), who wants nothing of it.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, open(nowhere, "w", encoding="utf-8", closefd=False))  # noqa: SIM115  until the end
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors=_FALLBACK)


def out() -> Console:
    """Standard output, for results."""
    return Console(highlight=False, markup=False, emoji=False)


def err() -> Console:
    """Standard error, for everything else."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str | Text = "", style: str = "") -> None:
    """A line of text; the terminal folds it where it must."""
    console.print(text if isinstance(text, Text) else Text(text, style=style), soft_wrap=True)


def printable(text: str) -> str:
    """Somebody's text for one line of a screen: it breaks no line, commands no terminal, and ends."""
    line = one_line(text[: TEXT_CHARS_MAX + 1])
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[:TEXT_CHARS_MAX]}…"


def print_json(value: Any) -> None:
    """A result for a program: JSON, and nothing else. A line per entry, so that a person can still read and grep it."""
    # Escapes only where the stream would put something else in a character's place.
    escaped = "utf" not in (sys.stdout.encoding or "").lower()
    for line in _json_lines(value, escaped):
        sys.stdout.write(line)


def _json_lines(value: Any, escaped: bool) -> Iterator[str]:
    def text(part: Any) -> str:
        return json.dumps(part, ensure_ascii=escaped)

    if isinstance(value, list):
        yield from _list_lines([text(entry) for entry in value], "")
        yield "\n"
    elif isinstance(value, dict):
        yield "{"
        for number, (key, part) in enumerate(value.items()):
            yield f"{',' if number else ''}\n {text(key)}: "
            yield from _list_lines([text(entry) for entry in part], " ") if isinstance(part, list) else [text(part)]
        yield "\n}\n"
    else:
        yield f"{text(value)}\n"


def _list_lines(entries: list[str], indent: str) -> Iterator[str]:
    yield "["
    for number, entry in enumerate(entries):
        yield f"{',' if number else ''}\n{indent} {entry}"
    yield f"\n{indent}]" if entries else "]"


def fail(problem: str, pointer: str | None = None) -> None:
    """One line that says what is wrong, and below it where, if there is a text to point into."""
    console = err()
    say(console, Text.assemble(("octopia:", "bold red"), " ", problem))
    if pointer is not None:
        say(console, pointer, "dim")
