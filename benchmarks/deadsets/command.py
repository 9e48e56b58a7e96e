"""`python -m benchmarks deadsets`: random sets of dead brokers and links at random moments on the evaluation overlay.

`--exhaustive` tries every set of at most k - 1 dead brokers on small overlays instead, with every publisher. Each set
counts as one; what went wrong is shown with the seed that repeats it. The result is kept in benchmarks/results, after
every few seconds, so that Ctrl-C loses nothing.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, count
from pathlib import Path
from random import Random
from typing import Any

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


class Tally:
    """The result so far."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.sets = 0
        self.pairs = 0
        self.lost = 0
        self.missed: list[str] = []
        self._path = path
        self._head = head
        self._start_s = self._shown_s = time.monotonic()

    def add(self, trials: Trials, what: str, failures: Failures) -> bool:
        """Run one set; whether it went well. If not, the overlay is of no more use."""
        pairs, lost, went_well = trials.pairs, trials.lost, True
        try:
            trials.run(failures)
        except MissedError as error:
            went_well = False
            self.missed.append(f"{what}, dead: {failures}: {error}")
            print(self.missed[-1], flush=True)
        self.sets += 1
        self.pairs += trials.pairs - pairs
        self.lost += trials.lost - lost
        return went_well

    def show(self, total: int, *, now: bool = False) -> None:
        if now or time.monotonic() - self._shown_s > PROGRESS_EVERY_S:
            self._shown_s = time.monotonic()
            print(self.line(total), flush=True)
            self._path.write_text(json.dumps(self._head | self.figures(), indent=1) + "\n", encoding="utf-8")

    def line(self, total: int) -> str:
        took_s = time.monotonic() - self._start_s
        return (
            f"{self.sets:,} of {total:,} sets in {took_s:.0f} s: {self.pairs:,} deliveries checked, "
            f"{len(self.missed)} sets with faults; {self.lost:,} notifications lost a copy on the way"
        )

    def figures(self) -> dict[str, Any]:
        return {
            "sets": self.sets,
            "deliveries": self.pairs,
            "faults": self.missed,
            "lost_a_copy_on_the_way": self.lost,
            "seconds": round(time.monotonic() - self._start_s),
        }


def run_random(tally: Tally, scot: Scot, sets: int, seed: int) -> Iterator[None]:
    for number in count():
        rng = Random(f"{seed} {number}")
        trials = Trials(scot, rng, publishers=PUBLISHERS)
        for _ in range(SETS_PER_OVERLAY):
            if tally.sets == sets:
                return
            if not tally.add(trials, f"seed {seed} {number}", draw_failures(scot, rng)):
                break
            yield


def run_exhaustive(tally: Tally, overlays: Iterable[tuple[str, int]], seed: int) -> Iterator[None]:
    for tree, clusters in overlays:
        scot = Scot(parse_tree(tree), clusters)
        trials = Trials(scot, Random(seed))
        for dead in sets_of(scot.brokers, clusters - 1):
            if not tally.add(trials, f"{tree} × {clusters}, seed {seed}", Failures(dead)):
                trials = Trials(scot, Random(seed))
            yield


def count_exhaustive(overlays: Iterable[tuple[str, int]]) -> int:
    sizes = [(Scot(parse_tree(tree), clusters).brokers, clusters) for tree, clusters in overlays]
    return sum(1 for brokers, clusters in sizes for _ in sets_of(brokers, clusters - 1))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks deadsets", description=__doc__)
    parser.add_argument("--sets", type=int, default=SETS, metavar="N", help=f"how many are drawn ({SETS:,})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SETS} sets, or the smallest overlays")
    parser.add_argument("--exhaustive", action="store_true", help="every set of k - 1 brokers on small overlays")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="time limit")
    parser.add_argument("--seed", type=int, default=1, help="random seed (1)")
    return parser.parse_args(argv)


def main(argv: Sequence[str], results_folder: Path, machine: dict[str, Any]) -> int:
    arguments = _arguments(argv)
    name = "deadsets-exhaustive" if arguments.exhaustive else "deadsets"
    head = {"benchmark": name, "machine": machine, "seed": arguments.seed}
    tally = Tally(results_folder / f"{name}.json", head)
    if arguments.exhaustive:
        overlays = SMALL[:2] if arguments.quick else SMALL
        total, steps = count_exhaustive(overlays), run_exhaustive(tally, overlays, arguments.seed)
    else:
        total = QUICK_SETS if arguments.quick else arguments.sets
        steps = run_random(tally, find_overlay("evaluation").scot, total, arguments.seed)
    end_s = time.monotonic() + arguments.seconds
    try:
        for _ in steps:
            tally.show(total)
            if time.monotonic() > end_s:
                break
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    tally.show(total, now=True)
    return 1 if tally.missed else 0
