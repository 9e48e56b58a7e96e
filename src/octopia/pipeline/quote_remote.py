"""Quote files at an address (hdfs://, s3a://, …), read by Spark's own readers, so that any storage it supports works.

Small files, Parquet and unusual ones are fetched whole, as binary files. Large text files are read through Spark's text
source, which divides plain ones into splits for as many tasks as there are; a gzip file is one split, since gzip cannot
be entered in the middle. A split knows its first byte but not its first line, so a first pass counts the lines of every
split and looks at the dates; the second pass gives every row its line number in the file. Both passes must see the same
splits; if they do not (the file was written to meanwhile), the run stops with an error. Lines are bytes throughout:
Spark ends a line where `octopia.workload` does, at a newline, a carriage return or both.
"""

import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InputError, PipelineError
from octopia.pipeline.arrow import map_arrow, spark_schema
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.quote_parts import PART_BYTES, form_of, plain_header
from octopia.pipeline.storage import FileSeen, hadoop_path
from octopia.workload import (
    BLOCK_BYTES,
    HEAD_BYTES,
    Cleaned,
    CsvForm,
    DateEvidence,
    DayOrder,
    Skipped,
    clean_file,
    clean_quotes,
    csv_block,
    csv_stream,
    date_evidence,
    dates_in,
    no_quote_files,
    why_skipped,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A file that is fetched whole passes through the JVM in one array.
FETCHED_BYTES_MAX: Final = 1 << 30
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SPLITS: Final = pa.schema(
    [("file", pa.string()), ("start", pa.int64())]
    + [(name, pa.int64()) for name in ("lines", "dmy", "mdy", "either")]
    + [("example", pa.string())]
)
_Batches = Iterator[pa.RecordBatch]
# A task converts the rows of a file to batches, or to a row that says why the file cannot be read.
Judge = Callable[[str, Iterator[Cleaned]], _Batches]


class Split(NamedTuple):
    """Where a split begins: its file's layout and dates, and the number of lines before it."""

    form: CsvForm
    order: DayOrder | None
    line: int


def list_remote(spark: "SparkSession", address: str) -> tuple[list[FileSeen], list[Skipped]]:
    """The quote files at an address, which is a file or a folder, and those in it that are left out."""
    files: list[FileSeen] = []
    skipped: list[Skipped] = []
    with spark_errors(address):
        system, path = hadoop_path(spark, address)
        if not system.exists(path):
            raise InputError(f"{address}: there is no such file or folder")
        top = system.makeQualified(path).toString()
        listing = system.listFiles(path, True)
        while listing.hasNext():
            status = listing.next()
            file = status.getPath().toString()
            name = file.removeprefix(top).lstrip("/")
            # a file that is named explicitly is read whatever its name
            reason = why_skipped(name, lambda file=file: read_head(spark, file)) if name else None  # type: ignore[misc]
            if reason is None:
                files.append(FileSeen(file, status.getLen(), status.getModificationTime() * 1_000_000))
            else:
                skipped.append(Skipped(file, reason))
    if not files:
        raise no_quote_files(address, skipped)
    return sorted(files), skipped


def read_head(spark: "SparkSession", path: str) -> bytes:
    """The first bytes of a file."""
    with spark_errors(path):
        system, place = hadoop_path(spark, path)
        with closing(system.open(place)) as stream:
            return bytes(stream.readNBytes(HEAD_BYTES))


def read_remote(
    spark: "SparkSession",
    files: Sequence[FileSeen],
    date_order: DayOrder | None,
    judge: Judge,
    schema: Any,
    part_bytes: int = PART_BYTES,
) -> tuple[list["DataFrame"], dict[str, str]]:
    """The rows of all files as tables in `schema`, and why some files could not even be opened."""
    whole: list[FileSeen] = []
    headers: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for file in files:
        header = _header(spark, file) if file.size > part_bytes + part_bytes // 2 else None
        if header is not None:
            headers[file.name] = header
        elif file.size > FETCHED_BYTES_MAX:
            refused[file.name] = (
                f"{file.size:,} bytes, and only text is read in parts: "
                f"split it into files of at most {FETCHED_BYTES_MAX:,} bytes, or make it CSV"
            )
        else:
            whole.append(file)
    frames = [_fetched(spark, whole, date_order, judge, schema)] if whole else []
    if headers:
        splits, unclear = _settled(spark, headers, date_order)
        refused |= unclear
        if splits:
            frames.append(_split(spark, splits, judge, schema))
    return frames, refused


def _header(spark: "SparkSession", file: FileSeen) -> bytes | None:
    """The line with the column names of a file that Spark's text source reads correctly; None for any other."""
    head = read_head(spark, file.name)
    if head.startswith(_GZIP_MAGIC) == file.name.endswith(".gz"):
        return plain_header(_unpacked(head) if head.startswith(_GZIP_MAGIC) else head)
    # Spark goes by the name, and the name is wrong.
    return None


def _unpacked(head: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(head)
    except zlib.error:
        return b""


# -- whole files


def _fetched(
    spark: "SparkSession", files: Sequence[FileSeen], date_order: DayOrder | None, judge: Judge, schema: Any
) -> "DataFrame":
    paths = [_literal(file.name) for file in files]
    frame = spark.read.format("binaryFile").load(paths).select("path", "content")

    def read(batches: _Batches) -> _Batches:
        for batch in batches:
            for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield from judge(path, _clean_bytes(path, content.as_buffer(), date_order))

    return map_arrow(frame, read, schema)


def _clean_bytes(path: str, content: pa.Buffer, date_order: DayOrder | None) -> Iterator[Cleaned]:
    """A fetched file, as a local file while it is read."""
    with tempfile.TemporaryDirectory(prefix="octopia-quotes-") as folder:
        copy = Path(folder) / Path(urlparse(path).path).name
        copy.write_bytes(content)
        try:
            for cleaned in clean_file(str(copy), date_order):
                yield Cleaned(_renamed(cleaned.quotes, path), _renamed(cleaned.rejects, path))
        except InputError as error:
            raise InputError(str(error).replace(str(copy), path)) from None


def _renamed(batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
    place = batch.schema.get_field_index("file")
    return batch.set_column(place, batch.schema.field(place), pa.repeat(pa.scalar(file, pa.string()), batch.num_rows))


# -- splits of large text files


def _lines(spark: "SparkSession", files: Iterable[str]) -> "DataFrame":
    """Every line as bytes, with its file and the first byte of its split; lines of a split are consecutive."""
    from pyspark.sql import functions as fn

    value = fn.col("value").cast("binary").alias("value")
    place = fn.col("_metadata.file_path").alias("file"), fn.col("_metadata.file_block_start").alias("start")
    return spark.read.text([_literal(file) for file in files]).select(*place, value)


def _literal(path: str) -> str:
    """A path that Spark takes literally. (Its own switch for that reads the first of several paths twice.)"""
    return re.sub(r"([\\\[\]{}*?,])", r"\\\1", path)


def _settled(
    spark: "SparkSession", headers: Mapping[str, bytes], date_order: DayOrder | None
) -> tuple[dict[tuple[str, int], Split], dict[str, str]]:
    """The first pass: for each split what precedes it, and for each unreadable file the reason."""
    forms: dict[str, CsvForm] = {}
    refused: dict[str, str] = {}
    for file, header in headers.items():
        try:
            forms[file] = form_of(file, header)
        except InputError as error:
            refused[file] = without_file(str(error), file)
    if not forms:
        return {}, refused
    rows = map_arrow(_lines(spark, forms), lambda batches: _measured(forms, batches), spark_schema(_SPLITS)).collect()
    by_file: dict[str, list[Any]] = {file: [] for file in forms}
    for row in sorted(rows, key=lambda row: row.start):
        by_file[row.file].append(row)
    splits: dict[tuple[str, int], Split] = {}
    for file, found in by_file.items():
        dates = sum((DateEvidence(row.dmy, row.mdy, row.either, row.example) for row in found), DateEvidence())
        try:
            order = date_order if date_order is not None else dates.order(file)
        except InputError as error:
            refused[file] = without_file(str(error), file)
            continue
        line = 0
        for row in found:
            splits[file, row.start] = Split(forms[file], order, line)
            line += row.lines
    return splits, refused


def _measured(forms: Mapping[str, CsvForm], batches: _Batches) -> _Batches:
    """In a worker: lines and dates of the splits of a partition."""
    found: dict[tuple[str, int], tuple[int, DateEvidence]] = {}
    for file, start, block in _blocks(batches):
        lines, dates = found.get((file, start), (0, DateEvidence()))
        for raw in _raw(forms[file], start, block, lines):
            dates += date_evidence(dates_in(raw))
        found[file, start] = lines + block.count(b"\n"), dates
    for (file, start), (lines, dates) in found.items():
        row = {"file": file, "start": start, "lines": lines, "dmy": dates.only_dmy, "mdy": dates.only_mdy}
        yield pa.RecordBatch.from_pylist([row | {"either": dates.either, "example": dates.example}], _SPLITS)


def _split(spark: "SparkSession", splits: Mapping[tuple[str, int], Split], judge: Judge, schema: Any) -> "DataFrame":
    def read(batches: _Batches) -> _Batches:
        lines: dict[tuple[str, int], int] = {}
        for file, start, block in _blocks(batches):
            before = lines.get((file, start), 0)
            yield from judge(file, _cleaned(_known(splits, file, start), start, block, before))
            lines[file, start] = before + block.count(b"\n")

    return map_arrow(_lines(spark, dict.fromkeys(file for file, _ in splits)), read, schema)


def _known(splits: Mapping[tuple[str, int], Split], file: str, start: int) -> Split:
    if (file, start) not in splits:
        raise PipelineError(f"{file}: was changed while it was read; run the stage again")
    return splits[file, start]


def _cleaned(split: Split, start: int, block: bytes, before: int) -> Iterator[Cleaned]:
    for raw in _raw(split.form, start, block, before, split.line):
        yield clean_quotes(raw, split.order)


def _raw(form: CsvForm, start: int, block: bytes, before: int, line: int = 0) -> Iterator[pa.RecordBatch]:
    """The rows of a block, `before` lines into its split, which is `line` lines into the file."""
    if start == 0 and before == 0:
        # the top of the file, with the column names; the block is far longer than that
        yield from csv_stream(form.file, io.BytesIO(block))
    else:
        yield csv_block(form, block, line + before + 1)


def _blocks(batches: _Batches) -> Iterator[tuple[str, int, bytes]]:
    """Whole lines of one split at a time, about `BLOCK_BYTES` of them, each with its line ending."""
    place: tuple[str, int] | None = None
    held: list[bytes] = []
    size = 0
    for batch in batches:
        files, starts = batch.column(0), batch.column(1)
        for first, count in _runs(files, starts):
            here = unquote(files[first].as_py()), starts[first].as_py()
            if held and (here != place or size >= BLOCK_BYTES):
                yield (*(place or here), b"\n".join(held) + b"\n")
                held, size = [], 0
            place = here
            lines = batch.column(2).slice(first, count)
            held += lines.to_pylist()
            size += lines.nbytes
    if held and place is not None:
        yield (*place, b"\n".join(held) + b"\n")


def _runs(files: pa.Array, starts: pa.Array) -> Iterator[tuple[int, int]]:
    """First row and number of rows of every stretch of rows of one split."""
    count = len(files)
    if not count:
        return
    changed = [
        pc.not_equal(column.slice(1), column.slice(0, count - 1)).to_numpy(zero_copy_only=False)
        for column in (files, starts)
    ]
    ends = [*((changed[0] | changed[1]).nonzero()[0] + 1).tolist(), count]
    first = 0
    for end in ends:
        yield first, end - first
        first = end


def without_file(message: str, file: str) -> str:
    """An error's text without the file in front, for tables that name it in another column."""
    return message.removeprefix(f"{file}: ")
