"""Covering under all that clients, links and brokers do: nobody notices, and tables hold no more than they need.

`harness.py` and `breaking.py` say what is checked: who gets what, every bit, and that each table holds just enough to
cover what it should, all by brute force. In mixed overlays each broker covers as it likes.
"""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from octopia.language import parse_filter
from octopia.routing import POLICIES, Key, covering
from octopia.routing.entries import PrtEntry
from octopia.topology import BrokerId
from tests.effort import cases
from tests.routing.breaking import BreakingHarness, FdrHarness
from tests.routing.harness import MIXED, Harness, play_history
from tests.routing.model import Spec, covered, draw_spec
from tests.routing.test_overlay_properties import WEIGHTS as WHOLE
from tests.routing.test_recovery_properties import PATIENT, ROUTINGS, WEIGHTS

KINDS = [(routing, kind) for routing in sorted(POLICIES) for kind in (*POLICIES[routing].covering, MIXED)]
BROKEN_KINDS = [(routing, kind) for routing, kind in KINDS if routing in ROUTINGS]
RANDOMS = st.randoms(use_true_random=False)


def _operations(weights: dict[str, int], slow_returns: int = 0) -> list[str]:
    """More comes and goes than elsewhere: what is withdrawn should often have covered something."""
    weights = {**weights, "subscribe": 12, "unsubscribe": 6, "slow_return": slow_returns}
    return [name for name, weight in weights.items() for _ in range(weight)]


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_exact_in_long_random_histories(routing: str, kind: str) -> None:
    for seed in range(cases(60)):
        play_history(lambda draw: Harness(routing, draw, kind), _operations(WHOLE), seed, steps=60)


@pytest.mark.parametrize(("routing", "kind"), BROKEN_KINDS)
@pytest.mark.parametrize("weights", [WEIGHTS, PATIENT], ids=["giving up", "patient"])
def test_exact_again_after_any_history_of_faults(routing: str, kind: str, weights: dict[str, int]) -> None:
    operations = _operations(weights, slow_returns=4)
    for seed in range(cases(60)):
        play_history(lambda draw: BreakingHarness(routing, draw, kind), operations, seed, steps=70)


@pytest.mark.parametrize("kind", ["host", MIXED])
def test_an_outage_changes_nothing_for_who_can_be_reached(kind: str) -> None:
    often_in_parts = {**PATIENT, "become_quiet_in_parts": 6, "break_many": 3}
    for seed in range(cases(60)):
        play_history(lambda draw: FdrHarness(draw, kind), _operations(often_in_parts), seed, steps=70)


@pytest.mark.parametrize(("routing", "kind"), [("snr", "link"), ("snr", "host"), ("fdr", "host"), ("tid", "link")])
def test_exact_where_covers_are_full(routing: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "COVERED_MAX", 2)

    def make(draw: Random) -> Harness:
        harness = Harness(routing, draw, kind) if routing == "tid" else BreakingHarness(routing, draw, kind)
        harness.tight = False
        return harness

    operations = _operations(WHOLE if routing == "tid" else WEIGHTS)
    for seed in range(cases(30)):
        play_history(make, operations, seed, steps=70)


@pytest.mark.parametrize("covered_max", [1, 2, 4, 100])
def test_a_set_covers_all_its_subscriptions_after_each_message(
    covered_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covering, "COVERED_MAX", covered_max)
    for seed in range(cases(60)):
        draw = Random(seed)
        neighbour = Neighbour()
        for _ in range(60):
            neighbour.one_change(draw)
            if covered_max == 100:
                neighbour.check_tight()
        assert sorted(entry.key for entry in neighbour.kept.sent()) == sorted(neighbour.held)


class Neighbour:
    """What one set should cover, and what a neighbour holds of it, by the messages alone."""

    def __init__(self) -> None:
        self.kept: covering.CoverSet[PrtEntry] = covering.CoverSet()
        self.wanted: dict[Key, tuple[PrtEntry, Spec]] = {}
        self.held: dict[Key, tuple[PrtEntry, Spec]] = {}
        self._serial = 0

    def one_change(self, draw: Random) -> None:
        if self.wanted and draw.random() < 0.45:
            entry, spec = self.wanted.pop(draw.choice(sorted(self.wanted)))
            change = self.kept.remove(entry)
            assert (entry.key in change.withdraw) == (entry.key in self.held)
        else:
            spec = draw_spec(draw)
            entry = PrtEntry(Key(BrokerId("a", 0), self._serial), parse_filter(spec.text()), None)
            entry.priority = draw.choice((0, 0, 0, 1, 3))
            self._serial += 1
            change = self.kept.add(entry)
            self.wanted[entry.key] = entry, spec
        for sent in change.send:
            assert sent.key not in self.held
            self.held[sent.key] = self.wanted[sent.key]
            self._check_covered(but=entry.key)
        for key in change.withdraw:
            del self.held[key]
            self._check_covered(but=entry.key)
        self._check_covered()
        assert self.held.keys() <= self.wanted.keys()

    def _check_covered(self, but: Key | None = None) -> None:
        """`but` is about to be sent."""
        for key, (entry, spec) in self.wanted.items():
            assert key == but or covered(spec, self._at_least_as_urgent(entry).values())

    def _at_least_as_urgent(self, entry: PrtEntry) -> dict[Key, Spec]:
        return {key: spec for key, (other, spec) in self.held.items() if other.priority >= entry.priority}

    def check_tight(self) -> None:
        for key, (entry, spec) in self.held.items():
            others = self._at_least_as_urgent(entry)
            assert [other for other in others if covered(spec, [others[other]])] == [key]


class Machine(RuleBasedStateMachine):
    """Any operation of the harness, by name; subclasses set `routing` and `kind`."""

    routing = "idr"
    kind = "link"

    @initialize(draw=RANDOMS)
    def build(self, draw: Random) -> None:
        self.harness: Harness
        if self.routing in ROUTINGS:
            self.harness = BreakingHarness(self.routing, draw, self.kind)
            self.names = [*sorted(WEIGHTS), "slow_return"]
        else:
            self.harness, self.names = Harness(self.routing, draw, self.kind), sorted(WHOLE)

    @rule(draw=RANDOMS)
    def operate(self, draw: Random) -> None:
        getattr(self.harness, draw.choice(self.names))(draw)

    @rule(draw=RANDOMS)
    def subscribe(self, draw: Random) -> None:
        self.harness.subscribe(draw)

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.quiet_then_publish(Random(0))
            self.harness.withdraw_everything(Random(0))


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_exact_under_every_interleaving(routing: str, kind: str) -> None:
    machine = type("Machine", (Machine,), {"routing": routing, "kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=cases(30),
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
