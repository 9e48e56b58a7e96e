"""The generated parts of `docs/evaluation.md`: tables and pictures of an experiment, between two marks.

Only the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->` is replaced; the rest of the page is written by
hand. NAME is the experiment, or `EXPERIMENT by SETTING` if another setting than the paper's was varied. Pictures go to
`images/evaluation-NAME-*.svg` beside the page. The generated text includes the settings, the scale and the number of
seeds, so that no table appears without them.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from octopia.errors import InputError
from octopia.experiments import bound
from octopia.experiments.cell import LIVE
from octopia.experiments.experiment import Shown
from octopia.experiments.means import mean_rows
from octopia.experiments.outcome import Outcome, axis_of
from octopia.experiments.result import Result
from octopia.experiments.settings import NAMES, point_text
from octopia.experiments.sweep_report import difference_text, ours_text, paper_text, scale_note, sensitivity_rows

PAGE = "evaluation.md"
_POINTS_SHOWN_MAX = 4
_OWN_OPTIONS = ("vary", "points", "systems", "scale", "seeds", "first_seed")


def write_page(outcome: Outcome, results: Sequence[Result], docs: Path) -> Path:
    """Update the part of the page about this experiment, and its pictures."""
    drawn = {_picture(outcome, shown): outcome.plots[shown.name]["svg"] for shown in _drawn(outcome)}
    return renew_part(docs / PAGE, _name(outcome), page_part(outcome, results), drawn)


def renew_part(page: Path, name: str, part: str, pictures: Mapping[str, bytes]) -> Path:
    """Replace the part of a page between the marks of this name; pictures go to the folder `images` beside the page."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page}: cannot be read: {error.strerror or error}") from None
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise InputError(f"{page}: the marks {begin} and {end} are missing")
    page.write_text(pattern.sub(lambda _: f"{begin}\n{part}{end}", text), encoding="utf-8")
    images = page.parent / "images"
    images.mkdir(exist_ok=True)
    for file, content in pictures.items():
        (images / file).write_bytes(content)
    return page


def page_part(outcome: Outcome, results: Sequence[Result]) -> str:
    """The generated part, as Markdown."""
    lines = [_what_was_run(outcome, results), ""]
    if outcome.comparisons:
        lines += ["| the paper says | paper | ours | ours less paper's | |", "| --- | ---: | ---: | ---: | --- |"]
        for each in outcome.comparisons:
            cells = (each.result.words, paper_text(each), ours_text(each), difference_text(each), each.verdict)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    if outcome.goals:
        lines += ["| our own goal | | ours | |", "| --- | ---: | ---: | --- |"]
        lines += [f"| {' | '.join(each.cells)} |" for each in outcome.goals] + [""]
    if outcome.sensitivity:
        points = [f"{outcome.settings.vary} = {point}" for point in outcome.sensitivity]
        lines += [f"| the paper says | paper | {' | '.join(points)} |", f"| --- |{' ---: |' * (len(points) + 1)}"]
        lines += [f"| {' | '.join(cells)} |" for cells in sensitivity_rows(outcome)]
        return "\n".join(lines) + "\n"
    lines += _means(outcome)
    for shown in _drawn(outcome):
        lines += ["", f"![{shown.title}](images/{_picture(outcome, shown)})"]
    return "\n".join(lines) + "\n"


def _what_was_run(outcome: Outcome, results: Sequence[Result]) -> str:
    settings = outcome.settings
    command = _command(outcome)
    broken = sum(len(result.broken) for result in results)
    checks = f"all checks passed in all {len(results)} runs" if not broken else f"**{broken} promises were broken**"
    if not broken and outcome.settings.vary == "crash":
        checks = f"no promise was broken in all {len(results)} runs"
    scale = scale_note(outcome)
    host = "on live brokers" if settings.host == LIVE else f"model `{settings.model}`"
    return f"{command}, {host}; {checks}." + (f" **{scale}**" if scale else "")


def _command(outcome: Outcome) -> str:
    """The command that reproduces these numbers: everything that differs from the experiment's own settings."""
    settings, own = outcome.settings, outcome.experiment.settings
    words = ["octopia simulate", outcome.experiment.name]
    if settings.vary != own.vary or settings.points != own.points:
        words += ["--points", ",".join(map(point_text, settings.points))]
    if settings.vary != own.vary:
        words += ["--vary", settings.vary]
    if settings.systems != own.systems:
        words += ["--systems", ",".join(settings.systems)]
    if settings.scale != own.scale:
        words += ["--scale", f"{settings.scale:g}"]
    words += ["--seeds", str(len(outcome.summary.seeds))]
    for name in NAMES:
        if name not in _OWN_OPTIONS and getattr(settings, name) != getattr(own, name):
            words += ["--set", f"{name}={getattr(settings, name)}"]
    return f"`{' '.join(words)}`"


def _means(outcome: Outcome) -> list[str]:
    summary = outcome.summary
    systems = [system.upper() for system in summary.systems]
    lines = [
        f"| | {axis_of(outcome)} | {' | '.join(systems)} |",
        f"| --- | ---: | {' | '.join('---:' for _ in systems)} |",
    ]
    for shown in outcome.experiment.shown:
        if shown.kind != "series":
            rows = mean_rows(summary, shown, _points_shown(outcome))
            for number, (point, cells) in enumerate(rows):
                lines.append(f"| {shown.title if number == 0 else ''} | {point} | {' | '.join(cells)} |")
    if bound.BOUND in summary.systems:
        lines += ["", f"{bound.WHAT_IT_IS}."]
    return lines


def _points_shown(outcome: Outcome) -> list[str]:
    """Of many numbers, the first and the last show the growth; a page is not a data file. Words are all shown."""
    points = outcome.summary.points
    if len(points) <= _POINTS_SHOWN_MAX or any(outcome.summary.x[point] is None for point in points):
        return points
    return [points[0], points[-1]]


def _drawn(outcome: Outcome) -> list[Shown]:
    """What has a picture on the page: the paper's plots and series, for the paper's own setting."""
    if outcome.sensitivity or not outcome.plots:
        return []
    return [shown for shown in outcome.experiment.shown if shown.paper or shown.kind == "series" or shown.on_page]


def _name(outcome: Outcome) -> str:
    vary = outcome.settings.vary
    return outcome.experiment.name + ("" if vary == outcome.experiment.settings.vary else f" by {vary}")


def _picture(outcome: Outcome, shown: Shown) -> str:
    return f"evaluation-{outcome.experiment.name}-{shown.name}.svg"
