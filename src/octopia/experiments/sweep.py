"""Run many cells in parallel processes, with progress; safe to interrupt and resume.

A finished cell in the folder, with the same description, is not run again. A failed cell is reported and does not stop
the others. An interrupt (or a request to end) stops at once: finished cells stay complete, unfinished ones are removed.
Processes are spawned, not forked, so no state of this one leaks into a run. Nothing here prints.
"""

import multiprocessing
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from msgspec import Struct

from octopia.errors import OctopiaError
from octopia.experiments.cell import LIVE, Cell
from octopia.experiments.result import Result
from octopia.experiments.run_cell import finished, run_cell
from octopia.testbed import Testbed, cores

RUNS_FOLDER: Final = "runs"
# Cells of less cost in all (about 4 s) are run here: a process of their own takes 2 s to start.
HERE_COST_MAX: Final = 200_000
_POLL_S: Final = 0.2

# Called with the share that is done, the number of finished cells (including earlier ones), and the latest end, if any.
OnProgress = Callable[[float, int, "Result | Failure | None"], None]


class Failure(Struct, frozen=True):
    """A cell that could not be run, and why."""

    cell: Cell
    reason: str


class Sweep(Struct, frozen=True, kw_only=True):
    """The results of many cells; `reused` of them were there before."""

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    reused: int
    interrupted: bool


def sweep(
    cells: Sequence[Cell],
    folder: Path,
    *,
    jobs: int | None = None,
    keep_trace: Callable[[Cell], bool] = lambda cell: False,
    again: bool = False,
    on_progress: OnProgress | None = None,
    testbed: Testbed | None = None,
) -> Sweep:
    """Run these cells into `folder/runs`, at most `jobs` at once; `again` also runs finished ones.

    Without `jobs`, there is one for each core, and a single one for little work.
    Runs on live brokers have the machine to themselves: one at a time, with processes started as `testbed` says.
    """
    work = _Work(cells, folder / RUNS_FOLDER, keep_trace, again, on_progress)
    if any(cell.host == LIVE for cell in work.waiting):
        jobs = 1
    elif jobs is None:
        jobs = 1 if work.cost <= HERE_COST_MAX else cores()
    interrupted = False
    try:
        with _ending_is_interrupting():
            if jobs == 1 or len(work.waiting) <= 1:
                work.run_here(testbed)
            else:
                work.run_in_processes(min(jobs, len(work.waiting)))
    except KeyboardInterrupt:
        interrupted = True
        work.remove_unfinished()
    results = tuple(work.results[cell.name] for cell in cells if cell.name in work.results)
    return Sweep(results=results, failures=tuple(work.failures), reused=work.reused, interrupted=interrupted)


class _Work:
    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        keep_trace: Callable[[Cell], bool],
        again: bool,
        on_progress: OnProgress | None,
    ) -> None:
        self._folder = folder
        self._keep_trace = keep_trace
        self._on_progress = on_progress
        self.results: dict[str, Result] = {}
        self.failures: list[Failure] = []
        self.waiting: list[Cell] = []
        for cell in cells:
            known = None if again else finished(cell, folder / cell.name, with_trace=keep_trace(cell))
            if known is None:
                self.waiting.append(cell)
            else:
                self.results[cell.name] = known
        self.reused = len(self.results)
        self.cost = sum(cell.cost for cell in self.waiting)
        self._shares = dict.fromkeys((cell.name for cell in self.waiting), 0.0)
        self._costs = {cell.name: cell.cost for cell in self.waiting}

    def run_here(self, testbed: Testbed | None) -> None:
        for cell in self.waiting:
            self.tell()
            try:
                folder, keep = self._where(cell)
                tell = self._part_teller(cell)
                self._done(cell, run_cell(cell, folder, keep_trace=keep, on_part=tell, testbed=testbed))
            except (OctopiaError, OSError, MemoryError) as error:
                self._failed(cell, error)

    def run_in_processes(self, jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        parts: Any = context.SimpleQueue()
        before = {child.pid for child in multiprocessing.active_children()}
        # A thread empties the pipe of progress reports, so that no worker ever blocks on it.
        reader = threading.Thread(target=self._read_parts, args=(parts,), daemon=True)
        reader.start()
        executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(parts,))
        try:
            # The longest first, so that the last ones to end are short.
            order = sorted(self.waiting, key=lambda cell: -cell.cost)
            futures = {executor.submit(_run_in_worker, cell, *self._where(cell)): cell for cell in order}
            self._collect(futures)
            executor.shutdown()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                if child.pid not in before:
                    child.terminate()
                    child.join()
            raise
        finally:
            parts.put(None)
            reader.join()

    def _collect(self, futures: dict[Future[Result], Cell]) -> None:
        open_ones = set(futures)
        while open_ones:
            done, open_ones = wait(open_ones, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                cell = futures[future]
                try:
                    self._done(cell, future.result())
                except BrokenProcessPool:
                    reason = "its process ended: most likely there was too little memory; try fewer --jobs"
                    self._failed(cell, OctopiaError(reason))
                except (OctopiaError, OSError, MemoryError) as error:
                    self._failed(cell, error)
            self.tell()

    def remove_unfinished(self) -> None:
        for cell in self.waiting:
            if cell.name not in self.results:
                shutil.rmtree(self._folder / cell.name, ignore_errors=True)

    def tell(self, news: Result | Failure | None = None) -> None:
        if self._on_progress is not None:
            done = sum(share * self._costs[name] for name, share in list(self._shares.items()))
            self._on_progress(done / (self.cost or 1.0), len(self.results) + len(self.failures), news)

    def _where(self, cell: Cell) -> tuple[Path, bool]:
        return self._folder / cell.name, self._keep_trace(cell)

    def _part_teller(self, cell: Cell) -> Callable[[float], None]:
        def tell(share: float) -> None:
            self._shares[cell.name] = share
            self.tell()

        return tell

    def _read_parts(self, parts: Any) -> None:
        while (part := parts.get()) is not None:
            name, share = part
            # A late report must not undo that a cell is done.
            self._shares[name] = max(self._shares[name], share)

    def _done(self, cell: Cell, result: Result) -> None:
        self.results[cell.name] = result
        self._shares[cell.name] = 1.0
        self.tell(result)

    def _failed(self, cell: Cell, error: BaseException) -> None:
        shutil.rmtree(self._folder / cell.name, ignore_errors=True)
        self._shares[cell.name] = 1.0
        failure = Failure(cell, f"{error}" or type(error).__name__)
        self.failures.append(failure)
        self.tell(failure)


@contextmanager
def _ending_is_interrupting() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does; only the main thread can install this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ---- in a worker

_parts: Any = None


def _start_worker(parts: Any) -> None:
    global _parts  # one per process, set once
    _parts = parts
    # Ctrl-C reaches the whole process group; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run_in_worker(cell: Cell, folder: Path, keep_trace: bool) -> Result:
    def tell(share: float) -> None:
        _parts.put((cell.name, share))

    return run_cell(cell, folder, keep_trace=keep_trace, on_part=tell)
