"""SCOT routing under broken links and restarted brokers: random histories of clients, delays, overloads and faults.

`breaking.py` says what is checked. As in `test_overlay_properties.py`: long histories by seed, and a Hypothesis state
machine to shrink what they find.
"""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.effort import cases
from tests.routing.breaking import BreakingHarness
from tests.routing.harness import play_history

ROUTINGS = ("snr", "idr", "fdr")

WEIGHTS = {
    "subscribe": 6,
    "advertise": 4,
    "unsubscribe": 3,
    "unadvertise": 2,
    "leave": 1,
    "overload": 1,
    "publish_in_the_midst": 6,
    "messages_arrive": 10,
    "become_quiet_in_parts": 1,
    "quiet_then_publish": 2,
    "break_link": 3,
    "break_many": 1,
    "ordeal": 1,
    "notice": 1,
    "connect": 4,
    "tell_ends": 5,
    "restart": 1,
    "give_up": 1,
}
# The same without giving up, so that more stays settled and is held to be neither forgotten nor missed.
PATIENT = {**WEIGHTS, "give_up": 0, "restart": 2, "ordeal": 6}


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("weights", [WEIGHTS, PATIENT], ids=["giving up", "patient"])
@pytest.mark.parametrize("batch", range(3))
def test_exact_again_after_any_history_of_faults(routing: str, weights: dict[str, int], batch: int) -> None:
    operations = [name for name, weight in weights.items() for _ in range(weight)]
    for seed in range(batch * 70, batch * 70 + cases(70)):
        play_history(lambda draw: BreakingHarness(routing, draw), operations, seed, steps=70)


RANDOMS = st.randoms(use_true_random=False)


class BreakingMachine(RuleBasedStateMachine):
    """Any operation of the harness, by name; subclasses set `routing`."""

    routing = "idr"

    @initialize(draw=RANDOMS)
    def build(self, draw: Random) -> None:
        self.harness = BreakingHarness(self.routing, draw)

    @rule(draw=RANDOMS, operation=st.sampled_from(sorted(WEIGHTS)))
    def operate(self, draw: Random, operation: str) -> None:
        getattr(self.harness, operation)(draw)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.quiet_then_publish(Random(0))
            self.harness.withdraw_everything(Random(0))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_exact_again_under_every_interleaving(routing: str) -> None:
    machine = type("Machine", (BreakingMachine,), {"routing": routing})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=cases(60),
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
