"""Errors of a running Spark in our words, and the files and resources of a session."""

import gzip
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from octopia.errors import InputError, LanguageError, OctopiaError
from octopia.pipeline import PipelineError, Session, open_session
from octopia.pipeline.tasks import Task, run_tasks, task_scratch


def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            raise LanguageError("the price is odd", expected="an even one")
        yield batch


def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            raise KeyError("symbol")
        yield batch


def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            os._exit(9)
        yield batch


def told(session: Session, work: Callable[[Any], Any]) -> str:
    with pytest.raises(OctopiaError) as caught, session.errors("work"):
        work(session.spark)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda spark: spark.range(1).mapInArrow(failing, "id long").collect(),
            "InputError: work: the price is odd; expected an even one",
        ),
        (
            lambda spark: spark.range(1).mapInArrow(broken, "id long").collect(),
            "PipelineError: work: a task failed: KeyError: 'symbol'",
        ),
        (
            lambda spark: spark.range(1).mapInArrow(killed, "id long").collect(),
            "PipelineError: work: a Python worker ended early, usually for lack of memory: use fewer cores at once",
        ),
        (lambda spark: spark.read.parquet("/no/such"), "InputError: work: /no/such: no such file or folder"),
        (
            lambda spark: spark.range(1).withColumnRenamed("id", "price").select("prize"),
            "InputError: work: no column 'prize'; the columns are price (did you mean price?)",
        ),
        (lambda spark: spark.read.text("s9://bucket/x"), "InputError: work: this Spark knows no storage s9://"),
        (
            lambda spark: spark.read.text("hdfs://127.0.0.1:1/x"),
            "PipelineError: work: cannot reach localhost:1: is it running?",
        ),
        (
            lambda spark: spark.sql("select cast('x' as int)").collect(),
            'PipelineError: work: [CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT"',
        ),
    ],
)
def test_errors_are_one_line_of_ours(session: Session, work: Callable[[Any], Any], message: str) -> None:
    line = told(session, work)
    assert line.startswith(message)
    assert "\n" not in line
    assert "\tat" not in line


def test_bad_files_are_named(session: Session, tmp_path: Path) -> None:
    odd = tmp_path / "odd.parquet"
    odd.write_text("no parquet")
    assert told(session, lambda spark: spark.read.parquet(str(odd))) == (
        f"InputError: work: {odd}: not a Parquet file, or damaged"
    )
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"a\n" * 100_000)[:100])
    assert told(session, lambda spark: spark.read.text(str(cut)).collect()) == (
        f"InputError: work: {cut}: the compressed file is cut short or damaged"
    )
    there = tmp_path / "there"
    there.mkdir()
    assert told(session, lambda spark: spark.range(1).write.parquet(str(there))) == (
        f"InputError: work: {there} is there already"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no folders")
def test_a_place_that_cannot_be_written_is_named(session: Session) -> None:
    assert told(session, lambda spark: spark.range(1).write.parquet("/proc/out")) == (
        "InputError: work: /proc/out: cannot be made; check the rights of the folders above it"
    )


def test_errors_that_spark_has_no_part_in_stay_as_they_are(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), session.errors("work"):
        _ = 1 / 0


def test_python_workers_run_this_python(session: Session) -> None:
    def which(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    assert session.spark.range(1).mapInArrow(which, "python string").collect() == [(sys.executable,)]


def test_a_running_session_is_used_and_left_running(session: Session) -> None:
    with open_session() as second:
        assert second.spark is session.spark
        assert second.spark.range(3).count() == 3
    assert session.spark.range(2).count() == 2


def test_a_job_that_ctrl_c_cancelled_is_an_interrupt(session: Session) -> None:
    session.interrupts.pending = True
    with pytest.raises(KeyboardInterrupt), session.errors("work"):
        session.spark.read.parquet("/no/such")
    session.interrupts.pending = True
    with pytest.raises(KeyboardInterrupt), session.errors("work"):
        session.spark.range(1).count()
    with session.errors("work"):
        assert session.spark.range(1).count() == 1


def test_a_failure_while_tidying_up_after_ctrl_c_is_an_interrupt(session: Session) -> None:
    """PySpark reads rows from a socket; interrupted there, it asks Java for the end of the job, and that raises."""
    from py4j.protocol import Py4JError

    def read() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("java.net.SocketException: Broken pipe")

    with pytest.raises(KeyboardInterrupt), session.errors("stage truth"):
        read()


def test_temporary_files_of_a_task_go_with_the_session(session: Session) -> None:
    """A task that is cancelled is killed, so its files must be where the session tidies up."""

    def where(payload: bytes) -> bytes:
        with task_scratch():
            return tempfile.mkdtemp().encode()

    end = run_tasks(session, where, [Task("where", b"")])["where"]
    assert end.answer is not None
    local = session.spark.sparkContext.getConf().get("spark.local.dir")
    assert local is not None
    assert Path(local) in Path(end.answer.decode()).parents


def test_an_error_is_a_pipeline_error_or_an_input_error() -> None:
    assert issubclass(PipelineError, OctopiaError)
    assert not issubclass(PipelineError, InputError)
