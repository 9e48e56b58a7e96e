"""Metrics of a run: each defined once, as SQL over the tables of a trace, for DuckDB and Spark alike."""

from octopia.metrics.compute import MEMORY_MAX, Value, ask, run, values_of
from octopia.metrics.facts import Facts, facts_of
from octopia.metrics.grouped import SYSTEM, grouped
from octopia.metrics.metric import Metric
from octopia.metrics.registry import METRICS, metrics_named

__all__ = [
    "MEMORY_MAX",
    "METRICS",
    "SYSTEM",
    "Facts",
    "Metric",
    "Value",
    "ask",
    "facts_of",
    "grouped",
    "metrics_named",
    "run",
    "values_of",
]
