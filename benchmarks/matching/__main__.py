"""`python -m benchmarks.matching`: parts of the matching benchmark; see --help."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.matching import report
from benchmarks.matching.suite import QUICK_SIZES, SIZES, Options, take
from benchmarks.matching.workloads import RECIPES

RESULT = Path(__file__).parents[1] / "results" / "matching.json"


def main() -> int:
    asked = _arguments()
    if asked.redraw:
        report.write(json.loads(RESULT.read_text(encoding="utf-8"))["figures"])
        return 0
    sizes = tuple(asked.sizes or (QUICK_SIZES if asked.quick else SIZES))
    options = Options(
        workloads=tuple(asked.workloads),
        sizes=sizes,
        peers=asked.peers,
        sweep=not asked.quick,
        cold=asked.cold,
        trace_large=asked.trace_large,
        limit_s=1.0 if asked.quick else asked.limit,
    )
    report.show(take(options))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.matching",
        description="Parts of the matching benchmark, to the screen only. "
        "`python -m benchmarks matching` measures all of it and keeps the figures.",
    )
    parser.add_argument("--workloads", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="numbers of subscriptions")
    parser.add_argument("--quick", action="store_true", help="small sizes, no sweep, peers for a second at most")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="measure the peers too")
    parser.add_argument(
        "--cold", action=argparse.BooleanOptionalAction, default=False, help="compile the kernels again"
    )
    parser.add_argument(
        "--trace-large",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="trace memory at 1,000,000 subscriptions too: most of a minute each",
    )
    parser.add_argument("--limit", type=float, default=8.0, metavar="S", help="seconds that a query of a peer may take")
    parser.add_argument("--redraw", action="store_true", help="only write docs again, from the kept figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
