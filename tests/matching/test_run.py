"""A run against a comparison of every box with every point, at sizes around those at which its levels change."""

import numpy as np
import numpy.typing as npt
import pytest

from octopia.matching.boxes import Axis, Box
from octopia.matching.kernels import kernels as kernels_in_use
from octopia.matching.run import Boxes, Run, chosen, joined, portions
from octopia.matching.space import BoxKind

# one kind has intervals on two dimensions, one has one and leaves a value out, one has no dimension at all
SHAPES = ((2, 0), (1, 1), (0, 0))
PLACES = ((0, 1), (1, 2), ())


def kind(id: int) -> BoxKind:
    dimensions = tuple((f"a{place}", Axis.NUMBER) for place in PLACES[id])
    bounded, _ = SHAPES[id]
    return BoxKind(id, Box(dimensions[:bounded], dimensions[bounded:], (), (), (), False), PLACES[id], ())


KINDS = {id: kind(id) for id in range(len(SHAPES))}


def draw_boxes(draw: np.random.Generator, count: int, kinds: npt.NDArray[np.int32]) -> Boxes:
    widths = np.array([sum(SHAPES[id]) for id in kinds.tolist()], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(widths)])
    lows = draw.integers(0, 1000, starts[-1]).astype(np.float64)
    highs = lows + draw.integers(0, 60, starts[-1])
    # no box is open at both ends: that would not be a condition
    ends = draw.random(len(lows))
    lows[ends < 0.02] = -np.inf
    highs[ends > 0.98] = np.inf
    for box in np.flatnonzero(kinds == 1):
        lows[starts[box] + 1] = highs[starts[box] + 1] = float(draw.integers(0, 3))
    return Boxes(kinds, draw.permutation(count).astype(np.int32), starts, lows, highs)


def brute_force(boxes: Boxes, point: npt.NDArray[np.float64], opened: list[int]) -> list[int]:
    found = []
    for id in opened:
        of_kind = np.flatnonzero(boxes.kinds == id)
        inside = np.ones(len(of_kind), dtype=np.bool_)
        for j, place in enumerate(PLACES[id]):
            low, high = boxes.lows[boxes.starts[of_kind] + j], boxes.highs[boxes.starts[of_kind] + j]
            within = (low <= point[place]) & (point[place] <= high)
            inside &= (within if j < SHAPES[id][0] else ~within) & np.isfinite(point[place])
        found += boxes.rows[of_kind[inside]].tolist()
    return sorted(found)


def search(run: Run, point: npt.NDArray[np.float64], opened: list[int]) -> list[int]:
    out = np.empty(run.size + 64, dtype=np.int32)
    below = np.where(np.isneginf(point), np.inf, point)
    probes = np.array(opened, dtype=np.int32)
    found = kernels_in_use().search(*run.layout, probes, point, below, out, 0, run.size + 1)
    return sorted(out[:found].tolist())


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
    boxes = draw_boxes(draw, count, np.full(count, id, dtype=np.int32))
    run = Run(boxes, KINDS)
    for point in points(draw, 12 if count > 10_000 else 60):
        assert search(run, point, [id]) == brute_force(boxes, point, [id])


def test_kinds_are_kept_apart_and_unknown_ones_are_not_there(kernels: str) -> None:
    draw = np.random.default_rng(3)
    boxes = draw_boxes(draw, 5000, draw.integers(0, 3, 5000).astype(np.int32))
    run = Run(boxes, KINDS)
    for point in points(draw, 40):
        for opened in ([], [0], [2, 0], [1, 7], [0, 1, 2]):
            assert search(run, point, opened) == brute_force(boxes, point, [id for id in opened if id in KINDS])


def as_set(boxes: Boxes) -> set[tuple[int, int, tuple[float, ...], tuple[float, ...]]]:
    parts = [slice(a, b) for a, b in zip(boxes.starts[:-1].tolist(), boxes.starts[1:].tolist(), strict=True)]
    return {
        (kind, row, tuple(boxes.lows[part].tolist()), tuple(boxes.highs[part].tolist()))
        for kind, row, part in zip(boxes.kinds.tolist(), boxes.rows.tolist(), parts, strict=True)
    }


def test_a_run_gives_back_the_boxes_that_are_alive(kernels: str) -> None:
    draw = np.random.default_rng(4)
    boxes = draw_boxes(draw, 3000, draw.integers(0, 3, 3000).astype(np.int32))
    run = Run(boxes, KINDS)
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
    boxes = draw_boxes(draw, 1000, draw.integers(0, 3, 1000).astype(np.int32))
    parts = portions(boxes, 300)
    assert [len(part.rows) for part in parts] == [300, 300, 300, 100]
    assert as_set(joined(parts)) == as_set(boxes)
    together = np.concatenate([part.kinds for part in parts]).tolist()
    assert together == sorted(together)
