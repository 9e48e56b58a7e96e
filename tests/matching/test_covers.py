"""The index of covers against brute force: `octopia.language.covers` on every stored filter."""

from collections.abc import Callable
from random import Random

import pytest

from octopia.errors import LanguageError
from octopia.language import Conjunction, Filter, Operator, Predicate, covers, parse_filter
from octopia.matching import CoverIndex, CoverQuery, inverted_index
from octopia.matching import matcher as matcher_module
from tests.effort import cases
from tests.language.strategies import COMPARISONS, PATTERNS
from tests.matching.histories import draw_filter

Draw = Callable[[Random], Filter]


class Plain:
    """The same index without an index."""

    def __init__(self) -> None:
        self.stored: dict[int, Filter] = {}

    def covering(self, asked: Filter) -> list[int]:
        return [key for key, filter in self.stored.items() if covers(filter, asked)]

    def covered_by(self, asked: Filter) -> list[int]:
        return [key for key, filter in self.stored.items() if covers(asked, filter)]


def check(index: CoverIndex[int], plain: Plain, asked: Filter) -> None:
    expected, found = plain.covering(asked), index.covering(asked)
    assert (found in expected) if expected else (found is None), f"{asked}: {found} of {expected}"
    assert index.covered_by(asked) == plain.covered_by(asked), str(asked)
    together = index.covering_together(asked)
    if expected:
        assert together == (found,), f"{asked}: {together} of {expected}"
    elif len(asked.conjunctions) > 1:
        parts = [plain.covering(Filter([conjunction])) for conjunction in asked]
        assert bool(together) == all(parts), f"{asked}: {together}"
        assert all(set(together) & set(part) for part in parts if together), f"{asked}: {together} of {parts}"
    else:
        assert together == ()


def step(draw: Random, index: CoverIndex[int], plain: Plain, draw_one: Draw) -> None:
    kind, key = draw.random(), draw.randrange(60)
    if kind < 0.45:
        if key not in plain.stored:
            plain.stored[key] = draw_one(draw)
            index.add(key, plain.stored[key])
    elif kind < 0.6:
        if key in plain.stored:
            index.remove(key)
            del plain.stored[key]
    elif kind < 0.65:
        index.settle()
    else:
        check(index, plain, draw_one(draw))


def draw_any(draw: Random) -> Filter:
    """All operators and types, far apart."""
    return without_below_empty(draw, draw_filter)


def draw_tight(draw: Random) -> Filter:
    """Few attributes and constants, many unions: covers by parts, touching intervals, sets of two strings."""
    return without_below_empty(draw, _tight)


def _tight(draw: Random) -> Filter:
    conjunctions = draw.choice((1, 1, 2, 3, 4))
    return Filter([Conjunction(_tight_predicate(draw) for _ in range(draw.randint(0, 3))) for _ in range(conjunctions)])


def _tight_predicate(draw: Random) -> Predicate:
    name, kind = draw.choice("xy"), draw.random()
    if kind < 0.5:
        return Predicate(name, draw.choice(COMPARISONS), draw.choice((0, 1, 2, 3)))
    if kind < 0.8:
        return Predicate(name, draw.choice((*COMPARISONS, *PATTERNS)), draw.choice(("", "a", "b", "ab", "a\0")))
    if kind < 0.9:
        return Predicate(name, draw.choice((Operator.EQ, Operator.NE)), draw.choice((True, False)))
    return Predicate(name, Operator.PRESENT)


def without_below_empty(draw: Random, draw_one: Draw) -> Filter:
    """No string satisfies `< ''`, and `covers` does not call it a contradiction: such filters are left out."""
    while True:
        filter = draw_one(draw)
        if not any(p.operator is Operator.LT and p.value == "" for conjunction in filter for p in conjunction):
            return filter


# How many filters are found by a string: all, some, or none, so that boxes have to say it.
LIMITS = ((inverted_index.PER_TERM_MAX, inverted_index.EXAMPLES_MAX), (1, 2), (0, 0))


def pin(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    per_term, examples = LIMITS[seed % len(LIMITS)]
    monkeypatch.setattr(inverted_index, "PER_TERM_MAX", per_term)
    monkeypatch.setattr(inverted_index, "EXAMPLES_MAX", examples)


@pytest.mark.parametrize("draw_one", [draw_any, draw_tight])
def test_same_as_asking_every_filter_at_any_time(kernels: str, draw_one: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(cases(45)):
        pin(monkeypatch, seed)
        draw, index, plain = Random(seed), CoverIndex[int](), Plain()
        for _ in range(100):
            step(draw, index, plain, draw_one)
            assert (len(index), list(index)) == (len(plain.stored), list(plain.stored)), f"seed {seed}"


def check_question(question: CoverQuery[int], plain: Plain, asked: Filter, parity: int) -> None:
    """For one who accepts only odd keys, or only even ones."""

    def accept(key: int) -> bool:
        return key % 2 == parity

    expected, found = [key for key in plain.covering(asked) if accept(key)], question.covering(accept)
    assert (found in expected) if expected else (found is None), f"{asked}: {found} of {expected}"
    assert question.covered(accept) == [key for key in plain.covered_by(asked) if accept(key)], str(asked)
    each = question.covering_each(accept)
    parts = [[key for key in plain.covering(Filter([part])) if accept(key)] for part in asked]
    if expected:
        assert each == (found,)
    elif all(parts) and len(parts) > 1:
        assert all(key in part for key, part in zip(each, parts, strict=True)), f"{asked}: {each} of {parts}"
    else:
        assert each == ()


@pytest.mark.parametrize("draw_one", [draw_any, draw_tight])
def test_a_question_holds_while_filters_come_and_go(draw_one: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(cases(45)):
        pin(monkeypatch, seed)
        draw, index, plain = Random(seed), CoverIndex[int](), Plain()
        asked = [draw_one(draw) for _ in range(5)]
        kept = [index.ask(filter) for filter in asked]
        for _ in range(60):
            step(draw, index, plain, draw_one)
            which = draw.randrange(5)
            check_question(kept[which], plain, asked[which], draw.randrange(2))


def draw_subscription(draw: Random) -> Filter:
    """What people ask for: a symbol or some, ranges of different width, presence, a prefix."""
    parts = []
    kind = draw.random()
    if kind < 0.4:
        parts.append(f"symbol = '{draw.choice('ABC')}{draw.choice('XYZ')}'")
    elif kind < 0.6:
        parts.append(
            f"symbol in ({', '.join(repr(a + b) for a in draw.sample('ABC', 2) for b in draw.sample('XYZ', 2))})"
        )
    elif kind < 0.8:
        parts.append(f"symbol like '{draw.choice('ABC')}%'")
    for name in draw.sample(("price", "volume", "day"), draw.randint(0 if parts else 1, 2)):
        low = draw.randrange(100)
        parts.append(
            f"{name} >= {low}" if draw.random() < 0.3 else f"{name} between {low} and {low + draw.randrange(60)}"
        )
    if draw.random() < 0.1:
        parts.append("change is not null")
    return parse_filter(" and ".join(parts))


def test_many_filters_in_trees_and_in_several_runs(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AT_ONCE_BOXES_MAX", 64),
        ("WAITING_BOXES_MAX", 64),
        ("RUN_BOXES_MAX", 512),
        ("WORK_STEP", 256),
    ):
        monkeypatch.setattr(matcher_module, name, value)
    draw, index, plain = Random(3), CoverIndex[int](), Plain()
    for key in range(1000):
        plain.stored[key] = draw_subscription(draw)
        index.add(key, plain.stored[key])
    for key in range(0, 1000, 3):
        index.remove(key)
        del plain.stored[key]
    for _ in range(cases(20)):
        check(index, plain, draw_subscription(draw))
    index.settle()
    for _ in range(cases(20)):
        check(index, plain, draw_subscription(draw))


def test_equal_filters_cover_each_other_until_the_last_is_gone() -> None:
    index: CoverIndex[str] = CoverIndex()
    for key in "cab":
        index.add(key, "x > 1 and y = 'a'")
    index.add("wide", "x > 0")
    for key in ("c", "a"):
        assert index.covering("y = 'a' and x > 1") == key
        index.remove(key)
    assert index.covered_by("x > 0") == ["b", "wide"]
    index.remove("b")
    assert (index.covering("y = 'a' and x > 1"), index.covered_by("x > 0")) == ("wide", ["wide"])


def test_a_contradiction_is_covered_by_everything_and_covers_contradictions_alone() -> None:
    index: CoverIndex[str] = CoverIndex()
    assert index.covering("x > 2 and x < 1") is None
    index.add("s", "y = 1")
    index.add("none", "x > 3 and x < 2")
    assert (index.covering("x > 2 and x < 1"), index.covered_by("z = 5")) == ("s", ["none"])
    assert (index.covered_by("x > 2 and x < 1"), index.covering("y = 1 and z = 2")) == (["none"], "s")


@pytest.mark.parametrize(
    ("wider", "narrower", "covered"),
    [
        ("x > 1", "x > 1 and y = 2", True),
        ("x > 1 and y = 2", "x > 1", False),
        ("x is not null", "x = 'a'", True),
        ("x is not null", "x <> 5", True),
        ("x <> 5", "x <> 5 and x > 1 and x < 9", True),
        ("x <> 5", "x > 1 and x < 9", False),
        ("x > 5", "x >= 5 and x <> 5", True),
        ("s = 'a'", "s like 'a%' and s <= 'a'", True),
        ("s like 'a%'", "s = 'ab'", True),
        ("s like 'a%'", "s like 'ab%'", True),
        ("s like 'ab%'", "s like 'a%'", False),
        ("s in ('a', 'b', 'c')", "s in ('a', 'c')", True),
        ("s in ('a', 'c')", "s in ('a', 'b')", False),
        ("x <= 10 or x > 5", "x > 0", True),
        ("x <= 10 or x > 11", "x > 0", False),
        ("x < 5 and y < 5 or x >= 5 or y >= 5", "x > 0 and y > 0", True),
        ("x > 9007199254740992", "x > 9007199254740993", True),
        ("x > 9007199254740993", "x > 9007199254740992", False),
        ("flag = true", "flag <> false", True),
        ("true", "x = 1", True),
        ("x = 1", "true", False),
    ],
)
def test_one_pair_both_ways(kernels: str, wider: str, narrower: str, covered: bool) -> None:
    outer, inner = CoverIndex[str](), CoverIndex[str]()
    outer.add("s", wider)
    inner.add("s", narrower)
    for _ in range(2):
        assert outer.covering(narrower) == ("s" if covered else None)
        assert inner.covered_by(wider) == (["s"] if covered else [])
        outer.settle()
        inner.settle()


def test_keys_are_added_once_and_removed_once() -> None:
    index: CoverIndex[str] = CoverIndex()
    index.add("s", "x > 1")
    with pytest.raises(ValueError, match="'s' is in the index already"):
        index.add("s", "x > 2")
    with pytest.raises(LanguageError):
        index.add("t", "x >")
    assert (list(index), index.filter_of("s"), "s" in index, "t" in index) == (
        ["s"],
        parse_filter("x > 1"),
        True,
        False,
    )
    assert (index.covering("x > 2"), index.covering("x > 0"), index.covered_by("x > 0")) == ("s", None, ["s"])
    index.remove("s")
    with pytest.raises(KeyError):
        index.remove("s")
    assert (len(index), index.covering("x > 2"), index.covered_by("x > 0")) == (0, None, [])


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_no_more_covered_ones_than_asked_for(most: int) -> None:
    index: CoverIndex[int] = CoverIndex()
    for number in range(20):
        index.add(number, f"x > {number // 2}")
    found = index.covered_by("x > 4", most)
    assert min(most, 1) <= len(found) <= min(most, 12)
    assert set(found) <= set(index.covered_by("x > 4")) == set(range(8, 20))
