"""A run: boxes in an order and a form that can be searched quickly, built once and never changed but for removals.

Boxes of one kind lie together, as columns of lower and upper bounds. Within a kind they are in k-d order: split in two
again and again, at the middle of the dimension in which the two halves overlap least, down to blocks of at most 64. The
splits form a tree; each node knows the bounds of all boxes below it, and where to go on when an event lies outside of
them. So the search walks a flat array, and a block is compared with plain loops over columns.

Rules of this file: numpy only, and no loop over boxes in Python. A removal clears a flag; a run with more removed than
live boxes is to be built anew by its owner, a large one piece by piece: `moved` is how far that has come. How large a
run is, is its owner's affair: building takes 2 to 3 µs per box, and larger ones are searched faster than many small.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching.space import BoxKind

BLOCK_BOXES = 64
_SAMPLE = 128

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class Boxes(NamedTuple):
    """Boxes of one kind as columns: `lows` and `highs` have one line per dimension."""

    rows: Rows
    lows: Floats
    highs: Floats


class Layout(NamedTuple):
    """The arrays of a run, as the kernels take them.

    `local`: kind id -> line in `kinds`, or -1. `kinds`: per kind the first node, slot, cell, dimension and bound; one
    more line closes the last. `places`: the dimensions of each kind. `nodes`: where to go on when outside, and the
    slots from .. to of a leaf (-1 for an inner node). `bounds`: per node and dimension the least lower and the greatest
    upper bound of its boxes (outside of them none matches), then the greatest lower and the least upper bound (inside
    of them all do). `cells_*`: per kind, dimension and slot. `rows`, `alive`: per slot.
    """

    local: Rows
    kinds: Ints
    places: Rows
    nodes: Rows
    bounds: Floats
    cells_low: Floats
    cells_high: Floats
    rows: Rows
    alive: npt.NDArray[np.uint8]


class Run:
    """Boxes of any kinds, laid out for searching."""

    __slots__ = ("dead", "dimensions", "kind_ids", "layout", "moved")

    def __init__(self, by_kind: Mapping[int, Boxes], kinds: Mapping[int, BoxKind]) -> None:
        self.kind_ids = sorted(by_kind)
        self.dimensions = {kind: kinds[kind].dimensions for kind in self.kind_ids}
        self.layout = _lay_out(self.kind_ids, by_kind, {kind: kinds[kind].places for kind in self.kind_ids})
        self.dead = 0
        self.moved = 0

    @property
    def size(self) -> int:
        """Slots, dead ones counted."""
        return len(self.layout.rows)

    @property
    def live(self) -> int:
        return self.size - self.dead

    def remove(self, slot: int) -> None:
        self.layout.alive[slot] = 0
        self.dead += 1

    def boxes(self, *, alive: bool = True, stop: int | None = None) -> dict[int, Boxes]:
        """The boxes that are alive, or those that are not, by kind; of the slots from `moved` to `stop`."""
        found: dict[int, Boxes] = {}
        layout = self.layout
        stop = self.size if stop is None else stop
        for line, kind in enumerate(self.kind_ids):
            (_, slot, cell, place, _), (_, slot_end, cell_end, place_end, _) = layout.kinds[line : line + 2].tolist()
            first, last = max(slot, self.moved), min(slot_end, stop)
            chosen = layout.alive[first:last] == alive
            if chosen.any():
                shape = (place_end - place, slot_end - slot)
                cut = slice(first - slot, last - slot)
                found[kind] = Boxes(
                    layout.rows[first:last][chosen],
                    layout.cells_low[cell:cell_end].reshape(shape)[:, cut][:, chosen],
                    layout.cells_high[cell:cell_end].reshape(shape)[:, cut][:, chosen],
                )
        return found

    def move_on(self, stop: int) -> None:
        """The slots before `stop` have gone to another run."""
        self.dead += int(self.layout.alive[self.moved : stop].sum())
        self.layout.alive[self.moved : stop] = 0
        self.moved = stop

    @property
    def bytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for array in self.layout)


def joined(parts: list[Boxes]) -> Boxes:
    """Boxes of the same kind from several runs as one."""
    if len(parts) == 1:
        return parts[0]
    return Boxes(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.lows for part in parts], axis=1),
        np.concatenate([part.highs for part in parts], axis=1),
    )


def _lay_out(kind_ids: list[int], by_kind: Mapping[int, Boxes], places: Mapping[int, tuple[int, ...]]) -> Layout:
    trees = {kind: _Tree(by_kind[kind].lows, by_kind[kind].highs) for kind in kind_ids}
    sizes = [
        (len(trees[k].nodes), len(by_kind[k].rows), by_kind[k].lows.size, len(places[k]), trees[k].bounds.size // 4)
        for k in kind_ids
    ]
    kinds = np.zeros((len(kind_ids) + 1, 5), dtype=np.int64)
    np.cumsum(np.array(sizes, dtype=np.int64).reshape(-1, 5), axis=0, out=kinds[1:])
    local = np.full(max(kind_ids, default=-1) + 1, -1, dtype=np.int32)
    local[kind_ids] = np.arange(len(kind_ids), dtype=np.int32)
    nodes = []
    for line, kind in enumerate(kind_ids):
        first_node, first_slot = kinds[line, :2]
        shifted = trees[kind].nodes.copy()
        shifted[:, 0] += first_node
        shifted[shifted[:, 1] >= 0, 1:] += first_slot
        nodes.append(shifted)
    orders = [(by_kind[k], trees[k].order) for k in kind_ids]
    return Layout(
        local=local,
        kinds=kinds,
        places=np.array([place for k in kind_ids for place in places[k]], dtype=np.int32),
        nodes=np.ascontiguousarray(np.concatenate(nodes), dtype=np.int32),
        bounds=np.concatenate([trees[k].bounds.reshape(-1, 4) for k in kind_ids]),
        cells_low=np.concatenate([boxes.lows[:, order].ravel() for boxes, order in orders]),
        cells_high=np.concatenate([boxes.highs[:, order].ravel() for boxes, order in orders]),
        rows=np.concatenate([boxes.rows[order] for boxes, order in orders]).astype(np.int32, copy=False),
        alive=np.ones(sum(len(boxes.rows) for boxes, _ in orders), dtype=np.uint8),
    )


class _Tree:
    """The k-d order of boxes of one kind, and the nodes above it in the order of a walk."""

    def __init__(self, lows: Floats, highs: Floats) -> None:
        count = lows.shape[1]
        self._lows, self._highs = lows, highs
        self._finite_low, self._finite_high = _without_infinities(lows, highs)
        self.order = np.arange(count)
        # (go on when outside, first slot, last slot), preorder
        nodes: list[list[int]] = []
        bounds: list[Floats] = []
        waiting: list[tuple[int, int, int]] = [(0, count, -1)]
        open_nodes: list[tuple[int, int]] = []
        while waiting:
            start, stop, _ = waiting.pop()
            while open_nodes and open_nodes[-1][1] <= start:
                nodes[open_nodes.pop()[0]][0] = len(nodes)
            here = self.order[start:stop]
            low, high = lows[:, here], highs[:, here]
            bounds.append(np.stack([low.min(axis=1), high.max(axis=1), low.max(axis=1), high.min(axis=1)], axis=1))
            open_nodes.append((len(nodes), stop))
            if stop - start <= BLOCK_BOXES:
                nodes.append([0, start, stop])
                continue
            nodes.append([0, -1, -1])
            middle = start + _whole_blocks((stop - start) // 2)
            self._split(start, stop, middle)
            waiting += [(middle, stop, 0), (start, middle, 0)]
        for number, _ in open_nodes:
            nodes[number][0] = len(nodes)
        self.nodes = np.array(nodes, dtype=np.int64)
        self.bounds = np.array(bounds)

    def _split(self, start: int, stop: int, middle: int) -> None:
        """Put the boxes that come first in the best dimension before `middle`."""
        here = self.order[start:stop]
        if not len(self._lows):
            return
        dimension = self._best_dimension(here) if len(self._lows) > 1 else 0
        centre = self._finite_low[dimension, here] + self._finite_high[dimension, here]
        self.order[start:stop] = here[np.argpartition(centre, middle - start)]

    def _best_dimension(self, here: npt.NDArray[np.int64]) -> int:
        """The dimension in which the halves of a sample together reach least beyond the whole."""
        sample = here[:: max(1, len(here) // _SAMPLE)]
        low, high = self._finite_low[:, sample], self._finite_high[:, sample]
        ranked = np.argsort(low + high, axis=1, kind="stable")
        low, high = np.take_along_axis(low, ranked, 1), np.take_along_axis(high, ranked, 1)
        half = low.shape[1] // 2
        reach = (high[:, :half].max(1) - low[:, :half].min(1)) + (high[:, half:].max(1) - low[:, half:].min(1))
        whole = high.max(1) - low.min(1)
        # a dimension in which all are alike separates nothing
        cost = np.where(whole > 0, reach / np.where(whole > 0, whole, 1.0), np.inf)
        return int(np.argmin(cost))


def _whole_blocks(boxes: int) -> int:
    """So many boxes, rounded up to full blocks: only the last block of a kind is short."""
    return -(-boxes // BLOCK_BOXES) * BLOCK_BOXES


def _without_infinities(lows: Floats, highs: Floats) -> tuple[Floats, Floats]:
    """Bounds for measuring: an open end lies just past the last finite one."""
    if not lows.size:
        return lows, highs
    big = 1e300
    low, high = np.clip(lows, -big, big), np.clip(highs, -big, big)
    finite = np.where(np.abs(np.concatenate([low, high], axis=1)) < big, np.concatenate([low, high], axis=1), np.nan)
    none = np.isnan(finite).all(axis=1, keepdims=True)
    finite = np.where(none, 0.0, finite)
    least, most = np.nanmin(finite, axis=1, keepdims=True), np.nanmax(finite, axis=1, keepdims=True)
    return np.clip(low, least - 1, most + 1), np.clip(high, least - 1, most + 1)
