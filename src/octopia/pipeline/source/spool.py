"""The spool: received notifications that Spark has not committed yet, in files of one folder.

A live source has no offsets: a broker does not deliver anything again. So notifications are appended here before they
are confirmed to the broker, and offsets are row numbers of this log, counted from its very first row. Rows that Spark
has committed are deleted.

    spool.json                     the spool's id, and what it is subscribed to
    committed                      the row before which everything is committed
    00000000000000000000.rows      records; the number is that of the segment's first row
    mark                           how far the last segment was kept, and synced
    lock                           held by the one query that uses the spool

A record has the broker's session, counters, the time of arrival and the parcels as received. One read of the socket is
one record, written in one call; then the mark is moved; then the broker gets its confirmation. `spool_files.py`
describes the checksums.

Recovery:

- Bytes beyond the mark: never confirmed. They are left out, and the broker sends them again.
- Damage or a missing end before the mark: an error that names the place. Nothing is cut off.
- The same, but the machine was restarted and the missing part was never synced: the crash lost it. The session is not
  resumed, so the broker begins a new one and `gaps` counts it.

A file whose fsync failed is never written to again: the query fails, and the next one continues in a copy of the part
that the mark vouches for.

Two counters go with every row: `dropped`, notifications that the broker dropped at its bound before it, and `gaps`, the
number of sessions that could not be resumed before it. Bounded: `is_full` is true from `bytes_max` on, until half of it
is gone. Appended by one thread, read and committed by another. No Spark and no network here.
"""

import fcntl
import json
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from octopia.errors import InputError, OctopiaError
from octopia.net import KeptSession
from octopia.pipeline.source.spool_files import (
    HEAD,
    DamagedError,
    Mark,
    Record,
    encode_mark,
    encode_record,
    read_mark,
    records,
    replace_file,
    replace_sealed,
    sync_folder,
    this_boot,
    unseal,
)

FORMAT: Final = 2
SEGMENT_BYTES_MAX: Final = 16 * 1024 * 1024
# About this many bytes lie between two entries of the index; they are scanned record by record.
INDEX_BYTES: Final = 64 * 1024
# A query that was stopped a moment ago may still hold the lock.
LOCK_WAIT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.05
_SUFFIX: Final = ".rows"
_ANEW: Final = "start with an empty spool folder and a new checkpointLocation, or put the files back as they were"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the log, and the losses before it."""

    rows: int = 0
    dropped: int = 0
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """The record at this offset of a segment begins with this position."""

    at: Position
    offset: int
    at_us: int


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    size: int
    index: list[_Entry]


class Spool:
    """The log in one folder. `Spool.open` locks it, `close` releases it."""

    def __init__(self, folder: Path, id: str, bytes_max: int, *, sync: bool) -> None:
        self.folder = folder
        self.id = id
        self._bytes_max = bytes_max
        self._segment_bytes_max = min(SEGMENT_BYTES_MAX, max(bytes_max // 8, INDEX_BYTES))
        self._sync = sync
        self._guard = threading.Lock()
        self._segments: list[_Segment] = []
        self._file = -1
        self._mark_file = -1
        self._lock_file = -1
        self._boot = this_boot()
        self._failed = ""  # the reason why nothing more may be written
        self._crashed = False  # the machine crashed and rows were lost with it
        self._full = False
        self.end = Position()
        self.opened_at = 0  # rows that were there when it was opened
        self.committed = 0
        self.session: KeptSession | None = None
        # Called, by the thread that commits, when there is room again.
        self.when_room: Callable[[], None] = lambda: None

    # -- opening

    @classmethod
    def open(cls, folder: Path, subscribed_to: str, bytes_max: int, *, sync: bool = False) -> "Spool":
        """Lock a spool, or create one. A session for something other than `subscribed_to` is not resumed."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder)
            try:
                id, before = _identity(folder, subscribed_to)
                spool = cls(folder, id, bytes_max, sync=sync)
                spool._lock_file = lock
                spool._recover()
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise InputError(f"spool {folder}: {error.strerror or error}") from None
        if before != subscribed_to:
            spool.session = None
        return spool

    def _recover(self) -> None:
        committed = _read_committed(self.folder)
        self.committed = committed or 0
        paths = sorted(self.folder.glob(f"*{_SUFFIX}"))
        place = self.folder / "mark"
        if not paths and not place.exists():
            replace_file(place, encode_mark(Mark(self.committed, boot=self._boot)), sync=self._sync)
        mark = read_mark(place)
        for path in paths:
            self._recover_segment(path, mark)
        if committed is not None and self._segments and mark.boot == self._boot and committed < self._segments[0].first:
            first = self._segments[0].first
            raise InputError(
                f"spool {self.folder}: rows {committed} to {first} are missing: files were deleted; {_ANEW}"
            )
        self._check_end(mark)
        if self.committed > self.end.rows:
            # Only after a crash of the machine: Spark has rows beyond the end, and will not request them.
            self._forget_all()
        self._mark_file = os.open(place, os.O_WRONLY)
        if not self._segments:
            self.end = Position(self.committed, self.end.dropped, self.end.gaps)
            self._start_segment()
        else:
            self._file = os.open(self._segments[-1].path, os.O_WRONLY | os.O_APPEND)
            self._move_mark()
        self.committed = min(max(self.committed, self._segments[0].first), self.end.rows)
        self.opened_at = self.end.rows
        if self._crashed:
            self.session = None
        self._note_fill()

    def _recover_segment(self, path: Path, mark: Mark) -> None:
        first = int(path.stem)
        same_boot = mark.boot == self._boot
        if first > mark.first and same_boot:
            # Started but not marked: nothing in it was confirmed.
            path.unlink()
            return
        if self._segments and first != self.end.rows:
            how = "files were cut off or deleted" if same_boot else "the machine crashed before they were on disk"
            raise InputError(f"spool {self.folder}: rows {self.end.rows} to {first} are missing: {how}; {_ANEW}")
        self.end = Position(first, self.end.dropped, self.end.gaps)
        segment = _Segment(path, first, 0, [])
        self._segments.append(segment)
        data = path.read_bytes()
        if first == mark.first and same_boot and len(data) > mark.size:
            data = data[: mark.size]
            replace_file(path, data, sync=self._sync)
        try:
            for offset, stop, record in records(data):
                self._note_record(segment, record, offset, len(record.parcels))
                segment.size = stop
        except DamagedError as damage:
            is_unsynced_end = first >= mark.first and not same_boot
            if not is_unsynced_end or (first == mark.first and damage.at < mark.synced):
                raise InputError(
                    f"spool {self.folder}: {path.name} is damaged at byte {damage.at}, after row {self.end.rows}: the "
                    f"following rows were confirmed to the broker and cannot be read; {_ANEW}"
                ) from None
            replace_file(path, data[: damage.at], sync=self._sync)
            self._crashed = True

    def _check_end(self, mark: Mark) -> None:
        """Find an end that was cut off between two records, which no checksum shows."""
        last = self._segments[-1] if self._segments else _Segment(self.folder, 0, 0, [])
        if last.first > mark.first or (last.first == mark.first and last.size >= mark.size):
            return
        there = last.size if last.first == mark.first else 0
        if mark.boot == self._boot or mark.synced > there:
            raise InputError(
                f"spool {self.folder}: its end is cut off after row {self.end.rows}: {mark.size:,} bytes of "
                f"{mark.first:020d}{_SUFFIX} were kept, and {there:,} are there; {_ANEW}"
            )
        self._crashed = True

    def _forget_all(self) -> None:
        for segment in self._segments:
            segment.path.unlink(missing_ok=True)
        self._segments.clear()
        self._crashed = True

    def _note_record(self, segment: _Segment, record: Record, offset: int, rows: int) -> None:
        # The losses that a record mentions came before its rows.
        self.end = Position(self.end.rows, record.dropped, record.gaps)
        if not segment.index or offset - segment.index[-1].offset >= INDEX_BYTES:
            segment.index.append(_Entry(self.end, offset, record.at_us))
        self.end = Position(self.end.rows + rows, record.dropped, record.gaps)
        self.session = KeptSession(record.url, record.secret, record.name, record.received)

    def close(self) -> None:
        """Release the folder. Its contents stay."""
        with self._guard:
            for file in (self._file, self._mark_file, self._lock_file):
                if file >= 0:
                    os.close(file)
            self._file = self._mark_file = self._lock_file = -1

    # -- called by the client

    def keep(self, parcels: Sequence[bytes], session: KeptSession, dropped: int) -> None:
        """Append the notifications of one read."""
        if not parcels and not dropped and session == self.session:
            # a sign of life
            return
        with self._guard:
            self._append(parcels, session, Position(self.end.rows, self.end.dropped + dropped, self.end.gaps))

    def session_began(self, session: KeptSession) -> None:
        """Note a new session: a gap, unless it is the first."""
        with self._guard:
            gap = self.session is not None or self.end.rows > 0 or self._crashed
            self._crashed = False
            self._append((), session, Position(self.end.rows, self.end.dropped, self.end.gaps + gap))

    @property
    def is_full(self) -> bool:
        """Whether so much waits for Spark that no more should be received."""
        return self._full

    def _append(self, parcels: Sequence[bytes], session: KeptSession, at: Position) -> None:
        if self._file < 0:
            raise OctopiaError("the spool is closed")
        if self._failed:
            raise OctopiaError(self._failed)
        record = Record(
            session.url,
            session.secret,
            session.name,
            session.received,
            at.dropped,
            at.gaps,
            time.time_ns() // 1000,
            list(parcels),
        )
        data = encode_record(record)
        try:
            if self._segments[-1].size >= self._segment_bytes_max:
                self._start_segment()
            segment = self._segments[-1]
            self._write(data)
            self._move_mark(len(data))
        except OSError as error:
            # A partly written record is beyond the mark. After a failed fsync the state of the file is unknown, and
            # another fsync would not reveal it: the file is left as it is.
            self._failed = f"spool {self.folder}: {error.strerror}; only stored rows are confirmed"
            raise OctopiaError(self._failed) from None
        self._note_record(segment, record, segment.size, len(parcels))
        segment.size += len(data)
        # Only now: the session is stored in the last record, and must be stored in one.
        self._delete_committed()
        self._note_fill()

    def _write(self, data: bytes) -> None:
        if os.write(self._file, data) < len(data):
            raise OSError(28, "the disk is full")
        if self._sync:
            os.fdatasync(self._file)

    def _move_mark(self, more: int = 0) -> None:
        segment = self._segments[-1]
        size = segment.size + more
        mark = Mark(segment.first, size, size if self._sync else 0, self._boot)
        os.pwrite(self._mark_file, encode_mark(mark), 0)

    def _start_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        path = self.folder / f"{self.end.rows:020d}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if self._sync:
            sync_folder(self.folder)
        self._segments.append(_Segment(path, self.end.rows, 0, []))
        self._move_mark()

    def _delete_committed(self) -> None:
        while len(self._segments) > 1 and self._segments[1].first <= self.committed:
            self._segments.pop(0).path.unlink(missing_ok=True)

    def _note_fill(self) -> None:
        size = sum(segment.size for segment in self._segments)
        if size >= self._bytes_max:
            self._full = True
        elif self._full and 2 * size <= self._bytes_max:
            self._full = False
            self.when_room()

    # -- called by Spark

    def reach(self, start: int, rows_max: int, bytes_max: int) -> Position:
        """The end of a batch that begins here: at most this many rows, and about this many bytes."""
        with self._guard:
            rows = min(self.end.rows, start + rows_max)
            size = 0
            for segment in self._segments:
                for entry, after in zip(segment.index, [*segment.index[1:], None], strict=True):
                    if size >= bytes_max and entry.at.rows > start:
                        rows = min(rows, entry.at.rows)
                    if entry.at.rows >= start:
                        size += (after.offset if after else segment.size) - entry.offset
            if rows == self.end.rows:
                return self.end
            known = self._entry_before(rows)[1].at
            return Position(rows, known.dropped, known.gaps)

    def _entry_before(self, row: int) -> tuple[int, _Entry]:
        """The last segment and entry that begin at or before this row."""
        at = max(bisect_right(self._segments, row, key=lambda segment: segment.first) - 1, 0)
        while at and not self._segments[at].index:
            at -= 1
        index = self._segments[at].index
        return at, index[max(bisect_right(index, row, key=lambda entry: entry.at.rows) - 1, 0)]

    def fill(self, planned: int) -> "Fill":
        """How far Spark is behind, and how full the spool is; `planned` rows are already in batches."""
        with self._guard:
            size = sum(segment.size for segment in self._segments)
            lag_s = 0.0
            if planned < self.end.rows:
                # when the record with the next row, or one of the few before it, arrived
                entry = self._entry_before(planned)[1]
                lag_s = max(0.0, time.time() - entry.at_us / 1e6)
            return Fill(self.end.rows - planned, lag_s, size, self._bytes_max, self._full)

    def holds(self, start: int, end: int) -> bool:
        """Whether all these rows are still here."""
        return self._segments[0].first <= start and end <= self.end.rows

    def slice(self, start: int, end: int) -> "Slice":
        """These rows, as bytes that can be sent anywhere."""
        with self._guard:
            at, entry = self._entry_before(start)
            row, skip, parts = entry.at.rows, 0, []
            offset = entry.offset
            for segment in self._segments[at:]:
                if row >= end:
                    break
                data = _part(segment, offset)
                offset, begin, stop = 0, 0, 0
                while stop < len(data) and row < end:
                    length, rows, _, _ = HEAD.unpack_from(data, stop)
                    stop += HEAD.size + length
                    if row + rows <= start:
                        begin = stop
                    elif row < start:
                        skip = start - row
                    row += rows
                parts.append(data[begin:stop])
        return Slice(b"".join(parts), skip, end - start)

    def commit(self, row: int) -> None:
        """Spark will not request rows before this one again."""
        with self._guard:
            if self._file < 0 or row <= self.committed:
                return
            self.committed = min(row, self.end.rows)
            replace_sealed(self.folder / "committed", str(self.committed), sync=False)
            self._delete_committed()
            self._note_fill()


@dataclass(frozen=True, slots=True)
class Fill:
    """The rows that wait in a spool."""

    rows: int
    lag_s: float
    size: int
    bytes_max: int
    is_full: bool

    def metrics(self) -> dict[str, Any]:
        """As shown in the query's progress."""
        return {
            "lagRows": self.rows,
            "lagSeconds": round(self.lag_s, 3),
            "spoolBytes": self.size,
            "spoolBytesMax": self.bytes_max,
            "spoolIsFull": self.is_full,
        }


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of a spool: records, without the first `skip` rows, and the `rows` after them."""

    data: bytes
    skip: int
    rows: int

    def chunks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Parcels, with their times of arrival in microseconds."""
        skip, left = self.skip, self.rows
        for _, _, record in records(self.data):
            parcels = record.parcels[skip : skip + left] if skip or len(record.parcels) > left else record.parcels
            skip = max(skip - len(record.parcels), 0)
            if parcels:
                left -= len(parcels)
                yield record.at_us, parcels
        if left:
            raise InputError(f"{left} rows of a batch are missing: a file of the spool was changed while it was read")


def _read_committed(folder: Path) -> int | None:
    path = folder / "committed"
    try:
        text = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    if text is None:
        raise InputError(f"{path} is damaged: delete it, and Spark reads all remaining rows again")
    return int(text)


def _part(segment: _Segment, offset: int) -> bytes:
    with segment.path.open("rb") as file:
        file.seek(offset)
        return file.read(segment.size - offset)


def _locked(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    give_up_at = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                os.close(lock)
                raise InputError(
                    f"spool {folder} is in use by another query: give each query a folder of its own"
                ) from None
            time.sleep(_LOCK_POLL_S)


def _identity(folder: Path, subscribed_to: str) -> tuple[str, str]:
    """The spool's id, and its subscription before; the current one is stored."""
    path = folder / "spool.json"
    try:
        text = unseal(path.read_bytes())
    except FileNotFoundError:
        if any(folder.glob(f"*{_SUFFIX}")):
            raise InputError(f"spool {folder}: spool.json is missing; files were deleted") from None
        id, before = secrets.token_hex(6), ""
    else:
        if text is None:
            raise InputError(f"{path} is not the head of a spool, or damaged: use an empty folder")
        known = json.loads(text)
        if known["format"] != FORMAT:
            raise InputError(f"spool {folder} is of format {known['format']}, this version reads {FORMAT}")
        id, before = str(known["spool"]), str(known["subscribed_to"])
    if before != subscribed_to:
        said = {"format": FORMAT, "spool": id, "subscribed_to": subscribed_to}
        replace_sealed(path, json.dumps(said), sync=False)
    return id, before
