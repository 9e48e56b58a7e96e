"""The matcher against brute force: `octopia.matches` and `octopia.overlaps` on every stored filter."""

import pickle
import subprocess
import sys
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.errors import InputError, LanguageError
from octopia.language import (
    Conjunction,
    Filter,
    Notification,
    Operator,
    Predicate,
    Value,
    matches,
    overlaps,
    parse_filter,
)
from octopia.matching import Matcher, kernels_in_use, use_kernels, warm_up
from octopia.matching import matcher as matcher_module
from tests.effort import cases
from tests.language.strategies import SMALL_NUMBERS, few_names, fixed, small_filter, small_strings
from tests.matching.histories import between, build_in_small_steps, draw_filter, draw_notification


@pytest.mark.parametrize("batch", range(4))
def test_same_as_testing_every_filter_at_any_time(kernels: str, batch: int) -> None:
    for seed in range(batch * 60, batch * 60 + cases(60)):
        draw = Random(seed)
        index: Matcher[int] = Matcher()
        stored: dict[int, Filter] = {}
        for _ in range(120):
            step(draw, index, stored)
            assert len(index) == len(stored), f"seed {seed}"


def step(draw: Random, index: Matcher[int], stored: dict[int, Filter]) -> None:
    kind, id = draw.random(), draw.randrange(60)
    if kind < 0.45:
        if id not in stored:
            stored[id] = draw_filter(draw)
            index.add(id, stored[id])
    elif kind < 0.65:
        if id in stored:
            index.remove(id)
            del stored[id]
    elif kind < 0.72:
        index.settle()
    elif kind < 0.9:
        seen = draw_notification(draw)
        expected = sorted(id for id, filter in stored.items() if matches(filter, seen))
        assert sorted(index.match(seen)) == expected
        assert index.matches_any(seen) is bool(expected)
    else:
        asked = draw_filter(draw)
        found = sorted(index.overlapping(asked)), sorted(index.overlapped_by(asked))
        assert found == (
            sorted(id for id, filter in stored.items() if overlaps(asked, filter)),
            sorted(id for id, filter in stored.items() if overlaps(filter, asked)),
        )


VALUES: st.SearchStrategy[Value] = st.one_of(small_strings, st.sampled_from(SMALL_NUMBERS), st.booleans())
NOTIFICATIONS = st.dictionaries(few_names, VALUES, min_size=1).map(Notification.of)
OPERATIONS = st.tuples(st.sampled_from(["add", "add", "remove", "settle", "match"]), st.integers(0, 9), small_filter)


@pytest.mark.usefixtures("kernels")
def test_same_under_hypothesis() -> None:
    """Shrinks a fault to the few operations that matter."""

    @fixed(200)
    @given(st.lists(OPERATIONS, max_size=30), st.lists(NOTIFICATIONS, min_size=1, max_size=6))
    def check(history: list[tuple[str, int, Filter]], seen: list[Notification]) -> None:
        index: Matcher[int] = Matcher()
        stored: dict[int, Filter] = {}
        for do, id, filter in [*history, ("match", 0, parse_filter("true"))]:
            if do == "add" and id not in stored:
                index.add(id, filter)
                stored[id] = filter
            elif do == "remove" and id in stored:
                index.remove(id)
                del stored[id]
            elif do == "settle":
                index.settle()
            elif do == "match":
                for n in seen:
                    assert sorted(index.match(n)) == sorted(i for i, f in stored.items() if matches(f, n))

    check()


@pytest.mark.parametrize("seed", range(cases(18)))
def test_filters_come_and_go_while_runs_are_merged(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(seed)
    build_in_small_steps(monkeypatch, at_once=draw.choice((4, 16)), run=draw.choice((64, 300)))
    monkeypatch.setattr(matcher_module, "WORK_PER_CHANGE", draw.choice((4, 64, 256)))
    monkeypatch.setattr(matcher_module, "WORK_STEP", draw.choice((1, 100)))
    monkeypatch.setattr(matcher_module, "REBUILD_DEAD_MIN", draw.choice((4, 128)))
    index: Matcher[Any] = Matcher()
    stored: dict[Any, Filter] = {}
    merging = 0
    for step in range(600):
        # they grow in number, then shrink, then grow again
        if stored and draw.random() < (0.3 if step // 150 % 2 == 0 else 0.7):
            id = draw.choice(list(stored))
            index.remove(id)
            del stored[id]
        else:
            # ids that are not integers are stored differently
            id = step if step < 300 or seed % 2 else f"s{step}"
            stored[id] = draw_filter(draw)
            index.add(id, stored[id])
        merging += index._merge is not None
        if step % 20 == 0:
            seen = [draw_notification(draw) for _ in range(3)]
            wanted = [[i for i, f in stored.items() if matches(f, n)] for n in seen]
            assert [sorted(each, key=str) for each in index.match_many(seen)] == [sorted(w, key=str) for w in wanted]
            assert sorted(index.match(seen[0]), key=str) == sorted(wanted[0], key=str)
        if step == 400 and draw.random() < 0.5:
            index = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert merging > 50
    assert sum(run.live for run in index.runs()) + len(index._waiting.first_of) >= len(stored)


def test_many_runs_are_merged_and_stay_exact(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_in_small_steps(monkeypatch, at_once=64, run=512)
    draw = Random(5)
    index: Matcher[int] = Matcher()
    stored: dict[int, Filter] = {}
    for id in range(1500):
        low = draw.randrange(100)
        stored[id] = Filter.of(*between("x", low, low + 9), Predicate("y", Operator.EQ, draw.choice("abc")))
        index.add(id, stored[id])
        if draw.random() < 0.05:
            index._flush()
    index._flush()
    sizes = [run.live for run in index.runs()]
    assert sum(sizes) == 1500
    assert max(sizes) <= 512
    assert len(sizes) <= 12, "a few runs per power of two at the most"
    for id in range(0, 1500, 2):
        index.remove(id)
        del stored[id]
    for x in range(0, 110, 7):
        seen = Notification.of({"x": x, "y": "b"})
        assert sorted(index.match(seen)) == [id for id, filter in stored.items() if matches(filter, seen)]


def test_a_large_run_is_given_back_piece_by_piece(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_in_small_steps(monkeypatch, at_once=32, run=256)
    draw = Random(6)
    index: Matcher[int] = Matcher()
    stored: dict[int, Filter] = {}
    for id in range(2000):
        low = draw.randrange(50)
        near = Conjunction([*between("x", low, low + 5), Predicate("y", Operator.EQ, f"s{id % 90}")])
        stored[id] = Filter([near, Conjunction([Predicate("z", Operator.EQ, id)])])
        index.add(id, stored[id])
    index.settle()
    assert [run.size for run in index.runs()] == [4000]
    ids = list(stored)
    draw.shuffle(ids)
    for step_, id in enumerate(ids[:1900]):
        index.remove(id)
        del stored[id]
        if step_ % 95 == 0:
            for values in ({"x": draw.randrange(56), "y": f"s{draw.randrange(90)}"}, {"z": draw.choice(ids)}):
                seen = Notification.of(values)  # type: ignore[arg-type]
                assert sorted(index.match(seen)) == sorted(i for i, f in stored.items() if matches(f, seen))
    assert sum(run.size for run in index.runs()) <= 2 * 200 + 256, "the large run is gone"
    assert len(coded(index)) <= 90
    index.settle()
    assert [run.live for run in index.runs()] == [200]


def test_a_run_is_rebuilt_when_that_pays_and_goes_with_its_last_box() -> None:
    index: Matcher[int] = Matcher()
    for id in range(300):
        index.add(id, f"x > {id}")
    index.settle()
    for id in range(300, 305):
        index.add(id, f"x > {id}")
    index._flush()
    assert [run.size for run in index.runs()] == [300, 5]
    for id in range(300, 305):
        assert [run.live for run in index.runs()] == [300, 305 - id]
        index.remove(id)
    assert [run.size for run in index.runs()] == [300], "nothing is left of it"
    for id in range(150):
        index.remove(id)
    assert [(run.size, run.live) for run in index.runs()] == [(300, 150)]
    index.remove(150)
    assert [(run.size, run.live) for run in index.runs()] == [(149, 149)], "most of it was dead"
    for id in range(151, 151 + 127):
        index.remove(id)
    assert [(run.size, run.live) for run in index.runs()] == [(149, 22)], "too few for a rebuild"
    assert sorted(index.match({"x": 290})) == list(range(278, 290))


def coded(index: Matcher[Any]) -> list[str]:
    """The strings that have codes, with their attributes."""
    space = index._space
    return sorted(f"{name} {text}" for name in space.attributes for text, _ in space.strings_of(name))


def test_strings_asked_for_are_forgotten_with_their_last_filter() -> None:
    index: Matcher[int] = Matcher()
    index.add(0, "s <> 'a' and s <> 'b' or s = 'c' and s = 'd' or t = 'a'")
    index.add(1, "s = 'a' and x > 1")
    index.settle()
    # nothing is both 'c' and 'd'
    assert coded(index) == ["s a", "s b", "t a"]
    index.remove(0)
    assert coded(index) == ["s a"]
    assert (index.match({"s": "a", "x": 2}), index.match({"s": "b", "x": 2})) == ([1], [])
    index.add(2, "s <> 'b'")
    index.remove(2)
    assert index.match({"s": "b", "x": 2}) == []
    assert coded(index) == ["s a"]


def test_what_is_removed_is_given_back() -> None:
    index: Matcher[int] = Matcher()
    for round_ in range(3):
        for id in range(3000):
            index.add(
                id,
                Filter.of(
                    Predicate(f"a{id % 50}", Operator.EQ, f"s{round_}-{id}"),
                    Predicate("x", Operator.GT, id),
                    Predicate(f"s{id % 7}", Operator.PREFIX, "p"),
                ),
            )
        index.settle()
        for id in range(2990):
            index.remove(id)
        runs = index.runs()
        assert sum(run.size for run in runs) <= 20 + matcher_module.REBUILD_DEAD_MIN, (
            "a run is rebuilt when most of it is dead"
        )
        space = index._space
        assert (space.kinds_count <= 10, space.size <= 70, len(space.attributes) <= 20) == (True, True, True)
        assert len(coded(index)) <= 20
        for id in range(2990, 3000):
            index.remove(id)
        assert (index._runs, index._space.size, len(index._filters)) == ({}, 0, 0)


@pytest.mark.parametrize(
    ("text", "values", "matched"),
    [
        ("x = 1", {"x": 1.0}, True),
        ("x = 1", {"x": True}, False),
        ("x = true", {"x": 1}, False),
        ("x = true", {"x": True}, True),
        ("x <> true", {"x": False}, True),
        ("x = 1 or x = 1 and y = 2", {"x": 1, "y": 2}, True),
        ("x = '1'", {"x": 1}, False),
        ("x = ''", {"x": ""}, True),
        ("true", {"x": 1}, True),
        ("x > 9007199254740992", {"x": 2**53 + 1}, True),
        ("x > 9007199254740993", {"x": 2**53 + 1}, False),
        ("x <= 9007199254740993", {"x": 2**53 + 1}, True),
        ("x < 9e999", {"x": 10**400}, True),
        ("x > -9e999", {"x": float("-inf")}, False),
        ("x >= -9e999", {"y": 1}, False),
        ("x = 9e999", {"x": float("inf")}, True),
        ("x <> 5", {"x": 5.0}, False),
        ("x <> 5", {"x": 6}, True),
        ("x <> 5", {"x": 2**53 + 1}, True),
        ("x <> 5", {"x": float("-inf")}, True),
        ("x <> 5", {"x": "5"}, False),
        ("x <> 5", {"y": 6}, False),
        ("x <> 5 and x <> 6", {"x": 6}, False),
        ("x <> 5 and x <> 6", {"x": 7}, True),
        ("x <> 5 and x >= 5 and x <= 6", {"x": 5}, False),
        ("x <> 9007199254740992", {"x": 2**53 + 1}, True),
        ("x <> 9007199254740993", {"x": 2**53 + 1}, False),
        ("x <> 9e999", {"x": 10**400}, True),
        ("x <> 'a'", {"x": "a"}, False),
        ("x <> 'a'", {"x": ""}, True),
        ("x <> 'a'", {"x": 5}, False),
        ("x <> 'a' and x <> 'b'", {"x": "b"}, False),
        ("x <> 'a' and x <> 'b'", {"x": "never asked for"}, True),
        ("x <> 'a' and x = 'a'", {"x": "a"}, False),
        ("x <> 'a' and x like 'a%'", {"x": "ab"}, True),
    ],
)
def test_numbers_by_value_and_types_told_apart(
    kernels: str, text: str, values: dict[str, Value], matched: bool
) -> None:
    index: Matcher[str] = Matcher()
    index.add("s", text)
    index.settle()
    assert index.match(values) == (["s"] if matched else [])


def test_a_notification_of_ten_thousand_attributes(kernels: str) -> None:
    index: Matcher[int] = Matcher()
    for id in range(200):
        index.add(id, f"a{id * 50} > 5 and a{id * 50 + 1} = 7")
    index.settle()
    seen = {f"a{i}": 7 for i in range(10_000)}
    assert sorted(index.match(seen)) == list(range(200))
    assert index.match({"a50": 6, "a51": 7}) == [1]


def test_ids_are_any_hashable_added_once_and_removed_once() -> None:
    index: Matcher[object] = Matcher()
    ids = ["s", 1, ("a", 2), None, frozenset("x")]
    for id in ids:
        index.add(id, "x = 1")
    index.settle()
    assert index.match({"x": 1}) == ids
    assert (None in index, 2 in index, list(index)) == (True, False, ids)
    with pytest.raises(ValueError, match="'s' is in the index already"):
        index.add("s", "x = 2")
    index.remove("s")
    with pytest.raises(KeyError):
        index.remove("s")
    assert index.filter_of(1) == parse_filter("x = 1")


def test_an_id_that_is_no_integer_may_come_late(kernels: str) -> None:
    index: Matcher[object] = Matcher()
    for id in range(100):
        index.add(id, "x > 1")
    index.settle()
    assert sorted(index.match({"x": 2}), key=str) == sorted(range(100), key=str)
    index.add("late", "x > 1")
    index.add(2**63, "x > 1")
    assert sorted(index.match({"x": 2}), key=str) == sorted([*range(100), "late", 2**63], key=str)
    index.settle()
    assert sorted(index.match({"x": 2}), key=str) == sorted([*range(100), "late", 2**63], key=str)


def test_answers_of_any_length(kernels: str) -> None:
    index: Matcher[int] = Matcher()
    for id in range(5000):
        index.add(id, Filter.of(Predicate("x", Operator.GE, id)))
    index.settle()
    for x in (0, 62, 63, 64, 65, 127, 128, 1000, 4999):
        assert sorted(index.match({"x": x})) == list(range(x + 1))
        assert sorted(index.match_rows(Notification.of({"x": x})).tolist()) == list(range(x + 1))
    for id in range(4990):
        index.remove(id)
    assert sorted(index.match({"x": 9000})) == list(range(4990, 5000))
    assert sum(len(index._out[line]) for line in range(2)) <= 1000, "memory for answers is given back"


def test_answers_as_arrays(kernels: str) -> None:
    index: Matcher[int | str] = Matcher()
    assert index.match_array({"x": 1}).tolist() == []
    for id in range(400):
        index.add(id, f"x >= {id}")
        index.add(1000 + id, f"y >= {id}")
    index.settle()
    first = index.match_array({"x": 250})
    assert (first.dtype, sorted(first.tolist())) == (np.dtype(np.int64), list(range(251)))
    assert sorted(index.match_array({"y": 9}).tolist()) == list(range(1000, 1010))
    assert sorted(first.tolist()) == list(range(251)), "the next answer goes elsewhere"
    index.add("all", "x is not null")
    second = index.match_array({"x": 1})
    assert (second.dtype, sorted(second.tolist(), key=str)) == (np.dtype(object), [0, 1, "all"])


def test_bad_filters_and_notifications_change_nothing() -> None:
    index: Matcher[str] = Matcher()
    with pytest.raises(LanguageError):
        index.add("s", "x >")
    assert len(index) == 0
    index.add("s", "x > 1")
    with pytest.raises(LanguageError, match="NaN"):
        index.match({"x": float("nan")})
    assert index.match("[class,'A'],[x,2]") == ["s"]


def test_groups_of_one_notification(kernels: str) -> None:
    index: Matcher[int] = Matcher()
    for id, group in enumerate((0, 0, 5, 64, 130, -1)):
        index.add(id, f"x >= {id}", group=group)
    index.settle()
    assert index.match_groups({"x": 1}) == 1
    assert index.match_groups({"x": 9}) == 1 | 1 << 5 | 1 << 64 | 1 << 130
    assert index.match_groups({"y": 9}) == 0


def test_without_numba_numpy_is_chosen_by_itself() -> None:
    script = (
        "import sys; sys.modules['numba'] = None\n"
        "import octopia, octopia.matching as matching\n"
        "m = octopia.Matcher(); m.add('s', 'x > 1'); m.settle()\n"
        "print(matching.kernels_in_use(), m.match({'x': 2}), matching.warm_up())\n"
        "matching.use_kernels('numba')\n"
        "try: m.match({'x': 2})\n"
        "except octopia.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "numpy ['s'] numpy",
        "numba is not installed: pip install 'octopia[fast]', or use_kernels(None)",
    ]


@pytest.mark.parametrize("group", [-2, 65_536, 2**40])
def test_a_group_out_of_bounds_is_refused_and_nothing_is_stored(group: int) -> None:
    index: Matcher[str] = Matcher()
    with pytest.raises(ValueError, match=f"group {group} of id 's': groups are numbered 0 to 65,535, -1 is none"):
        index.add("s", "x > 1", group=group)
    assert (len(index), index.match({"x": 2})) == (0, [])


def test_the_choice_of_kernels() -> None:
    with pytest.raises(InputError, match="no kernels 'cuda': there are numba and numpy"):
        use_kernels("cuda")
    use_kernels("numpy")
    assert (kernels_in_use(), warm_up()) == ("numpy", "numpy")
    use_kernels(None)
    assert warm_up() == kernels_in_use()


def test_nothing_is_compiled_after_warming_up() -> None:
    script = (
        "import pyarrow as pa, octopia\n"
        "from octopia.matching import codes_numba as c, kernels_numba as k, pieces_numba as p, warm_up\n"
        "kernels = (k.find, k.search, k.mark_groups, k.plant, k.live_boxes)\n"
        "kernels += (c.insert, c.slot_of, c.move, p.window_key)\n"
        "warm_up()\n"
        "before = [len(kernel.signatures) for kernel in kernels]\n"
        "batch = pa.RecordBatch.from_pydict({'x': [1, 2.5, None], 's': ['a', 'b', None]})\n"
        "for ids in (range(200), [str(i) for i in range(200)]):\n"
        "    for more in ('', ' or x = 7', ' and x <> 3'):\n"
        "        m = octopia.Matcher()\n"
        "        for n, id in enumerate(ids):\n"
        "            m.add(id, f\"x > {n} and s like '{'%' * (n % 2)}a%'\" + more, group=n)\n"
        "            if n % 60 == 0: m.match_batch(batch), m.match({'x': 9, 's': 'ab'})\n"
        "        m.match_batch_groups(batch), m.match_groups({'x': 9}), m.matches_any({'x': 1})\n"
        "        m.overlapping('x = 9')\n"
        "        m.settle(), m.match_batch(batch), m.match({'x': 9}), m.overlapped_by('x = 9')\n"
        "print(min(before) > 0, [len(kernel.signatures) for kernel in kernels] == before)\n"
    )
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_a_matcher_can_be_sent_to_another_process() -> None:
    index: Matcher[str] = Matcher()
    for id in range(300):
        index.add(f"s{id}", f"x > {id} and name like 'A%'")
    index.settle()
    index.add("waiting", "x > 298 and y <> 3")
    copy = pickle.loads(pickle.dumps(index))  # noqa: S301
    seen = Notification.of({"x": 299, "y": 4, "name": "AB"})
    assert copy.match(seen) == index.match(seen)
    copy.remove("s5")
    assert ("s5" in copy, "s5" in index) == (False, True)


def test_filters_that_came_from_another_process_are_there_when_asked_for(kernels: str) -> None:
    draw = Random(12)
    index: Matcher[int] = Matcher()
    stored = {id: draw_filter(draw) for id in range(700)}
    for id, filter in stored.items():
        index.add(id, filter, group=id % 9)
        if id == 500:
            index.settle()
    for id in (3, 290, 300):
        index.remove(id)
        del stored[id]
    copy: Matcher[int] = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(index))))  # noqa: S301
    for _ in range(30):
        seen, asked = draw_notification(draw), draw_filter(draw)
        assert sorted(copy.match(seen)) == sorted(id for id, filter in stored.items() if matches(filter, seen))
        assert copy.match_groups(seen) == index.match_groups(seen)
        assert sorted(copy.overlapping(asked)) == sorted(id for id, filter in stored.items() if overlaps(asked, filter))
    assert {id: copy.filter_of(id) for id in copy} == stored
    again: Matcher[int] = pickle.loads(pickle.dumps(index))  # noqa: S301
    more = (3, *range(701, 710))
    for id in more:
        again.add(id, "x = 1")
    again.remove(10)
    last: Matcher[int] = pickle.loads(pickle.dumps(again))  # noqa: S301
    expected = stored | dict.fromkeys(more, parse_filter("x = 1"))
    del expected[10]
    assert {id: last.filter_of(id) for id in last} == expected


def test_warming_up_loads_no_arrow() -> None:
    script = (
        "import sys, octopia.matching as matching\n"
        "print(matching.warm_up() in ('numba', 'numpy'), 'pyarrow' in sys.modules, 'pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]
