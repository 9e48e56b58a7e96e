"""How long two systems are equally late, from their series of greatest delays; one trace alone does not tell.

Both saw the same workload with the same seed. The greatest delay of 1000 deliveries in a row (`max_delay`) holds from
the end of its block to the end of the next. From the first block of both on, two such curves count as equal as long as
they differ by at most `SAME_S` or `SAME_SHARE` of the larger.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from octopia.experiments.experiment import LEAD_OVER
from octopia.experiments.result import Line, MetricRow, lines_of
from octopia.metrics import Metric

SAME_S: Final = 1.0
SAME_SHARE: Final = 0.1

TOGETHER: Final = Metric(
    name="same_maximum",
    title="How long the greatest delays are the same",
    unit="s",
    definition="from the start of publishing until the greatest delay of 1000 deliveries in a row (`max_delay`) first "
    "differs from SNR's with the same seed by more than 1 s and by more than 10 % of the larger (`with_snr`); the end "
    "of the shorter of the two where it never does",
    shape="table",
    less_is_better=None,
)


def together_rows(rows: Sequence[MetricRow], series: pa.Table) -> list[MetricRow]:
    """`same_maximum` of every system except SNR, by point and seed, if SNR was run and the series exist."""
    x = {row.point: row.x for row in rows}
    # ends of blocks and the greatest delay of each, in seconds, ordered by time
    curves = lines_of(series, "max_delay", "")
    found = []
    for (point, seed, system), curve in curves.items():
        other = curves.get((point, seed, LEAD_OVER))
        if other is not None and system != LEAD_OVER:
            value = same_until(curve, other)
            part = seed, TOGETHER.name, "with_snr", TOGETHER.unit, value
            found.append(MetricRow(rows[0].experiment, system, point, x[point], *part))
    return found


def same_until(one: Line, other: Line) -> float:
    """The moment at which two curves diverge; the end of the shorter one if they do not."""
    begin, end = max(one[0][0], other[0][0]), min(one[0][-1], other[0][-1])
    for moment in sorted({*one[0], *other[0]}):
        if not begin <= moment <= end:
            continue
        mine, theirs = _at(one, moment), _at(other, moment)
        if abs(mine - theirs) > max(SAME_S, SAME_SHARE * max(mine, theirs)):
            return moment
    return end


def _at(curve: Line, moment: float) -> float:
    return curve[1][bisect_right(curve[0], moment) - 1]
