"""The trace of a run: flat tables in Parquet, with one schema for the simulator, live brokers and Spark."""

from octopia.trace.live import FACTS, REGISTERED, assemble, content_of, subscriptions_between
from octopia.trace.reader import moments_of_requests, read_columns
from octopia.trace.recorded_overlay import RecordedOverlay, read_overlay, write_overlay
from octopia.trace.schema import FATES, NO_REQUEST, TABLES
from octopia.trace.writer import ROWS_PER_BATCH, TraceWriter

__all__ = [
    "FACTS",
    "FATES",
    "NO_REQUEST",
    "REGISTERED",
    "ROWS_PER_BATCH",
    "TABLES",
    "RecordedOverlay",
    "TraceWriter",
    "assemble",
    "content_of",
    "moments_of_requests",
    "read_columns",
    "read_overlay",
    "subscriptions_between",
    "write_overlay",
]
