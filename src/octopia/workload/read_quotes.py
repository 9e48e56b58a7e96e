"""Quote files of a user, read without Spark: CSV and Parquet, files and folders, into one table and its rejects.

Bad rows never stop the reading and are never lost: they are rejects, or, with `strict`, an error. A file that is
unusable as a whole (missing, without columns of quotes, with ambiguous dates) is an `InputError` at once, since going
on would lose or invent data. Folders are read recursively, in the order of names; `find_quotes` lists the files that
were left out, and why. The result does not depend on the order of the files, with one exception: of two rows with the
same symbol and date, the one in the file whose name sorts first is kept.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.errors import InputError
from octopia.hints import shortened
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
from octopia.workload.raw_csv import names_quotes, raw_csv, text_of

PARQUET_MAGIC: Final = b"PAR1"
# The first bytes of formats other than text, gzip and Parquet.
_CONTAINERS: Final = {
    b"PK\x03\x04": "zip archives",
    b"BZh": "bzip2 files",
    b"\xfd7zXZ": "xz files",
    b"\x28\xb5\x2f\xfd": "zstd files",
    b"7z\xbc\xaf": "7z archives",
}
_PACKED: Final = (".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz", ".rar")
_JSON: Final = (".json", ".jsonl", ".ndjson")
HIDDEN: Final = "hidden: its name, or a folder's, begins with . or _"
NOT_QUOTES: Final = "its first line names no columns of quotes"
HEAD_BYTES: Final = 1 << 16
_PARQUET_ROWS: Final = 1 << 16

AnyPath = str | PathLike[str]


class QuotesRead(NamedTuple):
    """`quotes` in `QUOTES_SCHEMA`, sorted by symbol and date; `rejects` in `REJECTS_SCHEMA`, by file and line."""

    quotes: pa.Table
    rejects: pa.Table


def read_quotes(
    paths: AnyPath | Iterable[AnyPath], strict: bool = False, date_order: DayOrder | None = None
) -> QuotesRead:
    """All quotes of these files and folders. `date_order` resolves ambiguous dates."""
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
        if not known and any(needs_order(text) for text in dates_in(raw)):
            # The whole file is scanned only now: the dates of most files need no order.
            order, known = day_order(file), True
        yield clean_quotes(raw, order)


def day_order(file: str) -> DayOrder | None:
    """The order of days and months that the dates of a file prove; None if they need none."""
    return sum((date_evidence(dates_in(raw)) for raw in raw_batches(file)), DateEvidence()).order(file)


def raw_batches(file: str) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV or Parquet file as text, in `RAW_SCHEMA`."""
    try:
        with Path(file).open("rb") as stream:
            magic = stream.read(8)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    for start, kind in _CONTAINERS.items():
        if magic.startswith(start):
            raise InputError(f"{file}: {kind} are not read; unpack it, CSV (plain or gzip) and Parquet are read")
    return _raw_parquet(file) if magic.startswith(PARQUET_MAGIC) else raw_csv(file)


class Skipped(NamedTuple):
    """A file in a folder that is not read, and why not."""

    file: str
    reason: str


class QuoteFiles(NamedTuple):
    """The selected files, each once, and those in the same folders that are left out."""

    files: list[str]
    skipped: list[Skipped]


def quote_files(paths: AnyPath | Iterable[AnyPath]) -> list[str]:
    """The selected files, each once; in folders those with a known suffix, in the order of names."""
    return find_quotes(paths).files


def find_quotes(paths: AnyPath | Iterable[AnyPath]) -> QuoteFiles:
    """The same, with the other files of the folders."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not given:
        raise InputError("no quote files are named")
    files: dict[Path, str] = {}
    skipped: dict[Path, Skipped] = {}
    for path in given:
        found = _found_in(fspath(path))
        for file in found.files:
            files.setdefault(Path(file).resolve(), file)
        for left in found.skipped:
            skipped.setdefault(Path(left.file).resolve(), left)
    return QuoteFiles(list(files.values()), [left for real, left in skipped.items() if real not in files])


def _found_in(path: str) -> QuoteFiles:
    place = Path(path)
    if not place.is_dir():
        if not place.exists():
            raise InputError(f"{path}: there is no such file or folder")
        return QuoteFiles([path], [])
    found = QuoteFiles([], [])
    for file in sorted(each for each in place.rglob("*") if each.is_file()):
        reason = why_skipped(file.relative_to(place).as_posix(), lambda file=file: _head(file))  # type: ignore[misc]
        if reason is None:
            found.files.append(str(file))
        else:
            found.skipped.append(Skipped(str(file), reason))
    if not found.files:
        raise no_quote_files(path, found.skipped)
    return found


def no_quote_files(path: str, skipped: Iterable[Skipped]) -> InputError:
    """The error for a folder without quotes; it lists what was found instead."""
    there = told_skipped(skipped)
    return InputError(
        f"{path}: the folder holds no quote files ({', '.join(SUFFIXES)})" + (f", but {there}" if there else "")
    )


def told_skipped(skipped: Iterable[Skipped], names_max: int = 3) -> str:
    """The number of files left out by reason, with some names, in one line."""
    by_reason: dict[str, list[str]] = {}
    for left in skipped:
        by_reason.setdefault(left.reason, []).append(PurePath(left.file).name)
    told = []
    for reason, names in by_reason.items():
        more = ", …" if len(names) > names_max else ""
        told.append(f"{len(names):,} ({', '.join(map(shortened, names[:names_max]))}{more}): {reason}")
    return "; ".join(told)


def why_skipped(name: str, head: Callable[[], bytes]) -> str | None:
    """Why a file in a folder is skipped, by its name; None if it is read. `head` is called only if needed."""
    lower = name.lower()
    if any(part.startswith((".", "_")) for part in name.split("/")):
        return HIDDEN
    if lower.endswith(_PACKED):
        return f"{PurePath(lower).suffix} files are not read: unpack it"
    if lower.endswith(_JSON):
        return "JSON is not read: convert it to CSV or Parquet"
    if not lower.endswith(SUFFIXES):
        suffix = PurePath(lower).suffix
        return f"not CSV or Parquet by its name ({suffix or 'no suffix'})"
    if lower.endswith(".txt") and not names_quotes(head()):
        return NOT_QUOTES
    return None


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        # told when it is read
        return b""


def dates_in(raw: pa.RecordBatch) -> dict[str, int]:
    """How often each text occurs among the dates of a batch of raw rows."""
    counts = raw.column("date").drop_null().value_counts()
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


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
        f"{rejects.num_rows:,} of {total:,} rows are not valid quotes; the first is {first['file']}, "
        f"line {first['line']}: {first['reason']} (most often: {counted})"
    )
