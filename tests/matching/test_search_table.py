"""A table of addresses is given out again as long as it is true, and never longer."""

import pickle
import random

import pytest

from octopia.matching import Matcher, Names, kernels_in_use
from octopia.matching import store as store_module
from tests.effort import cases

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")

FILTERS = (
    lambda draw: f"price > {draw.randrange(100)}",
    lambda draw: f"symbol = 'S{draw.randrange(10_000)}' and price < {draw.randrange(100)}",
    lambda draw: f"size{draw.randrange(12)} between 1 and {draw.randrange(2, 50)}",
    lambda draw: f"price < {draw.randrange(9)} or price > {draw.randrange(90, 99)}",
    lambda draw: f"symbol like 'S{draw.randrange(9)}%'",
)


def _names(*words: str) -> Names:
    names = Names()
    names.words.extend(words)
    return names


def _is_true(matcher: Matcher[int], names: Names) -> bool:
    """Whether the table that a matcher gives is the one that it would make now."""
    given = matcher.search_table(names)
    lines = None if given is None else given.lines[:-1].tolist()
    matcher._table = None
    made = matcher.search_table(names)
    # the last line is of numbers that belong to the table
    return lines == (None if made is None else made.lines[:-1].tolist())


@pytest.mark.parametrize("seed", range(cases(6)))
def test_a_table_is_true_whatever_happened_to_the_matcher(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # so that runs are made and merged often
    monkeypatch.setattr(store_module, "WAITING_BOXES_MAX", 40)
    monkeypatch.setattr(store_module, "AT_ONCE_BOXES_MAX", 60)
    monkeypatch.setattr(store_module, "WORK_STEP", 600)
    monkeypatch.setattr(store_module, "REBUILD_DEAD_MIN", 8)
    draw = random.Random(seed)
    matcher: Matcher[int] = Matcher()
    names = _names("price", "symbol")
    shapes = FILTERS[: draw.choice((2, 3, 5))]
    next_id, given = 0, 0
    for _ in range(400):
        what = draw.random()
        if what < 0.6 or not len(matcher):
            matcher.add(next_id, draw.choice(shapes)(draw))
            next_id += 1
        elif what < 0.8:
            # sometimes most of them, or all
            for id in draw.sample(list(matcher), k=int(len(matcher) * draw.choice((0, 0, 0, 0.8, 1)))) or [next_id - 1]:
                if id in matcher:
                    matcher.remove(id)
        elif what < 0.85:
            matcher.settle()
        elif what < 0.9:
            matcher.match({"price": 5, "symbol": f"S{draw.randrange(100)}"})
        elif what < 0.95:
            matcher.searched(draw.randrange(2_000))
        else:
            names.words.append(f"size{draw.randrange(12)}{draw.random()}")
        assert _is_true(matcher, names)
        given += matcher.search_table(names) is not None
    assert len(shapes) > 3 or given


def test_a_table_is_given_again_until_something_changes() -> None:
    matcher: Matcher[int] = Matcher()
    matcher.add(1, "price > 5")
    matcher.settle()
    names, others = _names("price"), _names("price")
    table = matcher.search_table(names)
    assert table is not None
    matcher.searched(1)
    assert matcher.search_table(names) is table
    matcher.remove(1)
    assert matcher.search_table(names) is None
    matcher.add(2, "price > 6")
    matcher.settle()
    again = matcher.search_table(names)
    assert again is not None
    assert matcher.search_table(others) is not again


def test_a_run_that_notifications_rebuild_bit_by_bit_gets_a_new_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "AT_ONCE_BOXES_MAX", 60)
    matcher: Matcher[int] = Matcher()
    for id in range(400):
        matcher.add(id, f"price > {id}")
    matcher.settle()
    for id in range(300):
        matcher.remove(id)
    names = _names("price")
    (before,) = matcher.runs()
    assert matcher.search_table(names) is not None
    for _ in range(10):
        matcher.searched(1_000)
        assert _is_true(matcher, names)
        matcher.search_table(names)
    (after,) = matcher.runs()
    assert after is not before


def test_a_copy_of_a_matcher_has_its_own_table() -> None:
    matcher: Matcher[int] = Matcher()
    matcher.add(1, "price > 5")
    matcher.settle()
    names = _names("price")
    table = matcher.search_table(names)
    copied: Matcher[int] = pickle.loads(pickle.dumps(matcher))  # noqa: S301
    assert table is not None
    assert copied.search_table(names) is not table
