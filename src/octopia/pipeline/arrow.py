"""Conversion of Arrow schemas to Spark, functions of batches in Spark's workers, and tables put together.

Spark's tables may hold null in every column once they are on disk, so nothing here promises otherwise.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

# By then a worker has imported and compiled what its tasks use.
_FIRST_TASKS: Final = 3
_tasks: Final = count()


def spark_schema(schema: pa.Schema) -> Any:
    """The same columns in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(plain_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns as in a table on disk: plain values, nullable."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def map_arrow(frame: "DataFrame", function: Callable[[Batches], Batches], schema: Any) -> "DataFrame":
    """`frame.mapInArrow`, in workers that do not spend their time on garbage."""

    def run(batches: Batches) -> Batches:
        _exclude_modules()
        return function(batches)

    return frame.mapInArrow(run, schema)


def _exclude_modules() -> None:
    """In a worker, at the start of a task: exclude what is there from collections of garbage.

    PySpark collects after each task, which takes 0.1 s with all modules that are loaded, more than a small task. It has
    just done so, so what is there now is not garbage.
    """
    if next(_tasks) < _FIRST_TASKS:
        gc.freeze()


def empty_frame(spark: "SparkSession", schema: pa.Schema) -> "DataFrame":
    """An empty table with these columns."""
    return spark.createDataFrame([], spark_schema(schema))


def together(frames: "Sequence[DataFrame]") -> "DataFrame":
    """The rows of all these tables."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
