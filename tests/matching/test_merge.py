"""Runs that become one bit by bit, while filters go between any two steps."""

import pytest

from octopia.matching import Matcher, kernels_in_use
from octopia.matching import matcher as matcher_module

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numpy merges in one step")


@pytest.fixture
def matcher(monkeypatch: pytest.MonkeyPatch) -> Matcher[int]:
    """Three runs of 100 filters, each of its own kinds, and a merge of them that has just begun."""
    monkeypatch.setattr(matcher_module, "AT_ONCE_BOXES_MAX", 100)
    monkeypatch.setattr(matcher_module, "WAITING_BOXES_MAX", 100)
    # one step for each notification that is searched for
    monkeypatch.setattr(matcher_module, "WORK_STEP", 1)
    monkeypatch.setattr(matcher_module, "WORK_PER_CHANGE", 0)
    matcher: Matcher[int] = Matcher()
    for id in range(300):
        matcher.add(id, f"a{id // 50} > {id % 50}")
    assert len(matcher.runs()) == 3
    matcher.attend(1)
    return matcher


def _found(matcher: Matcher[int]) -> list[int]:
    found: list[int] = []
    for number in range(6):
        found += matcher.match({f"a{number}": 100})
    return sorted(found)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("gone", [range(100), range(0, 300, 7), range(299)])
def test_filters_go_between_two_steps(matcher: Matcher[int], steps: int, gone: range) -> None:
    for _ in range(steps):
        matcher.attend(1)
    for id in gone:
        matcher.remove(id)
    left = sorted(set(range(300)) - set(gone))
    for step in range(30):
        if step == steps % 2:
            # others, of a kind that may get the number of one that is gone
            matcher.add(300, "b > 0 and c > 0")
        matcher.attend(1)
        assert _found(matcher) == left
    assert matcher.match({"b": 1, "c": 1}) == [300]
    for id in [*left, 300]:
        matcher.remove(id)
    assert not matcher.runs()
