"""`fdr` in random histories of clients, delays, restarts, dead links and queues: what an outage does not change.

`FdrHarness` in `breaking.py` says what is checked at every turn; at the end all tables are empty.
"""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.effort import cases
from tests.routing.breaking import FdrHarness
from tests.routing.harness import play_history
from tests.routing.test_recovery_properties import PATIENT, WEIGHTS

OFTEN_IN_PARTS = {**WEIGHTS, "become_quiet_in_parts": 4}
MANY_FAULTS = {**PATIENT, "give_up": 1, "become_quiet_in_parts": 8, "break_many": 4}
RANDOMS = st.randoms(use_true_random=False)


@pytest.mark.parametrize("weights", [OFTEN_IN_PARTS, MANY_FAULTS], ids=["often in parts", "many faults"])
def test_an_outage_changes_nothing_for_who_can_be_reached(weights: dict[str, int]) -> None:
    operations = [name for name, weight in weights.items() for _ in range(weight)]
    for seed in range(cases(70)):
        play_history(lambda draw: FdrHarness(draw), operations, seed, steps=70)


class Machine(RuleBasedStateMachine):
    """Any operation of the harness, by name."""

    @initialize(draw=RANDOMS)
    def build(self, draw: Random) -> None:
        self.harness = FdrHarness(draw)

    @rule(draw=RANDOMS, operation=st.sampled_from(sorted(WEIGHTS)))
    def operate(self, draw: Random, operation: str) -> None:
        getattr(self.harness, operation)(draw)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.quiet_then_publish(Random(0))
            self.harness.withdraw_everything(Random(0))


def test_the_same_under_every_interleaving() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=cases(60),
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
