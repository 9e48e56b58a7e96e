"""Long tables in pages: searched and sorted here, in small steps, so that a broker never pauses for a reader.

A table may have 100,000 rows and more. A request works for `SLICE_S` at a time and rests for `REST_S` in between; one
request works at a time, and the others wait. Results are cached for a moment (`VIEW_S`; `PAGING_S` for further pages),
so that paging does not repeat the search and many readers cost as much as one. At most `ROWS_MAX` rows of a table are
examined, an answer has at most `LIMIT_MAX`, and it says whether it is incomplete.

A `RowSource` is a table as plain values; this module does not know its origin.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, NamedTuple, Protocol

import msgspec

SLICE_S = 0.001
REST_S = 0.002
# Rows between two checks of the clock.
ROWS_PER_LOOK = 32
ROWS_MAX = 250_000
LIMIT_DEFAULT = 100
LIMIT_MAX = 500
VIEW_S = 1.0
PAGING_S = 30.0
VIEWS_MAX = 4
# Up to this size a table is sorted at once; larger ones in parts, which are merged.
SORTED_MAX = 512
QUERY_CHARS_MAX = 200


class BadQueryError(Exception):
    """A request that cannot be answered, with the reason in one line."""


class RowSource(Protocol):
    """One table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows; rows can be sorted by each."""

    def __len__(self) -> int: ...

    def chunks(self, client: str | None) -> Iterator[Sequence[Any]]:
        """All entries, or those of a client, in chunks; each is made quickly and then fixed."""

    def part(self, start: int, stop: int) -> Sequence[Any]:
        """Entries from `start` up to `stop`, in the table's order."""

    def text(self, entry: Any) -> str:
        """The searchable text, in lower case."""

    def value(self, entry: Any, column: str) -> Any:
        """The sort key; values of a column are comparable."""

    def row(self, entry: Any) -> dict[str, Any]: ...

    def rest(self) -> None:
        """There has been no request for a while: drop caches."""


class Query(NamedTuple):
    """A query of a table. `sort` is a column, or `-column` for descending; empty: in the table's order."""

    table: str
    words: tuple[str, ...] = ()
    sort: str = ""
    client: str | None = None
    offset: int = 0
    limit: int = LIMIT_DEFAULT


@dataclass(slots=True)
class _View:
    """The result of a search. `is_whole`: all rows were examined."""

    entries: list[Any]
    examined: int
    is_whole: bool
    made_s: float = 0.0


class Pace:
    """Work in slices, with rests in between."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, rest: Callable[[float], Any] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._rest = rest
        self._began_s = 0.0

    def begin(self) -> None:
        self._began_s = self._clock()

    async def breathe(self) -> None:
        """Call this every few rows."""
        if self._clock() - self._began_s >= SLICE_S:
            await self._rest(REST_S)
            self._began_s = self._clock()


class Pages:
    """Answers requests for the tables of one broker."""

    def __init__(
        self,
        sources: Mapping[str, RowSource],
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._pace = pace or Pace()
        self._clock = clock
        self._lock = asyncio.Lock()
        self._views: dict[tuple[Any, ...], _View] = {}

    def check_time(self) -> None:
        """Drop results that have not been used lately."""
        if self._views:
            now = self._clock()
            self._views = {key: view for key, view in self._views.items() if now - view.made_s < PAGING_S}
            if not self._views:
                for source in self._sources.values():
                    source.rest()

    def overview(self) -> bytes:
        """The names of tables, their lengths and columns."""
        tables = {name: {"rows": len(each), "columns": each.columns} for name, each in self._sources.items()}
        return msgspec.json.encode({"tables": tables}) + b"\n"

    async def answer(self, query: Query) -> bytes:
        """A page of a table in JSON."""
        source = self._sources.get(query.table)
        if source is None:
            raise BadQueryError(f"there is no table {query.table!r}; choose from {', '.join(self._sources)}")
        column = query.sort.removeprefix("-")
        if column and column not in source.columns:
            raise BadQueryError(f"cannot sort {query.table} by {column!r}; it has {', '.join(source.columns)}")
        async with self._lock:
            self._pace.begin()
            if query.words or query.sort or query.client is not None:
                view = await self._view(source, query)
                entries = view.entries[query.offset : query.offset + query.limit]
                matched, examined, is_whole = len(view.entries), view.examined, view.is_whole
            else:
                entries = list(source.part(query.offset, query.offset + query.limit))
                matched, examined, is_whole = len(source), len(entries), True
            rows = []
            for at, entry in enumerate(entries):
                rows.append(msgspec.json.encode(source.row(entry)))
                if at % ROWS_PER_LOOK == 0:
                    await self._pace.breathe()
        head = {
            "table": query.table,
            "columns": source.columns,
            "total": len(source),
            "matched": matched,
            "complete": is_whole,
            "examined": examined,
            "offset": query.offset,
            "limit": query.limit,
        }
        return msgspec.json.encode(head)[:-1] + b',"rows":[' + b",".join(rows) + b"]}\n"

    async def _view(self, source: RowSource, query: Query) -> _View:
        if not query.words and not query.sort:
            # of one client: quick enough to repeat
            return await self._search(source, query, query.offset + query.limit)
        key = (query.table, query.words, query.sort, query.client)
        known, now = self._views.get(key), self._clock()
        last = query.offset + query.limit
        lasts_s = PAGING_S if query.offset else VIEW_S
        if known is not None and now - known.made_s < lasts_s and (known.is_whole or len(known.entries) > last):
            return known
        view = await self._search(source, query, last)
        view.made_s = now
        self._views.pop(key, None)
        while len(self._views) >= VIEWS_MAX:
            del self._views[next(iter(self._views))]
        self._views[key] = view
        return view

    async def _search(self, source: RowSource, query: Query, last: int) -> _View:
        """All matches; without an order, only enough for this page and to know whether there are more."""
        found: list[Any] = []
        examined = 0
        words, text, breathe = query.words, source.text, self._pace.breathe
        for chunk in source.chunks(query.client):
            if len(chunk) > ROWS_MAX - examined:
                chunk = chunk[: ROWS_MAX - examined]
            if not words:
                examined += len(chunk)
                # a long table is not copied again
                found = found + list(chunk) if found or not isinstance(chunk, list) else chunk
                await breathe()
            for start in range(0, len(chunk) if words else 0, ROWS_PER_LOOK):
                some = chunk[start : start + ROWS_PER_LOOK]
                examined += len(some)
                for entry in some:
                    searched = text(entry)
                    if all(word in searched for word in words):
                        found.append(entry)
                await breathe()
                if not query.sort and len(found) > last + LIMIT_MAX:
                    return _View(found, examined, False)
            if examined >= ROWS_MAX:
                break
        if query.sort:
            found = await self._sorted(source, query.sort, found)
        return _View(found, examined, examined < ROWS_MAX)

    async def _sorted(self, source: RowSource, sort: str, found: list[Any]) -> list[Any]:
        column, falls = sort.removeprefix("-"), sort.startswith("-")
        value, breathe = source.value, self._pace.breathe
        parts: list[list[tuple[Any, int]]] = []
        for start in range(0, len(found), SORTED_MAX):
            part: list[tuple[Any, int]] = []
            for at in range(start, min(start + SORTED_MAX, len(found))):
                # equal values stay in the table's order, in both directions
                part.append((value(found[at], column), -at if falls else at))
                if at % ROWS_PER_LOOK == 0:
                    await breathe()
            part.sort(reverse=falls)
            parts.append(part)
            await breathe()
        ordered: list[Any] = []
        for number, (_, at) in enumerate(merge(*parts, reverse=falls)):
            ordered.append(found[abs(at)])
            if number % ROWS_PER_LOOK == 0:
                await breathe()
        return ordered


def read_query(given: Mapping[str, str]) -> Query:
    """The query of a request: `table`, `q`, `sort`, `client`, `offset` and `limit`."""
    unknown = [name for name in given if name not in ("table", "q", "sort", "client", "offset", "limit")]
    if unknown:
        raise BadQueryError(f"unknown parameter {unknown[0]!r}; choose from table, q, sort, client, offset, limit")
    words = given.get("q", "")
    if len(words) > QUERY_CHARS_MAX:
        raise BadQueryError(f"q has {len(words)} characters; at most {QUERY_CHARS_MAX} are allowed")
    return Query(
        given.get("table", ""),
        tuple(words.lower().split()),
        given.get("sort", ""),
        given.get("client"),
        number(given, "offset", 0, ROWS_MAX),
        number(given, "limit", LIMIT_DEFAULT, LIMIT_MAX),
    )


def number(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A parameter that is a whole number from 0 to `most`."""
    text = given.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= most):
        raise BadQueryError(f"{name} must be a whole number from 0 to {most}, not {text[:40]!r}")
    return int(text)
