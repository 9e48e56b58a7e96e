"""The table of the trial, whole."""

from benchmarks.chaos.oracle import Tally
from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.report import HEAD, as_json, markdown, row
from benchmarks.chaos.trial import Scenario, Trial


async def nothing(trial: Trial) -> None:
    """A scenario that is never run."""


MEASURED = Scenario("cut", "a link is cut", nothing)
REFUSED = Scenario("bad", "something bad is asked", nothing)


def measured() -> Outcome:
    return Outcome(
        Tally(1200, 3, 0, 0, 1, {"r": 3}), 1.25, delay_s=0.3, calm_delay_s=0.01, rate_ratio=0.5, faults=["3 lost"]
    )


def test_a_row_shows_what_was_measured_and_a_dash_for_the_rest() -> None:
    refused = Outcome()
    refused.refused("no")
    figures = ["1,200", "3", "0", "0", "1", "1.2 s", "300 ms (10)", "50.0%", "–", "FAULT: 3 lost"]
    assert row(MEASURED, measured()) == ["cut: a link is cut", *figures]
    assert row(REFUSED, refused) == ["bad: something bad is asked", *"–" * 8, "refused: no", "held"]


def test_the_page_has_the_table_and_the_notes() -> None:
    noted = Outcome(never_recovered=True, notes=["seen twice"])
    lines = markdown({MEASURED: measured(), REFUSED: noted}).splitlines()
    assert lines[0] == "The trial: 1 of 2 held"
    assert lines[2].strip("| ").split(" | ") == list(HEAD)
    assert "| never |" in lines[5]
    assert lines[-1] == "- bad: seen twice"


def test_json_has_the_figures_as_numbers() -> None:
    assert as_json(MEASURED, measured()) == {
        "scenario": "cut",
        "about": "a link is cut",
        "promised": 1200,
        "lost": 3,
        "repeated": 0,
        "unwanted": 0,
        "out_of_order": 1,
        "lost_by": {"r": 3},
        "recovery_s": 1.25,
        "never_recovered": False,
        "delay_s": 0.3,
        "calm_delay_s": 0.01,
        "rate_ratio": 0.5,
        "answer": "",
        "verdict": "FAULT: 3 lost",
        "notes": [],
        "took_s": 0.0,
    }
