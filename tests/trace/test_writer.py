"""Traces on disk: whole files or none, and no batch larger than asked for."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.trace import TABLES, TraceWriter

SAMPLE = {"at_ns": [1, 2], "sender": [0, 0], "receiver": [1, 2], "queue": [3, 4], "entered": [9, 9], "left": [6, 5]}


def test_every_table_has_its_file_and_its_schema_also_when_empty(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        writer.write("queues", SAMPLE)
        writer.write("queues", SAMPLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.parquet" for name in TABLES)
    for name, schema in TABLES.items():
        read = pq.read_table(tmp_path / f"{name}.parquet")
        assert read.column_names == schema.names
        assert read.num_rows == (4 if name == "queues" else 0)
    assert pq.read_table(tmp_path / "queues.parquet").to_pydict() == {name: v + v for name, v in SAMPLE.items()}
    assert writer.rows["queues"] == 4


def test_until_it_is_complete_a_file_has_another_name(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        writer.write("queues", SAMPLE)
        assert [path.name for path in tmp_path.iterdir()] == ["queues.parquet.partial"]


def test_an_error_completes_what_was_written(tmp_path: Path) -> None:
    def fail(writer: TraceWriter) -> None:
        with writer:
            writer.write("queues", SAMPLE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(TraceWriter(tmp_path))
    assert pq.read_table(tmp_path / "queues.parquet").num_rows == 2


def test_what_does_not_fit_the_schema_is_refused(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        with pytest.raises(pa.ArrowInvalid):
            writer.write("queues", {**SAMPLE, "queue": [2**40, 1]})
        with pytest.raises(KeyError):
            writer.write("queues", {"at_ns": [1]})
    assert pq.read_table(tmp_path / "queues.parquet").num_rows == 0
