"""Tables on disk under their names, for SQL: a separate session for each set of them.

Temporary views are per session in Spark; a new session shares the running context, its cores and its memory, and costs
nothing. So two sets of tables can be queried at once under the same names, and the user's own views stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def session_with(
    spark: "SparkSession",
    urls: Mapping[str, str],
    system: str | None = None,
    schemas: "Mapping[str, StructType] | None" = None,
    *,
    systems: Sequence[str] | None = None,
) -> "SparkSession":
    """A session in which these tables have these names; optionally for one system only, and without that column, or
    for some `systems` only.

    Without `schemas`, Spark inspects a file of each table.
    """
    from pyspark.sql import functions as fn

    own = spark.newSession()
    for name, url in urls.items():
        # The name is taken literally: Spark would take brackets and stars in it for a pattern.
        reader = own.read.option("__globPaths__", "false")
        frame = (reader.schema(schemas[name]) if schemas is not None else reader).parquet(url)
        if systems is not None:
            frame = frame.where(fn.col("system").isin(*systems))
        if system is not None:
            frame = frame.where(fn.col("system") == system).drop("system")
        frame.createOrReplaceTempView(name)
    return own
