"""Long tables in pages: the same answers as Python's own search and sort, in small steps."""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from octopia.net.broker.operations.paging import (
    LIMIT_MAX,
    PAGING_S,
    ROWS_PER_LOOK,
    SORTED_MAX,
    VIEW_S,
    BadQueryError,
    Pace,
    Pages,
    Query,
    read_query,
)


class Rows:
    columns = ("name", "size")

    def __init__(self, count: int) -> None:
        draw = random.Random(count)
        self.rows = [(f"Row{n}", draw.randrange(50)) for n in range(count)]
        self.asked = 0
        self.rested = 0

    def __len__(self) -> int:
        return len(self.rows)

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        half = len(self.rows) // 2
        yield self.rows[:half]
        yield self.rows[half:]

    def part(self, start: int, stop: int) -> Sequence[Any]:
        return self.rows[start:stop]

    def text(self, entry: Any) -> str:
        self.asked += 1
        return str(entry[0]).lower()

    def value(self, entry: Any, column: str) -> Any:
        self.asked += 1
        return entry[self.columns.index(column)]

    def row(self, entry: Any) -> dict[str, Any]:
        self.asked += 1
        return {"name": entry[0], "size": entry[1]}

    def rest(self) -> None:
        self.rested += 1


class Steps:
    """Time passes with each access to rows, so that a slice is a number of rows."""

    def __init__(self, rows: Rows, row_s: float) -> None:
        self._rows = rows
        self._row_s = row_s
        self._before = 0
        self.slices: list[int] = []

    def clock(self) -> float:
        return self._rows.asked * self._row_s

    async def rest(self, seconds: float) -> None:
        self.slices.append(self._rows.asked - self._before)
        self._before = self._rows.asked
        await asyncio.sleep(0)


def page(pages: Pages, query: Query) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(asyncio.run(pages.answer(query)))
    return answer


@pytest.mark.parametrize("count", [0, 1, 3, SORTED_MAX, SORTED_MAX + 1, 5000])
@pytest.mark.parametrize("sort", ["", "name", "-name", "size", "-size"])
def test_answers_are_those_of_python(count: int, sort: str) -> None:
    rows = Rows(count)
    pages = Pages({"t": rows}, clock=lambda: 0.0)
    column = rows.columns.index(sort.removeprefix("-")) if sort else 0
    for words, offset, limit in (((), 0, 10), (("row1",), 5, 20), (("9", "row"), 0, LIMIT_MAX), ((), count - 1, 5)):
        wanted = [row for row in rows.rows if all(word in row[0].lower() for word in words)]
        if sort:
            wanted.sort(key=lambda row: row[column], reverse=sort.startswith("-"))
        offset = max(offset, 0)
        answer = page(pages, Query("t", words, sort, None, offset, limit))
        assert [(row["name"], row["size"]) for row in answer["rows"]] == wanted[offset : offset + limit]
        assert answer["total"] == count
        if answer["complete"]:
            assert answer["matched"] == len(wanted)
        else:
            assert offset + limit < answer["matched"] <= len(wanted)


@pytest.mark.parametrize("sort", ["", "-size"])
def test_a_hundred_thousand_rows_are_worked_through_in_small_steps(sort: str) -> None:
    rows = Rows(100_000)
    steps = Steps(rows, 1e-5)  # a row takes 10 µs, so a slice is 100 rows
    pages = Pages({"t": rows}, Pace(steps.clock, steps.rest), lambda: 0.0)
    answer = page(pages, Query("t", ("99999",), sort))
    assert [row["name"] for row in answer["rows"]] == ["Row99999"]
    assert answer["examined"] == 100_000
    assert max(steps.slices) <= 100 + ROWS_PER_LOOK
    assert len(steps.slices) >= 100_000 // (100 + ROWS_PER_LOOK)


def test_what_was_found_is_kept_for_the_next_page_and_for_others() -> None:
    rows, now = Rows(1000), 0.0
    pages = Pages({"t": rows}, clock=lambda: now)
    page(pages, Query("t", ("row",), "name"))
    asked = rows.asked
    page(pages, Query("t", ("row",), "name"))
    page(pages, Query("t", ("row",), "name", None, 100))
    assert rows.asked == asked + 200, "rows that are shown, and no other"
    now = VIEW_S
    page(pages, Query("t", ("row",), "name", None, 200))
    assert rows.asked == asked + 300
    page(pages, Query("t", ("row",), "name"))
    assert rows.asked > asked + 2000, "the first page is looked for anew"
    pages.check_time()
    assert rows.rested == 0
    now = 2 * PAGING_S
    pages.check_time()
    assert rows.rested == 1


def test_a_search_without_an_order_ends_when_the_page_is_full() -> None:
    rows = Rows(100_000)
    answer = page(Pages({"t": rows}, clock=lambda: 0.0), Query("t", ("row",), limit=10))
    assert not answer["complete"]
    assert answer["examined"] < 1000


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"limit": "501"}, "limit must be a whole number from 0 to 500"),
        ({"offset": "1e3"}, "offset must be"),
        ({"limit": "²"}, "limit must be"),
        ({"page": "2"}, "unknown parameter 'page'"),
        ({"q": "x" * 201}, "q has 201 characters"),
    ],
)
def test_bad_queries_are_told(given: dict[str, str], line: str) -> None:
    with pytest.raises(BadQueryError, match=line):
        read_query({"table": "t", **given})
