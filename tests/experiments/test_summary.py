"""Means, intervals and comparisons against values worked out by hand or by the standard library."""

from math import sqrt
from statistics import mean, stdev

import pytest

from octopia.experiments import EXPERIMENTS, MetricRow, Shown, mean_rows, shown_interval
from octopia.experiments.comparison import compare, paper_results
from octopia.experiments.goals import all_goals, goals_reached
from octopia.experiments.intervals import Interval, interval
from octopia.experiments.summary import Summary
from octopia.experiments.together import same_until
from octopia.metrics import METRICS


def row(
    system: str, seed: int, value: float | None, metric: str = "srt_entries", part: str = "mean", point: str = "1"
) -> MetricRow:
    return MetricRow("publishers", system, point, float(point), seed, metric, part, METRICS[metric].unit, value)


@pytest.mark.parametrize(
    ("count", "t"), [(2, 12.706), (3, 4.303), (5, 2.776), (10, 2.262), (21, 2.086), (31, 2.042), (101, 1.984)]
)
def test_intervals_are_students(count: int, t: float) -> None:
    """The quantiles are those of a printed table; ours may be a little wider, never narrower."""
    values = [float((7 * number) % 11) for number in range(count)]
    found = interval(values)
    expected = t * stdev(values) / sqrt(count)
    assert found.mean == pytest.approx(mean(values))
    assert found.half is not None
    assert expected <= found.half <= 1.01 * expected + 1e-12
    assert (found.runs, found.missing) == (count, 0)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert interval([3.0]) == (3.0, None, 1, 0)
    assert interval([None, 3.0]) == (3.0, None, 1, 1)
    assert interval([None, None]) == (None, None, 0, 2)
    assert interval([]) == (None, None, 0, 0)
    assert interval([0.1 + 0.2, 0.3]).half == 0.0, "rounding is no spread"


def test_numbers_for_people() -> None:
    assert shown_interval(Interval(0.01071, 0.0002, 5), "s") == "10.7 ± 0.2 ms"
    assert shown_interval(Interval(1234.5, 12.0, 5), "messages") == "1,234 ± 12"
    assert shown_interval(Interval(0.2921, 0.0111, 5), "share") == "29.2 ± 1.1 %"
    assert shown_interval(Interval(27.9, None, 1), "s") == "27.9 s"
    assert shown_interval(Interval(3.7e-05, 0.0, 2), "s") == "37 ± 0 µs"
    assert shown_interval(Interval(0.0, 0.0, 2), "s") == "0 ± 0 s"
    assert shown_interval(Interval(12.0, None, 1, 4), "s") == "12 s (4 never)"
    assert shown_interval(Interval(None, None, 0, 5), "s") == "never"
    assert shown_interval(Interval(None, None, 0), "s") == "–"


def test_comparisons_are_made_seed_by_seed() -> None:
    rows = [row("snr", 0, 5.0), row("tid", 0, 70.0), row("snr", 1, 10.0), row("tid", 1, 140.0)]
    found = {each.result.metric: each for each in compare("publishers", Summary(rows))}
    srt = found["srt_entries"]
    assert srt.ours.mean == pytest.approx(-100 * 65 / 70)
    assert srt.ours.half == pytest.approx(0, abs=1e-9)
    assert srt.verdict == "exact"
    assert srt.difference == pytest.approx(93 - 100 * 65 / 70)
    assert found["advertisement_delay"].verdict == "not run"
    broken = Summary([row("snr", 0, 6.0), row("tid", 0, 70.0)])
    assert {each.result.metric: each.verdict for each in compare("publishers", broken)}["srt_entries"].startswith("NOT")


@pytest.mark.parametrize(
    ("snr", "verdict"),
    [([4.0, 5.0], "same sign, but 0 is in the interval"), ([4.0, 4.1], "same sign"), ([11.0, 11.1], "other sign")],
)
def test_the_verdict_is_about_the_sign_and_how_sure_it_is(snr: list[float], verdict: str) -> None:
    rows = [row("snr", seed, value, "advertisement_delay") for seed, value in enumerate(snr)]
    rows += [row("tid", seed, 10.0 if snr[0] > 10 or snr[1] < 5 else 5.1, "advertisement_delay") for seed in (0, 1)]
    found = {each.result.metric: each.verdict for each in compare("publishers", Summary(rows))}
    assert found["advertisement_delay"] == verdict


def test_a_run_that_never_becomes_stable_has_no_difference() -> None:
    rows = []
    for point in ("100000", "80000", "60000"):
        rows += [row("idr", 0, 5.0, "stabilisation_time", "seconds", point)]
        rows += [row("snr", 0, None, "stabilisation_time", "seconds", point)]
    found = next(each for each in compare("burst", Summary(rows)) if each.result.metric == "stabilisation_time")
    assert (found.ours.mean, found.ours.missing, found.verdict) == (None, 1, "no value")


def test_shares_are_compared_in_per_cent() -> None:
    rows = [row("idr", 0, 0.5, "under_bound", "overall", point) for point in ("100000", "80000", "60000")]
    found = next(
        each for each in compare("burst", Summary(rows)) if each.result.system == "idr" and not each.result.than
    )
    assert (found.ours.mean, found.unit) == (50.0, "%")
    assert found.difference == pytest.approx(-3.8)


LEADS = {("snr", "1"): (10.0, 20.0), ("idr", "1"): (8.0, 15.0), ("snr", "5"): (40.0, 50.0), ("idr", "5"): (38.0, 49.0)}


def lead_rows() -> list[MetricRow]:
    return [
        row(system, seed, value, "notification_delay", "mean", point)
        for (system, point), values in LEADS.items()
        for seed, value in enumerate(values)
    ]


def test_a_lead_is_taken_seed_by_seed_and_its_trend_from_the_first_point_to_the_last() -> None:
    summary = Summary(lead_rows())
    # -20 and -25 % with one, -5 and -2 % with five
    assert summary.leads("notification_delay", "mean", "1", "idr", "snr") == {0: -20.0, 1: -25.0}
    assert summary.lead("notification_delay", "mean", "5", "idr", "snr").mean == pytest.approx(-3.5)
    shown = Shown("notification_delay", "mean", "", kind="lead")
    # t of one degree of freedom is 12.707; the values are 2.5 and 1.5 from their mean
    assert mean_rows(summary, shown) == [("1", ["–", "-22.5 ± 32 %"]), ("5", ["–", "-3.50 ± 19 %"])]
    trend = next(each for each in compare("bursts", summary) if each.result.metric == "notification_delay")
    # 15 and 23 points less than with one
    assert (trend.ours.mean, trend.unit, trend.difference) == (-19.0, "points", None)
    assert trend.verdict == "same sign, but 0 is in the interval"
    assert trend.result.direction == "smaller"
    one_point = Summary([each for each in lead_rows() if each.point == "1"])
    assert compare("bursts", one_point)[0].verdict == "not run"
    grows = Summary(sorted(lead_rows(), key=lambda each: -float(each.point)))
    assert compare("bursts", grows)[0].verdict.startswith("other sign")


def test_two_curves_are_the_same_until_they_differ_by_a_second_and_a_tenth() -> None:
    one = [1.0, 2.0, 3.0, 4.0], [5.0, 10.0, 30.0, 60.0]
    assert same_until(one, one) == 4.0
    assert same_until(one, ([1.0, 2.0, 3.0, 4.0], [5.9, 10.9, 33.0, 66.0])) == 4.0, "a second, or a tenth"
    assert same_until(one, ([1.5, 2.5, 3.5], [6.0, 11.0, 20.0])) == 2.0, "not before both have a block"
    assert same_until(one, ([0.5, 2.5, 3.5], [5.5, 11.0, 20.0])) == 2.0
    assert same_until(one, ([1.0, 2.0], [5.0, 10.0])) == 2.0, "the end of the shorter"


def test_every_number_of_the_paper_is_about_something_that_is_measured() -> None:
    assert len(paper_results()) == 31
    for result in paper_results():
        assert result.metric in EXPERIMENTS[result.experiment].metrics
        systems = {result.system, result.than} - {""}
        assert systems <= set(EXPERIMENTS[result.experiment].settings.systems)
        assert (result.form == "value") == (not result.than)
        assert (result.form == "trend") == (result.paper is None) == bool(result.direction)
        assert set(result.points) <= set(EXPERIMENTS[result.experiment].settings.points)


def test_goals_are_shares_seed_by_seed_or_plain_numbers() -> None:
    rows = [row("snr", 0, 50.0, "in_order_delay", "mean"), row("snr", 1, 10.0, "in_order_delay", "mean")]
    rows += [row("fdr", 0, 5.0, "in_order_delay", "mean"), row("fdr", 1, 1.5, "in_order_delay", "mean")]
    rows += [row("fdr", seed, number, "out_of_order", "number") for seed, number in ((0, 0.0), (1, 2.0))]
    rows += [row("fdr", seed, 1.0, "stabilisation_time", "seconds") for seed in (0, 1)]
    rows += [row("snr", seed, None, "stabilisation_time", "seconds") for seed in (0, 1)]
    found = {each.goal.metric: each for each in goals_reached("burst", Summary(rows))}
    # 10 % and 15 %
    assert found["in_order_delay"].ours.mean == pytest.approx(12.5)
    assert found["in_order_delay"].verdict == "reached"
    assert found["out_of_order"].cells == ["deliveries of FDR out of order", "at most 0", "1 ± 13", "MISSED"]
    assert (found["stabilisation_time"].ours.mean, found["stabilisation_time"].verdict) == (None, "no value")
    alone = [each for each in rows if each.system == "fdr"]
    assert {each.verdict for each in goals_reached("burst", Summary(alone)) if each.goal.than} == {"not run"}
    assert goals_reached("burst", Summary([each for each in rows if each.system == "snr"])) == []


def test_every_goal_is_about_something_that_is_measured() -> None:
    for goal in all_goals():
        experiment = EXPERIMENTS[goal.experiment]
        assert goal.metric in experiment.metrics
        assert {goal.system, goal.than} - {""} <= set(experiment.settings.systems)
        assert set(goal.points) <= set(experiment.settings.points)
