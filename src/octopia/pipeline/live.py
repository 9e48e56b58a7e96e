"""Watching a running overlay: its brokers' recordings as a stream, window by window.

    spark.readStream ── facts ── withWatermark ── window(…) ── one row per window ── foreachBatch
                                                                                        │
        trace (`octopia.trace.assemble`) ── metrics (`octopia.metrics`), audit (`stage_audit`), links, subscriptions

A window covers the notifications published in it. Their delivery takes time, so a window is `wait_s` longer than the
time it covers, and one begins every `window_s`: Spark's sliding windows over event time. Each is computed once, when
the watermark passes its end. Facts later than the watermark are dropped, and Spark counts them
(`numRowsDroppedByWatermark`).

The definitions are those of simulations: the trace of a window has the tables of every trace, the metrics are the SQL
texts of `octopia.metrics`, and the audit is the SQL of the pipeline's stage. Only the expected recipients are found
differently, since a live overlay has no workload file: `octopia.Matcher` matches contents with the registered
subscriptions. A client that registered less than `settle_s` before a notification, or left less than `wait_s` after it,
may or may not get it.

All facts of a window go to the driver, about 100 bytes each, at most `WINDOW_FACTS_MAX`. A larger window is not
computed, and a message says so: record a smaller share.
"""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octopia.errors import InputError, LanguageError
from octopia.language import parse_filter
from octopia.matching import Matcher
from octopia.metrics import Facts, ask, values_of
from octopia.metrics import run as run_metrics
from octopia.pipeline.arrow import together
from octopia.pipeline.recordings import is_recording, read_log
from octopia.pipeline.session import require_classic
from octopia.pipeline.stage_audit import audit_sql
from octopia.trace import TABLES, TraceWriter, assemble, content_of, subscriptions_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW_FACTS_MAX: Final = 5_000_000
SHOWN_MAX: Final = 1000
SECOND_NS: Final = 1_000_000_000
_SYSTEM: Final = "live"
_FACTS_DDL: Final = (
    "fact string, at_time timestamp, broker string, peer string, publisher string, sequence bigint, serial bigint, "
    "from_ns bigint, until_ns bigint, queue bigint, share double, text string, content binary"
)

# For `truth`, which states for each pair whether the client must or may get it.
_WANTED: Final = """\
, wanted AS (
  SELECT system, request, client, MAX(must) AS must FROM truth GROUP BY system, request, client
)"""

_LINKS: Final = """\
SELECT
  concat(s.region, ',', s.cluster) AS sender, concat(r.region, ',', r.cluster) AS receiver, COUNT(*) AS messages,
  AVG(hops.handled_ns - hops.queued_ns) / 1e9 AS mean_s,
  quantile_cont(hops.handled_ns - hops.queued_ns, 0.99) / 1e9 AS p99_s,
  MAX(hops.queue) + 1 AS longest_queue, COUNT(*) FILTER (hops.fate <> 'handled') AS lost
FROM hops JOIN brokers s ON s.broker = hops.sender JOIN brokers r ON r.broker = hops.receiver
GROUP BY ALL ORDER BY mean_s DESC NULLS LAST, sender, receiver"""

_SUBSCRIPTIONS: Final = """\
WITH last AS (
  SELECT * FROM facts WHERE fact = 'delivered'
  QUALIFY ROW_NUMBER() OVER (PARTITION BY broker, peer, serial ORDER BY until_ns DESC) = 1
), named AS (
  SELECT
    last.peer AS client, UNNEST(from_json(last.text, '["VARCHAR"]')) AS subscription, last.until_ns - p.from_ns AS ns
  FROM last JOIN published p ON p.publisher = last.publisher AND p.sequence = last.sequence
)
SELECT client, subscription, COUNT(*) AS deliveries, AVG(ns) / 1e9 AS mean_s FROM named
GROUP BY ALL ORDER BY deliveries DESC, client, subscription"""


_DROPPED: Final = """\
SELECT COUNT(*) AS number
FROM facts JOIN published p ON p.publisher = facts.publisher AND p.sequence = facts.sequence
WHERE fact = 'dropped'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Settings for watching. Times in seconds."""

    window_s: int = 60
    wait_s: int = 10
    watermark_s: int = 10
    late_after_s: float | None = None
    settle_s: float = 5.0
    keep_traces: int = 60

    def __post_init__(self) -> None:
        for name, least in (("window_s", 1), ("wait_s", 1), ("watermark_s", 0), ("settle_s", 0), ("keep_traces", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}: {least} is the minimum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened to the notifications of one window."""

    start: datetime
    until: datetime
    published: int = 0
    refused: int = 0
    delivered: int = 0
    lost: int = 0
    repeated: int = 0
    unwanted: int = 0
    late: int = 0
    dropped: int = 0
    mean_s: float | None = None
    p99_s: float | None = None
    share: float = 1.0
    # The reason why some of it may be missing; empty if nothing is.
    incomplete: str = ""
    links: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    subscriptions: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.start.strftime("%Y-%m-%dT%H-%M-%SZ")


def watch(
    spark: "SparkSession",
    folders: str | list[str],
    out: str,
    options: WatchOptions | None = None,
    *,
    on_window: Callable[[Window], None] = lambda window: None,
    trigger: dict[str, Any] | None = None,
) -> "StreamingQuery":
    """A query over the recordings in these folders, with the results of every window in tables of `out`."""
    worker = _Worker(spark, folders, Path(out), options, on_window)
    reader = spark.readStream.schema(_FACTS_DDL).option("ignoreMissingFiles", "true")
    stream = together([reader.parquet(path) for path in worker.facts])
    stream = stream.withWatermark("at_time", f"{worker.options.watermark_s} seconds")
    writer = _windows(stream, worker.options).writeStream.outputMode("append").foreachBatch(worker.take)
    writer = writer.option("checkpointLocation", str(Path(out) / "checkpoint")).queryName("octopia watch")
    return writer.trigger(**(trigger or {"processingTime": "2 seconds"})).start()


def review(
    spark: "SparkSession",
    folders: str | list[str],
    out: str,
    options: WatchOptions | None = None,
    *,
    on_window: Callable[[Window], None] = lambda window: None,
) -> None:
    """The same for existing recordings, without waiting: every window, even unfinished ones."""
    worker = _Worker(spark, folders, Path(out), options, on_window)
    worker.take(_windows(spark.read.schema(_FACTS_DDL).parquet(*worker.facts), worker.options), 0)


def _places(folders: str | list[str]) -> list[Path]:
    places = [Path(folder) for folder in ([folders] if isinstance(folders, str) else folders)]
    for place in places:
        if not is_recording(place):
            raise InputError(f"{place} has no facts of brokers: start them with octopia serve --record {place}")
    return places


def _windows(facts: "DataFrame", options: WatchOptions) -> "DataFrame":
    from pyspark.sql import functions as fn

    length = f"{options.window_s + options.wait_s} seconds"
    window = fn.window("at_time", length, f"{options.window_s} seconds")
    columns = [column for column in facts.columns if column != "at_time"]
    told = fn.struct(fn.unix_micros("at_time").alias("at_us"), *columns)
    return facts.groupBy(window).agg(fn.collect_list(told).alias("facts"))


class _Worker:
    """Computes windows on the driver."""

    def __init__(
        self,
        spark: "SparkSession",
        folders: str | list[str],
        out: Path,
        options: WatchOptions | None,
        on_window: Callable[[Window], None],
    ) -> None:
        require_classic(spark, "watch")
        self._spark = spark
        self._folders = _places(folders)
        self.facts = [str(folder / "facts") for folder in self._folders]
        self._out = out
        self.options = options or WatchOptions()
        self._on_window = on_window

    def take(self, batch: "DataFrame", number: int) -> None:
        """Compute windows that are over. Repeating a batch writes the same files again."""
        rows = batch.selectExpr("unix_micros(window.start) as start", "facts").orderBy("start").toArrow()
        for at in range(rows.num_rows):
            start_ns = rows.column("start")[at].as_py() * 1000
            facts = fact_rows(rows.column("facts")[at].values)
            window = self._work_out(facts, start_ns)
            # A window that begins before the first fact covers nothing; its facts belong to the next one.
            if window is not None:
                self._on_window(window)
        self._forget_old()

    def _work_out(self, facts: pa.Table, start_ns: int) -> Window | None:
        options = self.options
        until_ns = start_ns + options.window_s * SECOND_NS
        end_ns = until_ns + options.wait_s * SECOND_NS
        if not _any_before(facts, until_ns):
            return None
        span: dict[str, Any] = {"start": _moment(start_ns), "until": _moment(until_ns)}
        if facts.num_rows > WINDOW_FACTS_MAX:
            many = f"{facts.num_rows:,} facts are too many: record a smaller share"
            return self._store(Window(**span, incomplete=many), {})
        registered = read_log(self._folders)
        found = assemble(facts, registered, start_ns, until_ns)
        if not found["requests"].num_rows:
            return self._store(Window(**span, share=_share(facts), incomplete=_missing(facts)), {})
        name = Window(**span).name
        self._write_trace(name, found)
        subscriptions = subscriptions_between(registered.to_pylist(), start_ns, end_ns)
        truth = truth_of(found, subscriptions, start_ns, options)
        pq.write_table(truth, self._out / "traces" / name / "truth.parquet")
        audit = self._audit(name)
        clock = Facts(
            publish_from_ns=0,
            publish_until_ns=options.window_s * SECOND_NS,
            delay_bound_ns=round((options.late_after_s or 1.0) * SECOND_NS),
        )
        values = values_of(run_metrics(self._out / "traces" / name, facts=clock))
        links, busiest, dropped = _lists(found, facts)
        by_name = {(value.metric, value.part): value.value for value in values}
        counts = dict.fromkeys(("lost", "duplicated", "unwanted", "late"), 0)
        for finding in audit["finding"].to_pylist():
            counts[finding] += 1
        window = Window(
            **span,
            published=found["requests"].num_rows,
            refused=pc.sum(pc.not_equal(found["published"]["refused"], 0)).as_py() or 0,
            delivered=found["deliveries"].num_rows,
            lost=counts["lost"],
            repeated=counts["duplicated"],
            unwanted=counts["unwanted"],
            late=counts["late"],
            dropped=dropped,
            mean_s=by_name.get(("notification_delay", "mean")),
            p99_s=by_name.get(("notification_delay", "p99")),
            share=_share(facts),
            incomplete=_missing(facts),
            links=tuple(links.to_pylist()),
            subscriptions=tuple(busiest.to_pylist()),
        )
        metrics = pa.Table.from_pylist([value._asdict() for value in values], METRICS_SCHEMA)
        tables = {"links": links, "subscriptions": busiest, "audit": audit, "metrics": metrics}
        return self._store(window, tables)

    def _audit(self, window: str) -> pa.Table:
        own = self._spark.newSession()
        for name in ("requests", "deliveries", "clients", "brokers", "hops", "truth"):
            table = own.read.parquet(str(self._out.absolute() / "traces" / window / f"{name}.parquet"))
            table.selectExpr("*", f"'{_SYSTEM}' as system").createOrReplaceTempView(name)
        text = audit_sql(self.options.late_after_s, wanted=_WANTED)
        return own.sql(text).drop("system", "row").toArrow()

    def _write_trace(self, window: str, found: dict[str, pa.Table]) -> None:
        with TraceWriter(self._out / "traces" / window) as writer:
            for table in TABLES:
                columns = zip(found[table].column_names, found[table].columns, strict=True)
                writer.write(table, {name: column.combine_chunks() for name, column in columns})

    def _store(self, window: Window, tables: dict[str, pa.Table]) -> Window:
        row = {key: value for key, value in asdict(window).items() if key not in ("links", "subscriptions")}
        tables = {"windows": pa.Table.from_pylist([row])} | tables
        for name, table in tables.items():
            stamped = table.add_column(0, "window", pa.array([window.start] * len(table), _TIME))
            place = self._out / name / f"{window.name}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = place.with_name(f".{place.name}.partial")
            pq.write_table(stamped, partial)
            partial.replace(place)
        return window

    def _forget_old(self) -> None:
        traces = sorted((self._out / "traces").glob("*Z"))
        for old in traces[: max(0, len(traces) - self.options.keep_traces)]:
            shutil.rmtree(old, ignore_errors=True)


_TIME: Final = pa.timestamp("us", tz="UTC")
METRICS_SCHEMA: Final = pa.schema([("metric", pa.string()), ("part", pa.string()), ("value", pa.float64())])
TRUTH_SCHEMA: Final = pa.schema([("request", pa.int32()), ("client", pa.int32()), ("must", pa.int32())])


def fact_rows(facts: Any) -> pa.Table:
    """Facts as written by brokers, from a list of structs."""
    table = pa.Table.from_struct_array(facts)
    moments = table.column("at_us").cast(pa.int64()).cast(pa.timestamp("us")).cast(_TIME)
    return table.drop_columns(["at_us"]).append_column("at_time", moments)


def truth_of(
    found: dict[str, pa.Table], subscriptions: list[dict[str, Any]], start_ns: int, options: WatchOptions
) -> pa.Table:
    """The clients that must, and that may, get each notification."""
    clients = dict(zip(found["clients"]["name"].to_pylist(), found["clients"]["client"].to_pylist(), strict=True))
    issued = [start_ns + ns for ns in found["requests"]["issued_ns"].to_pylist()]
    matcher: Matcher[int] = Matcher()
    for number, subscription in enumerate(subscriptions):
        try:
            matcher.add(number, parse_filter(subscription["filter"]))
        except LanguageError as error:
            raise InputError(f"subscription {subscription['id']!r} of {subscription['client']}: {error}") from None
    settle_ns, wait_ns = round(options.settle_s * SECOND_NS), options.wait_s * SECOND_NS
    rows = []
    contents = found["published"].filter(pc.equal(found["published"]["refused"], 0))
    for request, text in zip(contents["request"].to_pylist(), contents["content"].to_pylist(), strict=True):
        at_ns = issued[request]
        for number in matcher.match(content_of(text)):
            one = subscriptions[number]
            until_ns = one["until_ns"]
            if one["from_ns"] > at_ns + wait_ns or (until_ns is not None and until_ns < at_ns):
                continue
            must = one["from_ns"] + settle_ns <= at_ns and (until_ns is None or until_ns >= at_ns + wait_ns)
            rows.append({"request": request, "client": clients[one["client"]], "must": int(must)})
    return pa.Table.from_pylist(rows, TRUTH_SCHEMA)


def _lists(found: dict[str, pa.Table], facts: pa.Table) -> tuple[pa.Table, pa.Table, int]:
    """Links by slowness, subscriptions by activity, and the number of dropped copies and deliveries."""
    tables = {"facts": facts, **{name: found[name] for name in ("hops", "brokers", "published")}}
    links, busiest, dropped = (ask(tables, text) for text in (_LINKS, _SUBSCRIPTIONS, _DROPPED))
    return links.slice(0, SHOWN_MAX), busiest.slice(0, SHOWN_MAX), dropped["number"][0].as_py()


def _any_before(facts: pa.Table, until_ns: int) -> bool:
    first = pc.min(facts["at_time"].cast(pa.int64())).as_py()
    return first is not None and first * 1000 < until_ns


def _share(facts: pa.Table) -> float:
    return float(pc.min(facts["share"]).as_py())


def _missing(facts: pa.Table) -> str:
    reasons = []
    kinds, brokers = facts["fact"].to_pylist(), facts["broker"].to_pylist()
    started = sorted({broker for kind, broker in zip(kinds, brokers, strict=True) if kind == "start"})
    if started:
        reasons.append(f"started: {', '.join(started)}")
    left_out = sum(n for kind, n in zip(kinds, facts["queue"].to_pylist(), strict=True) if kind == "gap")
    if left_out:
        reasons.append(f"{left_out:,} facts were not written")
    return "; ".join(reasons)


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // SECOND_NS, UTC)
