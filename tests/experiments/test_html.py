"""Report pages in a real browser: they fit a phone, follow light and dark, and load nothing."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octopia.experiments import page_html, plot_html, report_body
from octopia.experiments.experiment import Shown
from octopia.experiments.lead import make_lead
from octopia.experiments.outcome import make_outcome
from octopia.experiments.result import MetricRow
from octopia.experiments.scenes import run_scene
from octopia.experiments.scenes_report import write_report
from octopia.experiments.settings import Settings
from tests.console.browsing import chromium
from tests.experiments.test_lead import series_of

PHONE = 390
WHITE = "rgb(255, 255, 255)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of an experiment at one point, and that of the scenes."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "report.html").write_text(page_html("test", _report()), encoding="utf-8")
    write_report(run_scene("fig7b", "idr"), folder / "scenes.html")
    return {path.stem: path for path in folder.iterdir()}


def _report() -> str:
    from octopia.experiments.experiment import Experiment

    given = {"experiment": "x", "point": "5", "x": 5.0, "seed": 1}
    rows = [
        MetricRow(**given, system=system, metric=metric, part="mean", unit=unit, value=value)  # type: ignore[arg-type]
        for metric, unit, values in (
            ("notification_delay", "s", {"snr": 4.0, "fdr": 0.5}),
            ("srt_entries", "entries", {"snr": 1.2, "fdr": 3.4}),
        )
        for system, value in values.items()
    ]
    settings = Settings(systems=("snr", "fdr"), vary="subscribers", points=(5,), seeds=1, overlay="path:3", clusters=3)
    experiment = Experiment(
        name="x",
        title="A title",
        question="a question",
        axis="subscribers",
        settings=settings,
        metrics=("notification_delay", "srt_entries"),
        shown=(
            Shown("max_delay", "", "Longest", kind="series"),
            Shown("srt_entries", "mean", "SRT"),
        ),
    )
    series = series_of(snr=[(1.0, 4.0), (2.0, 5.0)], fdr=[(1.0, 0.5), (2.0, 0.6)])
    outcome = make_outcome(experiment, settings, rows, series)
    lead = make_lead(outcome.summary, series, "A subscription matches 2.00 % of the notifications. " * 3)
    return f"{lead.html}\n{report_body(outcome, [], 'h2')}"


@pytest.mark.parametrize("name", ["report", "scenes"])
def test_a_page_fits_a_phone_and_follows_the_readers_setting(browser: Any, pages: dict[str, Path], name: str) -> None:
    backs = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": PHONE, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(pages[name].as_uri())
        # Also with everything open.
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE
        assert asked == [pages[name].as_uri()]
        backs[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink, paper = page.evaluate(_TEXT_AND_BACKGROUND)
        assert abs(ink - paper) > 100, f"text cannot be read in {scheme} mode"
        context.close()
    assert backs["light"] == WHITE != backs["dark"]


# The brightness of a chart's text and of what is behind it.
_TEXT_AND_BACKGROUND = """() => {
  const mean = colour => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
  const figure = document.querySelector("figure");
  const back = figure.classList.contains("card") ? figure : document.body;
  return [mean(getComputedStyle(figure.querySelector("svg text")).fill), mean(getComputedStyle(back).backgroundColor)];
}"""


def test_a_page_opens_with_the_result_and_its_charts(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    page.goto(pages["report"].as_uri())
    first = page.evaluate("[...document.body.children].slice(0, 2).map(each => each.tagName)")
    assert first == ["H1", "FIGURE"]
    lines = page.evaluate(
        "[...document.querySelectorAll('figure:first-of-type svg')].map(each => each.getBoundingClientRect().top)"
    )
    assert lines[0] == lines[1], "side by side where there is room"
    context.close()


def test_a_number_and_its_unit_stay_together() -> None:
    page = page_html("t", "<p>2.00 % of 5 ms, 7 s.</p><pre>x = 5 seconds</pre><p>3 sites</p>")
    assert "<p>2.00&nbsp;% of 5&nbsp;ms, 7&nbsp;s.</p><pre>x = 5 seconds</pre><p>3 sites</p>" in page


def test_a_plot_takes_the_colours_of_the_page() -> None:
    svg = b'<?xml?>\n<svg><metadata>http://x</metadata><path style="stroke: #4477aa; fill: #123456"/></svg>'
    assert plot_html(svg) == '<svg><path style="stroke: var(--blue); fill: #123456"/></svg>'


def test_bars_cover_the_grid_and_counts_have_whole_ticks() -> None:
    svgs = re.findall(r"<svg.*?</svg>", _report(), re.DOTALL)
    bars = next(svg for svg in svgs if ">SRT<" in svg)
    assert bars.rindex("var(--grid)") < bars.index("var(--blue)"), "later elements are drawn over earlier ones"
    ticks = re.findall(r"text-anchor: end[^>]*>([^<]*)<", bars)
    assert ticks == ["0", "1", "2", "3"]
