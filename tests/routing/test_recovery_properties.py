"""SCOT routing under broken links and restarted brokers: random histories of clients, delays, overloads and faults.

`breaking.py` says what is checked.
"""

import pytest

from tests.effort import cases
from tests.routing.breaking import BreakingHarness
from tests.routing.histories import BREAKING_WEIGHTS, PATIENT, RECOVERING, explore_histories, play_histories


@pytest.mark.parametrize("routing", RECOVERING)
@pytest.mark.parametrize("weights", [BREAKING_WEIGHTS, PATIENT], ids=["giving up", "patient"])
@pytest.mark.parametrize("batch", range(3))
def test_exact_again_after_any_history_of_faults(routing: str, weights: dict[str, int], batch: int) -> None:
    seeds = range(batch * 70, batch * 70 + cases(70))
    play_histories(lambda draw: BreakingHarness(routing, draw), weights, seeds, steps=70)


@pytest.mark.parametrize("routing", RECOVERING)
def test_exact_again_under_every_interleaving(routing: str) -> None:
    explore_histories(lambda draw: BreakingHarness(routing, draw), list(BREAKING_WEIGHTS), cases(60))
