"""Filters that come and go: what a matcher holds, and the form it is in.

Filters become boxes (`boxes`) in a space (`space`). New boxes wait in a list; when it pays, the list becomes a run
(`run`) that the kernels search, and runs of like size are merged, so that there are few. A removal clears a flag.

Rules of this file: no call takes time in proportion to all that is stored, except `settle`, which is asked for; by
itself a store builds runs of at most `RUN_BOXES_MAX` boxes, which takes about 0.05 s (0.15 s in numpy). What is removed
is given back: a run is rebuilt when most of it is dead, and dead boxes are as many as a rebuild is worth.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from octopia.language import Filter, FilterLike, parse_filter
from octopia.matching.boxes import coded_strings, take_apart
from octopia.matching.filters import Filters
from octopia.matching.repeats import Repeats
from octopia.matching.run import BLOCK_BOXES, Boxes, Run, joined, portions
from octopia.matching.space import Space
from octopia.matching.waiting import Waiting

Id = TypeVar("Id", bound=Hashable)

RUN_BOXES_MAX = 65_536
WAITING_BOXES_MAX = RUN_BOXES_MAX
# A rebuild takes some hundreds of microseconds, however small: as long as it takes to remove so many.
REBUILD_DEAD_MIN = 128
# What `settle` makes, which may take its time.
SETTLED_RUN_BOXES_MAX = 1 << 20
INT64_END = 2**63
# A mask has a bit per group for every event of a batch, so the numbers must stay small.
GROUPS_MAX = 65_536
# Answers to one question are written to an array, which grows when one does not fit.
OUT_ROWS_MIN = 2 * BLOCK_BOXES
_IN_NO_RUN = -1
_IN_SEVERAL = -2

Rows = npt.NDArray[np.int32]


class Store(Generic[Id]):
    """Filters by id, as rows, boxes and runs."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        """Hold nothing; also when the last filter is gone, so that numbers given out start again from 0."""
        self._space = Space()
        self._row_of: dict[Id, int] = {}
        # integers as long as all ids are: picking many touches no object, only memory that lies together
        self._ids: npt.NDArray[Any] = np.empty(0, dtype=np.int64)
        self._integer_ids = True
        self._filters = Filters()
        self._free_rows: list[int] = []
        # per row: the run and slot of its box, the group, whether it has several boxes (and may be found twice), and
        # whether one is inexact (and may be found wrongly); grown in steps
        self._run_of: npt.NDArray[np.int32] = np.full(0, _IN_NO_RUN, dtype=np.int32)
        self._slot_of: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._group_of: npt.NDArray[np.int32] = np.full(0, -1, dtype=np.int32)
        self._has_several: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._is_inexact: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._several: dict[int, list[tuple[int, int]]] = {}
        self._inexact: dict[int, None] = {}
        self._repeats = Repeats()
        self._waiting = Waiting()
        self._runs: dict[int, Run] = {}
        self._next_run = 0
        self._out: Rows = np.empty(OUT_ROWS_MIN, dtype=np.int32)
        self._out_ids: npt.NDArray[np.int64] = np.empty(OUT_ROWS_MIN, dtype=np.int64)
        self._id_values: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the memory for answers."""
        spare = {"_out": self._out[:0], "_out_ids": self._out_ids[:0], "_id_values": None, "_repeats": Repeats()}
        return self.__dict__ | spare

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._out, self._out_ids = np.empty(OUT_ROWS_MIN, dtype=np.int32), np.empty(OUT_ROWS_MIN, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, id: Id) -> bool:
        return id in self._row_of

    def __iter__(self) -> Iterator[Id]:
        return iter(self._row_of)

    # -- filters come and go

    def add(self, id: Id, filter: FilterLike, group: int = -1) -> None:
        """Store a filter under an id that is not in use; with `group`, matches of it also count for that group."""
        if id in self._row_of:
            raise ValueError(f"id {id!r} is in the index already; remove it first")
        if not -1 <= group < GROUPS_MAX:
            raise ValueError(f"group {group} of id {id!r}: groups are numbered 0 to {GROUPS_MAX - 1:,}, -1 is none")
        wanted = filter if isinstance(filter, Filter) else parse_filter(filter)
        row = self._new_row(id, wanted)
        self._group_of[row] = group
        self._has_several[row] = len(wanted.conjunctions) > 1
        for conjunction in wanted.conjunctions:
            box = take_apart(conjunction, self._space.code_of)
            if box.inexact:
                self._inexact[row] = None
            self._waiting.add(row, self._space.take(box), box)
        self._is_inexact[row] = row in self._inexact
        if self._waiting.boxes >= WAITING_BOXES_MAX:
            self._flush()

    def remove(self, id: Id) -> None:
        """Take a filter out; an id that is not there is a KeyError."""
        row = self._row_of.pop(id)
        self._release_codes(self._filters.take_out(row))
        if row in self._waiting.rows:
            self._waiting.withdraw(row)
        else:
            self._free_rows.append(row)
            mostly_dead: dict[int, None] = {}
            for number, slot in self._places_of(row):
                run = self._runs[number]
                self._space.leave(run.remove(slot))
                if run.dead * 2 > run.size and (run.dead >= REBUILD_DEAD_MIN or not run.live):
                    mostly_dead[number] = None
            # only now: making a run anew moves boxes, of this row too
            for number in mostly_dead:
                if number in self._runs:
                    self._rebuild(number)
        self._several.pop(row, None)
        self._inexact.pop(row, None)
        self._run_of[row] = _IN_NO_RUN
        self._ids[row] = 0
        if not self._row_of:
            self._start_anew()

    def filter_of(self, id: Id) -> Filter:
        """The filter stored under an id."""
        found = self._filters[self._row_of[id]]
        assert found is not None, "a row in use has its filter"  # noqa: S101
        return found

    def runs(self) -> list[Run]:
        """The runs as they are, to look at: for drawings and figures on memory."""
        return list(self._runs.values())

    def settle(self) -> None:
        """Bring everything into the form that is searched fastest: worth it after loading many filters.

        Takes about 1 µs per stored filter (2 µs in numpy), and no time where there is nothing to gain. Without it the
        matcher brings itself into a good form by and by, in small steps.
        """
        self._flush()
        live, size = sum(run.live for run in self.runs()), sum(run.size for run in self.runs())
        if len(self._runs) <= -(-live // SETTLED_RUN_BOXES_MAX) and 4 * live >= 3 * size:
            return
        runs, self._runs = self._runs, {}
        for part in portions(joined([run.boxes() for run in runs.values()]), SETTLED_RUN_BOXES_MAX):
            self._make_run(part)

    def _flush(self) -> None:
        """Put waiting filters into runs."""
        if not self._waiting.boxes:
            return
        waiting, self._waiting = self._waiting, Waiting()
        staying, going = waiting.take_all()
        for kind, boxes in going.items():
            self._space.leave(kind, boxes)
        self._free_rows += waiting.withdrawn
        if len(staying.rows):
            for part in portions(staying, RUN_BOXES_MAX):
                self._add_run(part)

    # -- rows, boxes and runs

    def _new_row(self, id: Id, filter: Filter) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self._filters[row] = filter
        else:
            row = len(self._filters)
            self._filters.append(filter)
            if row >= len(self._run_of):
                more = max(64, row // 4)
                self._ids = np.concatenate([self._ids, np.zeros(more, dtype=self._ids.dtype)])
                self._run_of = np.concatenate([self._run_of, np.full(more, _IN_NO_RUN, dtype=np.int32)])
                self._slot_of = np.concatenate([self._slot_of, np.zeros(more, dtype=np.int32)])
                self._group_of = np.concatenate([self._group_of, np.full(more, -1, dtype=np.int32)])
                self._has_several = np.concatenate([self._has_several, np.zeros(more, dtype=np.bool_)])
                self._is_inexact = np.concatenate([self._is_inexact, np.zeros(more, dtype=np.bool_)])
        if self._integer_ids and not _fits_int64(id):
            self._integer_ids, self._ids = False, self._ids.astype(object)
            for run in self._runs.values():
                run.layout_by_id = None
        self._ids[row] = id
        self._id_values = None
        self._row_of[id] = row
        return row

    def _places_of(self, row: int) -> list[tuple[int, int]]:
        number = int(self._run_of[row])
        return self._several[row] if number == _IN_SEVERAL else [(number, int(self._slot_of[row]))]

    def _is_there(self, number: int, slot: int) -> bool:
        """Whether a place still holds its box: the run is there, and the box has not moved on."""
        run = self._runs.get(number)
        return run is not None and slot >= run.moved

    def _release_codes(self, filter: Filter) -> None:
        for conjunction in filter.conjunctions:
            for attribute, text in coded_strings(conjunction):
                self._space.release_code(attribute, text)

    def _rebuild(self, number: int) -> None:
        """Make a new run of what is left, or of as much of it as one run may hold: the rest follows the next time."""
        run = self._runs[number]
        stop = run.size if run.live <= RUN_BOXES_MAX else run.moved + RUN_BOXES_MAX
        live = run.boxes(stop)
        run.move_on(stop)
        if stop == run.size:
            del self._runs[number]
        if len(live.rows):
            self._add_run(live)

    def _add_run(self, boxes: Boxes) -> None:
        """Make a run, together with smaller ones that are not worth keeping apart."""
        size = len(boxes.rows)
        parts = [boxes]
        for number, run in reversed(list(self._runs.items())):
            if run.live <= 2 * size and run.live + size <= RUN_BOXES_MAX:
                del self._runs[number]
                parts.append(run.boxes())
                size += run.live
        self._make_run(joined(parts))

    def _make_run(self, boxes: Boxes) -> None:
        self._enter(self._next_run, Run(boxes, self._space.kind))
        self._next_run += 1

    def _enter(self, number: int, run: Run) -> None:
        """Count a run in, and note where its boxes are."""
        rows = run.layout.rows
        slots = np.arange(len(rows), dtype=np.int32)
        many = self._has_several[rows]
        self._run_of[rows] = np.where(many, _IN_SEVERAL, number)
        self._slot_of[rows] = slots
        for row in dict.fromkeys(rows[many].tolist()):
            kept = self._several.get(row, ())
            self._several[row] = [place for place in kept if self._is_there(*place)]
        self._runs[number] = run
        if self._integer_ids:
            run.layout_by_id = run.layout._replace(rows=self._ids[rows])
        for row, slot in zip(rows[many].tolist(), slots[many].tolist(), strict=True):
            self._several[row].append((number, slot))
        if max(len(self._out), len(self._out_ids)) > OUT_ROWS_MIN + 4 * sum(run.size for run in self._runs.values()):
            self._out, self._out_ids = self._out[:OUT_ROWS_MIN].copy(), self._out_ids[:OUT_ROWS_MIN].copy()


def _fits_int64(id: object) -> bool:
    return type(id) is int and -INT64_END <= id < INT64_END
