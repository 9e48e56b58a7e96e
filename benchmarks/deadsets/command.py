"""`python -m benchmarks deadsets`: random sets of dead brokers and links at random moments on the evaluation overlay.

`--exhaustive` tries every set of at most k - 1 dead brokers on small overlays instead, with every publisher. Each set
counts as one; what went wrong is shown with the seed that repeats it. Sets come in parts, each on an overlay of its own
with its own seed, which run in one process per core (`--processes`). The result is kept in benchmarks/results, after
every few seconds, so that Ctrl-C loses nothing.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations, islice
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.deadsets.trial import Failures, MissedError, Trials
from octopia.topology import BrokerId, Scot, find_overlay, parse_tree

SETS = 10_000
QUICK_SETS = 40
PROGRESS_EVERY_S = 5.0
# One set in this many has more than k - 1 dead: every reachable destination is reached even then.
BEYOND_EVERY = 10
PUBLISHERS = 4
# A fresh overlay, with its own seed, after this many sets, so that a fault is reproduced quickly.
SETS_PER_OVERLAY = 20
SMALL = [(tree, clusters) for tree in ("path:3", "star:4", "balanced:2,2") for clusters in (2, 3, 4)]


def draw_failures(scot: Scot, rng: Random) -> Failures:
    """As many as k - 1 brokers and links, or more; most often as many as can be, and often close together."""
    most = scot.clusters - 1
    if rng.randrange(BEYOND_EVERY) == 0:
        most = rng.randint(scot.clusters, 3 * scot.clusters)
    total = most if rng.random() < 0.7 else rng.randint(1, most)
    links = rng.choice((0, 0, 0, 1, total // 2, total))
    brokers = _draw_close(scot, rng, total - links) if rng.random() < 0.4 else rng.sample(scot.brokers, total - links)
    return Failures(tuple(brokers), tuple(rng.sample(scot.links, links)))


def _draw_close(scot: Scot, rng: Random, number: int) -> list[BrokerId]:
    """Around one broker: where ways are fewest."""
    around = rng.choice(scot.brokers)
    near = [*scot.neighbours(around), *(b for mate in scot.i_links(around) for b in scot.a_links(mate))]
    return rng.sample(near, min(number, len(near)))


def sets_of(brokers: Sequence[BrokerId], most: int) -> Iterator[tuple[BrokerId, ...]]:
    return chain.from_iterable(combinations(brokers, number) for number in range(most + 1))


class Part(NamedTuple):
    """The result of some sets, which ran on an overlay of their own."""

    sets: int
    pairs: int
    lost: int
    missed: list[str]


Run = Callable[[float], Part]


def _run_sets(make: Callable[[], Trials], what: str, failing: Iterable[Failures], end_s: float) -> Part:
    """Run one set after the other until the time is up, and at least one."""
    trials, sets, pairs, lost, missed = make(), 0, 0, 0, list[str]()
    for failures in failing:
        try:
            trials.run(failures)
        except MissedError as error:
            missed.append(f"{what}, dead: {failures}: {error}")
            # the overlay is of no more use
            pairs, lost, trials = pairs + trials.pairs, lost + trials.lost, make()
        sets += 1
        if time.monotonic() > end_s:
            break
    return Part(sets, pairs + trials.pairs, lost + trials.lost, missed)


def run_random(seed: int, number: int, sets: int, end_s: float) -> Part:
    scot, rng = find_overlay("evaluation").scot, Random(f"{seed} {number}")
    failing = (draw_failures(scot, rng) for _ in range(sets))
    return _run_sets(lambda: Trials(scot, rng, publishers=PUBLISHERS), f"seed {seed} {number}", failing, end_s)


def run_exhaustive(tree: str, clusters: int, seed: int, start: int, end_s: float) -> Part:
    scot, rng = Scot(parse_tree(tree), clusters), Random(f"{seed} {start}")
    failing = map(Failures, islice(sets_of(scot.brokers, clusters - 1), start, start + SETS_PER_OVERLAY))
    return _run_sets(lambda: Trials(scot, rng), f"{tree} × {clusters}, seed {seed} {start}", failing, end_s)


def random_runs(seed: int, total: int) -> list[Run]:
    starts = range(0, total, SETS_PER_OVERLAY)
    return [
        partial(run_random, seed, number, min(SETS_PER_OVERLAY, total - start)) for number, start in enumerate(starts)
    ]


def exhaustive_runs(seed: int, overlays: Iterable[tuple[str, int]]) -> list[Run]:
    return [
        partial(run_exhaustive, tree, clusters, seed, start)
        for tree, clusters in overlays
        for start in range(0, count_exhaustive(tree, clusters), SETS_PER_OVERLAY)
    ]


def count_exhaustive(tree: str, clusters: int) -> int:
    return sum(1 for _ in sets_of(Scot(parse_tree(tree), clusters).brokers, clusters - 1))


class Tally:
    """The result so far."""

    def __init__(self, path: Path, head: dict[str, Any], total: int) -> None:
        self.missed: list[str] = []
        self._sets = self._pairs = self._lost = 0
        self._path = path
        self._head = head
        self._total = total
        self._start_s = self._shown_s = time.monotonic()

    def add(self, part: Part) -> None:
        self._sets += part.sets
        self._pairs += part.pairs
        self._lost += part.lost
        for missed in part.missed:
            self.missed.append(missed)
            print(missed, flush=True)

    def show(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._shown_s > PROGRESS_EVERY_S:
            self._shown_s = time.monotonic()
            print(self._line(), flush=True)
            self._path.write_text(json.dumps(self._head | self._figures(), indent=1) + "\n", encoding="utf-8")

    def _line(self) -> str:
        took_s = time.monotonic() - self._start_s
        return (
            f"{self._sets:,} of {self._total:,} sets in {took_s:.0f} s: {self._pairs:,} deliveries checked, "
            f"{len(self.missed)} sets with faults; {self._lost:,} notifications lost a copy on the way"
        )

    def _figures(self) -> dict[str, Any]:
        return {
            "sets": self._sets,
            "deliveries": self._pairs,
            "faults": self.missed,
            "lost_a_copy_on_the_way": self._lost,
            "seconds": round(time.monotonic() - self._start_s),
        }


def _results(runs: Sequence[Run], processes: int, end_s: float) -> Iterator[Part]:
    if processes == 1:
        yield from (run(end_s) for run in runs)
        return
    with Pool(processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        yield from pool.imap_unordered(partial(_call, end_s=end_s), runs)


def _call(run: Run, end_s: float) -> Part:
    return run(end_s)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks deadsets", description=__doc__)
    parser.add_argument("--sets", type=int, default=SETS, metavar="N", help=f"how many are drawn ({SETS:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SETS} sets, or the smallest overlays")
    parser.add_argument("--exhaustive", action="store_true", help="every set of k - 1 brokers on small overlays")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="time limit")
    parser.add_argument("--seed", type=int, default=1, help="random seed (1)")
    cores = os.cpu_count() or 1
    parser.add_argument("--processes", type=int, default=cores, metavar="N", help=f"sets at a time ({cores})")
    return parser.parse_args(argv)


def main(argv: Sequence[str], results_folder: Path, machine: dict[str, Any]) -> int:
    arguments = _arguments(argv)
    name = "deadsets-exhaustive" if arguments.exhaustive else "deadsets"
    if arguments.exhaustive:
        overlays = SMALL[:2] if arguments.quick else SMALL
        total = sum(count_exhaustive(*overlay) for overlay in overlays)
        runs = exhaustive_runs(arguments.seed, overlays)
    else:
        total = QUICK_SETS if arguments.quick else arguments.sets
        runs = random_runs(arguments.seed, total)
    head = {"benchmark": name, "machine": machine, "seed": arguments.seed}
    tally = Tally(results_folder / f"{name}.json", head, total)
    end_s = time.monotonic() + arguments.seconds
    try:
        for part in _results(runs, arguments.processes, end_s):
            tally.add(part)
            tally.show()
            if time.monotonic() > end_s:
                break
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    tally.show(now=True)
    return 1 if tally.missed else 0
