"""What parsing a filter costs: `python -m benchmarks parsing`.

CPU µs from text to `Filter`, the median of many calls, without any cache. The baseline of the same run is sqlglot,
which makes a tree of the same SQL text and nothing more.
"""

import time
from collections.abc import Callable
from typing import Any

import sqlglot

from benchmarks.tables import Figures, show
from octopia.language import parse_filter

CALLS = 3_000
GOAL_US = 50.0
TEXTS = (
    "symbol = 'AAPL' and price > 100",
    "symbol is not null and price > 0",
    "class = 'STOCK' and symbol = 'S001' and close >= 20.5 and volume > 0",
    "(symbol in ('AAPL', 'IBM') or name like 'A%') and not (price between 10 and 20)",
    "symbol in ('AAPL', 'MSFT') and price between 10 and 20 and name like 'A%' and not (volume < 5 or flag)",
)


def run() -> list[dict[str, Any]]:
    """All figures, printed as a table."""
    rows = [_measure(text) for text in TEXTS]
    lines = [
        [row["text"], f"{row['conjunctions']}", f"{row['parse_us']:.1f}", f"{row['sqlglot_us']:.1f}"] for row in rows
    ]
    head = ("text", "conjunctions", "µs", "sqlglot's tree")
    show([Figures(f"Parsing a filter, µs (goal: {GOAL_US:.0f})", head, lines)])
    return rows


def _measure(text: str) -> dict[str, Any]:
    return {
        "text": text,
        "conjunctions": len(parse_filter(text)),
        "parse_us": _median(lambda: parse_filter(text)),
        "sqlglot_us": _median(lambda: sqlglot.parse_one(text)),
    }


def _median(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        start = time.thread_time_ns()
        call()
        taken.append(time.thread_time_ns() - start)
    return sorted(taken)[CALLS // 2] / 1000
