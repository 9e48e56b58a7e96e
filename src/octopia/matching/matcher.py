"""`octopia.Matcher`: stored filters by id, and which of them a notification matches.

Results are exactly those of `octopia.matches` on every stored filter, each id once. Not thread-safe.

Filters become boxes (`boxes`) in a space (`space`). New boxes wait (`waiting`); when it pays, they become a run
(`box_run`), and runs of like size are merged, so that there are few. A removal clears a flag. Compiled code searches
all of it in one call (`find_numba`), for notifications that are given as tokens; numpy does it batch by batch
(`kernels_numpy`).

No call takes time proportional to the number of stored filters, except an explicit `settle`, the first search, and
what a ladder asks for (`ladder`). At once, a matcher builds runs of at most `AT_ONCE_BOXES_MAX` boxes, which takes
about a millisecond. Larger ones, up to `RUN_BOXES_MAX`, are merged from these in steps (`merge`), one merge at a time:
each filter that comes or goes, and each notification, does a little of the work. In numpy a merge is one step of up to
0.15 s. Removed filters free their memory: a run is rebuilt when most of it is dead and enough boxes are dead to be
worth a rebuild.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from octopia.language import (
    Filter,
    FilterLike,
    Notification,
    NotificationLike,
    Value,
    matches,
    overlaps,
    parse_filter,
    parse_notification,
)
from octopia.matching import answers
from octopia.matching.answers import AnswerRoom, Answers
from octopia.matching.box_run import BLOCK_BOXES, Boxes, Rows, Run, joined, portions
from octopia.matching.boxes import Parts, parts_of
from octopia.matching.columns import Columns, columns_of, values_of
from octopia.matching.filters import Filters
from octopia.matching.kernels import compiled, kernels
from octopia.matching.ladder import Relabelled
from octopia.matching.merge import Merge
from octopia.matching.mirror import Mirror
from octopia.matching.overlap import OverlapQuestions, Stored
from octopia.matching.own_tokens import OwnTokens
from octopia.matching.points import Sides, point_of
from octopia.matching.row_table import IN_NO_RUN, IN_SEVERAL, RowTable
from octopia.matching.sharded import BLOCK_BITS, ShardedDict
from octopia.matching.space import FEW_ATTRIBUTES_MAX, Space, waiting_tests
from octopia.matching.tokens import Names
from octopia.matching.waiting import Waiting
from octopia.sheets import Sheet

if TYPE_CHECKING:
    import pyarrow as pa

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
# A rebuild takes some hundreds of microseconds, however small: as long as this many removals.
REBUILD_DEAD_MIN = 128
# The size of runs that `settle` builds; it may take longer.
SETTLED_RUN_BOXES_MAX = 1 << 20
# A mask has a bit per group for every event of a batch, so the numbers must stay small.
GROUPS_MAX = 65_536
# Answers to one question are written to an array, which grows if one does not fit. This is enough for none.
OUT_ROWS_MIN = 2 * BLOCK_BOXES + 1
# Waiting filters that are tested in Python, for questions about filters, in the time that it takes to build a run.
PYTHON_TESTS_MAX = 256
# Pairs of conjunctions that are tested for overlap in the time that a search takes to begin.
TESTED_PAIRS_MAX = 4
# Numbers in the array of points that are searched for together in numpy: one per place and event.
TOGETHER_NUMBERS_MAX = 1 << 18
# Lines of the sheet that answers are written to: rows, ids, and how many each event has.
_OUT_ROWS, _OUT_IDS, _OUT_COUNTS = range(3)


class Matcher(Generic[Id]):
    """An index of filters. Ids are any hashable; `group` sorts ids into numbered groups, see `match_groups`.

    Examples:
        >>> matcher = Matcher()
        >>> matcher.add("cheap", "price < 10")
        >>> matcher.add("tech", "symbol in ('AAPL', 'MSFT')")
        >>> matcher.match({"symbol": "AAPL", "price": 120})
        ['tech']
    """

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        """Reset to empty; also when the last filter is gone, so that numbers start again from 0."""
        self._space = Space()
        self._row_of: ShardedDict[Id, int] = ShardedDict()
        self._count = 0
        self._rows = RowTable()
        self._filters = Filters()
        self._free_rows: list[int] = []
        # the runs and slots of rows with several boxes, and how many rows have several, here or waiting
        self._several: dict[int, list[tuple[int, int]]] = {}
        self._several_count = 0
        # rows with a conjunction that nothing satisfies, which has no box
        self._unsatisfiable: dict[int, None] = {}
        self._waiting = Waiting()
        self._runs: dict[int, Run] = {}
        self._next_run = 0
        self._merge: Merge | None = None
        self._is_merged = True  # nothing is left to merge until a run comes
        self._work_due = 0
        # notifications since the last merge began, and how many make another one pay; see `attend`
        self._searched = 0
        self._pays_at = 0
        self._id_values: Any = None
        self._start_searching()

    def _start_searching(self) -> None:
        """What searches need besides the filters, made on first use."""
        self._mirror: Mirror | None = None
        self._is_fresh = False  # the mirror has the present runs and waiting boxes
        self._own = OwnTokens()
        self._out = Sheet(3)
        self._make_out(OUT_ROWS_MIN, np.int32)
        self._make_out(OUT_ROWS_MIN, np.int64)
        self._out.put(_OUT_COUNTS, np.zeros(1, dtype=np.int64))

    def __getstate__(self) -> dict[str, Any]:
        """Everything except what searches need."""
        left_out = ("_mirror", "_is_fresh", "_own", "_out")
        kept = {name: value for name, value in self.__dict__.items() if name not in left_out}
        return kept | {"_id_values": None, "_merge": None, "_is_merged": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_searching()

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
        row = row_of[id] = self._new_row(wanted)
        self._count += 1
        had_integer_ids = self._rows.has_integer_ids
        self._rows.use(row, id, group)
        if had_integer_ids and not self._rows.has_integer_ids:
            for run in self._runs.values():
                run.ids = None
        self._id_values = None
        self._add_boxes(row, wanted)
        if self._waiting.boxes >= WAITING_BOXES_MAX:
            self._row_of.split_if_large()
            self._flush()
        if not self._is_merged:
            self._work(WORK_PER_CHANGE)

    def _new_row(self, filter: Filter) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self._filters[row] = filter
        else:
            row = len(self._filters)
            self._filters.append(filter)
        return row

    def _add_boxes(self, row: int, filter: Filter) -> None:
        """Let the boxes of a new row wait."""
        space, waiting = self._space, self._waiting
        all_parts = self._parts_of(filter)
        some = [parts for parts in all_parts if parts is not None]
        # first all of them: that may change labels, and so bounds
        for parts in some:
            for place, relabelled in space.hold(parts):
                self._map_bounds(place, relabelled)
        for parts in some:
            tests, checks = space.tests.number(parts.tests), space.tests.number(waiting_tests(parts))
            waiting.add(row, space.take(parts), space.bounds(parts), tests, checks)
        self._is_fresh = False
        if len(some) > 1:
            self._rows.has_several[row] = True
            self._several_count += 1
        if len(some) < len(all_parts):
            self._unsatisfiable[row] = None

    def _parts_of(self, filter: Filter) -> list[Parts | None]:
        """The parts of each conjunction of a filter; the same every time."""
        return [parts_of(conjunction) for conjunction in filter.conjunctions]

    def _map_bounds(self, place: int, relabelled: Relabelled) -> None:
        """The bounds of all boxes in a dimension have new labels. Their order stays, and so do all trees."""
        for run in self._runs.values():
            run.map_bounds(place, relabelled.map)
        self._waiting.map_bounds(place, relabelled.map)
        if self._merge is not None:
            # it has copies of the old ones
            self._merge, self._is_merged = None, False

    def remove(self, id: Id) -> None:
        """Remove a filter; KeyError for an unknown id."""
        row = self._row_of.parts[hash(id) >> BLOCK_BITS & self._row_of.last].pop(id)
        self._count -= 1
        for parts in self._parts_of(self._filters.take_out(row)):
            if parts is not None:
                self._space.release(parts)
        if row in self._waiting.first_of:
            for kind in self._waiting.withdraw(row):
                self._space.leave(kind)
        else:
            self._remove_from_runs(row)
        if self._rows.has_several[row]:
            self._rows.has_several[row] = False
            self._several_count -= 1
            self._several.pop(row, None)
            self._is_fresh = False
        self._unsatisfiable.pop(row, None)
        self._rows.run_of[row] = IN_NO_RUN
        self._rows.ids[row] = 0
        self._free_rows.append(row)
        if not self._count:
            self._start_anew()

    def _remove_from_runs(self, row: int) -> None:
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
        self._is_fresh = False
        boxes = self._waiting.take_all()
        if len(boxes.rows):
            for part in portions(boxes, AT_ONCE_BOXES_MAX):
                self._add_run(part)

    # -- runs

    def _places_of(self, row: int) -> list[tuple[int, int]]:
        number = int(self._rows.run_of[row])
        if number == IN_SEVERAL:
            return self._several[row]
        return [] if number == IN_NO_RUN else [(number, int(self._rows.slot_of[row]))]

    def _is_there(self, number: int, slot: int) -> bool:
        """Whether a place still holds its box: the run exists, and the box has not moved."""
        run = self._runs.get(number)
        return run is not None and slot >= run.moved

    def _rebuild(self, number: int) -> None:
        """Build a new run from the live boxes of one that is mostly dead: at once if they are few."""
        run = self._runs[number]
        if self._merge is not None and number in self._merge:
            return
        if run.live > AT_ONCE_BOXES_MAX:
            self._is_merged = False
            return
        self._is_fresh = False
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

    def _make_run(self, boxes: Boxes) -> None:
        self._enter(self._next_run, Run.of(boxes, self._space.kind))
        self._next_run += 1

    def _enter(self, number: int, run: Run) -> None:
        """Register a run and the places of its boxes."""
        self._is_fresh = False
        self._is_merged, self._pays_at = False, 0
        slots = np.arange(run.size)
        if run.dead:
            # a row whose box is dead may belong to another filter by now
            slots = slots[run.is_alive(slots)]
        rows = run.layout.rows[slots]
        many = self._rows.has_several[rows]
        self._rows.run_of[rows] = np.where(many, IN_SEVERAL, number)
        self._rows.slot_of[rows] = slots
        for row in dict.fromkeys(rows[many].tolist()):
            kept = self._several.get(row, ())
            self._several[row] = [place for place in kept if self._is_there(*place)]
        self._runs[number] = run
        if self._rows.has_integer_ids:
            run.ids = self._rows.ids[run.layout.rows]
        for row, slot in zip(rows[many].tolist(), slots[many].tolist(), strict=True):
            self._several[row].append((number, slot))
        boxes = sum(run.size for run in self._runs.values())
        for line, kind in ((_OUT_ROWS, np.int32), (_OUT_IDS, np.int64)):
            if len(self._out[line]) > OUT_ROWS_MIN + 4 * boxes:
                self._make_out(OUT_ROWS_MIN, kind)

    # -- merging

    def attend(self, events: int) -> None:
        """Do what is due when this many notifications are searched for.

        Waiting boxes become a run when testing them has cost as much. A merge continues, or another begins if it pays.
        Searching one more run takes about a tenth of a microsecond, and merging takes about twice that for each box.
        """
        if self._waiting.boxes:
            self._waiting.tests += self._waiting.boxes * events
            if self._waiting.tests >= kernels().RUN_COSTS_TESTS:
                self._flush()
        self._searched += events
        if not self._is_merged:
            self._work(WORK_PER_EVENT * events)
        elif self._searched >= self._pays_at:
            self._begin_merge()

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
            self._is_fresh = False
            if made.size:
                self._enter(self._next_run, made)
                self._next_run += 1

    # -- matching

    def match(self, notification: NotificationLike) -> list[Id]:
        """The ids whose filter the notification satisfies, in no particular but a repeatable order."""
        ids: list[Id] = self._match(notification).tolist()
        return ids

    def match_array(self, notification: NotificationLike) -> npt.NDArray[Any]:
        """Like `match`, as an array: int64 if all ids are such integers, otherwise objects.

        For answers of thousands of ids: building a Python list of them takes longer than finding them.
        """
        return self._match(notification).copy()

    def match_many(self, notifications: Iterable[NotificationLike]) -> list[list[Id]]:
        """Like `match`, for many at once: a fraction of the time of separate calls, unless there are only a few."""
        counts, rows = self.match_rows_many([parse_notification(notification) for notification in notifications])
        ids = self.ids_at(rows)
        return [ids[start:stop] for start, stop in pairwise([0, *np.cumsum(counts).tolist()])]

    def match_rows(self, seen: Notification) -> Rows:
        """Like `match`, with the matcher's own dense numbers instead of ids; valid until the next call."""
        return self._find_one(seen, np.int32)

    def match_rows_many(self, seen: Sequence[Notification]) -> Answers:
        """Like `match_rows`, for many at once: the number of rows of each, and all rows in sequence."""
        if not seen:
            return Answers(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
        self.attend(len(seen))
        if compiled() is None:
            return self._match_in_numpy(seen)
        if len(self._space.attributes) > FEW_ATTRIBUTES_MAX:
            if self._own.write(map(values_of, seen), self._space):
                return self._find_own(len(seen))
        else:
            columns = columns_of(seen, self._space)
            if not columns.has_longs:
                return self._find_columns(columns, np.int32, AnswerRoom)
        alone = [self.match_rows(one).copy() for one in seen]
        return Answers(np.array(list(map(len, alone)), dtype=np.int64), np.concatenate(alone))

    def ids_at(self, rows: Rows) -> list[Id]:
        """The ids of rows from `match_rows`; valid until a filter is added or removed."""
        ids: list[Id] = self._ids_at(rows).tolist()
        return ids

    def _ids_at(self, rows: Rows) -> npt.NDArray[Any]:
        # "clip": rows are in range and need no check
        return self._rows.ids.take(rows, mode="clip")

    def matches_any(self, notification: NotificationLike) -> bool:
        """Whether the notification satisfies any stored filter."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        return bool(len(self.match_rows(seen)))

    def _match(self, notification: NotificationLike) -> npt.NDArray[Any]:
        """The ids, in memory that the next call may overwrite."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        if self._waiting.boxes or self._several_count or not self._rows.has_integer_ids or compiled() is None:
            return self._ids_at(self.match_rows(seen))
        return self._find_one(seen, np.int64)

    def _waiting_rows(self) -> list[int]:
        """The rows that wait, to be tested one by one; none if a run of them costs less."""
        weight = max(1, kernels().RUN_COSTS_TESTS // PYTHON_TESTS_MAX)
        self._waiting.tests += weight * self._waiting.boxes
        if self._waiting.tests >= kernels().RUN_COSTS_TESTS:
            self._flush()
        return list(self._waiting.first_of)

    def _satisfies(self, row: int, seen: Notification) -> bool:
        """Whether the filter itself matches."""
        filter = self._filters[row]
        return filter is not None and matches(filter, seen)

    # -- searching with compiled code

    def ready(self, names: Names) -> int:
        """Get ready for a search by a kernel (`find_numba.find_rows`) for tokens with the names of this reader.

        Returns the address to begin with, which is valid until a filter comes or goes, or a notification is searched
        for in another way. Ask again before each search, and report the number of notifications with `attend`.
        """
        return self._ready().view_of(names).address

    def _ready(self) -> Mirror:
        mirror = self._mirror
        if mirror is None:
            mirror = self._mirror = self._space.mirror = Mirror(self._space, self._rows.sheet)
        if not self._is_fresh:
            self._waiting.pack()
            if self._several_count:
                self._rows.remember_events()
            mirror.refresh([run.sheet for run in self._runs.values()], self._waiting.sheet, self._several_count)
            self._is_fresh = True
        return mirror

    def _make_out(self, room: int, kind: type) -> None:
        self._out.put(_OUT_ROWS if kind is np.int32 else _OUT_IDS, np.empty(room, dtype=kind))

    def _find(self, view_at: int, where: tuple[int, ...], count: int, kind: type) -> Answers:
        """The rows or ids of some notifications, at these addresses, in memory that the next call overwrites."""
        out, find = self._out, kernels().find
        line = _OUT_ROWS if kind is np.int32 else _OUT_IDS
        if len(out[_OUT_COUNTS]) < count:
            out.put(_OUT_COUNTS, np.zeros(2 * count, dtype=np.int64))
        while True:
            stopped, found = find(
                view_at, *where, 0, count, out.address_of(line), len(out[line]), out.address_of(_OUT_COUNTS),
                int(line == _OUT_IDS),
            )  # fmt: skip
            if stopped == count:
                return Answers(out[_OUT_COUNTS][:count], out[line][:found])
            self._make_out(4 * len(out[line]), kind)

    def _find_one(self, seen: Notification, kind: type) -> npt.NDArray[Any]:
        """The rows or ids of one notification; valid until the next call."""
        self.attend(1)
        if compiled() is None:
            return self._match_in_numpy([seen]).found
        if not self._own.write((values_of(seen),), self._space):
            rows = self._match_exactly(seen)
            return rows if kind is np.int32 else self._ids_at(rows)
        return self._find(self._ready().own.address, self._own.addresses, 1, kind).found

    def _find_own(self, count: int) -> Answers:
        """The rows of the events that the matcher's own tokens are of."""
        counts, rows = self._find(self._ready().own.address, self._own.addresses, count, np.int32)
        return Answers(counts.copy(), rows.copy())

    def _find_columns(self, columns: Columns, kind: type, make_room: type[AnswerRoom]) -> Answers:
        """The rows or ids of all events of columns."""
        view_at, own, find = self._ready().own.address, self._own, kernels().find
        boxes = sum(run.size for run in self._runs.values()) + self._waiting.boxes + 2 * BLOCK_BOXES
        counts = np.zeros(columns.events, dtype=np.int64)
        parts: list[npt.NDArray[Any]] = []
        room, written = make_room(min(answers.CHUNK_ROWS, columns.events * boxes) + boxes, kind), 0
        together = own.together(columns)
        for first in range(0, columns.events, together):
            count = min(together, columns.events - first)
            own.write_columns(columns, first, count)
            done = 0
            while done < count:
                at = int(room.array.ctypes.data) + written * room.array.itemsize
                counts_at = int(counts.ctypes.data) + first * counts.itemsize
                done, found = find(
                    view_at, *own.addresses, done, count - done, at, len(room.array) - written, counts_at,
                    int(kind is np.int64),
                )  # fmt: skip
                written += found
                if done < count:
                    parts.append(room.cut(written))
                    left = columns.events - first - done
                    room, written = make_room(min(answers.CHUNK_ROWS, left * boxes) + boxes, kind), 0
        parts.append(room.cut(written))
        return Answers(counts, parts[0] if len(parts) == 1 else np.concatenate(parts))

    def _match_exactly(self, seen: Notification) -> Rows:
        """The rows of a notification with an integer that is too long for a token."""
        return np.array([row for row in self._candidates(seen) if self._satisfies(row, seen)], dtype=np.int32)

    def _candidates(self, seen: Notification) -> list[int]:
        """All rows that may match, each once."""
        waiting = self._waiting_rows()
        found = self._rows_around(seen, point_of(seen, self._space))
        return [*waiting, *dict.fromkeys(found.tolist())]

    def _rows_around(self, seen: Mapping[str, Value], sides: Sides) -> Rows:
        """The rows of boxes in runs that are around a point, of families that this notification opens. Tests are not
        made."""
        runs = [run.whole() for run in self._runs.values()]
        families, pieces = self._space.opened(seen)
        found = [kernels().rows_around(runs, families, sides)]
        for place, code, opened in pieces:
            sides[:, place] = code
            found.append(kernels().rows_around(runs, opened, sides))
        return np.concatenate(found)

    # -- searching with numpy

    def _match_in_numpy(self, seen: Sequence[Notification]) -> Answers:
        together = max(1, TOGETHER_NUMBERS_MAX // max(1, self._space.size))
        parts = [
            self._search_in_numpy(columns_of(seen[first : first + together], self._space))
            for first in range(0, len(seen), together)
        ]
        found = Answers(np.concatenate([p.counts for p in parts]), np.concatenate([p.found for p in parts]))
        if not self._waiting.first_of:
            return found
        ends = np.cumsum(found.counts)
        more = [[row for row in self._waiting.first_of if self._satisfies(row, one)] for one in seen]
        counts = np.array([len(rows) for rows in more])
        rows = np.array([row for some in more for row in some], dtype=np.int32)
        return Answers(found.counts + counts, np.insert(found.found, np.repeat(ends, counts), rows))

    def _search_in_numpy(self, columns: Columns) -> Answers:
        layouts = [run.layout for run in self._runs.values()]
        found: Answers = kernels().match(columns, self._space, layouts, self._rows.has_several)
        return found

    # -- batches

    def match_batch(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """All matches of a batch: columns `event`, the row number in the batch, and `id`, sorted by event.

        Ids must be all integers (the column is int64) or all strings (dictionary-encoded).
        """
        import pyarrow as pa

        from octopia.matching.arrow_columns import plain_column

        if self._rows.has_integer_ids:
            counts, ids = self._search_batch(batch, np.int64)
            column = plain_column(ids)
        else:
            if self._id_values is None:
                self._id_values = _id_values(self._row_of, len(self._filters))
            counts, rows = self._search_batch(batch, np.int32)
            column = pa.DictionaryArray.from_arrays(plain_column(rows), self._id_values)
        events = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return pa.RecordBatch.from_arrays([plain_column(events), column], names=["event", "id"])

    def match_groups(self, notification: NotificationLike) -> int:
        """The groups that the matching ids belong to, as bits of an integer: bit g for group g."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        mask = 0
        for group in np.unique(self._rows.group_of[self.match_rows(seen)]).tolist():
            if group >= 0:
                mask |= 1 << group
        return mask

    def match_groups_many(self, notifications: Iterable[NotificationLike]) -> list[int]:
        """Like `match_groups`, for many at once."""
        masks = self._masks(self.match_rows_many([parse_notification(each) for each in notifications]))
        if masks.shape[1] == 1:
            mine: list[int] = masks[:, 0].tolist()
            return mine
        return [int.from_bytes(line.astype("<u8").tobytes(), "little") for line in masks]

    def match_batch_groups(self, batch: "pa.RecordBatch") -> npt.NDArray[np.uint64]:
        """The same for every event of a batch: one line of 64-bit words per event, group g in word g // 64."""
        return self._masks(self._search_batch(batch, np.int32))

    def _masks(self, found: Answers) -> npt.NDArray[np.uint64]:
        group_of = self._rows.group_of
        words = int(group_of.max(initial=0)) // 64 + 1
        masks = np.zeros((len(found.counts), words), dtype=np.uint64)
        kernels().mark_groups(found.counts, group_of[found.found], masks)
        return masks

    def _search_batch(self, batch: "pa.RecordBatch", kind: type) -> Answers:
        """Matches per event, as rows or as ids."""
        # Arrow is imported here: it takes longer to load than everything else, and brokers may never need it
        from octopia.matching.arrow_columns import ArrowRoom, columns_of_batch

        self._flush()
        columns = columns_of_batch(batch, self._space)
        if compiled() is None:
            counts, rows = self._search_in_numpy(columns)
        elif kind is np.int32 or not self._several_count:
            return self._find_columns(columns, kind, ArrowRoom)
        else:
            counts, rows = self._find_columns(columns, np.int32, ArrowRoom)
        return Answers(counts, self._rows.ids[rows] if kind is np.int64 else rows)

    # -- overlap

    def overlapping(self, advertisement: FilterLike) -> list[Id]:
        """The ids of stored subscriptions that overlap an advertisement."""
        return self._overlapping(parse_filter(advertisement), Stored.SUBSCRIPTIONS)

    def overlapped_by(self, subscription: FilterLike) -> list[Id]:
        """The ids of stored advertisements that a subscription overlaps."""
        return self._overlapping(parse_filter(subscription), Stored.ADVERTISEMENTS)

    def _overlapping(self, asked: Filter, stored: Stored) -> list[Id]:
        boxes = self._waiting.boxes + sum(run.live for run in self._runs.values())
        if max(boxes, len(self)) * len(asked.conjunctions) <= TESTED_PAIRS_MAX:
            return [id for id, row in self._row_of.items() if self._overlaps(row, asked, stored)]
        # nothing but the filters themselves tells about these
        apart = dict.fromkeys((*self._waiting_rows(), *self._unsatisfiable))
        rows = self._overlapping_of(apart, asked, stored)
        for certain, doubtful, sides in OverlapQuestions(self._space, stored).ask(
            asked.conjunctions if self._runs else ()
        ):
            if len(rows) == len(self):
                break
            found = np.unique(self._search_kinds(certain, sides))
            rows = np.concatenate([rows, found[~np.isin(found, rows)] if len(rows) else found])
            in_doubt = self._search_kinds(doubtful, sides)
            if len(in_doubt):
                unknown = np.unique(in_doubt[~np.isin(in_doubt, rows)])
                rows = np.concatenate([rows, self._overlapping_of(unknown.tolist(), asked, stored)])
        return self.ids_at(rows)

    def _overlapping_of(self, rows: Iterable[int], asked: Filter, stored: Stored) -> Rows:
        return np.array([row for row in rows if self._overlaps(row, asked, stored)], dtype=np.int32)

    def _overlaps(self, row: int, asked: Filter, stored: Stored) -> bool:
        filter = self._filters[row]
        if filter is None:
            return False
        return overlaps(asked, filter) if stored is Stored.SUBSCRIPTIONS else overlaps(filter, asked)

    def _search_kinds(self, kinds: list[int], sides: Sides) -> Rows:
        """The rows of boxes of these kinds around some of the points, with repeats."""
        families = list(dict.fromkeys(map(self._space.family_id, kinds)))
        all_of_them = len(kinds) == self._space.kinds_count
        runs = [run.whole() if all_of_them else run.only(kinds) for run in self._runs.values()] if kinds else []
        rows: Rows = kernels().rows_around(runs, families, sides)
        return rows


def _is_mostly_dead(run: Run) -> bool:
    return run.dead * 2 > run.size and (run.dead >= REBUILD_DEAD_MIN or not run.live)


def _id_values(row_of: ShardedDict[Any, int], rows: int) -> Any:
    """String ids by row, as an Arrow array; the content of free rows is undefined."""
    import pyarrow as pa

    if not all(type(id) is str for id in row_of):
        raise TypeError("match_batch needs ids that are all integers of 64 bits or all strings; match takes any")
    by_row = [""] * rows
    for id, row in row_of.items():
        by_row[row] = id
    return pa.array(by_row, type=pa.string())
