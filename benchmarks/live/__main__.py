"""`python -m benchmarks.live PART ...`: run some parts of the live benchmark, and keep their figures with the others'.

The parts of one call share a run; a figure is only comparable with others of its part. Without a part, it lists them.
"""

import json
import sys

from benchmarks.__main__ import RESULTS, machine
from benchmarks.live.suite import PIECES, run_pieces, show


def main() -> int:
    names = sys.argv[1:]
    unknown = [name for name in names if name not in PIECES]
    if unknown or not names:
        print(f"parts: {', '.join(PIECES)}", file=sys.stderr)
        return 2
    file = RESULTS / "live.json"
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"] if file.exists() else {}
    figures |= run_pieces(names, figures)
    file.write_text(
        json.dumps({"benchmark": "live", "machine": machine(), "figures": figures}, indent=1) + "\n", encoding="utf-8"
    )
    show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
