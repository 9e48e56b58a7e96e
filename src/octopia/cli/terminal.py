"""Printing: the two consoles and the formats that several commands share.

Output is plain text, never markup, since names and paths may contain brackets. Lines are not wrapped: a terminal does
that itself, and in a pipe each stays one line. A character that the output cannot encode is replaced by the nearest one
it can, so no locale makes a command fail. JSON stays exact everywhere: such characters are escaped.
"""

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from octopia.hints import one_line

if TYPE_CHECKING:
    from rich.table import Table

TEXT_CHARS_MAX = 300

# Replacements for the characters we print ourselves, for a terminal that has only ASCII.
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
    """Make standard output and standard error accept every character, whatever their encoding."""
    codecs.register_error(_FALLBACK, _nearest)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by the caller (`>&-`): discard the output.
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
    """Print a line of text; the terminal wraps it where it must."""
    console.print(text if isinstance(text, Text) else Text(text, style=style), soft_wrap=True)


def printable(text: str) -> str:
    """Foreign text for one line of a screen: without line breaks or control codes, and of bounded length."""
    line = one_line(text[: TEXT_CHARS_MAX + 1])
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[:TEXT_CHARS_MAX]}…"


def print_json(value: Any) -> None:
    """Print a result as JSON and nothing else. One line per entry, so that people can still read and grep it."""
    # Escape only characters that the stream would replace.
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
    """Print the problem in one line and, below it, a pointer to the place in the text, if there is one."""
    console = err()
    say(console, Text.assemble(("octopia:", "bold red"), " ", problem))
    if pointer is not None:
        say(console, pointer, "dim")


def table(*heads: str, **look: Any) -> "Table":
    """An empty table. A head that begins with `#` is that of a column of numbers; long cells wrap, so none is cut."""
    from rich.table import Table

    made = Table(**look)
    for head in heads:
        made.add_column(head.removeprefix("#"), justify="right" if head.startswith("#") else "left", overflow="fold")
    return made


@contextmanager
def progress_bar(
    console: Console, total: float = 1.0, *, remaining: bool = True
) -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal, called with what is under way and how much is done; elsewhere nothing."""
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
    columns += [TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn()]
    columns += [TextColumn("left"), TimeRemainingColumn()] if remaining else []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda words, done: bar.update(task, description=words, completed=done)


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """A progress line on standard error that is overwritten in place; prints nothing unless on a terminal."""
    console = err()
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(text))
