"""What live brokers recorded (`octopia serve --record`), as tables: facts and logs of registrations.

A file has its name when it is complete, so every file that is there can be read whole; one that is deleted meanwhile,
because there are newer ones, is passed over.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.trace import FACTS, REGISTERED

_MICROSECOND_NS: Final = 1_000


def is_recording(folder: Path) -> bool:
    """Whether brokers recorded here."""
    return (folder / "facts").is_dir()


def read_log(folders: Iterable[Path], name: str = "registered") -> pa.Table:
    """The logs of subscriptions (`registered`) or advertisements (`advertised`), as they are now."""
    tables = [REGISTERED.empty_table()]
    for folder in folders:
        tables += [file.read().cast(REGISTERED) for file in _files(folder / name)]
    return pa.concat_tables(tables)


def newest_facts(folder: Path, facts_max: int) -> tuple[pa.Table, int]:
    """The newest facts, in whole files, and the time in ns since 1970 after which none is missing (0 if all are here).

    A notification published after that time has all its facts here, since a fact is written after what it tells.
    """
    files = sorted(((_until_ns(file), file) for file in _files(folder / "facts")), key=lambda pair: -pair[0])
    tables, rows = [FACTS.empty_table()], 0
    for until_ns, file in files:
        rows += file.metadata.num_rows
        if rows > facts_max and len(tables) > 1:
            return pa.concat_tables(tables).unify_dictionaries(), until_ns + 1
        tables.append(file.read().cast(FACTS))
    return pa.concat_tables(tables).unify_dictionaries(), 0


def _files(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.glob("[0-9]*.parquet")):
        try:
            yield pq.ParquetFile(path)
        except FileNotFoundError:
            continue


def _until_ns(file: Any) -> int:
    """The time of the last fact of a file."""
    column = FACTS.get_field_index("at_time")
    groups = (file.metadata.row_group(number).column(column) for number in range(file.metadata.num_row_groups))
    moments = [group.statistics.max for group in groups if group.is_stats_set and group.statistics.has_min_max]
    return max((round(moment.timestamp() * 1e6) * _MICROSECOND_NS for moment in moments), default=0)
