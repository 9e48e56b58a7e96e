"""The report of a validation, for the screen and for `docs/validation.md`: tables and pictures.

Only the text between the two marks of the page is replaced; the rest is written by hand.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from octopia.experiments.cell import LIVE, make_cells
from octopia.experiments.numbers import digits, shown
from octopia.experiments.page import renew_part
from octopia.experiments.plots import curves_plot
from octopia.experiments.result import Line
from octopia.experiments.validation import (
    AFTER,
    BEFORE,
    SIDES,
    VALIDATION,
    Compared,
    Validation,
    delays_of,
    queues_of,
    trace_of,
)
from octopia.sim import Model

PAGE: Final = "validation.md"
HEADS: Final = ("system", "rate", "", "live", "model", "off by", "calibrated", "off by")
_POINTS_MAX: Final = 400
_WORDS: Final = {LIVE: "live brokers", BEFORE: "model as given", AFTER: "model calibrated"}


def rows(validation: Validation) -> list[list[str]]:
    """A row per system, rate and measure, below the heads."""
    found = []
    for each in validation.compared:
        for number, (name, unit, field) in enumerate(_MEASURES):
            live, before, after = (getattr(each.sides[side], field) for side in SIDES)
            cells = [each.system if not number else "", f"{each.rate_per_minute:g}" if not number else "", name]
            cells += [shown(live, unit), shown(before, unit), _difference(before, live)]
            found.append([*cells, shown(after, unit), _difference(after, live)])
    return found


_MEASURES: Final = (
    ("messages", "", "messages_total"),
    ("deliveries", "", "deliveries"),
    ("delay, mean", "s", "delay_mean_s"),
    ("delay, median", "s", "delay_p50_s"),
    ("delay, p99", "s", "delay_p99_s"),
    ("queue, mean", "", "queue_mean"),
    ("queue, p99", "", "queue_p99"),
    ("queue, max", "", "queue_max"),
)


def unequal_words(validation: Validation) -> list[str]:
    """Differences in numbers of messages between live brokers and the simulator, in words."""
    return [
        f"{each.system} at {each.rate_per_minute:g} a minute: {live:,} {kind} live, {simulated:,} simulated"
        for each in validation.compared
        for kind, (live, simulated) in each.unequal(BEFORE).items()
    ]


def model_rows(before: Model, after: Model) -> list[tuple[str, str, str]]:
    """The parameters that calibration changed: name, before, after."""
    pairs = (
        ("processor.base_ns", before.processor.base_ns, after.processor.base_ns),
        ("link.delay_ns", before.link.delay_ns, after.link.delay_ns),
        ("link.jitter_ns", before.link.jitter_ns, after.link.jitter_ns),
        ("client.delay_ns", before.client.delay_ns, after.client.delay_ns),
    )
    return [(name, f"{one:,}", f"{two:,}") for name, one, two in pairs]


def notes(validation: Validation) -> list[str]:
    """Notes for the table: unequal numbers, changes by calibration, and how late the driver was."""
    equal = ["Numbers of messages are equal, kind by kind, in all runs."]
    changes = [
        f"{name}: {one} before, {two} calibrated" for name, one, two in model_rows(validation.before, validation.after)
    ]
    return [*(unequal_words(validation) or equal), *changes, *late_words(validation.compared)]


def late_words(compared: Sequence[Compared]) -> list[str]:
    """How late the driver was, and the resources of its processes."""
    words = []
    for each in compared:
        live = each.live
        memory = max(process.memory_bytes for process in live.processes) / 1e6
        cpu = sum(process.cpu_ns for process in live.processes) / 1e9
        words.append(
            f"{each.system} at {each.rate_per_minute:g} a minute: requests {shown(live.late_mean_ns / 1e9, 's')} late "
            f"on average, {shown(live.late_p99_ns / 1e9, 's')} at p99; {len(live.processes)} processes, "
            f"{digits(memory)} MB each, {digits(cpu)} s of CPU with their start"
        )
    return words


def pictures(validation: Validation, folder: Path) -> dict[str, bytes]:
    """The delays and queues of each system at every rate, as SVG by name."""
    cells = make_cells(VALIDATION, validation.settings)
    found = {}
    for system in validation.settings.systems:
        mine = [cell for cell in cells if cell.system == system]
        delays, queues = {}, {}
        for cell in mine:
            title = f"{cell.workload.rate_per_minute:g} a minute"
            traces = {_WORDS[side]: trace_of(folder, cell, side) for side in SIDES}
            delays[title] = {words: _below(delays_of(trace)) for words, trace in traces.items()}
            queues[title] = {words: _at_least(queues_of(trace)) for words, trace in traces.items()}
        found[f"validation-delay-{system}.svg"] = curves_plot(
            f"validation-delay-{system}", delays, "ms from publishing to delivery", "share of deliveries", log=True
        )["svg"]
        found[f"validation-queue-{system}.svg"] = curves_plot(
            f"validation-queue-{system}", queues, "messages found in the queue, at least", "share of copies", log=False
        )["svg"]
    return found


def write_page(validation: Validation, folder: Path, docs: Path, command: str) -> Path:
    """Update the generated part of the page, and its pictures."""
    drawn = pictures(validation, folder)
    return renew_part(docs / PAGE, "validation", page_part(validation, command, list(drawn)), drawn)


def page_part(validation: Validation, command: str, drawn: Sequence[str]) -> str:
    """The generated part, as Markdown."""
    settings = validation.settings
    what = (
        f"`{command}`: overlay {settings.overlay}, {settings.clusters or 'its own number of'} clusters, "
        f"{settings.publishers} publishers, {settings.subscribers} subscribers, "
        f"{settings.notifications_per_publisher} notifications each; rates are per publisher and minute."
    )
    lines = [
        what,
        "",
        f"| {' | '.join(HEADS)} |",
        f"| --- | ---: | --- |{' ---: |' * 5}",
        *(f"| {' | '.join(cells)} |" for cells in rows(validation)),
        "",
    ]
    differing = unequal_words(validation)
    lines += [f"- {words}" for words in differing] or ["Numbers of messages are equal, kind by kind, in all runs."]
    lines += ["", "| parameter | before | calibrated |", "| --- | ---: | ---: |"]
    lines += [f"| `{name}` | {one} | {two} |" for name, one, two in model_rows(validation.before, validation.after)]
    lines += ["", *(f"- {words}" for words in late_words(validation.compared)), ""]
    for name in drawn:
        lines += [f"![{'Delays' if 'delay' in name else 'Queues'} of live brokers and simulator](images/{name})", ""]
    return "\n".join(lines)


def _difference(value: float, live: float) -> str:
    if value == live:
        return "equal"
    return f"{100 * (value - live) / live:+.0f} %" if live else digits(value - live)


def _below(delays: np.ndarray) -> Line:
    """The share of deliveries that took at most this many milliseconds."""
    values = np.sort(delays) * 1e3
    if not len(values):
        return [], []
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), _POINTS_MAX)).astype(np.int64))
    return values[places].tolist(), ((places + 1) / len(values)).tolist()


def _at_least(queues: np.ndarray) -> Line:
    """The share of copies that found at least this many messages, until there are none."""
    most = int(queues.max(initial=0)) + 1
    found = np.bincount(queues.astype(np.int64), minlength=most + 1)
    left = np.cumsum(found[::-1])[::-1]
    return list(range(most + 1)), (left / max(1, len(queues))).tolist()
