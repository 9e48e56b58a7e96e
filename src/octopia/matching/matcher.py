"""`octopia.Matcher`: stored filters by id, and which of them a notification matches.

Results are exactly those of `octopia.matches` on every stored filter, each id once. `store` holds the filters; this
module searches them. Not thread-safe.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from octopia.language import (
    Filter,
    FilterLike,
    Notification,
    NotificationLike,
    matches,
    overlaps,
    parse_filter,
    parse_notification,
)
from octopia.matching.batch import Answers, agreed, merged, notification_of, search_batch
from octopia.matching.box_run import BLOCK_BOXES, Layout
from octopia.matching.coordinates import Points, Sides
from octopia.matching.kernels import kernels
from octopia.matching.overlap import Questions, Stored
from octopia.matching.points import TOGETHER_NUMBERS_MAX, fit_together, one_point, point_of, points_of
from octopia.matching.search_table import SearchTable
from octopia.matching.sharded import ShardedDict
from octopia.matching.store import Id, Rows, Store
from octopia.matching.tokens import Names, Tokens

if TYPE_CHECKING:
    import pyarrow as pa

# Testing a waiting filter takes about a microsecond, building a run a few hundred.
WAITING_TESTS_MAX = 256
_ROOM_FOR_ONE = BLOCK_BOXES + 1
# The kernels' match counts of one event, which equal the number of rows found.
_UNREAD = np.zeros(1, dtype=np.int64)


class Matcher(Store[Id]):
    """An index of filters. Ids are any hashable; `group` sorts ids into numbered groups, see `match_groups`.

    Examples:
        >>> matcher = Matcher()
        >>> matcher.add("cheap", "price < 10")
        >>> matcher.add("tech", "symbol in ('AAPL', 'MSFT')")
        >>> matcher.match({"symbol": "AAPL", "price": 120})
        ['tech']
    """

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

    def _match(self, notification: NotificationLike) -> npt.NDArray[Any]:
        """The ids, in memory that the next call may overwrite."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        if self._waiting.rows or self._several or self._inexact or not self._integer_ids:
            return self._ids_at(self.match_rows(seen))
        return self._search_ids(point_of(seen, self._space))

    def match_many(self, notifications: Iterable[NotificationLike]) -> list[list[Id]]:
        """Like `match`, for many at once: a fraction of the time of separate calls, unless there are only a few."""
        counts, rows = self.match_rows_many([parse_notification(notification) for notification in notifications])
        ids = self.ids_at(rows)
        return [ids[start:stop] for start, stop in pairwise([0, *np.cumsum(counts).tolist()])]

    def ids_at(self, rows: Rows) -> list[Id]:
        """The ids of rows from `match_rows`; valid until a filter is added or removed."""
        ids: list[Id] = self._ids_at(rows).tolist()
        return ids

    def _ids_at(self, rows: Rows) -> npt.NDArray[Any]:
        # "clip": rows are in range and need no check
        return self._ids.take(rows, mode="clip")

    def match_rows(self, seen: Notification) -> Rows:
        """Like `match`, with the matcher's own dense numbers instead of ids; valid until the next call."""
        waiting: list[int] = []
        if self._waiting.rows and not self._settle_if_it_pays():
            waiting = [row for row in self._waiting.rows if self._satisfies(row, seen)]
        if not self._runs:
            return np.array(waiting, dtype=np.int32)
        self._attend(1)
        found = self._search(point_of(seen, self._space))
        if self._several or self._inexact:
            found = self._checked(Answers(np.array([len(found)]), found), lambda _: seen).found
        return np.concatenate([np.array(waiting, dtype=np.int32), found]) if waiting else found

    def match_rows_many(self, seen: Sequence[Notification]) -> Answers:
        """Like `match_rows`, for many at once: the number of rows of each, and all rows in sequence."""
        if not seen:
            return Answers(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
        waiting = self._among_waiting(len(seen), seen.__getitem__)
        self._attend(len(seen))
        layouts = [run.layout for run in self._runs.values()]
        if fit_together(len(seen), self._space):
            answers = search_batch(layouts, points_of(seen, self._space), np.int32, waiting)
        else:
            alone = [self._search(point_of(one, self._space), layouts).copy() for one in seen]
            found = Answers(np.array(list(map(len, alone)), dtype=np.int64), np.concatenate(alone))
            answers = merged([*waiting, found], np.int32)
        return self._checked(answers, seen.__getitem__)

    def match_rows_tokens(self, tokens: Tokens, seen: Callable[[int], Notification]) -> Answers:
        """Like `match_rows_many`, for notifications read as tokens; `seen` returns one as a notification, by number.

        It is called only if a filter itself must be tested, or if few notifications meet new filters. The rows lie in
        memory that the next call of this method may overwrite.
        """
        events, space = tokens.counts.notes, self._space
        together = max(1, TOGETHER_NUMBERS_MAX // max(space.size, 1))
        if len(self._runs) == 1 and not self._waiting.rows and not space.something_decides and events <= together:
            answers = self._checked(self._search_tokens(tokens), seen)
            # afterwards: it may bring another run
            self._attend(events)
            return answers
        waiting = self._among_waiting(events, seen)
        self._attend(events)
        layouts = [run.layout for run in self._runs.values()]
        if events <= together:
            points = space.token_points.points(tokens, 0, events)
            if len(layouts) == 1 and not waiting:
                answers = self._search_again(layouts[0], points)
            else:
                answers = search_batch(layouts, points, np.int32, waiting)
        else:
            parts = []
            for first in range(0, events, together):
                points = space.token_points.points(tokens, first, min(together, events - first))
                parts.append(search_batch(layouts, points, np.int32))
            found = Answers(np.concatenate([p.counts for p in parts]), np.concatenate([p.found for p in parts]))
            answers = merged([*waiting, found], np.int32)
        return self._checked(answers, seen)

    def _among_waiting(self, events: int, seen: Callable[[int], Notification]) -> list[Answers]:
        """The waiting rows that each of these matches; none if nothing waits, or not any longer."""
        if not self._waiting.rows or self._settle_if_it_pays(events):
            return []
        matching = [[row for row in self._waiting.rows if self._satisfies(row, seen(at))] for at in range(events)]
        rows = np.array([row for of_one in matching for row in of_one], dtype=np.int32)
        return [Answers(np.array([len(of_one) for of_one in matching], dtype=np.int64), rows)]

    def search_table(self, names: Names) -> SearchTable | None:
        """The input of a kernel that searches for notifications with this reader's names (`search_by_table`).

        The arrays of the only run, the openings, and those of the space; None if more than a search is needed. Ask
        again before each search, and report the number of searches afterwards (`searched`).
        """
        table = self._table
        if table is not None and table.holds(self.changes, names):
            return table
        space = self._space
        self._table = None
        if len(self._runs) == 1 and not (
            self._waiting.rows or self._several or self._inexact or space.something_decides
        ):
            (run,) = self._runs.values()
            *arrays, size, opened = space.token_points.arguments(names)
            openings = space.openings
            self._table = SearchTable(
                self.changes, names, run.layout, (openings.starts, openings.probes, *arrays), size, opened
            )
        return self._table

    def searched(self, events: int) -> None:
        """A kernel has searched for this many notifications."""
        self._attend(events)

    def _search_tokens(self, tokens: Tokens) -> Answers:
        """The rows of a batch in the only run, in memory that the next call reuses."""
        (run,) = self._runs.values()
        counts: npt.NDArray[np.int64] = np.empty(tokens.counts.notes, dtype=np.int64)
        while True:
            stopped, found = self._space.token_points.search(run.layout, tokens, self._out_many, counts)
            if stopped == len(counts):
                return Answers(counts, self._out_many[:found])
            self._out_many = np.empty(4 * len(self._out_many), dtype=np.int32)

    def _search_again(self, layout: Layout, points: Points) -> Answers:
        """Like `search_batch` in one run, in memory that the next call reuses: for callers that ask on every read."""
        counts = np.zeros(len(points.combination), dtype=np.int64)
        while True:
            stopped, found = kernels().search(*layout, *points, 0, self._out_many, 0, counts)
            if stopped == len(counts):
                return Answers(counts, self._out_many[:found])
            self._out_many = np.empty(4 * len(self._out_many), dtype=np.int32)

    def _checked(self, answers: Answers, event: Callable[[int], Notification | None]) -> Answers:
        """Each row of an event once; rows of inexact boxes only if the filter itself matches.

        `event` returns an event by its number.
        """
        if self._several:
            answers = self._repeats.drop(answers, self._has_several)
        if self._inexact:
            answers = agreed(answers, self._is_inexact, lambda row, of: self._satisfies(row, event(of)))
        return answers

    def _satisfies(self, row: int, seen: Notification | None) -> bool:
        """Whether the filter itself matches. An event without attributes (None) matches only the empty conjunction."""
        filter = self._filters[row]
        if filter is None:
            return False
        return matches(filter, seen) if seen is not None else any(not c.predicates for c in filter.conjunctions)

    def matches_any(self, notification: NotificationLike) -> bool:
        """Whether the notification satisfies any stored filter."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        if any(self._satisfies(row, seen) for row in self._waiting.rows):
            return True
        if not self._runs:
            return False
        if self._inexact:
            return bool(len(self.match_rows(seen)))
        # an answer too large for the array is a match as well
        room = np.empty(_ROOM_FOR_ONE, dtype=np.int32)
        return _search_all([run.layout for run in self._runs.values()], point_of(seen, self._space), room) is None

    # -- overlap

    def overlapping(self, advertisement: FilterLike) -> list[Id]:
        """The ids of stored subscriptions that overlap an advertisement."""
        return self._overlapping(parse_filter(advertisement), Stored.SUBSCRIPTIONS)

    def overlapped_by(self, subscription: FilterLike) -> list[Id]:
        """The ids of stored advertisements that a subscription overlaps."""
        return self._overlapping(parse_filter(subscription), Stored.ADVERTISEMENTS)

    def _overlapping(self, asked: Filter, stored: Stored) -> list[Id]:
        rows: Rows = np.zeros(0, dtype=np.int32)
        if self._waiting.rows and not self._settle_if_it_pays():
            rows = self._overlapping_of(self._waiting.rows, asked, stored)
        conjunctions = asked.conjunctions if self._runs else ()
        for certain, doubtful, sides in Questions(self._space, stored).ask(conjunctions):
            if len(rows) == len(self):
                break
            rows = self._more_rows(rows, self._search_kinds(certain, sides))
            in_doubt = self._search_kinds(doubtful, sides)
            if len(in_doubt):
                known = np.isin(in_doubt, rows)
                in_doubt = self._overlapping_of(dict.fromkeys(in_doubt[~known].tolist()), asked, stored)
                rows = np.concatenate([rows, in_doubt])
        return self.ids_at(rows)

    def _more_rows(self, rows: Rows, found: Rows) -> Rows:
        """The union of both, without repeats, in its own memory; the rows found may contain repeats."""
        if len(found) > 1:
            found = np.unique(found)
        return np.concatenate([rows, found[~np.isin(found, rows)] if len(rows) else found])

    def _overlapping_of(self, rows: Iterable[int], asked: Filter, stored: Stored) -> Rows:
        return np.array([row for row in rows if self._overlaps(row, asked, stored)], dtype=np.int32)

    def _overlaps(self, row: int, asked: Filter, stored: Stored) -> bool:
        filter = self._filters[row]
        if filter is None:
            return False
        return overlaps(asked, filter) if stored is Stored.SUBSCRIPTIONS else overlaps(filter, asked)

    # -- batches

    def match_batch(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """All matches of a batch: columns `event`, the row number in the batch, and `id`, sorted by event.

        Ids must be all integers (the column is int64) or all strings (dictionary-encoded).
        """
        import pyarrow as pa

        from octopia.matching.columns import plain_column

        if self._integer_ids:
            counts, ids = self._search_batch(batch, self._ids)
            column = plain_column(ids)
        else:
            if self._id_values is None:
                self._id_values = _id_values(self._row_of, len(self._filters))
            counts, rows = self._search_batch(batch, None)
            column = pa.DictionaryArray.from_arrays(plain_column(rows), self._id_values)
        events = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return pa.RecordBatch.from_arrays([plain_column(events), column], names=["event", "id"])

    def match_groups(self, notification: NotificationLike) -> int:
        """The groups that the matching ids belong to, as bits of an integer: bit g for group g."""
        seen = notification if isinstance(notification, Notification) else parse_notification(notification)
        mask = 0
        for group in np.unique(self._group_of[self.match_rows(seen)]).tolist():
            if group >= 0:
                mask |= 1 << group
        return mask

    def match_groups_many(self, notifications: Iterable[NotificationLike]) -> list[int]:
        """Like `match_groups`, for many at once."""
        counts, rows = self.match_rows_many([parse_notification(notification) for notification in notifications])
        masks = self._masks(counts, self._group_of[rows])
        if masks.shape[1] == 1:
            mine: list[int] = masks[:, 0].tolist()
            return mine
        return [int.from_bytes(line.astype("<u8").tobytes(), "little") for line in masks]

    def match_tokens_groups(self, tokens: Tokens, seen: Callable[[int], Notification]) -> npt.NDArray[np.uint64]:
        """The same for every notification of a batch of tokens, as `match_batch_groups` gives it."""
        counts, rows = self.match_rows_tokens(tokens, seen)
        return self._masks(counts, self._group_of[rows])

    def match_batch_groups(self, batch: "pa.RecordBatch") -> npt.NDArray[np.uint64]:
        """The same for every event of a batch: one line of 64-bit words per event, group g in word g // 64."""
        return self._masks(*self._search_batch(batch, self._group_of))

    def _masks(self, counts: npt.NDArray[np.int64], groups: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        words = int(self._group_of.max(initial=0)) // 64 + 1
        masks = np.zeros((len(counts), words), dtype=np.uint64)
        kernels().mark_groups(counts, groups, masks)
        return masks

    def _search_batch(self, batch: "pa.RecordBatch", values: npt.NDArray[Any] | None) -> Answers:
        """Matches per event, and for each match its row's entry in `values`, or the row itself."""
        # Arrow is imported here: it takes longer to load than everything else, and brokers may never need it
        from octopia.matching.columns import ArrowRoom, points

        self._flush()
        events = points(batch, self._space)
        if values is self._ids and not self._several and not self._inexact:
            layouts = [run.layout_by_id for run in self.runs() if run.layout_by_id]
            return search_batch(layouts, events, np.int64, room=ArrowRoom)
        answers = search_batch([run.layout for run in self.runs()], events, np.int32, room=ArrowRoom)
        counts, rows = self._checked(answers, lambda event: notification_of(batch, event))
        return Answers(counts, rows if values is None else values[rows])

    def _search_kinds(self, kinds: list[int], sides: Sides) -> Rows:
        """The same among the boxes of some kinds alone."""
        if not kinds:
            return self._out[:0]
        families = dict.fromkeys(map(self._space.family_id, kinds))
        all_of_them = len(kinds) == self._space.kinds_count
        layouts = [run.layout if all_of_them else run.only(kinds) for run in self._runs.values()]
        if sides.shape[2] == 1:
            return self._search(one_point(list(families), sides), layouts)
        return search_batch(layouts, one_point(list(families), sides), np.int32).found

    def _search(self, point: Points, layouts: list[Layout] | None = None) -> Rows:
        """Rows of all runs around a point, with repeats where a filter has several boxes."""
        if layouts is None:
            layouts = [run.layout for run in self._runs.values()]
        while (found := _search_all(layouts, point, self._out)) is None:
            self._out = np.empty(2 * len(self._out), dtype=np.int32)
        return self._out[:found]

    def _search_ids(self, point: Points) -> npt.NDArray[np.int64]:
        """The same as integer ids; a copy of `_search_all`, specialised for single notifications."""
        search = kernels().search
        while True:
            found = 0
            for run in self._runs.values():
                # every run has such a layout if ids are integers
                layout: Layout = run.layout_by_id  # type: ignore[assignment]
                done, found = search(*layout, *point, 0, self._out_ids, found, _UNREAD)
                if not done:
                    self._out_ids = np.empty(2 * len(self._out_ids), dtype=np.int64)
                    break
            else:
                return self._out_ids[:found]

    def _settle_if_it_pays(self, times: int = 1) -> bool:
        """Test waiting filters one by one, until that has cost as much as building a run of them."""
        self._waiting.tests += self._waiting.boxes * times
        if self._waiting.tests < WAITING_TESTS_MAX:
            return False
        self._flush()
        return True


def _search_all(layouts: Iterable[Layout], point: Points, out: npt.NDArray[Any]) -> int | None:
    """How many were found and written; None if `out` may be too short."""
    search = kernels().search
    found = 0
    for layout in layouts:
        done, found = search(*layout, *point, 0, out, found, _UNREAD)
        if not done:
            return None
    return found


def _id_values(row_of: ShardedDict[Any, int], rows: int) -> Any:
    """String ids by row, as an Arrow array; the content of free rows is undefined."""
    import pyarrow as pa

    if not all(type(id) is str for id in row_of):
        raise TypeError("match_batch needs ids that are all integers of 64 bits or all strings; match takes any")
    by_row = [""] * rows
    for id, row in row_of.items():
        by_row[row] = id
    return pa.array(by_row, type=pa.string())
