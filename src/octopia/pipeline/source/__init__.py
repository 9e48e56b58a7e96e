"""The Spark data source `octopia`: subscriptions as streaming tables, and tables that are published.

Rules of this folder: `datasource`, `reader` and `writer` speak to Spark; `options`, `columns`, `spool` and `receiver`
do the work and can be understood without it. Importing this package imports no Spark. docs/streams.md is its manual.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from octopia.errors import OctopiaError
from octopia.pipeline.failures import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark adds behind the message of a query that failed.
_SPARKS_WORDS = re.compile(r"\s+(?:SQLSTATE: \w+|=== Streaming Query ===).*")


def register(spark: "SparkSession") -> None:
    """Make the format `octopia` known to this session."""
    from octopia.pipeline.source.datasource import OctopiaSource

    with spark_errors("register"):
        spark.dataSource.register(OctopiaSource)


@contextmanager
def stream_errors(what: str) -> Iterator[None]:
    """What goes wrong in a query inside becomes one line of ours, without Spark's account of the query."""
    try:
        with spark_errors(what):
            yield
    except OctopiaError as error:
        if _SPARKS_WORDS.search(str(error)):
            raise type(error)(_SPARKS_WORDS.sub("", str(error))) from None
        raise


__all__ = ["register", "stream_errors"]
