"""Every routing under every interleaving: random trees, clients, operations, link delays, repeats and overloads.

`harness.py` says what is checked, `model.py` is the oracle. Two drivers: many long histories by seed, to find a
fault, and a Hypothesis state machine, to shrink one to the few operations that matter.
"""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from octopia.matching import matcher, use_kernels
from octopia.routing import POLICIES
from tests.effort import cases
from tests.routing.harness import Harness, play_history

RANDOMS = st.randoms(use_true_random=False)
ROUTINGS = sorted(POLICIES)

# How often each happens in a seeded history: mostly change, often in flight, now and then quiet.
WEIGHTS = {
    "subscribe": 6,
    "advertise": 4,
    "unsubscribe": 4,
    "unadvertise": 3,
    "leave": 1,
    "overload": 2,
    "publish_in_the_midst": 6,
    "messages_arrive": 8,
    "quiet_then_publish": 2,
}


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("batch", range(4))
def test_exact_in_long_random_histories(routing: str, batch: int) -> None:
    run_histories(routing, range(batch * 100, batch * 100 + cases(100)))


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kernels", ["numba", "numpy"])
def test_exact_with_either_kernels(routing: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables never leave the list of waiting filters; here every match goes through runs and kernels."""
    monkeypatch.setattr(matcher, "WAITING_TESTS_MAX", 0)
    use_kernels(kernels)
    try:
        run_histories(routing, range(1000, 1000 + cases(40)))
    finally:
        use_kernels(None)


def run_histories(routing: str, seeds: range) -> None:
    operations = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
    for seed in seeds:
        play_history(lambda draw: Harness(routing, draw), operations, seed, steps=60)


class OverlayMachine(RuleBasedStateMachine):
    """The same operations as Hypothesis rules; subclasses set `routing`."""

    routing = "idr"

    @initialize(draw=RANDOMS)
    def build(self, draw: Random) -> None:
        self.harness = Harness(self.routing, draw)

    @rule(draw=RANDOMS)
    def advertise(self, draw: Random) -> None:
        self.harness.advertise(draw)

    @rule(draw=RANDOMS)
    def subscribe(self, draw: Random) -> None:
        self.harness.subscribe(draw)

    @rule(draw=RANDOMS)
    def unadvertise(self, draw: Random) -> None:
        self.harness.unadvertise(draw)

    @rule(draw=RANDOMS)
    def unsubscribe(self, draw: Random) -> None:
        self.harness.unsubscribe(draw)

    @rule(draw=RANDOMS)
    def leave(self, draw: Random) -> None:
        self.harness.leave(draw)

    @rule(draw=RANDOMS)
    def overload(self, draw: Random) -> None:
        self.harness.overload(draw)

    @rule(draw=RANDOMS)
    def publish_in_the_midst(self, draw: Random) -> None:
        self.harness.publish_in_the_midst(draw)

    @rule(draw=RANDOMS)
    def messages_arrive(self, draw: Random) -> None:
        self.harness.messages_arrive(draw)

    @rule(draw=RANDOMS)
    def quiet_then_publish(self, draw: Random) -> None:
        self.harness.quiet_then_publish(draw)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.withdraw_everything(Random(0))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_exact_under_every_interleaving(routing: str) -> None:
    machine = type("Machine", (OverlayMachine,), {"routing": routing})
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
