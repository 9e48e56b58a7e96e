"""The pipeline on Spark: `python -m benchmarks pipeline`, or parts of it with `python -m benchmarks.pipeline --help`.

`joins` holds content matching as an operation of Spark beside joins in Spark SQL, `stages` and `traces` the rows per
second of every stage at 1 and 2 cores, `start` how long a session takes; `measure` is what they share.

Figures are only compared within a run, and every answer that is timed is also checked. Seconds
are given twice, on the wall and of CPU over all processes (driver, JVM, Python workers): on a machine that is shared
only the second can be trusted.
"""

from typing import Any


def run() -> dict[str, Any]:
    """Everything, at the sizes of the documentation, whose page is written."""
    from benchmarks.pipeline import report, suite

    figures = suite.take(suite.Options())
    report.show(figures)
    report.write(figures)
    return figures
