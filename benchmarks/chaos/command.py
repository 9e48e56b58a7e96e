"""`python -m benchmarks chaos`: run the trial, show its progress, print and keep the table.

Each scenario has a world of its own and a time limit, and everything it started is killed when it ends, however it
ends: Ctrl-C and SIGTERM stop the trial after that, and show what there is so far.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.chaos import report
from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.scenarios import SCENARIOS
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.world import ServeRefusedError, Setup, World
from benchmarks.tables import show

# As shells say it of a program that Ctrl-C ended.
INTERRUPTED = 130


async def run_scenario(scenario: Scenario, rng: Random, quick: bool) -> Outcome:
    """One scenario from start to end; a failure of the trial itself is a fault, too."""
    with tempfile.TemporaryDirectory(prefix="octopia-chaos-") as folder:
        world = World(scenario.setup or Setup(regions=1, clusters=1), Path(folder))
        trial = Trial(world, rng, quick)
        start = time.monotonic()
        try:
            async with asyncio.timeout(scenario.limit_s):
                if scenario.setup is not None:
                    await world.start()
                await scenario.run(trial)
            trial.outcome.judge(scenario.promise)
        except ServeRefusedError as error:
            trial.outcome.fault(f"serve refused: {error}")
        except TimeoutError:
            trial.outcome.tally = trial.ledger.tally()
            trial.outcome.fault(f"not over within {scenario.limit_s:.0f} s")
        except Exception as error:  # noqa: BLE001 - the other scenarios are still to be run
            trial.outcome.fault(f"{type(error).__name__}: {error}")
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(trial.close(), 10)
            await world.close()
        trial.outcome.took_s = time.monotonic() - start
        return trial.outcome


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks chaos", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="run this scenario; may be given again")
    parser.add_argument("--list", action="store_true", help="show the scenarios and end")
    parser.add_argument("--seed", type=int, default=1, help="random seed (1)")
    parser.add_argument("--quick", action="store_true", help="shorter phases, fewer repetitions")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="keep the table in this file, too, after every scenario"
    )
    return parser.parse_args(argv)


def _chosen(names: Sequence[str] | None) -> list[Scenario]:
    unknown = [name for name in names or () if name not in SCENARIOS]
    if unknown:
        raise SystemExit(f"unknown scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    return [scenario for name, scenario in SCENARIOS.items() if not names or name in names]


def _progress(number: int, count: int, scenario: Scenario, outcome: Outcome) -> None:
    print(f"[{number}/{count}] {scenario.name} ({outcome.took_s:.0f} s): {outcome.verdict}", flush=True)
    for note in [outcome.answer, *outcome.notes]:
        if note:
            print(f"        {note}", flush=True)


def run_all(chosen: Sequence[Scenario], seed: int, quick: bool, markdown: Path | None) -> dict[Scenario, Outcome]:
    """Run them one after the other; the table so far is kept after each."""
    results: dict[Scenario, Outcome] = {}
    # Collecting the books of a hundred thousand deliveries takes a while, which would be measured as a delay.
    gc.disable()
    try:
        for number, scenario in enumerate(chosen, 1):
            print(f"[{number}/{len(chosen)}] {scenario.name}: {scenario.about} …", flush=True)
            results[scenario] = asyncio.run(run_scenario(scenario, Random(f"{seed} {scenario.name}"), quick))
            _progress(number, len(chosen), scenario, results[scenario])
            gc.collect()
            if markdown is not None:
                markdown.write_text(report.markdown(results), encoding="utf-8")
    except KeyboardInterrupt:
        print("interrupted; everything that was started has ended", file=sys.stderr)
    return results


def main(argv: Sequence[str], results_folder: Path, machine: dict[str, Any]) -> int:
    arguments = _arguments(argv)
    if arguments.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:20} {scenario.about}")
        return 0
    chosen = _chosen(arguments.only)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # What clients say about broken connections is expected here.
    logging.getLogger().setLevel(logging.CRITICAL)
    load = os.getloadavg()[0]
    if load > (os.cpu_count() or 1) / 2:
        print(f"other processes are busy (load {load:.1f}): rates, delays and times mean little", flush=True)
    results = run_all(chosen, arguments.seed, arguments.quick, arguments.markdown)
    show([report.table(results)], width=220)
    if len(results) == len(SCENARIOS):
        head = {
            "benchmark": "chaos",
            "machine": machine,
            "seed": arguments.seed,
            "quick": arguments.quick,
            "load": load,
        }
        report.write_json(results_folder / "chaos.json", head, results)
        (results_folder / "chaos.md").write_text(report.markdown(results), encoding="utf-8")
    if len(results) < len(chosen):
        return INTERRUPTED
    return 1 if any(outcome.faults for outcome in results.values()) else 0
