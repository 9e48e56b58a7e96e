"""OctopiA for users of Spark: `octopia.spark.match(notifications, subscriptions)`, and sessions without a Java at hand.

Rules of this file: names only; the work is done in `octopia.pipeline`, the one folder that imports pyspark.
"""

from octopia.pipeline import SparkSettings, match, open_session

__all__ = ["SparkSettings", "match", "open_session"]
