"""The trial of dead sets: it covers all of them, and it detects errors."""

import json
from pathlib import Path
from random import Random

import pytest
from benchmarks.deadsets import main
from benchmarks.deadsets.command import draw_failures

from octopia.routing.fdr import resync
from octopia.topology import find_overlay


def test_all_sets_of_small_overlays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--exhaustive", "--quick"], tmp_path, {"system": "any"}) == 0
    kept = json.loads((tmp_path / "deadsets-exhaustive.json").read_text())
    # path:3 with 2 and 3 clusters: 1 + 6 and 1 + 9 + 36
    assert (kept["benchmark"], kept["sets"], kept["faults"]) == ("deadsets-exhaustive", 53, [])
    assert "53 of 53 sets" in capsys.readouterr().out


def test_what_is_missed_is_told_with_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "_unlearn", lambda state, neighbour, hosts, out: None)
    assert main(["--exhaustive", "--quick", "--seed", "5", "--processes", "1"], tmp_path, {}) == 1
    kept = json.loads((tmp_path / "deadsets-exhaustive.json").read_text())
    assert kept["sets"] == 53
    assert kept["faults"]
    assert all(fault.startswith(("path:3 × 2, seed 5 ", "path:3 × 3, seed 5 ")) for fault in kept["faults"])


def test_it_ends_when_its_time_is_up(tmp_path: Path) -> None:
    assert main(["--seconds", "0", "--processes", "1"], tmp_path, {}) == 0
    assert json.loads((tmp_path / "deadsets.json").read_text())["sets"] == 1


def test_sets_are_drawn_within_and_beyond_what_may_be_dead() -> None:
    scot, draw = find_overlay("evaluation").scot, Random(1)
    drawn = [draw_failures(scot, draw) for _ in range(300)]
    sizes = [len(failures.brokers) + len(failures.links) for failures in drawn]
    assert 0.8 < sum(size < scot.clusters for size in sizes) / len(sizes) < 0.98
    assert all(len(set(failures.brokers)) == len(failures.brokers) for failures in drawn)
    assert all(0 < size <= 3 * scot.clusters for size in sizes)
