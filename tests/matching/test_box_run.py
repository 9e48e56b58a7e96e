"""A run against a comparison of every box with every point, at sizes around those at which its levels change."""

import numpy as np
import numpy.typing as npt
import pytest

from octopia.matching import use_kernels
from octopia.matching.box_run import Boxes, Run, Searched, chosen, joined, portions
from octopia.matching.boxes import Axis
from octopia.matching.kernels import kernels as kernels_in_use
from octopia.matching.space import BoxKind, Family, Shape

# one kind has intervals on two dimensions, one has one and leaves a value out, one has no dimension at all
SHAPES = ((2, 0), (1, 1), (0, 0))
PLACES = ((0, 1), (1, 2), ())


def kind(id: int) -> BoxKind:
    dimensions = tuple((f"a{place}", Axis.NUMBER) for place in PLACES[id])
    bounded, _ = SHAPES[id]
    shape = Shape(id, dimensions[:bounded], PLACES[id][:bounded])
    return BoxKind(2 * id, shape, Family(id, dimensions[bounded:], PLACES[id][bounded:]), tested=False)


# the numbers of kinds without tests are even
KINDS = {2 * id: kind(id) for id in range(len(SHAPES))}


def draw_boxes(draw: np.random.Generator, count: int, kinds: npt.NDArray[np.int64]) -> Boxes:
    widths = np.array([sum(shape) for shape in SHAPES], dtype=np.int64)[kinds // 2]
    starts = np.concatenate([[0], np.cumsum(widths)])
    lows = draw.integers(0, 1000, starts[-1]).astype(np.float64)
    highs = lows + draw.integers(0, 60, starts[-1])
    # no box is open at both ends: that would not be a condition
    ends = draw.random(len(lows))
    lows[ends < 0.02] = -np.inf
    highs[ends > 0.98] = np.inf
    left_out = starts[:-1][kinds == 2] + 1
    lows[left_out] = draw.integers(0, 3, len(left_out))
    highs[left_out] = lows[left_out] + draw.integers(0, 2, len(left_out))
    return Boxes(kinds, draw.permutation(count).astype(np.int32), starts, lows, highs, no_tests(count))


def no_tests(count: int) -> npt.NDArray[np.int32]:
    return np.full(count, -1, dtype=np.int32)


def brute_force(boxes: Boxes, point: npt.NDArray[np.float64], opened: list[int]) -> list[int]:
    found = []
    for id in opened:
        of_kind = np.flatnonzero(boxes.kinds == 2 * id)
        inside = np.ones(len(of_kind), dtype=np.bool_)
        for j, place in enumerate(PLACES[id]):
            low, high = boxes.lows[boxes.starts[of_kind] + j], boxes.highs[boxes.starts[of_kind] + j]
            within = (low <= point[place]) & (point[place] <= high)
            inside &= (within if j < SHAPES[id][0] else ~within) & np.isfinite(point[place])
        found.append(boxes.rows[of_kind[inside]])
    rows: list[int] = np.sort(np.concatenate([np.empty(0, dtype=np.int32), *found])).tolist()
    return rows


def search(run: Run | Searched, point: npt.NDArray[np.float64], opened: list[int]) -> list[int]:
    below = np.where(np.isneginf(point), np.inf, point)
    some = run.whole() if isinstance(run, Run) else run
    found = kernels_in_use().rows_around([some], opened, np.stack([point, below])[:, :, None].copy())
    rows: list[int] = np.sort(found).tolist()
    return rows


def points(draw: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    found = draw.integers(0, 1000, (count, 3)).astype(np.float64)
    found[:, 2] = draw.integers(0, 3, count)
    # -inf above and inf below is what is absent
    found[draw.random((count, 3)) < 0.1] = -np.inf
    return found


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 129, 4096, 4097, 8193, 300_000])
@pytest.mark.parametrize("id", [0, 1, 2])
def test_a_search_finds_what_a_comparison_with_all_boxes_finds(kernels: str, count: int, id: int) -> None:
    draw = np.random.default_rng([count, id])
    boxes = draw_boxes(draw, count, np.full(count, 2 * id, dtype=np.int64))
    run = Run.of(boxes, KINDS.__getitem__)
    # without a dimension all are found, whatever the point
    for point in points(draw, 60 if count < 10_000 else 12 if PLACES[id] else 2):
        assert search(run, point, [id]) == brute_force(boxes, point, [id])


def test_kinds_are_kept_apart_and_unknown_ones_are_not_there(kernels: str) -> None:
    draw = np.random.default_rng(3)
    boxes = draw_boxes(draw, 5000, 2 * draw.integers(0, 3, 5000))
    run = Run.of(boxes, KINDS.__getitem__)
    for point in points(draw, 40):
        for opened in ([], [0], [2, 0], [1, 7], [0, 1, 2]):
            assert search(run, point, opened) == brute_force(boxes, point, [id for id in opened if 2 * id in KINDS])


def as_set(boxes: Boxes) -> set[tuple[int, int, tuple[float, ...], tuple[float, ...]]]:
    parts = [slice(a, b) for a, b in zip(boxes.starts[:-1].tolist(), boxes.starts[1:].tolist(), strict=True)]
    return {
        (kind, row, tuple(boxes.lows[part].tolist()), tuple(boxes.highs[part].tolist()))
        for kind, row, part in zip(boxes.kinds.tolist(), boxes.rows.tolist(), parts, strict=True)
    }


def test_a_run_gives_back_the_boxes_that_are_alive(kernels: str) -> None:
    draw = np.random.default_rng(4)
    boxes = draw_boxes(draw, 3000, 2 * draw.integers(0, 3, 3000))
    run = Run.of(boxes, KINDS.__getitem__)
    assert as_set(run.boxes()) == as_set(boxes)
    kind_of = dict(zip(boxes.rows.tolist(), boxes.kinds.tolist(), strict=True))
    dead = draw.permutation(3000)[:1000].tolist()
    assert [run.remove(slot) for slot in dead] == [kind_of[int(run.layout.rows[slot])] for slot in dead]
    gone = {int(run.layout.rows[slot]) for slot in dead}
    left = chosen(boxes, np.flatnonzero(~np.isin(boxes.rows, list(gone))))
    assert (run.live, as_set(run.boxes())) == (2000, as_set(left))

    first = run.boxes(1234)
    run.move_on(1234)

    rest = run.boxes()
    assert (run.moved, run.live) == (1234, len(rest.rows))
    assert as_set(joined([first, rest])) == as_set(left)
    for point in points(draw, 20):
        assert search(run, point, [0, 1, 2]) == brute_force(rest, point, [0, 1, 2])


def test_portions_are_all_boxes_with_kinds_kept_together() -> None:
    draw = np.random.default_rng(5)
    boxes = draw_boxes(draw, 1000, 2 * draw.integers(0, 3, 1000))
    parts = portions(boxes, 300)
    assert [len(part.rows) for part in parts] == [300, 300, 300, 100]
    assert as_set(joined(parts)) == as_set(boxes)
    together = np.concatenate([part.kinds for part in parts]).tolist()
    assert together == sorted(together)


@pytest.mark.parametrize(("kinds", "most"), [(3, 200), (40, 3), (150, 90), (5, 9000)])
def test_kinds_of_one_family_are_searched_together(kernels: str, kinds: int, most: int) -> None:
    """Any dimensions side by side: parts of several, blocks with and without an interval in each, several levels."""
    pytest.importorskip("numba")
    draw = np.random.default_rng([kinds, most])
    left_out = (("n", Axis.NUMBER),)
    family = Family(7, left_out, (20,))
    of: dict[int, BoxKind] = {}
    for id in range(kinds):
        bounded = draw.permutation(20)[: draw.integers(0, 4)].tolist()
        dimensions = tuple((f"a{place}", Axis.NUMBER) for place in bounded)
        of[2 * id] = BoxKind(2 * id, Shape(id, dimensions, tuple(bounded)), family, tested=False)
    counts = draw.integers(1, most, kinds)
    kind_of = draw.permutation(np.repeat(2 * np.arange(kinds, dtype=np.int64), counts))
    widths = np.array([len(of[id].shape.places) + 1 for id in kind_of.tolist()])
    starts = np.concatenate([[0], np.cumsum(widths)])
    lows = draw.integers(0, 1000, starts[-1]).astype(np.float64)
    highs = lows + draw.integers(0, 500, starts[-1])
    lows[starts[1:] - 1] = highs[starts[1:] - 1] = draw.integers(0, 3, len(kind_of))
    boxes = Boxes(kind_of, np.arange(len(kind_of), dtype=np.int32), starts, lows, highs, no_tests(len(kind_of)))
    run = Run.of(boxes, of.__getitem__)
    assert as_set(run.boxes()) == as_set(boxes)
    places = np.concatenate([(*of[id].shape.places, 20) for id in kind_of.tolist()])
    last = np.zeros(len(places), dtype=np.bool_)
    last[starts[1:] - 1] = True
    for turn in range(12):
        # what one kind of kernels laid out, the other can search
        use_kernels(("numba", "numpy")[turn % 2])
        point = draw.integers(0, 1000, 21).astype(np.float64)
        point[20] = draw.integers(0, 3)
        point[:20][draw.random(20) < 0.1] = -np.inf
        within = (lows <= point[places]) & (point[places] <= highs)
        inside = np.logical_and.reduceat(np.where(last, ~within, within), starts[:-1])
        assert search(run, point, [7]) == np.flatnonzero(inside).tolist()
        assert search(run, point, [3, 8]) == []
        wanted = [0, 2 * (kinds - 1)]
        some = run.only(wanted)
        assert search(some, point, [7]) == np.flatnonzero(inside & np.isin(kind_of, wanted)).tolist()
