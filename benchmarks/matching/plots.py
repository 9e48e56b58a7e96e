"""The two pictures of docs: how the cost of an event grows with subscriptions, and with matches.

Figures in, SVG out, and the same figures give the same bytes: no date, a fixed salt for ids. No
pyplot: a figure is an object and leaves no state behind.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_SETTINGS: Any = {
    "svg.hashsalt": "octopia",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "path.simplify": False,
}
_PEER_STYLES = {
    "python": ("#999999", ":"),
    "duckdb": ("#d9a400", ":"),
    "duckdb by shape": ("#d9a400", "-"),
    "polars": ("#7a4fb5", ":"),
    "polars by shape": ("#7a4fb5", "-"),
}
_COLOURS = {"A": "#1b6ca8", "B": "#c0392b", "C": "#2e8b57"}


def growth(figures: dict[str, Any], path: Path) -> None:
    """Microseconds per event against subscriptions, a panel for each workload."""
    names = list(figures["workloads"])
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(4.2 * len(names), 4.4), facecolor="white", layout="constrained")
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            _growth_panel(axes, name, [cell for cell in figures["cells"] if cell["workload"] == name])
        panels[0].set_ylabel("µs per event, one core")
        handles, labels = _legend(list(panels))
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
        _save(figure, path)


def _growth_panel(axes: Axes, name: str, cells: list[dict[str, Any]]) -> None:
    sizes = [cell["subscriptions"] for cell in cells]
    axes.plot(sizes, [1e6 / c["single_per_s"] for c in cells], "o--", color="#1b6ca8", label="OctopiA, one by one")
    axes.plot(sizes, [1e6 / c["batch_per_s"] for c in cells], "o-", color="#1b6ca8", label="OctopiA, batch")
    for peer, (colour, style) in _PEER_STYLES.items():
        points = [
            (c["subscriptions"], 1e6 / c["peers"][peer]["batch_per_s"])
            for c in cells
            if "batch_per_s" in c.get("peers", {}).get(peer, {})
        ]
        if points:
            label = "plain Python" if peer == "python" else f"{_spelled(peer)}, batch"
            axes.plot(*zip(*points, strict=True), style, marker=".", color=colour, label=label)
    _log_log(axes, f"Workload {name}", "subscriptions")


def _spelled(peer: str) -> str:
    return peer.replace("duckdb", "DuckDB").replace("polars", "Polars")


def _legend(panels: list[Axes]) -> tuple[list[Any], list[str]]:
    """Each label once, though panels differ in which lines they have."""
    known: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    return list(known.values()), list(known)


def output(figures: dict[str, Any], path: Path) -> None:
    """Microseconds per event against matches, and dotted what of it is writing the same answers down."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(9.6, 4.4), facecolor="white", layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, key, writing, title in (
            (panels[0], "batch_per_s", "batch_writing_ns", "Batch"),
            (panels[1], "single_per_s", "list_writing_ns", "One by one"),
        ):
            _output_panel(axes, figures, key, writing)
            _log_log(axes, title, "matches per event")
        panels[0].set_ylabel("µs per event, one core")
        figure.legend(*_legend(list(panels)), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        _save(figure, path)


def _output_panel(axes: Axes, figures: dict[str, Any], key: str, writing: str) -> None:
    series = [
        (f"workload {name}, {_span(cells)} subscriptions", _COLOURS[name], cells)
        for name in figures["workloads"]
        if (cells := [cell for cell in figures["cells"] if cell["workload"] == name])
    ]
    if figures["sweep"]:
        series.append(
            (f"ranges of growing width, {_span(figures['sweep'])} subscriptions", "#444444", figures["sweep"])
        )
    for label, colour, cells in series:
        axes.plot(*_points(cells, key), "o-", color=colour, markersize=4, label=label)
        written = [cell for cell in cells if writing in cell]
        axes.plot(
            [cell["matches_per_event"] for cell in written],
            [cell[writing] * cell["matches_per_event"] / 1000 for cell in written],
            ":",
            color=colour,
        )
    axes.plot([], [], ":", color="black", label="the same answers, only written down")


def _span(cells: list[dict[str, Any]]) -> str:
    sizes = dict.fromkeys(f"{cell['subscriptions']:,}" for cell in (cells[0], cells[-1]))
    return " to ".join(sizes)


def _points(cells: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    return [cell["matches_per_event"] for cell in cells], [1e6 / cell[key] for cell in cells]


def _log_log(axes: Axes, title: str, below: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(below)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
