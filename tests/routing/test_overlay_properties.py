"""Every routing under every interleaving: random trees, clients, operations, link delays, repeats and overloads.

`harness.py` says what is checked, `model.py` is the oracle, `histories.py` drives.
"""

import pytest

from tests.effort import cases
from tests.routing.harness import Harness
from tests.routing.histories import ROUTINGS, WEIGHTS, explore_histories, play_histories


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("batch", range(4))
def test_exact_in_long_random_histories(routing: str, batch: int) -> None:
    play_histories(lambda draw: Harness(routing, draw), WEIGHTS, range(batch * 100, batch * 100 + cases(100)))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_exact_with_either_kernels(routing: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables never leave the list of waiting filters; here every match goes through runs and kernels."""
    monkeypatch.setattr(f"octopia.matching.kernels_{kernels}.RUN_COSTS_TESTS", 1)
    play_histories(lambda draw: Harness(routing, draw), WEIGHTS, range(1000, 1000 + cases(40)))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_exact_under_every_interleaving(routing: str) -> None:
    explore_histories(lambda draw: Harness(routing, draw), list(WEIGHTS), cases(60))
