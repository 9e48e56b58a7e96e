"""OctopiA for users of Spark: matching, streams, and sessions without a Java at hand.

    octopia.spark.register(spark)                      the format "octopia" for readStream, writeStream and write
    octopia.spark.match(notifications, subscriptions)  content matching as an operation on tables
    octopia.spark.watch(spark, folder, out)            what live brokers record, window by window

Names only; the work is done in `octopia.pipeline`, the one folder that imports pyspark.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.pipeline import (
        SparkSettings,
        Subscriptions,
        WatchOptions,
        match,
        open_session,
        register,
        review,
        stream_errors,
        subscribe,
        watch,
    )

__all__ = [
    "SparkSettings",
    "Subscriptions",
    "WatchOptions",
    "match",
    "open_session",
    "register",
    "review",
    "stream_errors",
    "subscribe",
    "watch",
]

__getattr__, __dir__ = lazily(__name__, {"octopia.pipeline": " ".join(__all__)})
