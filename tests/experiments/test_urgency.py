"""Delays of urgent subscribers and late deliveries, counted one delivery at a time."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octopia.errors import InputError
from octopia.experiments import Result, run_cell
from octopia.experiments.run_cell import workload_of
from tests.experiments.cells import small_cells
from tests.sim.worlds import rows

# A burst of 200 in 0.12 s over links that send 143 messages a second.
BUSY: dict[str, Any] = {
    "subscribers": 60,
    "urgent_share": 0.1,
    "burst_notifications": 200,
    "burst_interested_share": 0.3,
    "notifications_per_publisher": 20,
    "rate_per_minute": 600,
    "systems": ["snr"],
}


def part(result: Result, metric: str, name: str) -> float | None:
    (row,) = [row for row in result.rows if (row.metric, row.part) == (metric, name)]
    return row.value


def test_urgent_subscribers_gain_and_nobody_starves(tmp_path: Path) -> None:
    without, first = (
        run_cell(cell, tmp_path / cell.name, keep_trace=True) for cell in small_cells("priorities", **BUSY)
    )
    for result in (without, first):
        assert [finding for finding in result.findings if not finding.passed] == []
        folder, workload = tmp_path / result.cell.name, workload_of(result.cell)
        published = {row["request"]: row for row in rows(folder / "trace", "requests") if row["kind"] == "publish"}
        names = {row["client"]: row["name"] for row in rows(folder / "trace", "clients")}
        delays: dict[str, list[int]] = defaultdict(list)
        for delivery in rows(folder / "trace", "deliveries"):
            request = published[delivery["request"]]
            urgent = names[delivery["client"]] in workload.wishes
            burst = names[request["client"]] == "high-rate"
            group = "burst" if burst else "urgent" if urgent else "ordinary"
            delays[group].append(delivery["delivered_ns"] - request["issued_ns"])
        assert sorted(delays) == ["burst", "ordinary", "urgent"]
        for group, found in delays.items():
            assert part(result, "urgency", f"{group}_mean") == pytest.approx(float(np.mean(found)) / 1e9)
            assert part(result, "urgency", f"{group}_p99") == pytest.approx(float(np.percentile(found, 99)) / 1e9)
            assert part(result, "urgency", f"{group}_max") == max(found) / 1e9
    gain = [part(result, "urgency", "urgent_p99") or 0.0 for result in (without, first)]
    assert gain[1] < gain[0] / 2
    # the cost to others: at most the time of all urgent messages on one link
    cost = [part(result, "urgency", "burst_max") or 0.0 for result in (without, first)]
    assert cost[0] <= cost[1] < 1.2 * cost[0]


def test_what_came_too_late_is_counted(tmp_path: Path) -> None:
    (cell,) = small_cells("priorities", **BUSY, points=[3], deadline_share=0.5, deadline_s=0.1)
    result = run_cell(cell, tmp_path, keep_trace=True)
    assert [finding for finding in result.findings if not finding.passed] == []
    assert part(result, "expiries", "dropped") == len(rows(tmp_path / "trace", "expired")) > 0
    names = {row["client"]: row["name"] for row in rows(tmp_path / "trace", "clients")}
    wishes = workload_of(cell).wishes
    timed = [row for row in rows(tmp_path / "trace", "deliveries") if names[row["client"]] in wishes]
    in_time = [row for row in timed if wishes[names[row["client"]]].deadline_ns]
    assert part(result, "expiries", "in_time") == len(in_time)


def test_without_urgent_subscribers_there_is_no_number(tmp_path: Path) -> None:
    (cell,) = small_cells("priorities", urgent_share=0.0, points=[0], systems=["snr"])
    result = run_cell(cell, tmp_path)
    assert part(result, "urgency", "urgent_mean") is None
    assert part(result, "expiries", "dropped") == 0


def test_a_priority_that_is_none() -> None:
    with pytest.raises(InputError, match=r"points\[0\]: urgent_priority: expected `int` <= 3"):
        small_cells("priorities", points=[4])
