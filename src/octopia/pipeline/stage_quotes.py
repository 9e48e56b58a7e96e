"""Stage 1, quotes: files of users, or a seed, become the tables `quotes` and `rejects`.

Rules of this file: what a good row is, is decided by `octopia.workload.clean_quotes` alone; here its work is divided.
Files are read where the tasks run, so their folder must be one that all workers see; files at an address (hdfs://,
s3a://) are fetched by Spark, whole. A bad row never stops a run, unless `strict` is set, and is never lost. Of several
rows of one symbol and date the first by file and line is kept. `quotes` is sorted by symbol and date over all its
files if it was read, and stands in the order of the symbols' numbers if it was made.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa

from octopia.errors import InputError
from octopia.pipeline.arrow import empty_frame, spark_schema
from octopia.pipeline.manifest import Parameters, files_digest
from octopia.pipeline.quote_parts import Measure, Part, clean_part, cut_file, in_tasks, measure_part, settle_parts
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.storage import FileSeen, HadoopStore
from octopia.workload import (
    QUOTES_SCHEMA,
    REJECTS_SCHEMA,
    SOURCED_SCHEMA,
    Cleaned,
    DateEvidence,
    DayOrder,
    clean_file,
    quote_files,
    synthetic_quotes,
    without_repeats,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows that a task makes at once from a seed.
MADE_ROWS: Final = 200_000
# A file at an address passes through Spark in one piece.
FETCHED_BYTES_MAX: Final = 1 << 30
_REASONS_SHOWN: Final = 3

# A judged row: a quote with its place, or, with a reason, a reject.
_JUDGED: Final = pa.schema(
    [field.with_nullable(True) for field in SOURCED_SCHEMA]
    + [pa.field("reason", pa.string()), pa.field("text", pa.string())]
)
_Batches = Iterator[pa.RecordBatch]


def make_quotes(work: Work[PipelineSpec]) -> Outputs:
    """The two tables."""
    spec = work.spec.quotes
    if not spec.paths:
        return {"quotes": _made(work, spec), "rejects": empty_frame(work.session.spark, REJECTS_SCHEMA)}
    judged = _judged(work, spec).persist()
    work.cleanup.callback(judged.unpersist)
    return _sorted_out(work, spec, judged)


# -- from a seed


def _made(work: Work[PipelineSpec], spec: QuotesSpec) -> "DataFrame":
    at_once = max(1, MADE_ROWS // spec.days)
    firsts = range(0, spec.symbols, at_once)

    def make(batches: _Batches) -> _Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                symbols = range(firsts[number], min(spec.symbols, firsts[number] + at_once))
                yield from synthetic_quotes(spec.seed, symbols, spec.days, spec.start).to_batches()

    return _tasks(work.session.spark, len(firsts)).mapInArrow(make, spark_schema(QUOTES_SCHEMA))


def _tasks(spark: "SparkSession", count: int) -> "DataFrame":
    """A table of the numbers below `count`, a partition each."""
    return spark.range(0, count, 1, max(1, count))


# -- from files


def _judged(work: Work[PipelineSpec], spec: QuotesSpec) -> "DataFrame":
    """Every row of every file, good or not."""
    local, remote = _sorted_paths(spec.paths)
    frames = [_fetched(work.session.spark, remote, spec.date_order)] if remote else []
    if local:
        frames.append(_read(work.session.spark, local, spec.date_order))
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _sorted_paths(paths: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Paths, and addresses that only Spark can read."""
    local, remote = [], []
    for path in paths:
        if "://" not in path:
            local.append(path)
        elif path.startswith("file://"):
            local.append(unquote(urlparse(path).path))
        else:
            remote.append(path)
    return local, remote


def _read(spark: "SparkSession", paths: list[str], date_order: DayOrder | None) -> "DataFrame":
    by_file = [cut_file(file) for file in quote_files(paths)]
    cut = [parts for parts in by_file if len(parts) > 1]
    settled = {parts[0].file: parts for parts in _settled(spark, cut, date_order)}
    parts = [part for parts in by_file for part in settled.get(parts[0].file, parts)]
    tasks = in_tasks(parts)

    def read(batches: _Batches) -> _Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in tasks[number]:
                    yield from _as_judged(clean_part(part, date_order))

    return _tasks(spark, len(tasks)).mapInArrow(read, spark_schema(_JUDGED))


def _settled(spark: "SparkSession", cut: list[list[Part]], date_order: DayOrder | None) -> list[list[Part]]:
    """For files in several parts: a first pass over all parts, which counts lines and looks at dates."""
    every = [part for parts in cut for part in parts]
    if not every:
        return []
    schema = pa.schema(
        [
            ("part", pa.int64()),
            *((name, pa.int64()) for name in ("lines", "dmy", "mdy", "either")),
            ("example", pa.string()),
        ]
    )

    def measure(batches: _Batches) -> _Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                lines, dates = measure_part(every[number])
                row = {"part": number, "lines": lines, "dmy": dates.only_dmy, "mdy": dates.only_mdy}
                row |= {"either": dates.either, "example": dates.example}
                yield pa.RecordBatch.from_pylist([row], schema)

    rows = _tasks(spark, len(every)).mapInArrow(measure, spark_schema(schema)).orderBy("part").collect()
    measures = iter([(row.lines, DateEvidence(row.dmy, row.mdy, row.either, row.example)) for row in rows])
    return [settle_parts(parts, [Measure(*next(measures)) for _ in parts], date_order) for parts in cut]


def _fetched(spark: "SparkSession", addresses: list[str], date_order: DayOrder | None) -> "DataFrame":
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    files = reader.load(addresses).select("path", "content")

    def read(batches: _Batches) -> _Batches:
        for batch in batches:
            for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield from _as_judged(_clean_bytes(path, content.as_buffer(), date_order))

    return files.mapInArrow(read, spark_schema(_JUDGED))


def _clean_bytes(path: str, content: pa.Buffer, date_order: DayOrder | None) -> Iterator[Cleaned]:
    """A fetched file, as a file of this machine for as long as it is read."""
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


def _as_judged(cleaned: Iterator[Cleaned]) -> _Batches:
    for quotes, rejects in cleaned:
        for batch in (quotes, rejects):
            if batch.num_rows:
                yield _widened(batch)


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all columns of `_JUDGED`, those it lacks null."""
    there = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type) for field in _JUDGED
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_JUDGED)


# -- good rows, bad rows, repeated rows


def _sorted_out(work: Work[PipelineSpec], spec: QuotesSpec, judged: "DataFrame") -> Outputs:
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    is_good = fn.col("reason").isNull()
    keys = ("symbol", "date", "file", "line")
    # By symbol and date: rows that repeat each other meet, and the table is in order from file to file.
    ordered = judged.where(is_good).repartitionByRange("symbol", "date").sortWithinPartitions(*keys)
    unique = ordered.mapInArrow(_repeats_told, spark_schema(_JUDGED))
    repeated = Observation()
    counts = fn.count_if(~is_good).alias("repeated"), fn.count(fn.lit(1)).alias("rows")
    quotes = unique.observe(repeated, *counts).where(is_good).select(*QUOTES_SCHEMA.names)

    def rejects() -> "DataFrame":
        bad = judged.where(~is_good).select(*REJECTS_SCHEMA.names)
        # Most data has none, and then the sorting need not be done again.
        if repeated.get["repeated"]:
            bad = bad.unionByName(unique.where(~is_good).select(*REJECTS_SCHEMA.names))
        _tell(work, spec, bad, good=repeated.get["rows"] - repeated.get["repeated"])
        return bad.orderBy("file", "line")

    return {"quotes": quotes, "rejects": rejects}


def _repeats_told(batches: _Batches) -> _Batches:
    """Sorted good rows in, the same out, those that repeat another as rejects. Batch by batch, one row carried over."""
    carried: pa.Table | None = None
    for batch in batches:
        fresh = pa.Table.from_batches([batch]).select(SOURCED_SCHEMA.names).cast(SOURCED_SCHEMA)
        table = fresh if carried is None else pa.concat_tables([carried, fresh])
        quotes, rejects = without_repeats(table)
        if carried is not None:
            # it was handed on with its own batch
            quotes = quotes.slice(1)
        for part in (*quotes.to_batches(), *rejects.to_batches()):
            yield _widened(part)
        # the last row stands for its symbol and date: whichever of its repeats is carried, the next are repeats too
        carried = fresh.slice(fresh.num_rows - 1)


def _tell(work: Work[PipelineSpec], spec: QuotesSpec, bad: "DataFrame", good: int) -> None:
    """How many rows are rejects, and why; with `strict` an error."""
    from pyspark.sql import functions as fn

    reasons = bad.groupBy("reason").agg(fn.count(fn.lit(1)).alias("rows")).orderBy(fn.desc("rows"), "reason").collect()
    if not reasons:
        return
    count = sum(row.rows for row in reasons)
    often = ", ".join(f"{row.reason} {row.rows:,}" for row in reasons[:_REASONS_SHOWN])
    first = bad.orderBy("file", "line").first()
    assert first is not None, "there are rejects"  # noqa: S101
    told = (
        f"{count:,} of {good + count:,} rows are no good quotes; the first is {first.file}, line {first.line}: "
        f"{first.reason} (most often: {often})"
    )
    if spec.strict:
        raise InputError(told)
    work.notes.append(f"{told}; see the table rejects")


# -- what the tables follow from


def quotes_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """The seed, or the files as they are now."""
    quotes = spec.quotes
    if not quotes.paths:
        made = ("seed", "symbols", "days")
        return {name: getattr(quotes, name) for name in made} | {"start": quotes.start.isoformat()}
    files = list(_files_seen(quotes.paths, sessions))
    return {
        "paths": list(quotes.paths),
        "strict": quotes.strict,
        "date_order": quotes.date_order,
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "fingerprint": files_digest(files),
    }


def _files_seen(paths: tuple[str, ...], sessions: Sessions) -> Iterator[FileSeen]:
    local, remote = _sorted_paths(paths)
    for file in quote_files(local) if local else ():
        seen = Path(file).stat()
        yield FileSeen(file, seen.st_size, seen.st_mtime_ns)
    for address in remote:
        for one in HadoopStore(address, lambda: sessions().spark).files(""):
            if one.size > FETCHED_BYTES_MAX:
                raise InputError(
                    f"{address}/{one.name}: {one.size:,} bytes; split it into files of at most {FETCHED_BYTES_MAX:,}"
                )
            yield one._replace(name=f"{address}/{one.name}")


QUOTES: Final = Stage(
    name="quotes",
    about="quote files, or a seed, to typed quotes",
    inputs=(),
    outputs=("quotes", "rejects"),
    make=make_quotes,
    parameters=quotes_parameters,
    code=("octopia.workload", "octopia.pipeline.stage_quotes", "octopia.pipeline.quote_parts"),
)
