"""Printing: the two consoles and the forms that several commands share."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape


def out() -> Console:
    """Standard output, for results."""
    return Console(highlight=False)


def err() -> Console:
    """Standard error, for everything else."""
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """A result for a program: JSON, and nothing else."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def fail(problem: str, pointer: str | None = None) -> None:
    """One line that says what is wrong, and below it where, if there is a text to point into."""
    console = err()
    console.print(f"[bold red]octopia:[/] {escape(problem)}", soft_wrap=True)
    if pointer is not None:
        console.print(escape(pointer), soft_wrap=True, style="dim")
