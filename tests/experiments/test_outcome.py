"""Files, plots, the page and the documentation's tables of an experiment that was run."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.experiments import (
    EXPERIMENTS,
    REPORT_FILE,
    RUNS_FOLDER,
    Outcome,
    Result,
    axis_of,
    make_cells,
    make_outcome,
    rows_of_table,
    sweep,
    write_page,
    write_report,
)
from octopia.experiments.numbers import signed
from octopia.experiments.outcome import read_series
from octopia.experiments.plots import SERIES_POINTS_MAX, peaks
from tests.experiments.cells import small

Ran = tuple[Outcome, tuple[Result, ...], Path]


def run_small(folder: Path, name: str, **changes: Any) -> Ran:
    experiment, settings = small(name, **changes)
    results = sweep(make_cells(experiment, settings), folder, jobs=1).results
    return write_report(experiment, settings, results, folder), results, folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    points = [100_000, 80_000, 60_000]
    return run_small(tmp_path_factory.mktemp("burst"), "burst", systems=["snr", "idr"], seeds=2, points=points)


def test_the_tables_hold_every_number_of_every_run(ran: Ran) -> None:
    _, results, folder = ran
    rows = [row for result in results for row in result.rows]
    assert rows_of_table(pq.read_table(folder / "metrics.parquet")) == rows
    with (folder / "metrics.csv").open(encoding="utf-8") as stream:
        read = list(csv.DictReader(stream))
    assert [(r["system"], r["point"], r["metric"], r["part"]) for r in read] == [
        (r.system, r.point, r.metric, r.part) for r in rows
    ]
    assert [None if r["value"] == "" else float(r["value"]) for r in read] == [r.value for r in rows]
    means = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    together = {("same_maximum", "with_snr", point, "idr") for point in ("100000", "80000", "60000")}
    assert {(m["metric"], m["part"], m["point"], m["system"]) for m in means} == together | {
        (r.metric, r.part, r.point, r.system) for r in rows
    }
    found = next(
        m for m in means if (m["metric"], m["part"], m["point"], m["system"]) == ("messages", "all", "80000", "idr")
    )
    values = [r.value for r in rows if (r.metric, r.part, r.point, r.system) == ("messages", "all", "80000", "idr")]
    assert values[0] is not None
    assert values[1] is not None
    assert found["mean"] == pytest.approx((values[0] + values[1]) / 2)
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert {finding["run"] for finding in findings} == {result.cell.name for result in results}


def test_every_plot_is_there_in_both_forms_and_the_same_every_time(
    ran: Ran,
) -> None:
    outcome, results, folder = ran
    assert not outcome.no_plots
    wanted = {f"{shown.name}.{form}" for shown in outcome.experiment.shown for form in ("svg", "png")}
    assert {path.name for path in (folder / "figures").iterdir()} == wanted
    series = read_series(results, folder / RUNS_FOLDER)
    rows = [row for result in results for row in result.rows]
    again = make_outcome(outcome.experiment, outcome.settings, rows, series)
    assert again.plots == outcome.plots
    texts = outcome.plots["max-delay"]["svg"].decode()
    for words in ("Maximum delay of 1000 notifications in a row", "100,000 notifications a minute", "SNR", "IDR"):
        assert words in texts


def test_the_page_needs_no_network_and_shows_the_numbers(ran: Ran) -> None:
    outcome, results, folder = ran
    page = (folder / REPORT_FILE).read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert all(link.startswith("#") for link in links)
    assert "<script" not in page
    assert "@import" not in page
    assert page.count("<svg") == len(outcome.experiment.shown)
    assert f"All checks passed in all {len(results)} runs." in page
    for each in outcome.comparisons:
        assert each.result.says.split(";")[0] in page.replace("&nbsp;", " ")
    assert "not run" in page, "what was compared with TID routing"
    assert "quick look" not in page


def test_only_the_marked_part_of_the_documentation_is_renewed(ran: Ran, tmp_path: Path) -> None:
    outcome, results, _ = ran
    page = tmp_path / "evaluation.md"
    with pytest.raises(InputError, match="cannot be read"):
        write_page(outcome, results, tmp_path)
    page.write_text("# Before\n", encoding="utf-8")
    with pytest.raises(InputError, match="the marks <!-- burst: begin --> and <!-- burst: end --> are missing"):
        write_page(outcome, results, tmp_path)
    page.write_text("# Before\n\n<!-- burst: begin -->\nold\n<!-- burst: end -->\n\nafter\n", encoding="utf-8")
    write_page(outcome, results, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(
        "# Before\n\n<!-- burst: begin -->\n`octopia simulate burst --points 100000,80000,60000 --systems snr,idr "
        "--seeds 2 --set overlay=path:3 --set clusters=3 --set publishers=4 --set subscribers=12 "
    ), "what differs from the paper's setting is said"
    assert text.endswith("<!-- burst: end -->\n\nafter\n")
    assert "old" not in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / link).exists()
    write_page(outcome, results, tmp_path)
    assert page.read_text(encoding="utf-8") == text


def test_another_setting_gives_a_table_of_sensitivity(tmp_path: Path) -> None:
    varied: dict[str, Any] = {"vary": "model.link.delay_ns", "points": [0, 1000], "scale": 0.5}
    outcome, results, _ = run_small(tmp_path, "publishers", **varied)
    assert not outcome.comparisons
    assert list(outcome.sensitivity) == ["0", "1000"]
    page = (tmp_path / REPORT_FILE).read_text(encoding="utf-8")
    assert "model.link.delay_ns varies" in page
    assert "A quick look, not the full experiment: publishers × 0.5" in page
    (tmp_path / "evaluation.md").write_text(
        "<!-- publishers by model.link.delay_ns: begin --><!-- publishers by model.link.delay_ns: end -->",
        encoding="utf-8",
    )
    text = write_page(outcome, results, tmp_path).read_text(encoding="utf-8")
    assert "| model.link.delay_ns = 0 | model.link.delay_ns = 1000 |" in text


def test_the_question_is_about_what_is_varied(tmp_path: Path) -> None:
    """Delivery with a growing number of publishers has a preset, with the same question as under `delivery`."""
    outcome, _, _ = run_small(tmp_path, "delivery", vary="publishers", points=[3, 4], systems=["snr"])
    experiment, preset = EXPERIMENTS["delivery"], EXPERIMENTS["delivery-publishers"]
    assert (
        outcome.experiment.question
        == preset.question
        == "what does a notification cost as the number of publishers grows?"
    )
    assert outcome.sensitivity == {}, "the paper has no number about delivery, so that means are shown"
    assert axis_of(outcome) == preset.axis == "publishers"
    assert experiment.question_about("tau") == "how does it change with tau?"
    assert preset.question_about("subscribers") == experiment.question


def test_leads_are_shown_in_tables_and_plots(tmp_path: Path) -> None:
    outcome, results, _ = run_small(tmp_path, "bursts", systems=["snr", "idr"])
    assert b"% against SNR" in outcome.plots["notification-delay-mean-lead"]["svg"]
    (tmp_path / "evaluation.md").write_text("<!-- bursts: begin --><!-- bursts: end -->", encoding="utf-8")
    text = write_page(outcome, results, tmp_path).read_text(encoding="utf-8")
    lead = outcome.summary.lead("high_rate_delay", "mean", "2", "idr", "snr").mean
    assert lead is not None
    assert f"| Mean delay of the bursts, lead over SNR | 2 | – | {signed(lead, '')} % |" in text
    assert "decreased with an increase in the number of HRPs" in text
    assert (tmp_path / "images" / "evaluation-bursts-notification-delay-mean-lead.svg").exists()


def test_peaks_keep_the_greatest_of_every_stretch() -> None:
    assert peaks([], []) == ([], [])
    assert peaks([1.0, 2.0], [5.0, 4.0]) == ([1.0, 2.0], [5.0, 4.0])
    at = [float(n) for n in range(5000)]
    values = [float((n * 7919) % 5003) for n in range(5000)]
    kept_at, kept = peaks(at, values)
    assert len(kept) <= SERIES_POINTS_MAX
    assert max(kept) == max(values)
    assert kept_at == sorted(kept_at)
