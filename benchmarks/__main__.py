"""`python -m benchmarks [NAME ...]`: run the benchmarks, print tables, keep the figures in benchmarks/results.

`python -m benchmarks chaos [OPTION ...]` runs the hostile trial instead, which is not one of them: it does not measure
speed but counts what is lost, and takes minutes. So does `python -m benchmarks deadsets [OPTION ...]`, in one process,
for sets of dead brokers under full dynamic routing. `python -m benchmarks gain [OPTION ...]` counts what covering can
save.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks import (
    chaos,
    console,
    covering,
    covers,
    deadsets,
    gain,
    live,
    long_tables,
    matching,
    parsing,
    pipeline,
    routing,
    sim,
    topology,
    watching,
)

BENCHMARKS = {
    "routing": routing.run,
    "topology": topology.run,
    "sim": sim.run,
    "matching": matching.run,
    "parsing": parsing.run,
    "covers": covers.run,
    "covering": covering.run,
    "live": live.run,
    "console": console.run,
    "long_tables": long_tables.run,
    "watching": watching.run,
    "pipeline": pipeline.run,
}
RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Where the figures were taken: rates of a shared machine swing, so compare ratios of one run."""
    return {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}


def main() -> int:
    trials = {"chaos": chaos.main, "deadsets": deadsets.main, "gain": gain.main}
    if sys.argv[1:2] and sys.argv[1] in trials:
        RESULTS.mkdir(exist_ok=True)
        return trials[sys.argv[1]](sys.argv[2:], RESULTS, machine())
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        figures = {"benchmark": name, "machine": machine(), "figures": BENCHMARKS[name]()}
        (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
