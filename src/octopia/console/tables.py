"""Tables for the page: of one broker, which searches, sorts and pages them itself, or of all brokers together.

For all brokers together, each is asked for its first rows in the given order, and these are merged; so later pages cost
more than the first, and their number is bounded.
"""

from heapq import merge
from typing import Any, Final

from octopia.errors import InputError
from octopia.topology import BrokerId
from octopia.watch import Reader

TABLES: Final = ("subscriptions", "advertisements", "clients", "links")
LIMIT_MAX: Final = 200
MERGED_MAX: Final = 500


async def read_table(
    reader: Reader, broker: str, table: str, *, q: str = "", sort: str = "", offset: int = 0, limit: int = 50
) -> dict[str, Any]:
    """A page of a table; an empty `broker` means all brokers, each with its own clients."""
    if table not in TABLES:
        raise InputError(f"there is no table {table!r}; choose from {', '.join(TABLES)}")
    if not 0 <= offset <= 10**9 or not 1 <= limit <= LIMIT_MAX:
        raise InputError(f"offset {offset}, limit {limit}: from 0 on, and 1 to {LIMIT_MAX} at a time")
    asked = {"q": q or None, "sort": sort or None}
    if broker:
        id = BrokerId.parse(broker)
        if id not in reader.watched.scot:
            raise InputError(f"there is no broker {id}")
        return await reader.table(id, table, offset=offset, limit=limit, **asked)
    return await _read_all(reader, table, sort, asked, offset, limit)


async def _read_all(
    reader: Reader, table: str, sort: str, asked: dict[str, Any], offset: int, limit: int
) -> dict[str, Any]:
    most = offset + limit
    if most > MERGED_MAX:
        raise InputError(
            f"of all brokers together only the first {MERGED_MAX} rows are shown; search, or pick a broker"
        )
    answers = await reader.tables(table, offset=0, limit=most, **asked)
    pages = [(broker, page) for broker, page in answers.items() if isinstance(page, dict)]
    column = sort.lstrip("-")
    lists = [[{"broker": str(broker), **row} for row in page["rows"]] for broker, page in pages]
    if column:
        rows = list(merge(*lists, key=lambda row: _key(row.get(column)), reverse=sort.startswith("-")))
    else:
        rows = [row for page in lists for row in page]
    return {
        "table": table,
        "columns": ["broker", *(pages[0][1]["columns"] if pages else ())],
        "total": sum(page["total"] for _, page in pages),
        "matched": sum(page["matched"] for _, page in pages),
        "complete": all(page["complete"] for _, page in pages) and len(pages) == len(answers),
        "offset": offset,
        "limit": limit,
        "rows": rows[offset:most],
    }


def _key(value: Any) -> tuple[int, Any]:
    """An order for values of any column: missing ones first, then numbers, then text."""
    if value is None:
        return 0, 0
    return (1, float(value)) if isinstance(value, int | float) else (2, str(value))
