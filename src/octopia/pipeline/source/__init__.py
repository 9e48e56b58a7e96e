"""The Spark data source `octopia`: subscriptions as streaming tables, and tables that are published.

`datasource`, `reader` and `writer` talk to Spark; `options`, `columns`, `spool` and `receiver` do the work and do not
depend on it. Importing this package does not import Spark. docs/streams.md is the manual.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from octopia.errors import OctopiaError
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.session import is_connect
from octopia.pipeline.source.pushdown import subscribe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark appends this to the message of a failed query.
_SPARKS_WORDS = re.compile(r"\s+(?:SQLSTATE: \w+|=== Streaming Query ===).*")


def register(spark: "SparkSession") -> None:
    """Register the format `octopia` with this session.

    On one machine, workers run the Python that calls this unless `PYSPARK_PYTHON` is set: without an activated
    environment Spark would start whichever `python3` comes first.
    """
    from octopia.pipeline.source.datasource import OctopiaSource

    if not is_connect(spark) and "PYSPARK_PYTHON" not in os.environ:
        context = spark.sparkContext
        if str(context.master).startswith("local"):
            context.pythonExec = sys.executable
    with spark_errors("register"):
        spark.dataSource.register(OctopiaSource)


@contextmanager
def stream_errors(what: str) -> Iterator[None]:
    """Turn an error of a query in the block into one line of ours, without Spark's description of the query."""
    try:
        with spark_errors(what):
            yield
    except OctopiaError as error:
        if _SPARKS_WORDS.search(str(error)):
            raise type(error)(_SPARKS_WORDS.sub("", str(error))) from None
        raise


__all__ = ["register", "stream_errors", "subscribe"]
