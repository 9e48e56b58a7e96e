"""The filters of a matcher, and their layout as they come and go.

Filters become boxes (`boxes`) in a space (`space`). New boxes wait in a list; when it pays, the list becomes a run
(`run`) that the kernels search, and runs of like size are merged, so that there are few. A removal clears a flag.

No call takes time proportional to the number of stored filters, except an explicit `settle`. At once, a store builds
runs of at most `AT_ONCE_BOXES_MAX` boxes, which takes about a millisecond. Larger ones, up to `RUN_BOXES_MAX`, are
merged from these in steps (`merge`), one merge at a time: each filter that comes or goes, and each notification, does a
little of the work. In numpy a merge is one step of up to 0.15 s. Removed filters free their memory: a run is rebuilt
when most of it is dead and enough boxes are dead to be worth a rebuild.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from octopia.language import Filter, FilterLike, parse_filter
from octopia.matching.box_run import BLOCK_BOXES, Boxes, Run, joined, portions
from octopia.matching.boxes import Box, coded_strings, take_apart
from octopia.matching.filters import Filters
from octopia.matching.merge import Merge
from octopia.matching.repeats import Repeats
from octopia.matching.search_table import SearchTable
from octopia.matching.sharded import BLOCK_BITS, ShardedDict
from octopia.matching.space import Space
from octopia.matching.waiting import Waiting

Id = TypeVar("Id", bound=Hashable)

RUN_BOXES_MAX = 65_536
AT_ONCE_BOXES_MAX = 4_096
WAITING_BOXES_MAX = AT_ONCE_BOXES_MAX
# The number of boxes that a merge processes for each filter that comes or goes, at 13 ns each. A box is processed about
# 15 times in a merge and merged 4 times before its run is full, so merges keep up. The same for a notification.
WORK_PER_CHANGE = 256
WORK_PER_EVENT = 64
# Work is done when this much is due: a step takes about 0.2 ms, or as long as the largest piece takes to split, 1 ms.
WORK_STEP = 16_384
# From this many notifications per box on, it pays to merge runs of different size, too.
SEARCHES_PER_BOX = 2
NEVER = 1 << 62
# Arrays with a line per row grow by at most this many lines: the system moves large arrays without copying them.
MORE_ROWS_MAX = 32_768
# A rebuild takes some hundreds of microseconds, however small: as long as this many removals.
REBUILD_DEAD_MIN = 128
# The size of runs that `settle` builds; it may take longer.
SETTLED_RUN_BOXES_MAX = 1 << 20
INT64_END = 2**63
# A mask has a bit per group for every event of a batch, so the numbers must stay small.
GROUPS_MAX = 65_536
# Answers to one question are written to an array, which grows if one does not fit.
OUT_ROWS_MIN = 2 * BLOCK_BOXES
_IN_NO_RUN = -1
_IN_SEVERAL = -2
# The arrays with a line per row, and what is in new lines.
_PER_ROW = (
    ("_ids", 0),
    ("_run_of", _IN_NO_RUN),
    ("_slot_of", 0),
    ("_group_of", -1),
    ("_has_several", False),
    ("_is_inexact", False),
)

Rows = npt.NDArray[np.int32]


class Store(Generic[Id]):
    """Filters by id, as rows, boxes and runs."""

    def __init__(self) -> None:
        # counts whatever may replace or resize an array that is searched
        self.changes = 0
        self._table: SearchTable | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        """Reset to empty; also when the last filter is gone, so that numbers start again from 0."""
        self._space = Space()
        self._row_of: ShardedDict[Id, int] = ShardedDict()
        self._count = 0
        # integers as long as all ids are: selecting many touches no objects, only contiguous memory
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
        self._rows_max = 0  # room in all of these
        self._grown = 0  # how many of them have more
        self._repeats = Repeats()
        self._waiting = Waiting()
        self._runs: dict[int, Run] = {}
        self._next_run = 0
        self._merge: Merge | None = None
        self._is_merged = True  # nothing is left to merge until a run comes
        self._work_due = 0
        # notifications since the last merge began, and how many make another one pay; see `_attend`
        self._searched = 0
        self._pays_at = 0
        self._out: Rows = np.empty(OUT_ROWS_MIN, dtype=np.int32)
        self._out_ids: npt.NDArray[np.int64] = np.empty(OUT_ROWS_MIN, dtype=np.int64)
        self._out_many: Rows = np.empty(OUT_ROWS_MIN, dtype=np.int32)
        self._id_values: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the buffers for answers."""
        spare = {"_out": self._out[:0], "_out_ids": self._out_ids[:0], "_out_many": self._out_many[:0]}
        return self.__dict__ | spare | {
            "_id_values": None, "_repeats": Repeats(), "_merge": None, "_is_merged": False, "_table": None,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._out, self._out_ids = np.empty(OUT_ROWS_MIN, dtype=np.int32), np.empty(OUT_ROWS_MIN, dtype=np.int64)
        self._out_many = np.empty(OUT_ROWS_MIN, dtype=np.int32)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, id: Id) -> bool:
        return id in self._row_of.part(id)

    def __iter__(self) -> Iterator[Id]:
        return iter(self._row_of)

    # -- filters come and go

    def add(self, id: Id, filter: FilterLike, group: int = -1) -> None:
        """Store a filter under an id that is not in use; with `group`, matches of it also count for that group."""
        row_of = self._row_of.parts[hash(id) >> BLOCK_BITS & self._row_of.last]
        if id in row_of:
            raise ValueError(f"id {id!r} is in the index already; remove it first")
        if not -1 <= group < GROUPS_MAX:
            raise ValueError(f"group {group} of id {id!r}: groups are numbered 0 to {GROUPS_MAX - 1:,}, -1 is none")
        wanted = filter if isinstance(filter, Filter) else parse_filter(filter)
        self.changes += 1
        row = row_of[id] = self._new_row(id, wanted)
        self._count += 1
        self._group_of[row] = group
        boxes = self._boxes_of(wanted)
        self._has_several[row] = len(boxes) > 1
        for box in boxes:
            if box.inexact:
                self._inexact[row] = None
            self._waiting.add(row, self._space.take(box), box)
        self._is_inexact[row] = row in self._inexact
        if self._waiting.boxes >= WAITING_BOXES_MAX:
            self._row_of.split_if_large()
            self._flush()
        if not self._is_merged:
            self._work(WORK_PER_CHANGE)

    def remove(self, id: Id) -> None:
        """Remove a filter; KeyError for an unknown id."""
        row = self._row_of.parts[hash(id) >> BLOCK_BITS & self._row_of.last].pop(id)
        self._count -= 1
        self.changes += 1
        self._release_codes(self._filters.take_out(row))
        if row in self._waiting.rows:
            self._waiting.withdraw(row)
        else:
            self._free_rows.append(row)
            mostly_dead: dict[int, None] = {}
            for number, slot in self._places_of(row):
                run = self._runs[number]
                self._space.leave(run.remove(slot))
                if _is_mostly_dead(run):
                    mostly_dead[number] = None
            # only now: rebuilding a run moves boxes, also those of this row
            for number in mostly_dead:
                if number in self._runs:
                    self._rebuild(number)
            if not self._is_merged:
                self._work(WORK_PER_CHANGE)
        self._several.pop(row, None)
        self._inexact.pop(row, None)
        self._run_of[row] = _IN_NO_RUN
        self._ids[row] = 0
        if not self._count:
            self._start_anew()

    def filter_of(self, id: Id) -> Filter:
        """The filter stored under an id."""
        found = self._filters[self._row_of[id]]
        assert found is not None, "a row in use has its filter"  # noqa: S101
        return found

    def runs(self) -> list[Run]:
        """The current runs, read-only: for drawings and memory figures."""
        return list(self._runs.values())

    def settle(self) -> None:
        """Optimise the layout for searching; worthwhile after loading many filters.

        Takes about 1 µs per stored filter (2 µs in numpy), and no time if there is nothing to gain. Without it the
        matcher improves its layout gradually, in small steps.
        """
        self._flush()
        self._merge = None
        self._is_merged = False
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
        self.changes += 1
        waiting, self._waiting = self._waiting, Waiting()
        staying, going = waiting.take_all()
        for kind, boxes in going.items():
            self._space.leave(kind, boxes)
        self._free_rows += waiting.withdrawn
        if len(staying.rows):
            for part in portions(staying, AT_ONCE_BOXES_MAX):
                self._add_run(part)

    # -- rows, boxes and runs

    def _boxes_of(self, filter: Filter) -> list[Box]:
        """The boxes of a filter in the space; `_release_codes` releases the codes counted there."""
        code_of = self._space.code_of
        return [take_apart(conjunction, code_of) for conjunction in filter.conjunctions]

    def _new_row(self, id: Id, filter: Filter) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self._filters[row] = filter
        else:
            row = len(self._filters)
            self._filters.append(filter)
            if row + len(_PER_ROW) > self._rows_max:
                self._make_room(row)
        if self._integer_ids and not _fits_int64(id):
            self._integer_ids, self._ids = False, self._ids.astype(object)
            for run in self._runs.values():
                run.layout_by_id = None
        self._ids[row] = id
        self._id_values = None
        return row

    def _make_room(self, row: int) -> None:
        """Let the next array grow, before this row needs it; all of them if it does: it may take a millisecond each."""
        while True:
            name, new = _PER_ROW[self._grown]
            array = getattr(self, name)
            if not array.flags.owndata:
                # of an unpickled matcher
                array = array.copy()
                setattr(self, name, array)
            array.resize(self._rows_max + min(max(64, self._rows_max // 4), MORE_ROWS_MAX), refcheck=False)
            array[self._rows_max :] = new
            self._grown += 1
            if self._grown == len(_PER_ROW):
                self._grown, self._rows_max = 0, len(array)
            if row < self._rows_max:
                return

    def _places_of(self, row: int) -> list[tuple[int, int]]:
        number = int(self._run_of[row])
        return self._several[row] if number == _IN_SEVERAL else [(number, int(self._slot_of[row]))]

    def _is_there(self, number: int, slot: int) -> bool:
        """Whether a place still holds its box: the run exists, and the box has not moved."""
        run = self._runs.get(number)
        return run is not None and slot >= run.moved

    def _release_codes(self, filter: Filter) -> None:
        for conjunction in filter.conjunctions:
            for attribute, text in coded_strings(conjunction):
                self._space.release_code(attribute, text)

    def _rebuild(self, number: int) -> None:
        """Build a new run from the live boxes of one that is mostly dead: at once if they are few."""
        run = self._runs[number]
        if self._merge is not None and number in self._merge:
            return
        if run.live > AT_ONCE_BOXES_MAX:
            self._is_merged = False
            return
        del self._runs[number]
        if run.live:
            self._add_run(run.boxes())

    def _add_run(self, boxes: Boxes) -> None:
        """Build a run, merged with smaller ones that are not worth keeping separate: at once as far as they are few."""
        size = len(boxes.rows)
        parts = [boxes]
        for number, run in reversed(list(self._runs.items())):
            is_free = self._merge is None or number not in self._merge
            if is_free and run.live <= 2 * size and run.live + size <= AT_ONCE_BOXES_MAX:
                del self._runs[number]
                parts.append(run.boxes())
                size += run.live
        self._make_run(joined(parts))

    def _begin_merge(self) -> None:
        """Begin to rebuild a run that is mostly dead, or to merge runs of like size, if there are any."""
        chosen = self._dead_run() or self._runs_of_like_size()
        if not chosen and self._searched >= self._pays_at:
            chosen = self._two_runs()
            self._pays_at = SEARCHES_PER_BOX * sum(run.live for _, run, _ in chosen) or NEVER
            if self._searched < self._pays_at:
                chosen = []
        self._is_merged = not chosen
        if chosen:
            self._merge = Merge(chosen, self._space.kind)
            self._searched = self._pays_at = 0

    def _two_runs(self) -> list[tuple[int, Run, int]]:
        """The two smallest, if they fit into one."""
        by_size = sorted((run.live, number) for number, run in self._runs.items())[:2]
        if len(by_size) < 2 or sum(live for live, _ in by_size) > RUN_BOXES_MAX:
            return []
        return [(number, self._runs[number], self._runs[number].size) for _, number in by_size]

    def _attend(self, events: int) -> None:
        """Before a search for `events` notifications: continue a merge, or check whether another one pays.

        Searching one more run takes about a tenth of a microsecond, and merging takes about twice that for each box.
        """
        self._searched += events
        if not self._is_merged:
            self._work(WORK_PER_EVENT * events)
        elif self._searched >= self._pays_at:
            self._begin_merge()

    def _dead_run(self) -> list[tuple[int, Run, int]]:
        """A run that is mostly dead: as many of its boxes as one run may hold; the rest follows next time."""
        for number, run in self._runs.items():
            if _is_mostly_dead(run) and run.live:
                return [(number, run, run.size if run.live <= RUN_BOXES_MAX else run.moved + RUN_BOXES_MAX)]
        return []

    def _runs_of_like_size(self) -> list[tuple[int, Run, int]]:
        """The smallest runs that make a larger one: each has at most twice as many boxes as those before it."""
        by_size = sorted((run.live, number) for number, run in self._runs.items() if run.live <= RUN_BOXES_MAX // 2)
        for first in range(len(by_size) - 1):
            size = 0
            numbers: list[int] = []
            for live, number in by_size[first:]:
                if size + live > RUN_BOXES_MAX or (numbers and live > 2 * size):
                    break
                size += live
                numbers.append(number)
            if len(numbers) > 1:
                return [(number, self._runs[number], self._runs[number].size) for number in numbers]
        return []

    def _work(self, boxes: int) -> None:
        """Continue merging; many small pieces of work are done together. Beginning and ending are steps, too."""
        self._work_due += boxes
        if self._work_due < WORK_STEP:
            return
        due, self._work_due = self._work_due, 0
        if self._merge is None:
            self._begin_merge()
        elif self._merge.work(due):
            made, self._merge = self._merge.finish(self._runs), None
            self.changes += 1
            if made.size:
                self._enter(self._next_run, made)
                self._next_run += 1

    def _make_run(self, boxes: Boxes) -> None:
        self._enter(self._next_run, Run.of(boxes, self._space.kind))
        self._next_run += 1

    def _enter(self, number: int, run: Run) -> None:
        """Register a run and the places of its boxes."""
        self.changes += 1
        self._is_merged, self._pays_at = False, 0
        slots = np.arange(run.size)
        if run.dead:
            # a row whose box is dead may belong to another filter by now
            slots = slots[run.is_alive(slots)]
        rows = run.layout.rows[slots]
        many = self._has_several[rows]
        self._run_of[rows] = np.where(many, _IN_SEVERAL, number)
        self._slot_of[rows] = slots
        for row in dict.fromkeys(rows[many].tolist()):
            kept = self._several.get(row, ())
            self._several[row] = [place for place in kept if self._is_there(*place)]
        self._runs[number] = run
        if self._integer_ids:
            run.layout_by_id = run.layout._replace(rows=self._ids[run.layout.rows])
        for row, slot in zip(rows[many].tolist(), slots[many].tolist(), strict=True):
            self._several[row].append((number, slot))
        if max(len(self._out), len(self._out_ids)) > OUT_ROWS_MIN + 4 * sum(run.size for run in self._runs.values()):
            self._out, self._out_ids = self._out[:OUT_ROWS_MIN].copy(), self._out_ids[:OUT_ROWS_MIN].copy()


def _is_mostly_dead(run: Run) -> bool:
    return run.dead * 2 > run.size and (run.dead >= REBUILD_DEAD_MIN or not run.live)


def _fits_int64(id: object) -> bool:
    return type(id) is int and -INT64_END <= id < INT64_END
