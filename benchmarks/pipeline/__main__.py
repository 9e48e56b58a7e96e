"""`python -m benchmarks.pipeline`: parts of the benchmark of the pipeline, to the screen; see --help."""

import argparse
import sys
from dataclasses import replace

from benchmarks.pipeline import report
from benchmarks.pipeline.suite import PARTS, QUICK, Options, take


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline",
        description="Parts of the benchmark of the pipeline, to the screen. "
        "`python -m benchmarks pipeline` measures all of it and keeps the figures.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all, if none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--keep", action="store_true", help="put these parts into the figures that are kept")
    parser.add_argument("--quotes", default="", metavar="PATH", help="real quotes, for a second workload of plans")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}")
    options = QUICK if asked.quick else Options()
    figures = take(replace(options, parts=tuple(asked.parts or PARTS), quotes=asked.quotes))
    report.show(figures)
    if asked.keep:
        report.keep(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
