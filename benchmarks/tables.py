"""Tables of figures, for the screen and for a page of the documentation."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Figures(NamedTuple):
    """A table: the first column is a name, the others are numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def show(tables: Sequence[Figures], width: int = 140) -> None:
    """On the screen."""
    console = Console(width=width)
    for title, head, rows in tables:
        table = Table(title=title)
        for number, column in enumerate(head):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(tables: Sequence[Figures]) -> str:
    """As sections of a page."""
    parts = []
    for title, head, rows in tables:
        parts.append(f"## {title}\n\n{grid(head, rows)}")
    return "\n\n".join(parts) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """One table in Markdown, without its title."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
