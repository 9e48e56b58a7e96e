"""`fdr` in random histories of clients, delays, restarts, dead links and queues: what an outage does not change.

`FdrHarness` in `breaking.py` says what is checked at every turn; at the end all tables are empty.
"""

import pytest

from tests.effort import cases
from tests.routing.breaking import FdrHarness
from tests.routing.histories import BREAKING_WEIGHTS, PATIENT, explore_histories, play_histories

OFTEN_IN_PARTS = {**BREAKING_WEIGHTS, "become_quiet_in_parts": 4}
MANY_FAULTS = {**PATIENT, "give_up": 1, "become_quiet_in_parts": 8, "break_many": 4}


@pytest.mark.parametrize("weights", [OFTEN_IN_PARTS, MANY_FAULTS], ids=["often in parts", "many faults"])
def test_an_outage_changes_nothing_for_who_can_be_reached(weights: dict[str, int]) -> None:
    play_histories(FdrHarness, weights, range(cases(70)), steps=70)


def test_the_same_under_every_interleaving() -> None:
    explore_histories(FdrHarness, list(BREAKING_WEIGHTS), cases(60))
