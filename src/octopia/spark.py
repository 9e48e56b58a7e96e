"""OctopiA for users of Spark: matching, streams, and sessions without a Java at hand.

    octopia.spark.register(spark)                      the format "octopia" for readStream, writeStream and write
    octopia.spark.match(notifications, subscriptions)  content matching as an operation on tables

Rules of this file: names only; the work is done in `octopia.pipeline`, the one folder that imports pyspark.
"""

from octopia.pipeline import SparkSettings, match, open_session, register, stream_errors

__all__ = ["SparkSettings", "match", "open_session", "register", "stream_errors"]
