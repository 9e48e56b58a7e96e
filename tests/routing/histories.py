"""Histories of a harness: many long ones by seed, to find a fault, and under Hypothesis, to shrink one to the few
operations that matter.

The weights say how often each operation happens in a seeded history.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from octopia.routing import POLICIES
from tests.routing.harness import Harness

ROUTINGS = sorted(POLICIES)
# Those whose tables are resynchronised after faults.
RECOVERING = ("snr", "idr", "fdr")

# Mostly change, often in flight, now and then quiet.
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
BREAKING_WEIGHTS = {
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
PATIENT = {**BREAKING_WEIGHTS, "give_up": 0, "restart": 2, "ordeal": 6}

Make = Callable[[Random], Harness]
RANDOMS = st.randoms(use_true_random=False)


def play_histories(
    make: Make,
    weights: Mapping[str, int],
    seeds: Iterable[int],
    steps: int = 60,
    after_each: Callable[[Harness, Random], None] = lambda harness, draw: None,
) -> None:
    """Operations as they are drawn; then all is quiet, everyone publishes, and all is withdrawn."""
    operations = [name for name, weight in weights.items() for _ in range(weight)]
    for seed in seeds:
        draw = Random(seed)
        harness = make(draw)
        try:
            for _ in range(steps):
                getattr(harness, draw.choice(operations))(draw)
                after_each(harness, draw)
            harness.quiet_then_publish(draw)
            harness.withdraw_everything(draw)
        except Exception as error:
            error.add_note(f"routing {harness.routing}, seed {seed}")
            raise


def explore_histories(make: Make, operations: Sequence[str], examples: int) -> None:
    """The same as Hypothesis chooses."""

    class Machine(RuleBasedStateMachine):
        @initialize(draw=RANDOMS)
        def build(self, draw: Random) -> None:
            self.harness = make(draw)

        @rule(draw=RANDOMS, operation=st.sampled_from(operations))
        def operate(self, draw: Random, operation: str) -> None:
            getattr(self.harness, operation)(draw)

        def teardown(self) -> None:
            if hasattr(self, "harness"):
                self.harness.quiet_then_publish(Random(0))
                self.harness.withdraw_everything(Random(0))

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
