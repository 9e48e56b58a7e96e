"""Workloads: quotes, the notifications made of them, clients with filters of a wanted selectivity, and the truth.

Pure functions on columns. All randomness comes from a seed by counter (`draws`), so results do not depend on how the
work is divided. The package does not depend on brokers or indexes; the simulator uses it directly, the data pipeline
inside its own functions. Only `read_quotes` and the functions it calls read files.
"""

from octopia.workload.clean import REJECTS_SCHEMA, SOURCED_SCHEMA, Cleaned, clean_quotes, without_repeats
from octopia.workload.client_places import client_brokers
from octopia.workload.dates import DateEvidence, DayOrder, date_evidence
from octopia.workload.filters import subscription_filters
from octopia.workload.market import draw_symbols, high_rate_counts, make_market, published_counts
from octopia.workload.notifications import NOTIFICATIONS_SCHEMA, notifications_of
from octopia.workload.quotes import QUOTES_SCHEMA, symbol_names, synthetic_quotes
from octopia.workload.raw_csv import (
    BLOCK_BYTES,
    EMPTY_FILE,
    CsvForm,
    csv_block,
    csv_form,
    csv_rows,
    csv_stream,
    split_header,
    whole_lines,
)
from octopia.workload.read_quotes import (
    HEAD_BYTES,
    Skipped,
    clean_file,
    dates_in,
    find_quotes,
    no_quote_files,
    quote_files,
    raw_batches,
    read_quotes,
    told_skipped,
    why_skipped,
)
from octopia.workload.spec import BurstSpec, ChurnSpec, WorkloadSpec
from octopia.workload.tables import TABLE_SCHEMAS, workload_from_tables, workload_tables
from octopia.workload.truth import PAIRS_SCHEMA, match_counts, match_mask, truth_batches
from octopia.workload.wishes import Wish, WishSpec, urgent_subscribers
from octopia.workload.workload import (
    Change,
    Publications,
    Registration,
    Workload,
    interested_subscribers,
    make_workload,
    spread_of,
)

__all__ = [
    "BLOCK_BYTES",
    "EMPTY_FILE",
    "HEAD_BYTES",
    "NOTIFICATIONS_SCHEMA",
    "PAIRS_SCHEMA",
    "QUOTES_SCHEMA",
    "REJECTS_SCHEMA",
    "SOURCED_SCHEMA",
    "TABLE_SCHEMAS",
    "BurstSpec",
    "Change",
    "ChurnSpec",
    "Cleaned",
    "CsvForm",
    "DateEvidence",
    "DayOrder",
    "Publications",
    "Registration",
    "Skipped",
    "Wish",
    "WishSpec",
    "Workload",
    "WorkloadSpec",
    "clean_file",
    "clean_quotes",
    "client_brokers",
    "csv_block",
    "csv_form",
    "csv_rows",
    "csv_stream",
    "date_evidence",
    "dates_in",
    "draw_symbols",
    "find_quotes",
    "high_rate_counts",
    "interested_subscribers",
    "make_market",
    "make_workload",
    "match_counts",
    "match_mask",
    "no_quote_files",
    "notifications_of",
    "published_counts",
    "quote_files",
    "raw_batches",
    "read_quotes",
    "split_header",
    "spread_of",
    "subscription_filters",
    "symbol_names",
    "synthetic_quotes",
    "told_skipped",
    "truth_batches",
    "urgent_subscribers",
    "whole_lines",
    "why_skipped",
    "without_repeats",
    "workload_from_tables",
    "workload_tables",
]
