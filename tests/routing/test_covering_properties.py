"""Covering under all that clients, links and brokers do: nobody notices, and tables hold no more than they need.

`harness.py` and `breaking.py` say what is checked: who gets what, every bit, and that each table holds just enough to
cover what it should, all by brute force. In mixed overlays each broker covers as it likes.
"""

from random import Random

import pytest

from octopia.protocol import Key
from octopia.routing import POLICIES, covering
from octopia.routing.entries import PrtEntry
from octopia.topology import BrokerId
from tests.effort import cases
from tests.routing.breaking import BreakingHarness, FdrHarness
from tests.routing.harness import MIXED, Harness, filter_of
from tests.routing.histories import BREAKING_WEIGHTS, PATIENT, RECOVERING, WEIGHTS, explore_histories, play_histories
from tests.routing.model import Spec, covered, draw_spec

KINDS = [(routing, kind) for routing in sorted(POLICIES) for kind in (*POLICIES[routing].covering, MIXED)]
BROKEN_KINDS = [(routing, kind) for routing, kind in KINDS if routing in RECOVERING]


def _often(weights: dict[str, int], slow_returns: int = 0) -> dict[str, int]:
    """More comes and goes than elsewhere: what is withdrawn should often have covered something."""
    return {**weights, "subscribe": 12, "unsubscribe": 6, "slow_return": slow_returns}


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_exact_in_long_random_histories(routing: str, kind: str) -> None:
    play_histories(lambda draw: Harness(routing, draw, kind), _often(WEIGHTS), range(cases(60)))


@pytest.mark.parametrize(("routing", "kind"), BROKEN_KINDS)
@pytest.mark.parametrize("weights", [BREAKING_WEIGHTS, PATIENT], ids=["giving up", "patient"])
def test_exact_again_after_any_history_of_faults(routing: str, kind: str, weights: dict[str, int]) -> None:
    often = _often(weights, slow_returns=4)
    play_histories(lambda draw: BreakingHarness(routing, draw, kind), often, range(cases(60)), steps=70)


@pytest.mark.parametrize("kind", ["host", MIXED])
def test_an_outage_changes_nothing_for_who_can_be_reached(kind: str) -> None:
    often_in_parts = _often({**PATIENT, "become_quiet_in_parts": 6, "break_many": 3})
    play_histories(lambda draw: FdrHarness(draw, kind), often_in_parts, range(cases(60)), steps=70)


@pytest.mark.parametrize(("routing", "kind"), [("snr", "link"), ("snr", "host"), ("fdr", "host"), ("tid", "link")])
def test_exact_where_covers_are_full(routing: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "COVERED_MAX", 2)

    def make(draw: Random) -> Harness:
        harness = Harness(routing, draw, kind) if routing == "tid" else BreakingHarness(routing, draw, kind)
        harness.tight = False
        return harness

    play_histories(make, _often(WEIGHTS if routing == "tid" else BREAKING_WEIGHTS), range(cases(30)), steps=70)


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
            entry = PrtEntry(Key(BrokerId("a", 0), self._serial), filter_of(spec), None)
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


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_exact_under_every_interleaving(routing: str, kind: str) -> None:
    broken = routing in RECOVERING
    names = [*BREAKING_WEIGHTS, "slow_return"] if broken else list(WEIGHTS)
    make: type[Harness] = BreakingHarness if broken else Harness
    # half of all is to subscribe
    operations = names + ["subscribe"] * len(names)
    explore_histories(lambda draw: make(routing, draw, kind), operations, cases(30))
