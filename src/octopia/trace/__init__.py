"""The trace of a run: flat tables in Parquet, with one schema for the simulator, live brokers and Spark."""

from octopia.trace.live import FACTS, REGISTERED, assemble, content_of, subscriptions_between
from octopia.trace.recorded_overlay import OVERLAY_FILE, RecordedOverlay, read_overlay, write_overlay
from octopia.trace.schema import (
    BROKERS,
    CIVS,
    CLIENTS,
    DELIVERIES,
    EXPIRED,
    FATES,
    HOPS,
    NO_REQUEST,
    OPTIONAL_TABLES,
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
    "EXPIRED",
    "FACTS",
    "FATES",
    "HOPS",
    "NO_REQUEST",
    "OPTIONAL_TABLES",
    "OVERLAY_FILE",
    "QUEUES",
    "REGISTERED",
    "REQUESTS",
    "ROWS_PER_BATCH",
    "TABLES",
    "TABLE_SIZES",
    "RecordedOverlay",
    "TraceWriter",
    "assemble",
    "content_of",
    "read_overlay",
    "subscriptions_between",
    "write_overlay",
]
