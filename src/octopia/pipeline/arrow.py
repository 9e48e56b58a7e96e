"""Conversion of Arrow schemas to Spark, and tables put together.

Spark's tables may hold null in every column once they are on disk, so nothing here promises otherwise.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def spark_schema(schema: pa.Schema) -> Any:
    """The same columns in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(plain_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns as in a table on disk: plain values, nullable."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def empty_frame(spark: "SparkSession", schema: pa.Schema) -> "DataFrame":
    """An empty table with these columns."""
    return spark.createDataFrame([], spark_schema(schema))


def together(frames: "Sequence[DataFrame]") -> "DataFrame":
    """The rows of all these tables."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
