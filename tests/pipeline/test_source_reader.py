"""The streaming reader against running brokers, asked as Spark asks it, without a JVM: what is delivered, repeated and
lost when readers, brokers and connections come and go. Published rows are numbered, and the numbers are the oracle.
"""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from octopia.errors import InputError, OctopiaError, UnreachableError
from octopia.net import Client
from octopia.pipeline.source.reader import StreamReader
from tests.patience import HANG_S
from tests.pipeline.brokers import Brokers, until

SCHEMA = t.StructType([t.StructField("_id", t.LongType()), t.StructField("n", t.LongType())])
AT = "a,0"


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as running:
        yield running


@pytest.fixture
def publisher(brokers: Brokers) -> Client:
    return brokers.publisher("b,1", "n is not null and text is not null")


class Query:
    """One run of a query: what Spark asks of a reader, with the offsets that its checkpoint would hold."""

    def __init__(self, brokers: Brokers, folder: Path | None, start: dict[str, Any] | None = None, **options: Any):
        given = {"url": brokers.url(AT), "filter": "n >= 0", **{name: str(value) for name, value in options.items()}}
        if folder is not None:
            given["spool"] = str(folder)
        self.reader = StreamReader(given, SCHEMA)
        # Spark's first question, whichever it is, starts the reader.
        self.reader._started()
        self.start = start or self.reader.initialOffset()

    def batch(self, rows_max: int | None = None) -> tuple[list[int], dict[str, Any]]:
        """The numbers of the next batch, read in parts as executors would, and where it ends; not committed."""
        limit = ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)
        end = self.reader.latestOffset(self.start, limit)
        return self.between(self.start, end), end

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        batches: list[pa.RecordBatch] = []
        for partition in self.reader.partitions(start, end):
            batches += self.reader.read(partition)
        return [number for batch in batches for number in batch.column("n").to_pylist()]

    def take(self, count: int) -> list[int]:
        """Read batches until there are this many rows, committing each as soon as it was read."""
        taken: list[int] = []
        while len(taken) < count:
            numbers, end = until(lambda: (found := self.batch())[0] and found)
            taken += numbers
            self.commit(end)
        return taken

    def commit(self, end: dict[str, Any]) -> None:
        self.reader.commit(end)
        self.start = end

    def stop(self) -> dict[str, Any]:
        self.reader.stop()
        return self.start


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "text": "x" * (n % 7)} for n in range(*numbers)]


def test_batches_are_the_same_whenever_they_are_asked_for(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    query = Query(brokers, tmp_path, numPartitions=3)
    brokers.publish(publisher, numbered(1000))
    until(lambda: (query.reader.reportLatestOffset() or {})["rows"] == 1000)
    report = query.reader.reportLatestOffset() or {}
    assert {name: value for name, value in report.items() if name != "metrics"} == {**query.start, "rows": 1000}
    size = sum(path.stat().st_size for path in tmp_path.glob("*.rows"))
    lag_s = report["metrics"].pop("lagSeconds")
    assert lag_s >= 0
    assert report["metrics"] == {
        "lagRows": 1000,
        "spoolBytes": size,
        "spoolBytesMax": 1024**3,
        "spoolIsFull": False,
    }
    first, middle = query.batch(400)
    assert first == list(range(400))
    assert query.between(query.start, middle) == first
    query.commit(middle)
    assert (query.reader.reportLatestOffset() or {})["metrics"]["lagRows"] == 600
    assert query.batch(400) == (list(range(400, 800)), {**middle, "rows": 800})
    rest, end = query.batch()
    assert rest == list(range(400, 1000))
    assert len(query.reader.partitions(middle, end)) == 3
    assert query.between(middle, end) == rest
    assert query.between(end, end) == []
    query.stop()


def test_a_reader_that_stops_and_starts_loses_and_repeats_nothing(
    brokers: Brokers, publisher: Client, tmp_path: Path
) -> None:
    query = Query(brokers, tmp_path)
    got: list[int] = []
    for start in range(0, 900, 300):
        brokers.publish(publisher, numbered(start, start + 200))
        got += query.take(200)
        checkpoint = query.stop()
        until(lambda: brokers.away(AT))
        brokers.publish(publisher, numbered(start + 200, start + 300))
        query = Query(brokers, tmp_path, checkpoint)
        got += query.take(100)
    assert got == list(range(900))
    assert query.start["gaps"] == query.start["dropped"] == 0
    query.stop()


def test_an_uncommitted_batch_is_replayed_after_a_restart(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    query = Query(brokers, tmp_path)
    brokers.publish(publisher, numbered(500))
    until(lambda: query.batch()[1]["rows"] == 500)
    planned = query.batch(300)
    begin = query.start
    query.stop()
    again = Query(brokers, tmp_path, begin)
    assert again.between(begin, planned[1]) == planned[0] == list(range(300))
    again.commit(planned[1])
    assert again.take(200) == list(range(300, 500))
    last = again.stop()
    # A new checkpoint goes on with what no query has committed; with an old one and another folder it does not.
    fresh = Query(brokers, tmp_path)
    assert fresh.start == last
    fresh.stop()
    with pytest.raises(
        InputError, match=r"the checkpoint belongs to spool .* use the folder that the query was started"
    ):
        Query(brokers, tmp_path / "other", last).batch()


CHILD = """
import sys
from pyspark.sql.types import StructField, StructType, LongType
from octopia.pipeline.source.reader import StreamReader
given = {"url": sys.argv[1], "filter": "n >= 0", "spool": sys.argv[2]}
StreamReader(given, StructType([StructField("n", LongType())])).initialOffset()
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_reader_that_is_killed_loses_and_repeats_nothing(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    """SIGKILL while notifications come in, again and again."""
    sent = 0
    for _ in range(3):
        command = [sys.executable, "-c", CHILD, brokers.url(AT), str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            brokers.publish(publisher, numbered(sent, sent + 3000))
            child.kill()
        until(lambda: brokers.away(AT))
        sent += 3000
    query = Query(brokers, tmp_path)
    assert query.take(sent) == list(range(sent))
    assert (query.start["gaps"], query.start["dropped"]) == (0, 0)
    query.stop()


def test_away_for_longer_than_the_session(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    """Only notifications published without a subscription in force are lost."""
    query = Query(brokers, tmp_path, sessionSeconds=0)
    brokers.publish(publisher, numbered(100))
    until(lambda: query.batch()[1]["rows"] == 100)
    checkpoint = query.stop()
    until(lambda: not brokers.away(AT) and not brokers.subscribed(AT))
    brokers.publish(publisher, numbered(100, 200))
    query = Query(brokers, tmp_path, checkpoint, sessionSeconds=0)
    brokers.publish(publisher, numbered(200, 300))
    assert query.take(200) == [*range(100), *range(200, 300)]
    assert (query.start["gaps"], query.start["dropped"]) == (1, 0)
    query.stop()
    strict = Query(brokers, tmp_path, checkpoint, sessionSeconds=0, failOnDataLoss="true")
    with pytest.raises(OctopiaError, match="notifications were lost: 2 sessions not resumed in time; onLoss=count"):
        strict.batch()
    strict.stop()


def test_a_broker_that_is_killed_and_restarted(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    query = Query(brokers, tmp_path)
    brokers.publish(publisher, numbered(100))
    until(lambda: query.batch()[1]["rows"] == 100)
    brokers.restart(AT)
    until(lambda: brokers.subscribed(AT))
    until(lambda: query.batch()[1]["gaps"] == 1)
    brokers.settle(publisher)
    brokers.publish(publisher, numbered(100, 200))
    assert query.take(200) == list(range(200))
    query.stop()


def test_away_beyond_the_bound_of_the_brokers_queue(tmp_path: Path) -> None:
    """The broker keeps what fits and drops the newest; arrivals and drops add up."""
    with Brokers(client_queue_frames_max=100) as brokers:
        publisher = brokers.publisher("b,1", "n is not null and text is not null")
        query = Query(brokers, tmp_path)
        checkpoint = query.stop()
        until(lambda: brokers.away(AT))
        brokers.publish(publisher, numbered(400))
        session = next(iter(brokers.live.host(AT).sessions.values()))
        until(lambda: session.queue.held + session.queue.dropped_total >= 400)
        query = Query(brokers, tmp_path, checkpoint)
        until(lambda: query.batch()[1]["dropped"] > 0)
        got = query.take(query.batch()[1]["rows"])
        assert got == list(range(len(got)))
        assert 90 <= len(got) <= 101
        until(lambda: query.batch()[1]["dropped"] == 400 - len(got))
        query.stop()


def test_a_full_spool_is_filled_no_further_and_loses_nothing(tmp_path: Path) -> None:
    # As many wait as one read may bring, and publishers wait as long as it takes.
    with Brokers(client_queue_frames_max=2000, block_s=3600.0) as brokers:
        publisher = brokers.publisher("b,1", "n is not null and text is not null")
        query = Query(brokers, tmp_path, spoolBytesMax=1024 * 1024)
        rows: list[Any] = [{"n": n, "text": "x" * 1000} for n in range(5000)]
        publishing = brokers.look(lambda: brokers._loop.create_task(publisher.publish_many(rows)))
        spool = query.reader._receiver.spool  # type: ignore[union-attr]
        until(lambda: spool.is_full)
        assert spool.end.rows < 2000
        assert query.take(5000) == list(range(5000))
        assert query.start["dropped"] == 0
        until(publishing.done)
        query.stop()


def test_a_query_that_is_too_slow_for_too_long_begins_anew_and_keeps_its_rows(tmp_path: Path) -> None:
    with Brokers("path:1", 1, client_queue_frames_max=100, stall_s=HANG_S, block_s=HANG_S) as brokers:
        publisher = brokers.publisher(AT, "n is not null and text is not null")
        query = Query(brokers, tmp_path, spoolBytesMax=1024 * 1024)
        host = brokers.live.host(AT)
        first = brokers.look(lambda: next(s for s in host.sessions.values() if s.deliveries.policies))
        # More than the spool, the window of unconfirmed frames and all queues take together.
        rows: list[Any] = [{"n": n, "text": "x" * 1000} for n in range(9000)]
        publishing = brokers.look(lambda: brokers._loop.create_task(publisher.publish_many(rows)))
        # Half of the bound is where the publisher is asked to pause; how much comes after that depends on its reads.
        spool = query.reader._receiver.spool  # type: ignore[union-attr]
        until(lambda: spool.is_full and brokers.look(lambda: first.queue.is_over_mark))
        # As when it has taken nothing for `stall_s`.
        brokers.look(lambda: host.sessions.end(first, "stalled", "it took nothing"))
        until(publishing.done)
        got = query.take(1)
        until(lambda: query.batch()[1]["gaps"] > 0)
        until(lambda: brokers.subscribed(AT))
        brokers.settle(publisher)
        brokers.publish(publisher, numbered(9000, 9100))
        while got[-1] < 9099:
            got += query.take(1)
        assert got == sorted(set(got))
        assert got[-100:] == list(range(9000, 9100))
        # Lost is one stretch for each session that ended, and the rows that were in the spool are not in it.
        losses = [(one, other) for one, other in pairwise(got) if other != one + 1]
        assert len(losses) == query.start["gaps"] == 1
        assert losses[0][0] > 900
        query.stop()


def test_without_a_folder_a_restart_begins_anew_and_counts_it(brokers: Brokers, publisher: Client) -> None:
    query = Query(brokers, None)
    folder = query.reader._temporary
    assert folder is not None
    brokers.publish(publisher, numbered(100))
    until(lambda: query.batch()[1]["rows"] == 100)
    planned = query.batch(50)[1]
    begin = query.stop()
    assert not folder.exists()
    until(lambda: not brokers.away(AT) and not brokers.subscribed(AT))
    again = Query(brokers, None, begin)
    assert again.between(begin, planned) == []
    again.commit(planned)
    brokers.publish(publisher, numbered(200, 300))
    assert again.take(100) == list(range(200, 300))
    assert again.start["gaps"] == 1
    again.stop()


def test_what_is_available_now(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    Query(brokers, tmp_path).stop()
    until(lambda: brokers.away(AT))
    brokers.publish(publisher, numbered(300))
    query = Query(brokers, tmp_path)
    query.reader.prepareForTriggerAvailableNow()
    brokers.publish(publisher, numbered(300, 400))
    until(lambda: (query.reader.reportLatestOffset() or {})["rows"] == 400)
    got, end = query.batch()
    assert got == list(range(300))
    query.commit(end)
    assert query.batch() == ([], end)
    query.stop()


def test_another_filter_is_another_session(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    query = Query(brokers, tmp_path)
    brokers.publish(publisher, numbered(10))
    checkpoint = (query.take(10), query.stop())[1]
    other = Query(brokers, tmp_path, checkpoint, filter="n >= 15")
    brokers.publish(publisher, numbered(10, 20))
    assert other.take(5) == list(range(15, 20))
    assert other.start["gaps"] == 1
    other.stop()


def test_a_checkpoint_that_is_ahead_of_the_spool(brokers: Brokers, publisher: Client, tmp_path: Path) -> None:
    """As after a crash of the machine: as many rows that come now would be passed over."""
    query = Query(brokers, tmp_path)
    brokers.publish(publisher, numbered(10))
    checkpoint = (query.take(10), query.stop())[1]
    ahead = Query(brokers, tmp_path, {**checkpoint, "rows": 15})
    with pytest.raises(InputError, match=r"the checkpoint is at row 15 and the spool .* ended with row 10"):
        ahead.batch()
    ahead.stop()


def test_a_broker_that_refuses_or_is_not_there(brokers: Brokers, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"octopia://127\.0\.0\.1:1 cannot be reached: Connection refused"):
        Query(brokers, tmp_path, url="octopia://127.0.0.1:1")
    query = Query(brokers, tmp_path, name="me")
    with pytest.raises(OctopiaError, match="a client named 'me' is connected already"):
        Query(brokers, tmp_path / "other", name="me")
    query.stop()
