"""What a run leaves behind: flat tables in Parquet, one schema for the simulator, the live brokers and Spark."""

from octopia.trace.schema import (
    BROKERS,
    CIVS,
    CLIENTS,
    DELIVERIES,
    FATES,
    HOPS,
    NO_REQUEST,
    QUEUES,
    REQUESTS,
    TABLE_SIZES,
    TABLES,
)
from octopia.trace.writer import ROWS_PER_BATCH, TraceWriter

__all__ = [
    "BROKERS",
    "CIVS",
    "CLIENTS",
    "DELIVERIES",
    "FATES",
    "HOPS",
    "NO_REQUEST",
    "QUEUES",
    "REQUESTS",
    "ROWS_PER_BATCH",
    "TABLES",
    "TABLE_SIZES",
    "TraceWriter",
]
