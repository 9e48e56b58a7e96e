"""The matching engine beside DuckDB, Polars and plain Python: `python -m benchmarks matching`.

Workloads A, B and C (`workloads`) at 1,000 to 1,000,000 subscriptions: matching one by one and in batches, adding,
removing, overlap, memory, the first call. `measure` times the matcher, `compare` and `upkeep` the peers, `first_call`
new processes; `suite` puts the figures together, `report` and `plots` write tables and pictures.
`python -m benchmarks.matching --help` for parts of it.

Figures are only compared within a run, and every answer that is timed is also checked. Nothing
is imported here: `first_call` measures imports in processes that pass through this file.
"""

from typing import Any


def run() -> dict[str, Any]:
    """Everything, with tables and pictures written to docs: what `python -m benchmarks matching` does."""
    from benchmarks.matching import report, suite

    figures = suite.take(suite.Options())
    report.show(figures)
    report.write(figures)
    return figures
