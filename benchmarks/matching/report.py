"""The figures as tables: on the screen, and as a page of docs with the pictures.

The page says what was measured and nothing else. A goal is marked as reached or missed by the
figure of this run; where there is no figure, there is a dash and its reason.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from benchmarks.matching import goals, plots
from benchmarks.matching.compare import PEERS, best_peer
from benchmarks.matching.measure import MANY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "matching-figures.md"
GROWTH = DOCS / "images" / "matching-growth.svg"
OUTPUT = DOCS / "images" / "matching-output.svg"

Row = list[str]
Cells = list[dict[str, Any]]


def show(figures: dict[str, Any]) -> None:
    """All tables, on the screen."""
    console = Console(width=140)
    for title, head, rows in _tables(figures):
        grid = Grid(title=title)
        for i, column in enumerate(head):
            grid.add_column(column, justify="left" if i == 0 else "right")
        for row in rows:
            grid.add_row(*row)
        console.print(grid)
    for reason in _reasons(figures["cells"]):
        console.print(f"– {reason}")


def write(figures: dict[str, Any]) -> None:
    """The page and its pictures."""
    plots.growth(figures, GROWTH)
    plots.output(figures, OUTPUT)
    PAGE.write_text(_page(figures), encoding="utf-8")


def _tables(figures: dict[str, Any]) -> list[tuple[str, Row, list[Row]]]:
    cells = figures["cells"]
    found = [("Matching, events per second", *_matching(cells)), ("Filters coming and going", *_changes(cells))]
    if any("peers" in cell for cell in cells):
        found.append(
            ("Peers in a batch, events per second, and how many times as fast OctopiA is", *_peers(cells, "batch"))
        )
        found.append(("Peers with one event, events per second, and the same ratio", *_peers(cells, "single")))
    if any("upkeep" in cell for cell in cells):
        found.append(("Keeping subscriptions, beside the peers", *_upkeep(cells)))
    found.append(("A new process, milliseconds", *_first_call(figures["first_call"])))
    if figures["sweep"]:
        found.append(("Ranges of growing width", *_sweep(figures)))
    return found


# -- tables


def _matching(cells: Cells) -> tuple[Row, list[Row]]:
    head = [
        "workload",
        "subscriptions",
        "matches each",
        "one by one",
        "goal",
        "as an array",
        "goal",
        *(f"{size} in a call" for size in MANY),
        "batch",
        "goal",
        "ns per match",
    ]
    rows = []
    for cell in cells:
        goal = goals.half_of_trial(cell["workload"], cell["subscriptions"]) or (None, None)
        rows.append(
            [
                cell["workload"],
                f"{cell['subscriptions']:,}",
                f"{cell['matches_per_event']:,.1f}",
                _rate(cell["single_per_s"]),
                _goal(cell["single_per_s"], goal[0]),
                _rate(cell["single_array_per_s"]),
                _goal(cell["single_array_per_s"], goal[0]),
                *(_rate(cell.get(f"many_{size}_per_s")) for size in MANY),
                _rate(cell["batch_per_s"]),
                _goal(cell["batch_per_s"], goal[1]),
                f"{1e9 / cell['batch_per_s'] / cell['matches_per_event']:.1f}",
            ]
        )
    return head, rows


def _goal(reached: float, wanted: float | None) -> str:
    if wanted is None:
        return "–"
    return f"{_rate(wanted)} {'reached' if reached >= wanted else 'missed'}"


def _changes(cells: Cells) -> tuple[Row, list[Row]]:
    head = ["workload", "subscriptions", "adds/s", "removes/s", "bytes each", "overlap/s", "× scan", "overlaps each"]
    rows = []
    for cell in cells:
        rows.append(
            [
                cell["workload"],
                f"{cell['subscriptions']:,}",
                _rate(cell["add_per_s"]),
                _rate(cell["remove_per_s"]),
                _bytes(cell),
                _rate(cell["overlap_per_s"]),
                _ratio(cell["overlap_per_s"] / cell["overlap_scan_per_s"]),
                f"{cell['overlaps_each']:,.0f}",
            ]
        )
    return head, rows


def _bytes(figures: dict[str, Any]) -> str:
    """Bytes per subscription; for the matcher only if traced, since the memory of the process says too little."""
    if "bytes_per_subscription" not in figures or figures.get("memory_by", "tracemalloc") != "tracemalloc":
        return "–"
    return f"{figures['bytes_per_subscription']:,.0f}"


def _peers(cells: Cells, how: str) -> tuple[Row, list[Row]]:
    key = f"{how}_per_s"
    head = ["workload", "subscriptions", "OctopiA", "plain Python", *(_spelled(name) for name in PEERS), "× best peer"]
    rows = []
    for cell in cells:
        peers = cell.get("peers", {})
        shown = [_beside(cell[key], peers.get(name, {}).get(key)) for name in ("python", *PEERS)]
        fastest = best_peer(peers, key)
        ratio = "–" if fastest is None else _ratio(cell[key] / fastest)
        rows.append([cell["workload"], f"{cell['subscriptions']:,}", _rate(cell[key]), *shown, ratio])
    return head, rows


def _beside(ours: float, rate: float | None) -> str:
    return "–" if rate is None else f"{_rate(rate)} ({_ratio(ours / rate)})"


def _upkeep(cells: Cells) -> tuple[Row, list[Row]]:
    head = ["workload", "system", "adds/s", "removes/s", "bytes each", "overlap/s"]
    rows = []
    for cell in (cell for cell in cells if "upkeep" in cell):
        for system, figures in {"OctopiA": cell, **cell["upkeep"]}.items():
            scan = cell["overlap_scan_per_s"] if system == "python" else None
            rows.append(
                [
                    cell["workload"],
                    "plain Python" if system == "python" else _spelled(system),
                    _rate(figures["add_per_s"]),
                    _rate(figures["remove_per_s"]),
                    _bytes(figures),
                    _rate(figures.get("overlap_per_s", scan)),
                ]
            )
    return head, rows


def _first_call(found: dict[str, dict[str, float]]) -> tuple[Row, list[Row]]:
    rows = [
        [_spelled(system), *(f"{1e3 * times[key]:,.2f}" for key in ("import_s", "first_s", "second_s"))]
        for system, times in found.items()
    ]
    return ["system", "import", "first answer", "second answer"], rows


def _sweep(figures: dict[str, Any]) -> tuple[Row, list[Row]]:
    rows = [
        [
            f"{cell['matches_per_event']:,.1f}",
            f"{1e6 / cell['batch_per_s']:,.2f}",
            f"{1e9 / cell['batch_per_s'] / cell['matches_per_event']:,.1f}",
            f"{1e6 / cell['single_per_s']:,.2f}",
            f"{1e9 / cell['single_per_s'] / cell['matches_per_event']:,.1f}",
        ]
        for cell in figures["sweep"]
    ]
    return ["matches each", "batch, µs", "ns per match", "one by one, µs", "ns per match"], rows


def _writing(cells: Cells) -> tuple[Row, list[Row]]:
    head = [
        "workload",
        "subscriptions",
        "matches each",
        "batch, ns",
        "writing",
        "share",
        "one by one, ns",
        "writing",
        "share",
    ]
    rows = []
    for cell in (cell for cell in cells if "batch_writing_ns" in cell):
        row = [
            cell.get("workload", "growing ranges"),
            f"{cell['subscriptions']:,}",
            f"{cell['matches_per_event']:,.1f}",
        ]
        for key, writing in (("batch_per_s", "batch_writing_ns"), ("single_per_s", "list_writing_ns")):
            each = 1e9 / cell[key] / cell["matches_per_event"]
            row += [f"{each:,.1f}", f"{cell[writing]:.1f}", f"{cell[writing] / each:.0%}"]
        rows.append(row)
    return head, rows


def _spelled(system: str) -> str:
    for name, spelled in (("duckdb", "DuckDB"), ("polars", "Polars"), ("octopia", "OctopiA")):
        system = system.replace(name, spelled)
    return system


def _rate(rate: float | None) -> str:
    if rate is None:
        return "–"
    if rate < 100:
        return f"{rate:.3g}"
    # three figures are as many as repeat
    digits = len(str(int(rate))) - 3
    return f"{round(rate, -digits):,.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3g}×" if ratio < 1000 else f"{round(ratio, -1):,.0f}×"


def _reasons(cells: Cells) -> list[str]:
    """Why there are dashes, each reason once with its cells."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for name, figures in cell.get("peers", {}).items():
            if "skipped" in figures:
                place = f"{cell['workload']} {cell['subscriptions']:,}"
                found.setdefault(f"{_spelled(name)}: {figures['skipped']}", []).append(place)
    return [f"{reason} ({', '.join(places)})" for reason, places in found.items()]


# -- the page


def _page(figures: dict[str, Any]) -> str:
    cells = figures["cells"]
    parts = [_PREFACE.format(clock=figures["clock"], versions=_versions(figures), workloads=_workloads(figures))]
    for title, head, rows in _tables(figures):
        parts.append(f"## {title}\n\n{_markdown(head, rows)}{_note(title)}")
    parts.append("## Goals\n\n" + "\n".join(_verdicts(cells)))
    parts.append(_growth_text(figures))
    if reasons := _reasons(cells):
        parts.append("## Dashes\n\n" + "\n".join(f"- {reason}" for reason in reasons))
    return "\n\n".join(parts) + "\n"


def _note(title: str) -> str:
    return f"\n{_NOTES[title]}" if title in _NOTES else ""


def _versions(figures: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in figures["versions"].items())


def _workloads(figures: dict[str, Any]) -> str:
    lines = []
    for name, workload in figures["workloads"].items():
        shares = [cell["selectivity"] for cell in figures["cells"] if cell["workload"] == name]
        lines.append(f"| {name} | {workload['about']} | {100 * min(shares):.2f} to {100 * max(shares):.2f} % |")
    return "\n".join(["| workload | a subscription asks for | matches, measured |", "| --- | --- | --- |", *lines])


def _markdown(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _verdicts(cells: Cells) -> list[str]:
    """Each goal of the engine, and the result of this run."""
    lines = [
        f"- Half of the trial's figures {what}: reached in {_reached(cells, key, at)}."
        for what, key, at in (
            ("one by one, as a list", "single_per_s", 0),
            ("one by one, as an array", "single_array_per_s", 0),
            ("in a batch", "batch_per_s", 1),
        )
    ]
    lines += _impossible_lists(cells)
    for cell in cells:
        fastest = best_peer(cell.get("peers", {}), "batch_per_s")
        if cell["subscriptions"] == goals.PEER_SIZE and fastest is not None:
            ratio = cell["batch_per_s"] / fastest
            lines.append(
                f"- {goals.PEER_RATIO:.0f} times the best peer of this run in a batch at {goals.PEER_SIZE:,} "
                f"subscriptions, workload {cell['workload']}: {_ratio(ratio)}, {_verdict(ratio >= goals.PEER_RATIO)}"
                f"{_against_trial(cell)}."
            )
    wanted = goals.CHANGES_PER_S
    for key, what in (("add_per_s", "adds"), ("remove_per_s", "removes")):
        least = min(cell[key] for cell in cells)
        lines.append(
            f"- {wanted:,} {what} per second: at least {_rate(least)} in every cell, {_verdict(least >= wanted)}."
        )
    traced = [cell for cell in cells if cell.get("memory_by") == "tracemalloc"]
    for size in dict.fromkeys(cell["subscriptions"] for cell in traced):
        most = max((c for c in traced if c["subscriptions"] == size), key=lambda c: c["bytes_per_subscription"])
        figure = most["bytes_per_subscription"]
        lines.append(
            f"- {goals.BYTES_MAX} bytes per subscription at {size:,}: at most {figure:.0f} (workload "
            f"{most['workload']}), {_verdict(figure <= goals.BYTES_MAX)}."
        )
    return lines


def _reached(cells: Cells, key: str, at: int) -> str:
    """How many cells reach the trial's half, and which do not."""
    held = [(cell, goals.half_of_trial(cell["workload"], cell["subscriptions"])) for cell in cells]
    wanted = [(cell, goal[at]) for cell, goal in held if goal is not None]
    missed = [f"{c['workload']} {c['subscriptions']:,}" for c, goal in wanted if c[key] < goal]
    return f"{len(wanted) - len(missed)} of {len(wanted)} cells" + (f"; missed at {', '.join(missed)}" * bool(missed))


def _impossible_lists(cells: Cells) -> list[str]:
    """Where the trial was done before a list could have been made."""
    lines = []
    for cell in cells:
        trial = goals.TRIAL.get((cell["workload"], cell["subscriptions"]))
        list_us = cell["list_writing_ns"] * cell["matches_per_event"] / 1000 if "list_writing_ns" in cell else 0
        if trial is not None and list_us > 1e6 / trial[0]:
            lines.append(
                f"- At {cell['workload']} {cell['subscriptions']:,} the trial took {1e6 / trial[0]:.0f} µs an event; "
                f"a list of its {cell['matches_per_event']:,.0f} ids takes {list_us:.0f} µs to make after the "
                "search. The trial can hardly have made lists, unless its machine was that much faster."
            )
    return lines


def _against_trial(cell: dict[str, Any]) -> str:
    """The same against the best peer that the trial measured, with the versions of its day."""
    then = goals.TRIAL_PEER.get((cell["workload"], cell["subscriptions"]))
    if then is None:
        return ""
    ratio = cell["batch_per_s"] / then
    return f"; against the {then:,} of the trial's best peer {_ratio(ratio)}, {_verdict(ratio >= goals.PEER_RATIO)}"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def _growth_text(figures: dict[str, Any]) -> str:
    lines = ["## How the cost grows", "", "![Time per event against subscriptions](../images/matching-growth.svg)", ""]
    for name in figures["workloads"]:
        of_one = [cell for cell in figures["cells"] if cell["workload"] == name]
        first, last = of_one[0], of_one[-1]
        if first is not last:
            lines.append(
                f"- Workload {name}, from {first['subscriptions']:,} to {last['subscriptions']:,} subscriptions: "
                f"matches grow {_ratio(last['matches_per_event'] / first['matches_per_event'])}, the time of an event "
                f"in a batch {_ratio(first['batch_per_s'] / last['batch_per_s'])}, "
                f"one by one {_ratio(first['single_per_s'] / last['single_per_s'])}."
            )
    lines += ["", "![Time per event against matches](../images/matching-output.svg)", ""]
    lines += [_BOUND, "", _markdown(*_writing(figures["cells"] + figures["sweep"]))]
    return "\n".join(lines)


_PREFACE = """# Matching: figures

This page is written by `python -m benchmarks matching`, which measures everything again;
`python -m benchmarks.matching --help` lists its parts. The figures are also in
`benchmarks/results/matching.json`.

One core: {clock}.
DuckDB and Polars are limited to one thread.
{versions}.

Rates vary with the machine and from hour to hour, so compare ratios within a run. Each rate is the
best of several repeats at two moments, as on a quiet machine: in disturbed runs, cells were up to a
third slower and missed several goals that are reached here. Answers were checked on samples: the
peers' pairs of event and id against ours, and ours against `octopia.matches` and `octopia.overlaps`.

Events are stock quotes with ten attributes (class, symbol, eight numbers).

{workloads}"""

_NOTES = {
    "Matching, events per second": """
*One by one* is `match`, which returns a list of ids. *As an array* is `match_array`, the same answer.
*N in a call* is `match_rows_many`: row numbers for notifications that arrive together. The goal is
half of the trial's figure. *ns per match* refers to the batch.""",
    "Filters coming and going": """
Adding is timed until all filters are in runs (`settle`). Removals are in random order, at most
100,000. Bytes do not include the filter and the id; they are measured by tracemalloc, and a dash
means that they were not. Overlap finds all subscriptions that overlap an advertisement. The scan
calls `octopia.overlaps` for each; above 50,000 it is measured on a part and scaled.""",
    "Peers in a batch, events per second, and how many times as fast OctopiA is": """
One join has all subscriptions in one table, with ±inf or null for conditions that a subscription does
not have. *By shape* is tuned by hand: a table and a join for each combination of conditions, so that
the planner sees only equalities and pairs of inequalities. A peer's rate is the best over several
batch sizes up to ours, each run one to three times. Ours is the best of eighteen runs, which is an
advantage on a machine that is not quiet.""",
    "Keeping subscriptions, beside the peers": """
One at a time: DuckDB with prepared statements in a transaction and a primary key, Polars with a frame
that gains or loses one row, plain Python with a dictionary.""",
    "A new process, milliseconds": """
With 1,000 subscriptions of workload A. The first answer of OctopiA loads compiled kernels from disk;
*compiling* happens once per installation.""",
}

_BOUND = """The bound is the size of the output: an answer must be written, match by match. The dotted lines show
that part alone: the same answers, with their ids ready in an array, written into the columns of a
batch or into a list of Python integers per event. The table gives it per match and as a share of the
whole. The rest is searching, plus a fixed cost per event, which dominates where there are few
matches. The closer a share is to 100 %, the less a better search could gain in that cell."""
