"""The data source `octopia` in a running Spark, against running brokers: in, out, restarts, and what errors say."""

import json
import re
import runpy
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from octopia.errors import OctopiaError
from octopia.pipeline import Session
from octopia.spark import register, stream_errors, subscribe
from tests.pipeline.brokers import Brokers, until

AT = "a,0"


@pytest.fixture
def overlay(session: Session) -> Iterator[Brokers]:
    register(session.spark)
    with Brokers() as running:
        yield running


class Streams:
    """Queries of one test: from the overlay to Parquet files, and the rows that are there."""

    def __init__(self, session: Session, overlay: Brokers, folder: Path, schema: Any, **options: str) -> None:
        self._spark, self._folder, self._schema = session.spark, folder, schema
        self._options = {"url": overlay.url(AT), "spool": str(folder / "spool"), **options}

    def start(self, **trigger: Any) -> Any:
        reader = self._spark.readStream.format("octopia").options(**self._options)
        frame = (reader if self._schema is None else reader.schema(self._schema)).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.option("path", str(self._folder / "out")).trigger(**trigger).start()

    def run(self) -> None:
        """One run over the available data."""
        query = self.start(availableNow=True)
        with stream_errors("stream"):
            assert query.awaitTermination(200)

    def frame(self) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / "out"))

    def numbers(self) -> list[int]:
        if not any((self._folder / "out" / "_spark_metadata").glob("[0-9]*")):
            return []
        return sorted(row.n for row in self.frame().select("n").collect())


def test_what_is_written_is_read_back(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    """Every type that there is, with nulls; by two tasks at once, while the reading query does not run."""
    schema = t.StructType(
        [
            t.StructField("key", t.IntegerType()),
            t.StructField("text", t.StringType()),
            t.StructField("flag", t.BooleanType()),
            t.StructField("byte", t.ByteType()),
            t.StructField("short", t.ShortType()),
            t.StructField("long", t.LongType()),
            t.StructField("float", t.FloatType()),
            t.StructField("double", t.DoubleType()),
            t.StructField("big", t.DecimalType(38, 0)),
            t.StructField("Odd name.", t.StringType(), True, {"attribute": "a 'name'"}),
        ]
    )
    rows: list[tuple[Any, ...]] = [
        (0, "", False, -128, -(2**15), -(2**63), -0.0, 5e-324, Decimal(10**38 - 1), "x"),
        (1, "ünï\n'quoted'", True, 127, 2**15 - 1, 2**63 - 1, 1.5, float("inf"), Decimal(-(10**38) + 1), ""),
        (2, None, None, None, None, None, None, None, None, None),
        *((n, str(n), n % 2 == 0, 1, 2, n**9, n / 4, n / 3, Decimal(n**20), None) for n in range(3, 60)),
    ]
    ids = [t.StructField("_publisher", t.StringType()), t.StructField("_id", t.LongType())]
    streams = Streams(
        session, overlay, tmp_path, t.StructType([*ids, *schema.fields]), filter="key >= 0", mode="FAILFAST"
    )
    streams.run()
    frame = session.spark.createDataFrame(rows, schema).repartitionByRange(2, "key")
    with stream_errors("write"):
        writer = frame.write.format("octopia").option("url", overlay.url("b,1")).option("writeId", "w")
        writer.option("receipts", str(tmp_path / "receipts")).mode("append").save()
    streams.run()
    read = streams.frame()
    assert {row.key: tuple(row)[2:] for row in read.collect()} == {row[0]: row for row in rows}
    counts = {row[0]: row["count"] for row in read.groupBy("_publisher").count().collect()}
    assert {row[:2] for row in read.select("_publisher", "_id").collect()} == {
        (publisher, id) for publisher, count in counts.items() for id in range(1, count + 1)
    }
    assert set(counts) == {"spark/w/0", "spark/w/1"}
    receipt = json.loads((tmp_path / "receipts").read_text())
    assert (receipt["outcome"], receipt["notifications"], receipt["failed_tasks"]) == ("committed", 60, 0)
    assert {task["publisher"]: task["notifications"] for task in receipt["tasks"]} == counts


def test_a_stream_goes_on_through_restarts_of_query_and_broker(
    session: Session, overlay: Brokers, tmp_path: Path
) -> None:
    publisher = overlay.publisher("b,1", "n > -1 and s like '%'")
    streams = Streams(session, overlay, tmp_path, None, filter="n >= 0", advertisement="n > -1 and s like '%'")

    def publish(*numbers: int) -> None:
        overlay.publish(publisher, [{"n": n, "s": str(n)} for n in range(*numbers)])

    query = streams.start(processingTime="0 seconds")
    until(lambda: overlay.subscribed(AT))
    publish(0, 500)
    until(lambda: streams.numbers())
    query.stop()
    until(lambda: overlay.away(AT))
    publish(500, 700)
    query = streams.start(processingTime="0 seconds")
    until(lambda: len(streams.numbers()) == 700)
    overlay.restart(AT)
    until(lambda: overlay.subscribed(AT))
    overlay.settle(publisher)
    publish(700, 900)
    with stream_errors("stream"):
        until(lambda: len(streams.numbers()) == 900 or (query.exception() and query.awaitTermination()))
    assert streams.numbers() == list(range(900))
    assert streams.frame().schema.simpleString() == "struct<_publisher:string,_id:bigint,n:double,s:string>"
    # The numbers of the offset, as whoever watches the query sees them.
    until(lambda: query.lastProgress and '"rows":900' in query.lastProgress["sources"][0]["endOffset"].replace(" ", ""))
    offset = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert (offset["gaps"], offset["dropped"]) == (1, 0)
    query.stop()


def test_subscribe_lets_the_broker_check_what_it_can(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    """The broker sends what the pushed part admits, and Spark applies the whole condition."""
    options = {"url": overlay.url(AT), "spool": str(tmp_path / "spool"), "filter": "s like '%'"}
    condition = "n >= 5 and n % 2 = 0 and (n < 8 or n > 12)"
    stream = subscribe(session.spark, condition, "n long, s string", **options)
    rows: list[int] = []

    def run() -> Any:
        writer = stream.writeStream.foreachBatch(lambda frame, _: rows.extend(row.n for row in frame.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        with stream_errors("stream"):
            assert query.awaitTermination(200)
        return query

    run()
    publisher = overlay.publisher("b,1", "n > -1 and s like '%'")
    overlay.publish(publisher, [{"n": n, "s": "x"} for n in range(20)])
    last = run().lastProgress
    assert sorted(rows) == [n for n in range(20) if n >= 5 and n % 2 == 0 and (n < 8 or n > 12)]
    # `n % 2` is Spark's to check: the broker sent 5, 6, 7 and 13 to 19
    assert json.loads(last["sources"][0]["endOffset"])["rows"] == 10
    with pytest.raises(OctopiaError, match=r"no part of 'n % 2 = 0' can be checked by a broker"):
        subscribe(session.spark, "n % 2 = 0", "n long", url=overlay.url(AT))


def test_a_batch_that_is_written_again_has_the_same_ids(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    """The log says that batch 0 was begun, and not that it was done: as after a crash between the two."""
    spark = session.spark
    queries: set[str] = set()
    client = overlay.call(overlay.live.client(AT))
    overlay.call(client.start_subscription(subscription := client.subscribe("n >= 0")))

    def run(expected: int) -> list[tuple[str, int, int]]:
        source = spark.readStream.schema("n long").parquet(str(tmp_path / "in"))
        writer = source.writeStream.format("octopia").option("url", overlay.url("b,1"))
        writer = writer.option("advertise", "n >= 0").option("receipts", str(tmp_path / "receipts"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        with stream_errors("stream"):
            assert query.awaitTermination(200)
        got: list[Any] = []
        while len(got) < expected:
            got += overlay.call(subscription.next_batch())
        queries.add(query.id)
        return [(d.publisher, int(d.id), d.notification["n"]) for d in got]

    spark.range(100).selectExpr("id as n").coalesce(1).write.parquet(str(tmp_path / "in"))
    first = run(100)
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    again = run(100)
    spark.range(100, 150).selectExpr("id as n").coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    second = run(50)
    (query_id,) = queries
    assert first == again == [(f"spark/{query_id}/0", n + 1, n) for n in range(100)]
    assert second == [(f"spark/{query_id}/0", 2**32 + n - 99, n) for n in range(100, 150)]
    receipts = [json.loads(line) for line in (tmp_path / "receipts").read_text().splitlines()]
    assert [(r["outcome"], r["batch"], r["notifications"]) for r in receipts] == [
        ("committed", 0, 100),
        ("committed", 0, 100),
        ("committed", 1, 50),
    ]


def test_the_examples_of_the_manual_run(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "streams.md").read_text(encoding="utf-8")
    for old, new in (("octopia://127.0.0.1:7400", overlay.url(AT)), ("/var/", f"{tmp_path}/")):
        page = page.replace(old, new)
    starting, reading, writing, batch = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[:4]
    publisher = overlay.publisher("b,1", "class = 'quote' and symbol is not null and close > 0 and volume > 0")
    client = overlay.call(overlay.live.client("a,1"))
    overlay.call(client.start_subscription(subscription := client.subscribe("high = true or high = false")))
    names: dict[str, Any] = {}
    exec(starting + reading + writing, names)  # noqa: S102
    assert names["spark"].sparkContext is session.spark.sparkContext, "the running session is used"
    until(lambda: overlay.subscribed(AT))
    quotes = [("AAPL", 150.5), ("AAPL", 99.0), ("IBM", 120.0), ("AAPL", 250)]
    rows = [{"class": "quote", "symbol": symbol, "close": close, "volume": 7} for symbol, close in quotes]
    overlay.publish(publisher, rows)
    alerts = [
        {"class": "alert", "symbol": "AAPL", "close": 150.5, "high": False},
        {"class": "alert", "symbol": "AAPL", "close": 250.0, "high": True},
    ]

    def next_alerts(count: int = 2) -> list[Any]:
        got: list[Any] = []
        while len(got) < count:
            got += [dict(d.notification) for d in overlay.call(subscription.next_batch())]
        return got

    assert next_alerts() == alerts
    # What is written is not read: two quotes went through, and no more come when the next batch is over.
    overlay.publish(publisher, rows[-1:])
    assert [alert["close"] for alert in next_alerts(1)] == [250.0]
    names["query"].processAllAvailable()
    assert json.loads(names["query"].lastProgress["sources"][0]["endOffset"])["rows"] == 3
    names["query"].stop()
    schema = "class string, symbol string, close double, high boolean"
    names["alerts_of_today"] = session.spark.createDataFrame(alerts, schema)
    exec(batch, names)  # noqa: S102
    assert sorted(next_alerts(), key=lambda alert: alert["close"]) == alerts


def test_the_example_prints_the_quotes_of_a_stream(
    session: Session, overlay: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "stream.py"))
    publisher = overlay.publisher("b,1", "symbol is not null and price > 0")
    writer = example["quotes"](session.spark, overlay.url(AT), str(tmp_path / "spool")).writeStream
    query = writer.foreachBatch(example["show"]).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    # In force by now: nothing that is published from here on is missed.
    overlay.publish(publisher, [{"symbol": "AAPL", "price": 120.5}, {"symbol": "IBM", "price": 80.0}])
    printed = ""

    def has_printed() -> bool:
        nonlocal printed
        query.processAllAvailable()
        printed += capsys.readouterr().out
        return bool(printed)

    until(has_printed)
    query.stop()
    assert printed == "AAPL at 120.5\n"


def told(work: Any) -> str:
    with pytest.raises(OctopiaError) as caught, stream_errors("quotes"):
        work()
    assert "\n" not in str(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_what_goes_wrong_with_reading_is_one_line(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    def stream(schema: str, **options: str) -> None:
        given = {"url": overlay.url(AT), "filter": "n > 0", **options}
        frame = session.spark.readStream.format("octopia").options(**given).schema(schema).load()
        frame.writeStream.format("noop").start().awaitTermination()

    assert told(lambda: stream("n long", url="octopia://127.0.0.1:1")) == (
        "PipelineError: quotes: octopia://127.0.0.1:1 cannot be reached: Connection refused; is a broker running there?"
        " Start one with: octopia serve"
    )
    assert told(lambda: stream("n long", fitler="n > 1")) == (
        "InputError: quotes: unknown option 'fitler' for reading (did you mean filter?)"
    )
    assert told(lambda: stream("n long", filter="n >")) == (
        "InputError: quotes: option 'filter': nothing to go with '>' at position 3;"
        " expected a string, a number, true or false"
    )
    assert told(lambda: stream("n date")).startswith(
        "InputError: quotes: column 'n' is date, which no notification carries: read it as string"
    )
    reader = session.spark.read.format("octopia").options(url=overlay.url(AT), filter="n > 0")
    assert told(lambda: reader.load()).startswith("InputError: quotes: no schema: notifications may differ")
    assert told(lambda: reader.schema("n long").load().collect()).startswith(
        "InputError: quotes: octopia is a live source, and a batch read would never end: use readStream"
    )


def test_what_goes_wrong_with_writing_is_one_line(session: Session, overlay: Brokers, tmp_path: Path) -> None:
    numbers = session.spark.range(10).selectExpr("id as n", "current_date() as day")
    receipts = tmp_path / "receipts"

    def write(frame: DataFrame, save_mode: str = "append", **options: str) -> None:
        given = {"url": overlay.url(AT), "writeId": "w", "receipts": str(receipts), **options}
        frame.coalesce(1).write.format("octopia").options(**given).mode(save_mode).save()

    assert told(lambda: write(numbers)).startswith("InputError: quotes: column 'day' is date, which no notification")
    assert told(lambda: write(numbers.drop("day"), "overwrite")) == (
        "InputError: quotes: publications cannot be overwritten: use mode('append')"
    )
    assert told(lambda: write(numbers.drop("day"), advertise="m > 0")).startswith(
        "InputError: quotes: option 'advertise' does not name 'n'"
    )
    assert told(lambda: write(numbers.drop("day"), advertise="n < 5")) == (
        "PipelineError: quotes: row 6 of spark/w/0: spark/w/0 did not advertise this: advertisement 'a1': n < 5 "
        "failed: n is 5; mode=DROPMALFORMED leaves it out"
    )
    write(numbers.drop("day"), advertise="n < 5", mode="DROPMALFORMED")
    lines = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert [(line["outcome"], line["notifications"], line["skipped"], line["failed_tasks"]) for line in lines] == [
        ("aborted", 0, 0, 1),
        ("committed", 5, 5, 0),
    ]
