"""Stage 1, quotes: users' files, or a seed, become the tables `quotes`, `rejects` and `inputs`.

Only `octopia.workload.clean_quotes` decides which rows are good; this stage divides the work. Files are read where the
tasks run, so all workers must see their folder; files at an address (hdfs://, s3a://) are read by Spark
(`quote_remote.py`). Neither a bad row nor a bad file stops a run unless `strict` is set, and none is lost: rows go to
`rejects`, files to `inputs`. Of several rows with one symbol and date, the first by file and line is kept. `quotes` is
sorted by symbol and date over all its files if it was read, and is in the order of the symbols' numbers if it was made.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa

from octopia.errors import InputError
from octopia.pipeline.arrow import empty_frame, map_arrow, spark_schema, together
from octopia.pipeline.manifest import Parameters, digest, files_digest
from octopia.pipeline.quote_increments import judged_rows
from octopia.pipeline.quote_inputs import (
    INPUTS_SCHEMA,
    Seen,
    check_inputs,
    inputs_table,
    make_inputs,
    told_inputs,
    with_repeats,
)
from octopia.pipeline.quote_parts import Measure, Part, clean_part, cut_file, in_tasks, measure_part, settle_parts
from octopia.pipeline.quote_remote import list_remote, read_remote, without_file
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.storage import FileSeen
from octopia.workload import (
    QUOTES_SCHEMA,
    REJECTS_SCHEMA,
    SOURCED_SCHEMA,
    Cleaned,
    DateEvidence,
    DayOrder,
    Skipped,
    find_quotes,
    synthetic_quotes,
    without_repeats,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows that a task makes at once from a seed.
MADE_ROWS: Final = 200_000
_REASONS_SHOWN: Final = 3

# A judged row: a quote with its place; with a reason, a reject; with a problem, the end of an unreadable file.
_JUDGED: Final = pa.schema(
    [field.with_nullable(True) for field in SOURCED_SCHEMA]
    + [pa.field(name, pa.string()) for name in ("reason", "text", "problem")]
)
_Batches = Iterator[pa.RecordBatch]


def make_quotes(work: Work[PipelineSpec]) -> Outputs:
    """The three tables."""
    spec = work.spec.quotes
    if not spec.paths:
        return {
            "quotes": _made(work, spec),
            "rejects": REJECTS_SCHEMA.empty_table(),
            "inputs": INPUTS_SCHEMA.empty_table(),
        }
    found = _found(spec.paths, lambda: work.session)

    def read(names: set[str]) -> "tuple[DataFrame, dict[str, str]]":
        return _judged(work.session.spark, found.only(names), spec.date_order)

    left_out = {left.file for left in found.skipped}
    seen = {file.name: file for file in found.seen() if file.name not in left_out}
    key = digest([work.recipe.code, spec.date_order])
    judged, refused = judged_rows(work, seen, key, read, spark_schema(_JUDGED)) if seen else read(set())
    judged = judged.select(*_JUDGED.names).persist()
    work.cleanup.callback(judged.unpersist)
    return _sorted_out(work, spec, found, judged, refused)


# -- from a seed


def _made(work: Work[PipelineSpec], spec: QuotesSpec) -> "DataFrame":
    at_once = max(1, MADE_ROWS // spec.days)
    firsts = range(0, spec.symbols, at_once)

    def make(number: int) -> _Batches:
        symbols = range(firsts[number], min(spec.symbols, firsts[number] + at_once))
        yield from synthetic_quotes(spec.seed, symbols, spec.days, spec.start).to_batches()

    return _in_tasks(work.session.spark, len(firsts), make, QUOTES_SCHEMA)


def _in_tasks(spark: "SparkSession", count: int, make: Callable[[int], _Batches], schema: pa.Schema) -> "DataFrame":
    """The rows that a function makes for each number below `count`, each in a task."""

    def made(batches: _Batches) -> _Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from make(number)

    return map_arrow(spark.range(0, count, 1, max(1, count)), made, spark_schema(schema))


# -- from files


@dataclass
class _Found:
    """The selected files, on this machine and at addresses, and the ones that were left out."""

    local: list[str] = field(default_factory=list)
    remote: list[FileSeen] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def seen(self) -> list[FileSeen]:
        """Every file with its size and time."""
        here = [*self.local, *(left.file for left in self.skipped if Path(left.file).exists())]
        found = []
        for file in here:
            status = Path(file).stat()
            found.append(FileSeen(file, status.st_size, status.st_mtime_ns))
        return found + self.remote

    def only(self, names: set[str]) -> "_Found":
        """The files with these names."""
        remote = [file for file in self.remote if file.name in names]
        return _Found([file for file in self.local if file in names], remote, self.skipped)


def _found(paths: tuple[str, ...], sessions: Sessions) -> _Found:
    local, addresses = _sorted_paths(paths)
    found = _Found()
    if local:
        found.local, found.skipped = find_quotes(local)
    for address in addresses:
        files, skipped = list_remote(sessions().spark, address)
        found.remote += [file for file in files if file not in found.remote]
        found.skipped += skipped
    return found


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


def _judged(spark: "SparkSession", found: _Found, date_order: DayOrder | None) -> "tuple[DataFrame, dict[str, str]]":
    """Every row of every file, good or not, and why some files could not even be opened."""
    frames: list[DataFrame] = []
    refused: dict[str, str] = {}
    if found.local:
        frame, refused = _read(spark, found.local, date_order)
        frames.append(frame)
    if found.remote:
        more, unclear = read_remote(spark, found.remote, date_order, _as_judged, spark_schema(_JUDGED))
        frames += more
        refused |= unclear
    return together(frames) if frames else empty_frame(spark, _JUDGED), refused


def _read(spark: "SparkSession", files: list[str], date_order: DayOrder | None) -> "tuple[DataFrame, dict[str, str]]":
    by_file = [cut_file(file) for file in files]
    cut = [parts for parts in by_file if len(parts) > 1]
    settled, refused = _settled(spark, cut, date_order)
    parts = [part for parts in by_file for part in settled.get(parts[0].file, parts) if part.file not in refused]
    tasks = in_tasks(parts)

    def read(number: int) -> _Batches:
        for part in tasks[number]:
            yield from _as_judged(part.file, clean_part(part, date_order))

    return _in_tasks(spark, len(tasks), read, _JUDGED), refused


def _settled(
    spark: "SparkSession", cut: list[list[Part]], date_order: DayOrder | None
) -> tuple[dict[str, list[Part]], dict[str, str]]:
    """For files in several parts: a first pass over all parts, which counts lines and looks at dates."""
    every = [part for parts in cut for part in parts]
    if not every:
        return {}, {}
    schema = pa.schema(
        [
            ("part", pa.int64()),
            *((name, pa.int64()) for name in ("lines", "dmy", "mdy", "either")),
            ("example", pa.string()),
            ("problem", pa.string()),
        ]
    )

    def measure(number: int) -> _Batches:
        row: dict[str, object] = {"part": number}
        try:
            lines, dates = measure_part(every[number])
        except InputError as error:
            row["problem"] = without_file(str(error), every[number].file)
        else:
            row |= {"lines": lines, "dmy": dates.only_dmy, "mdy": dates.only_mdy}
            row |= {"either": dates.either, "example": dates.example}
        yield pa.RecordBatch.from_pylist([row], schema)

    rows = _in_tasks(spark, len(every), measure, schema).orderBy("part").collect()
    refused = {every[row.part].file: row.problem for row in rows if row.problem is not None}
    measures = iter(rows)
    settled = {}
    for parts in cut:
        own = [next(measures) for _ in parts]
        file = parts[0].file
        if file not in refused:
            found = [Measure(row.lines, DateEvidence(row.dmy, row.mdy, row.either, row.example)) for row in own]
            try:
                settled[file] = settle_parts(parts, found, date_order)
            except InputError as error:
                refused[file] = without_file(str(error), file)
    return settled, refused


def _as_judged(file: str, cleaned: Iterator[Cleaned]) -> _Batches:
    """The rows of a file, or of a part of it; if reading fails, the last row says why."""
    try:
        for quotes, rejects in cleaned:
            for batch in (quotes, rejects):
                if batch.num_rows:
                    yield _widened(batch)
    except InputError as error:
        problem = without_file(str(error), file)
        yield pa.RecordBatch.from_pylist([{"file": file, "line": 0, "problem": problem}], _JUDGED)


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all columns of `_JUDGED`; missing ones are null."""
    there = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type) for field in _JUDGED
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_JUDGED)


# -- good rows, bad rows, repeated rows


def _sorted_out(
    work: Work[PipelineSpec], spec: QuotesSpec, found: _Found, judged: "DataFrame", refused: Mapping[str, str]
) -> Outputs:
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    inputs = make_inputs({file.name: file.size for file in found.seen()}, found.skipped, _seen(judged), refused)
    check_inputs(inputs, strict=spec.strict)
    work.notes += told_inputs(inputs)
    judged = _of_good_files(judged, [one.file for one in inputs if one.state == "rejected"])
    is_good = fn.col("reason").isNull()
    keys = ("symbol", "date", "file", "line")
    # By symbol and date: repeated rows meet, and the table is sorted from file to file.
    ordered = judged.where(is_good).repartitionByRange("symbol", "date").sortWithinPartitions(*keys)
    unique = map_arrow(ordered, _repeats_told, spark_schema(_JUDGED))
    repeated = Observation()
    counts = fn.count_if(~is_good).alias("repeated"), fn.count(fn.lit(1)).alias("rows")
    quotes = unique.observe(repeated, *counts).where(is_good).select(*QUOTES_SCHEMA.names)

    def repeats() -> "DataFrame":
        return unique.where(~is_good).select(*REJECTS_SCHEMA.names)

    def rejects() -> "DataFrame":
        bad = judged.where(~is_good).select(*REJECTS_SCHEMA.names)
        # Most data has none, and then it need not be sorted again.
        if repeated.get["repeated"]:
            bad = bad.unionByName(repeats())
        _tell(work, spec, bad, good=repeated.get["rows"] - repeated.get["repeated"])
        return bad.orderBy("file", "line")

    def files() -> pa.Table:
        if not repeated.get["repeated"]:
            return inputs_table(inputs)
        counts = {row.file: row["count"] for row in repeats().groupBy("file").count().collect()}
        return inputs_table(with_repeats(inputs, counts))

    return {"quotes": quotes, "rejects": rejects, "inputs": files}


def _seen(judged: "DataFrame") -> dict[str, Seen]:
    """The findings of the tasks, by file."""
    from pyspark.sql import functions as fn

    is_row = fn.col("problem").isNull()
    rows = judged.groupBy("file").agg(
        fn.count_if(is_row).alias("rows"),
        fn.count("reason").alias("rejects"),
        fn.max("problem").alias("problem"),
        fn.max("reason").alias("reason"),
    )
    return {row.file: Seen(row.rows, row.rejects, row.problem, row.reason) for row in rows.collect()}


def _of_good_files(judged: "DataFrame", rejected: list[str]) -> "DataFrame":
    from pyspark.sql import functions as fn

    if not rejected:
        return judged
    bad = judged.sparkSession.createDataFrame(pa.table({"file": rejected}))
    return judged.join(fn.broadcast(bad), "file", "left_anti").select(*_JUDGED.names)


def _repeats_told(batches: _Batches) -> _Batches:
    """Sorted good rows in, the same out, with repeated rows as rejects. Batch by batch; one row is carried over."""
    carried: pa.Table | None = None
    for batch in batches:
        fresh = pa.Table.from_batches([batch]).select(SOURCED_SCHEMA.names).cast(SOURCED_SCHEMA)
        table = fresh if carried is None else pa.concat_tables([carried, fresh])
        quotes, rejects = without_repeats(table)
        if carried is not None:
            # it was passed on with its own batch
            quotes = quotes.slice(1)
        for part in (*quotes.to_batches(), *rejects.to_batches()):
            yield _widened(part)
        # the last row represents its symbol and date: whichever repeat is carried, the next ones are repeats too
        carried = fresh.slice(fresh.num_rows - 1)


def _tell(work: Work[PipelineSpec], spec: QuotesSpec, bad: "DataFrame", good: int) -> None:
    """Report how many rows are rejects, and why; with `strict`, raise an error."""
    from pyspark.sql import functions as fn

    reasons = bad.groupBy("reason").agg(fn.count(fn.lit(1)).alias("rows")).orderBy(fn.desc("rows"), "reason").collect()
    if not reasons:
        return
    count = sum(row.rows for row in reasons)
    often = ", ".join(f"{row.reason} {row.rows:,}" for row in reasons[:_REASONS_SHOWN])
    first = bad.orderBy("file", "line").first()
    assert first is not None, "there are rejects"  # noqa: S101
    told = (
        f"{count:,} of {good + count:,} rows are not valid quotes; the first is {first.file}, line {first.line}: "
        f"{first.reason} (most often: {often})"
    )
    if spec.strict:
        raise InputError(told)
    work.notes.append(f"{told}; see the table rejects")


# -- parameters


def quotes_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """The seed, or the files as they are now."""
    quotes = spec.quotes
    if not quotes.paths:
        made = ("seed", "symbols", "days")
        return {name: getattr(quotes, name) for name in made} | {"start": quotes.start.isoformat()}
    found = _found(quotes.paths, sessions)
    files = found.seen()
    return {
        "paths": list(quotes.paths),
        "strict": quotes.strict,
        "date_order": quotes.date_order,
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "fingerprint": files_digest([*files, *(FileSeen(left.file, 0, 0) for left in found.skipped)]),
    }


QUOTES: Final = Stage(
    name="quotes",
    about="quote files, or a seed, to typed quotes",
    inputs=(),
    outputs=("quotes", "rejects", "inputs"),
    make=make_quotes,
    parameters=quotes_parameters,
    code=(
        "octopia.workload",
        "octopia.pipeline.stage_quotes",
        "octopia.pipeline.quote_increments",
        "octopia.pipeline.quote_inputs",
        "octopia.pipeline.quote_parts",
        "octopia.pipeline.quote_remote",
    ),
)
