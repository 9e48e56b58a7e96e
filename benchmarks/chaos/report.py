"""The table of a trial: for the screen, for a page of the documentation, and as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.trial import Scenario
from benchmarks.tables import Figures, grid

HEAD = (
    "scenario",
    "promised",
    "lost",
    "repeated",
    "unwanted",
    "out of order",
    "recovery",
    "bystanders' worst delay (calm)",
    "bystanders' rate",
    "answer",
    "verdict",
)
NOT_MEASURED = "–"


def row(scenario: Scenario, outcome: Outcome) -> list[str]:
    tally = outcome.tally
    counts = (
        [NOT_MEASURED] * 5
        if tally is None
        else [f"{n:,}" for n in (tally.promised, tally.lost, tally.repeated, tally.unwanted, tally.out_of_order)]
    )
    return [
        f"{scenario.name}: {scenario.about}",
        *counts,
        "never" if outcome.never_recovered else _seconds(outcome.recovery_s),
        _delay(outcome),
        NOT_MEASURED if outcome.rate_ratio is None else f"{outcome.rate_ratio:.1%}",
        outcome.answer or NOT_MEASURED,
        outcome.verdict,
    ]


def _seconds(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.1f} s"


def _delay(outcome: Outcome) -> str:
    if outcome.delay_s is None:
        return NOT_MEASURED
    calm = "" if outcome.calm_delay_s is None else f" ({outcome.calm_delay_s * 1000:,.0f})"
    return f"{outcome.delay_s * 1000:,.0f} ms{calm}"


def table(results: Mapping[Scenario, Outcome]) -> Figures:
    held = sum(not outcome.faults for outcome in results.values())
    return Figures(
        f"The trial: {held} of {len(results)} held",
        HEAD,
        [row(scenario, outcome) for scenario, outcome in results.items()],
    )


def markdown(results: Mapping[Scenario, Outcome]) -> str:
    """The table, and what else was seen."""
    shown = table(results)
    notes = [f"- {scenario.name}: {'; '.join(outcome.notes)}" for scenario, outcome in results.items() if outcome.notes]
    lines = [shown.title, "", grid(shown.head, shown.rows), *(["", *notes] if notes else [])]
    return "\n".join(lines) + "\n"


def as_json(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    tally = outcome.tally
    counted = (
        {}
        if tally is None
        else {
            "promised": tally.promised,
            "lost": tally.lost,
            "repeated": tally.repeated,
            "unwanted": tally.unwanted,
            "out_of_order": tally.out_of_order,
            "lost_by": dict(tally.lost_by),
        }
    )
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        **counted,
        "recovery_s": outcome.recovery_s,
        "never_recovered": outcome.never_recovered,
        "delay_s": outcome.delay_s,
        "calm_delay_s": outcome.calm_delay_s,
        "rate_ratio": outcome.rate_ratio,
        "answer": outcome.answer,
        "verdict": outcome.verdict,
        "notes": outcome.notes,
        "took_s": round(outcome.took_s, 1),
    }


def write_json(file: Path, head: Mapping[str, Any], results: Mapping[Scenario, Outcome]) -> None:
    rows = [as_json(scenario, outcome) for scenario, outcome in results.items()]
    file.write_text(json.dumps({**head, "figures": rows}, indent=1) + "\n", encoding="utf-8")
