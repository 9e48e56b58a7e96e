"""Workloads: quotes, the notifications made of them, clients with filters of a wanted selectivity, and the truth.

Rules of this package: pure functions on columns. Everything random follows from a seed by counter (`draws`), so what is
made does not depend on how the work is divided. It knows no broker's code and no index; the simulator uses it as it is,
the data pipeline inside its own functions. Only `read_quotes` and what it calls read files.
"""

from octopia.workload.clean import (
    RAW_SCHEMA,
    REJECTS_SCHEMA,
    SOURCED_SCHEMA,
    Cleaned,
    clean_quotes,
    without_repeats,
)
from octopia.workload.dates import DateEvidence, DayOrder, date_evidence
from octopia.workload.filters import advertisement_filter, subscription_filters
from octopia.workload.market import Market, Symbols, draw_symbols, make_market
from octopia.workload.notifications import NOTIFICATIONS_SCHEMA, notifications_of, row_notifications, row_values
from octopia.workload.places import client_brokers, place_interested
from octopia.workload.quotes import QUOTES_SCHEMA, symbol_names, synthetic_quotes
from octopia.workload.read_quotes import QuotesRead, clean_file, day_order, quote_files, raw_batches, read_quotes
from octopia.workload.spec import BurstSpec, WorkloadSpec, spec_fields
from octopia.workload.tables import TABLE_SCHEMAS, workload_from_tables, workload_tables
from octopia.workload.truth import PAIRS_SCHEMA, match_counts, match_mask, truth_batches, truth_pairs
from octopia.workload.workload import (
    Publications,
    Registration,
    Spread,
    Summary,
    Workload,
    interested_subscribers,
    make_workload,
)

__all__ = [
    "NOTIFICATIONS_SCHEMA",
    "PAIRS_SCHEMA",
    "QUOTES_SCHEMA",
    "RAW_SCHEMA",
    "REJECTS_SCHEMA",
    "SOURCED_SCHEMA",
    "TABLE_SCHEMAS",
    "BurstSpec",
    "Cleaned",
    "DateEvidence",
    "DayOrder",
    "Market",
    "Publications",
    "QuotesRead",
    "Registration",
    "Spread",
    "Summary",
    "Symbols",
    "Workload",
    "WorkloadSpec",
    "advertisement_filter",
    "clean_file",
    "clean_quotes",
    "client_brokers",
    "date_evidence",
    "day_order",
    "draw_symbols",
    "interested_subscribers",
    "make_market",
    "make_workload",
    "match_counts",
    "match_mask",
    "notifications_of",
    "place_interested",
    "quote_files",
    "raw_batches",
    "read_quotes",
    "row_notifications",
    "row_values",
    "spec_fields",
    "subscription_filters",
    "symbol_names",
    "synthetic_quotes",
    "truth_batches",
    "truth_pairs",
    "without_repeats",
    "workload_from_tables",
    "workload_tables",
]
