"""Quote files of a user, read without Spark: CSV and Parquet, files and folders, into one table and its rejects.

Rules of this file: bad rows never stop the reading and are never lost: they are rejects, or, with `strict`, an error.
What makes a whole file unusable (it is not there, it names no columns of quotes, its dates can be read in two ways) is
an `InputError` at once, since going on would lose or invent data. Folders are read through, in the order of names;
hidden files and those that begin with `_` are not looked at. The result does not depend on the order of the files
but for which of two rows of one symbol and date is kept: the one of the file whose name sorts first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.errors import InputError
from octopia.workload.clean import (
    RAW_SCHEMA,
    REJECTS_SCHEMA,
    SOURCED_SCHEMA,
    Cleaned,
    clean_quotes,
    without_repeats,
)
from octopia.workload.dates import DateEvidence, DayOrder, date_evidence, needs_order
from octopia.workload.headers import FIELDS, SUFFIXES, column_places, symbol_of_file
from octopia.workload.raw_csv import raw_csv, text_of

_PARQUET_MAGIC: Final = b"PAR1"
_PARQUET_ROWS: Final = 1 << 16

AnyPath = str | PathLike[str]


class QuotesRead(NamedTuple):
    """`quotes` in `QUOTES_SCHEMA`, sorted by symbol and date; `rejects` in `REJECTS_SCHEMA`, by file and line."""

    quotes: pa.Table
    rejects: pa.Table


def read_quotes(
    paths: AnyPath | Iterable[AnyPath], strict: bool = False, date_order: DayOrder | None = None
) -> QuotesRead:
    """All quotes of these files and folders. `date_order` settles what the dates of a file leave open."""
    found = [part for file in quote_files(paths) for part in clean_file(file, date_order)]
    sourced = pa.Table.from_batches([part.quotes for part in found], SOURCED_SCHEMA)
    quotes, repeats = without_repeats(sourced)
    rejects = pa.concat_tables([pa.Table.from_batches([part.rejects for part in found], REJECTS_SCHEMA), repeats])
    rejects = rejects.sort_by([("file", "ascending"), ("line", "ascending")])
    if strict and rejects.num_rows:
        raise _strict_error(quotes, rejects)
    return QuotesRead(quotes, rejects)


def clean_file(file: str, date_order: DayOrder | None = None) -> Iterator[Cleaned]:
    """The rows of one file, judged batch by batch in bounded memory; repeats are left to `without_repeats`."""
    order, known = date_order, date_order is not None
    for raw in raw_batches(file):
        if not known and any(needs_order(text) for text in _dates(raw)):
            # Only now is the whole file asked: most files have dates that need nothing.
            order, known = day_order(file), True
        yield clean_quotes(raw, order)


def day_order(file: str) -> DayOrder | None:
    """The order of days and months that the dates of a file prove; None where they need none."""
    return sum((date_evidence(_dates(raw)) for raw in raw_batches(file)), DateEvidence()).order(file)


def raw_batches(file: str) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV or Parquet file as text, in `RAW_SCHEMA`."""
    try:
        with Path(file).open("rb") as stream:
            parquet = stream.read(4) == _PARQUET_MAGIC
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    return _raw_parquet(file) if parquet else raw_csv(file)


def quote_files(paths: AnyPath | Iterable[AnyPath]) -> list[str]:
    """The files that are meant, each once; of folders those with a known suffix, in the order of names."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise InputError("no quote files are named")
    files: dict[Path, str] = {}
    for path in given:
        for file in _files_of(fspath(path)):
            files.setdefault(Path(file).resolve(), file)
    return list(files.values())


def _files_of(path: str) -> list[str]:
    place = Path(path)
    if not place.is_dir():
        if not place.exists():
            raise InputError(f"{path}: there is no such file or folder")
        return [path]
    inside = sorted(p for p in place.rglob("*") if p.is_file() and p.name.lower().endswith(SUFFIXES))
    wanted = [str(p) for p in inside if not any(part.startswith((".", "_")) for part in p.relative_to(place).parts)]
    if not wanted:
        raise InputError(f"{path}: the folder holds no quote files ({', '.join(SUFFIXES)})")
    return wanted


def _dates(raw: pa.RecordBatch) -> Counter[str]:
    counts = raw.column("date").drop_null().value_counts()
    return Counter(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)))


def _raw_parquet(file: str) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            places = column_places(names, file)
            symbol = None if "symbol" in places else symbol_of_file(file)
            row = 1
            for batch in opened.iter_batches(_PARQUET_ROWS, columns=[names[place] for place in places.values()]):
                yield _as_text(file, batch, {field: names[place] for field, place in places.items()}, symbol, row)
                row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: the Parquet file cannot be read ({str(error).splitlines()[0]})") from None


def _as_text(file: str, batch: pa.RecordBatch, names: dict[str, str], symbol: str | None, row: int) -> pa.RecordBatch:
    count = batch.num_rows
    columns = {field: batch.column(name).cast(pa.string()) for field, name in names.items()}
    if symbol is not None:
        columns["symbol"] = pa.repeat(symbol, count)
    text = text_of([columns[field] for field in FIELDS])
    columns |= {"file": pa.repeat(file, count), "line": pa.array(range(row, row + count), pa.int64()), "text": text}
    columns["fault"] = pa.nulls(count, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in RAW_SCHEMA.names], schema=RAW_SCHEMA)


def _strict_error(quotes: pa.Table, rejects: pa.Table) -> InputError:
    first = rejects.slice(0, 1).to_pylist()[0]
    total = quotes.num_rows + rejects.num_rows
    reasons = Counter(rejects["reason"].to_pylist()).most_common(3)
    counted = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
    return InputError(
        f"{rejects.num_rows:,} of {total:,} rows are no good quotes; the first is {first['file']}, "
        f"line {first['line']}: {first['reason']} (most often: {counted})"
    )
