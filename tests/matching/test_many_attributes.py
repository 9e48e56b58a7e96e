"""Filters that name many attributes: the same answers, and no work for attributes that a notification does not have."""

from random import Random

import pyarrow as pa
import pytest

from octopia.language import Conjunction, Filter, Notification, Operator, Predicate, Value, matches, overlaps
from octopia.matching import Matcher, columns, matcher, space
from tests.effort import cases
from tests.matching.histories import VALUES, draw_predicate

NAMES = tuple(f"n{number}" for number in range(9))


def renamed(draw: Random, predicate: Predicate) -> Predicate:
    return Predicate(draw.choice(NAMES), predicate.operator, predicate.value)


def draw_filter(draw: Random) -> Filter:
    parts = [
        [renamed(draw, draw_predicate(draw)) for _ in range(draw.randint(0, 3))] for _ in range(draw.randint(1, 3))
    ]
    return Filter(map(Conjunction, parts))


def draw_values(draw: Random) -> dict[str, Value]:
    return {name: draw.choice(VALUES) for name in draw.sample(NAMES, draw.randint(1, 6))}


@pytest.mark.parametrize("few", [0, 3])
@pytest.mark.parametrize("together", [0, 1 << 18])
def test_same_as_testing_every_filter(few: int, together: int, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (space, columns, matcher):
        monkeypatch.setattr(module, "FEW_ATTRIBUTES_MAX", few)
    monkeypatch.setattr(matcher, "TOGETHER_NUMBERS_MAX", together)
    for seed in range(cases(5)):
        draw = Random(seed)
        index: Matcher[int] = Matcher()
        stored: dict[int, Filter] = {}
        for id in range(70):
            stored[id] = draw_filter(draw)
            index.add(id, stored[id])
            if draw.random() < 0.3:
                gone = draw.choice(list(stored))
                index.remove(gone)
                del stored[gone]
            if draw.random() < 0.1:
                index.settle()
            if draw.random() < 0.3:
                check_matches(draw, index, stored)
                check_overlaps(draw, index, stored)
        for id in list(stored):
            index.remove(id)
        assert (index._space.kinds_count, index._space.attributes, index._space.always) == (0, {}, {})


def check_matches(draw: Random, index: Matcher[int], stored: dict[int, Filter]) -> None:
    seen = [Notification.of(draw_values(draw)) for _ in range(6)]
    expected = [sorted(id for id, filter in stored.items() if matches(filter, one)) for one in seen]
    assert [sorted(index.match(one)) for one in seen] == expected
    assert list(map(sorted, index.match_many(seen))) == expected
    plain = [{name: value for name, value in one.items() if type(value) is str} or {"n0": ""} for one in seen]
    batch = pa.RecordBatch.from_pylist(plain, schema=pa.schema([(name, pa.string()) for name in NAMES]))
    found = index.match_batch(batch)
    pairs = sorted(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True))
    assert pairs == [
        (at, id) for at, one in enumerate(plain) for id, filter in sorted(stored.items()) if matches(filter, one)
    ]


def check_overlaps(draw: Random, index: Matcher[int], stored: dict[int, Filter]) -> None:
    asked = draw_filter(draw)
    assert sorted(index.overlapping(asked)) == [id for id, filter in sorted(stored.items()) if overlaps(asked, filter)]
    assert sorted(index.overlapped_by(asked)) == [
        id for id, filter in sorted(stored.items()) if overlaps(filter, asked)
    ]


def thousand_attributes() -> Matcher[int]:
    index: Matcher[int] = Matcher()
    for number in range(1000):
        index.add(number, Filter.of(Predicate("price", Operator.GT, 0), Predicate(f"a{number}", Operator.GT, 0)))
    index.settle()
    return index


def test_families_of_absent_attributes_are_not_opened() -> None:
    index = thousand_attributes()
    # the first 64 attributes were few enough to share a family
    assert len(index._space.opened({"price": 1})[0]) == 1
    assert len(index._space.opened({"price": 1, "a900": 1, "a901": 1})[0]) == 3
    assert index.match({"price": 1, "a900": 1, "a901": 0}) == [900]


def test_overlap_looks_only_at_kinds_that_names_allow() -> None:
    index = thousand_attributes()
    assert len(list(index._space.kinds_naming_only(["price", "a7"]))) <= 2
    assert len(list(index._space.kinds_naming_all(["price", "a7"]))) == 1
    assert index.overlapping("price > 5 and a7 > 1") == [7]
    assert index.overlapped_by("a7 > 1") == [7]
