"""Many cells: side by side, taken up again, failing, interrupted."""

import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import OctopiaError
from octopia.experiments import Failure, Result, Sweep, cell_bytes, sweep
from octopia.experiments import sweep as sweep_function
from tests.experiments.cells import small_cells

SWEEP = "octopia.experiments.sweep"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_in_processes_and_here_the_results_are_the_same_bytes(tmp_path: Path) -> None:
    cells = small_cells("publishers")
    told: list[tuple[float, int]] = []
    here = sweep(cells, tmp_path / "here", jobs=1, on_progress=lambda share, ended, news: told.append((share, ended)))
    there = sweep(cells, tmp_path / "there", jobs=2)
    assert here == there
    assert [cell_bytes(result.cell) for result in here.results] == [cell_bytes(cell) for cell in cells]
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert not here.failures
    assert not here.interrupted
    assert told == sorted(told)
    assert told[-1][0] == pytest.approx(1.0)
    assert told[-1][1] == len(cells)


def test_without_a_number_of_jobs_little_work_is_done_here_and_more_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = small_cells("publishers")
    started: list[int] = []
    module = importlib.import_module(SWEEP)
    monkeypatch.setattr(module._Work, "run_in_processes", lambda work, jobs: started.append(jobs))
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module, "HERE_COST_MAX", sum(cell.cost for cell in cells) - 1)
    sweep(cells, tmp_path)
    assert started == [2]
    monkeypatch.setattr(module, "HERE_COST_MAX", sum(cell.cost for cell in cells))
    assert len(sweep(cells, tmp_path).results) == len(cells)
    assert started == [2]


def test_what_is_finished_is_not_run_again_unless_it_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sweep(small_cells("publishers"), tmp_path, jobs=1)
    ran = counted(monkeypatch)
    again = sweep(small_cells("publishers"), tmp_path, jobs=1)
    assert again.results == first.results
    assert (again.reused, ran) == (4, [])
    more = sweep(small_cells("publishers", seeds=2), tmp_path, jobs=1)
    assert (more.reused, len(more.results), len(ran)) == (4, 8, 4)
    ran.clear()
    other = sweep(small_cells("publishers", model="instant"), tmp_path, jobs=1)
    assert (other.reused, len(ran)) == (0, 4)
    ran.clear()
    kept = sweep(
        small_cells("publishers", model="instant"), tmp_path, jobs=1, keep_trace=lambda cell: cell.system == "snr"
    )
    assert (kept.reused, len(ran)) == (2, 2), "a trace that is wanted now makes a run again"
    forced = sweep(small_cells("publishers", model="instant"), tmp_path, jobs=1, again=True)
    assert (forced.reused, len(forced.results)) == (0, 4)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    import importlib

    module = importlib.import_module(SWEEP)
    real: Callable[..., Result] = module.run_cell
    ran: list[str] = []

    def run(cell: Any, *args: Any, **named: Any) -> Result:
        ran.append(cell.name)
        return real(cell, *args, **named)

    monkeypatch.setattr(module, "run_cell", run)
    return ran


def test_a_cell_that_fails_is_reported_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module(SWEEP)
    real: Callable[..., Result] = module.run_cell

    def run(cell: Any, folder: Path, **named: Any) -> Result:
        if cell.system == "tid":
            folder.mkdir(parents=True)
            raise OctopiaError("no luck")
        return real(cell, folder, **named)

    monkeypatch.setattr(module, "run_cell", run)
    done = sweep(small_cells("publishers"), tmp_path, jobs=1)
    assert [result.cell.system for result in done.results] == ["snr", "snr"]
    assert [(failure.cell.system, failure.reason) for failure in done.failures] == [("tid", "no luck")] * 2
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["2-snr-seed0", "4-snr-seed0"]


def test_an_impossible_cell_fails_in_its_process_alone(tmp_path: Path) -> None:
    fault = {"what": "broker", "broker": ["nowhere", 0], "from_ns": 0, "until_ns": 1}
    cells = [*small_cells("publishers", points=[2]), *small_cells("publishers", points=[3], faults=[fault])]
    done = sweep(cells, tmp_path, jobs=2)
    assert len(done.results) == 2
    assert {failure.reason.split(":")[0] for failure in done.failures} == {"faults[0]"}


POINTS = [2, 3, 4, 5]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Results without an interrupt."""
    return sweep(small_cells("publishers", points=POINTS), tmp_path_factory.mktemp("whole"), jobs=1)


@pytest.mark.parametrize(("jobs", "number"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGTERM)])
def test_an_interrupt_keeps_what_is_finished_whole_and_removes_the_rest(
    jobs: int, number: signal.Signals, whole: Sweep, tmp_path: Path
) -> None:
    def stop_after_the_first(share: float, ended: int, news: Result | Failure | None) -> None:
        if isinstance(news, Result):
            os.kill(os.getpid(), number)

    cells = small_cells("publishers", points=POINTS)
    stopped = sweep(cells, tmp_path, jobs=jobs, on_progress=stop_after_the_first)
    assert stopped.interrupted
    assert 1 <= len(stopped.results) < len(cells)
    kept = {result.cell.name for result in stopped.results}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == kept
    rest = sweep(cells, tmp_path, jobs=1)
    assert rest.reused == len(kept)
    assert len(rest.results) == len(cells)
    assert rest.results == whole.results


def test_the_package_gives_the_function() -> None:
    assert sweep_function is sweep
