"""Metrics of a run: each defined once, as SQL over the tables of a trace, for DuckDB and Spark alike."""

from octopia.metrics.compute import ask, run, values_of
from octopia.metrics.facts import Facts, facts_of
from octopia.metrics.metric import Metric
from octopia.metrics.registry import METRICS

__all__ = [
    "METRICS",
    "Facts",
    "Metric",
    "ask",
    "facts_of",
    "run",
    "values_of",
]
