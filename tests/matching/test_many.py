"""Many notifications in one call give the same result as brute force and as one by one."""

from random import Random

import numpy as np
import pytest

from octopia.errors import LanguageError
from octopia.language import Filter, Notification, Value, matches
from octopia.matching import Matcher
from octopia.matching.kernels import kernels as kernels_module
from tests.effort import cases
from tests.matching.histories import draw_filter, draw_notification

GROUPS = 130


@pytest.mark.parametrize("part", range(3))
def test_many_at_once_are_the_same_as_testing_every_filter(kernels: str, part: int) -> None:
    for seed in range(part * 40, part * 40 + cases(40)):
        draw = Random(seed)
        index: Matcher[int] = Matcher()
        stored: dict[int, Filter] = {}
        for _ in range(6):
            change(draw, index, stored)
            seen = [draw_notification(draw) for _ in range(draw.choice((0, 1, 2, 7, 20)))]
            expected = [sorted(id for id, filter in stored.items() if matches(filter, one)) for one in seen]

            assert [sorted(found) for found in index.match_many(seen)] == expected, f"seed {seed}"

            assert [sorted(index.match(one)) for one in seen] == expected, f"seed {seed}"
            assert [sorted(index.match_array(one).tolist()) for one in seen] == expected, f"seed {seed}"
            masks = [sum(1 << group for group in {id % GROUPS for id in found}) for found in expected]
            assert index.match_groups_many(seen) == masks == [index.match_groups(one) for one in seen]
            counts, rows = index.match_rows_many(seen)
            assert counts.tolist() == [len(found) for found in expected]
            assert rows.dtype == np.int32
            assert sorted(index.ids_at(rows)) == sorted(id for found in expected for id in found)


def change(draw: Random, index: Matcher[int], stored: dict[int, Filter]) -> None:
    for _ in range(draw.choice((1, 3, 30))):
        id = draw.randrange(200)
        if id in stored:
            index.remove(id)
            del stored[id]
        else:
            stored[id] = draw_filter(draw)
            index.add(id, stored[id], group=id % GROUPS)
    if draw.random() < 0.3:
        index.settle()


@pytest.mark.parametrize(
    "values",
    [
        [{"x": 2**53 + 1}, {"x": 1}],
        [{"x": 10**400}, {"x": -(10**400)}],
        [{"x": float("inf")}, {"x": float("-inf")}],
        [{"x": True}, {"x": 1}],
        [{"x": "1"}, {"x": 1.0}, {"x": False}, {"y": 3}],
        [{"x": "a"}, {"y": "a"}],
        [{"y": 1}, {"y": 2}],
    ],
)
def test_values_of_all_types_side_by_side(kernels: str, values: list[dict[str, Value]]) -> None:
    index: Matcher[str] = Matcher()
    texts = (
        "x > 9007199254740992", "x <= 1", "x = true", "x = '1'", "x is not null", "x <> 1", "x <> 'a'", "y >= 2",
        "x like 'a%'", "true", "x = 9e999", "x < -9e99",
    )  # fmt: skip
    for text in texts:
        index.add(text, text)
    index.settle()
    seen = [Notification.of(one) for one in values]
    expected = [sorted(text for text in texts if matches(index.filter_of(text), one)) for one in seen]
    assert [sorted(found) for found in index.match_many(values)] == expected


def test_filters_that_wait_are_found_without_a_run_being_made_for_each_call(kernels: str) -> None:
    index: Matcher[int] = Matcher()
    index.add(0, "x > 1")
    index.settle()
    index.add(1, "x > 2")
    assert index.match_many([{"x": 3}, {"x": 2}, {"x": 1}]) == [[0, 1], [0], []]
    assert [run.live for run in index.runs()] == [1]
    tests = kernels_module().RUN_COSTS_TESTS
    assert index.match_many([{"x": 3}] * tests) == [index.match({"x": 3})] * tests
    assert sum(run.live for run in index.runs()) == 2, "testing it that often costs more than a run"


def test_no_notifications_no_filters_and_bad_notifications() -> None:
    index: Matcher[int] = Matcher()
    assert (index.match_many([]), index.match_groups_many([])) == ([], [])
    assert index.match_many([{"x": 1}, {"y": 1}]) == [[], []]
    index.add(0, "x > 1", group=64)
    assert index.match_groups_many([{"x": 1}, {"x": 2}]) == [0, 1 << 64]
    with pytest.raises(LanguageError, match="NaN"):
        index.match_many([{"x": 2}, {"x": float("nan")}])
    assert index.match_many(["[class,'A'],[x,2]"]) == [[0]]
