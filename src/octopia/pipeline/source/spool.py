"""The spool: what was received and Spark has not committed yet, in files of one folder.

A live source has no offsets: what a broker has delivered it does not deliver again. So what comes is appended here
before it is confirmed to the broker, and offsets are row numbers of this log, counted from the first row there ever
was. Rows that Spark has committed are deleted.

    spool.json                     the spool's id, and what it is subscribed to
    committed                      the row before which everything is committed
    00000000000000000000.rows      records; the number is that of the segment's first row
    lock                           held by the one query that uses the spool

A record is a head (length, checksum, rows) and a MessagePack array: the broker's session, counters, the time of arrival
and the parcels as they came. One read of the socket is one record, written in one call.

Rules of this file: no Spark, no network. A record is there or not; a torn one at the end of the last segment was never
confirmed and is cut off. Two counters go with every row: `dropped`, notifications that the broker dropped at its bound
before it, and `gaps`, the times that a session could not be taken up before it. Bounded: `is_full` is true from
`bytes_max` on, until half of it is gone. Appended by one thread, read and committed by another.
"""

import contextlib
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
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from octopia.errors import InputError, OctopiaError
from octopia.net import KeptSession

FORMAT: Final = 1
SEGMENT_BYTES_MAX: Final = 16 * 1024 * 1024
# Between two entries of the index there are about so many bytes, which are walked record by record.
INDEX_BYTES: Final = 64 * 1024
# A query that was stopped a moment ago may not have let go yet.
LOCK_WAIT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.05
_HEAD: Final = Struct(">III")
_SUFFIX: Final = ".rows"


class Record(msgspec.Struct, array_like=True, frozen=True):
    """What one read brought."""

    url: str
    secret: bytes
    name: str
    received: int
    dropped: int
    gaps: int
    at_us: int
    parcels: list[bytes]


_decode: Final = msgspec.msgpack.Decoder(Record).decode
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log, and what was lost before it."""

    rows: int = 0
    dropped: int = 0
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """The record at this place of a segment begins with this position."""

    at: Position
    offset: int


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    size: int
    index: list[_Entry]


class Spool:
    """The log in one folder. `Spool.open` takes hold of it, `close` lets go."""

    def __init__(self, folder: Path, id: str, bytes_max: int, *, sync: bool) -> None:
        self.folder = folder
        self.id = id
        self._bytes_max = bytes_max
        self._segment_bytes_max = min(SEGMENT_BYTES_MAX, max(bytes_max // 8, INDEX_BYTES))
        self._sync = sync
        self._guard = threading.Lock()
        self._segments: list[_Segment] = []
        self._file = -1
        self._lock_file = -1
        self._full = False
        self.end = Position()
        self.committed = 0
        self.session: KeptSession | None = None
        # Called, by whichever thread commits, when there is room again.
        self.when_room: Callable[[], None] = lambda: None

    # -- opening

    @classmethod
    def open(cls, folder: Path, subscribed_to: str, bytes_max: int, *, sync: bool = False) -> "Spool":
        """Take hold of a spool, or make one. `subscribed_to`: a session for something else is not taken up."""
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
        with contextlib.suppress(FileNotFoundError, ValueError):
            self.committed = int((self.folder / "committed").read_text(encoding="ascii"))
        paths = sorted(self.folder.glob(f"*{_SUFFIX}"))
        for path in paths:
            self._recover_segment(path, is_last=path is paths[-1])
        if not self._segments:
            self.end = Position(rows=self.committed)
            self._start_segment()
        else:
            self._file = os.open(self._segments[-1].path, os.O_WRONLY | os.O_APPEND)
        self.committed = min(max(self.committed, self._segments[0].first), self.end.rows)
        self._note_fill()

    def _recover_segment(self, path: Path, *, is_last: bool) -> None:
        first = int(path.stem)
        if self._segments and first != self.end.rows:
            raise InputError(f"spool {self.folder}: rows {self.end.rows} to {first} are missing; files were deleted")
        self.end = Position(first, self.end.dropped, self.end.gaps)
        segment = _Segment(path, first, 0, [])
        self._segments.append(segment)
        data = path.read_bytes()
        for offset, record in _records(data):
            self._note_record(segment, record, offset, len(record.parcels))
            segment.size = offset + _HEAD.size + _HEAD.unpack_from(data, offset)[0]
        if segment.size < len(data):
            if not is_last:
                raise InputError(f"spool {self.folder}: {path.name} is damaged at byte {segment.size}")
            os.truncate(path, segment.size)

    def _note_record(self, segment: _Segment, record: Record, offset: int, rows: int) -> None:
        # Losses that a record tells of came before its rows.
        self.end = Position(self.end.rows, record.dropped, record.gaps)
        if not segment.index or offset - segment.index[-1].offset >= INDEX_BYTES:
            segment.index.append(_Entry(self.end, offset))
        self.end = Position(self.end.rows + rows, record.dropped, record.gaps)
        self.session = KeptSession(record.url, record.secret, record.name, record.received)

    def close(self) -> None:
        """Let go of the folder. What is in it stays."""
        with self._guard:
            for file in (self._file, self._lock_file):
                if file >= 0:
                    os.close(file)
            self._file = self._lock_file = -1

    # -- what the client calls

    def keep(self, parcels: Sequence[bytes], session: KeptSession, dropped: int) -> None:
        """Append what one read brought."""
        with self._guard:
            self._append(parcels, session, Position(self.end.rows, self.end.dropped + dropped, self.end.gaps))

    def session_began(self, session: KeptSession) -> None:
        """Note a new session: a gap, unless it is the first."""
        with self._guard:
            gap = self.session is not None or self.end.rows > 0
            self._append((), session, Position(self.end.rows, self.end.dropped, self.end.gaps + gap))

    @property
    def is_full(self) -> bool:
        """Whether so much waits for Spark that no more should come."""
        return self._full

    def _append(self, parcels: Sequence[bytes], session: KeptSession, at: Position) -> None:
        if self._file < 0:
            raise OctopiaError("the spool is closed")
        if self._segments[-1].size >= self._segment_bytes_max:
            self._start_segment()
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
        body = _encode(record)
        data = _HEAD.pack(len(body), crc32(body), len(parcels)) + body
        segment = self._segments[-1]
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(28, "the disk is full")
            if self._sync:
                os.fdatasync(self._file)
        except OSError as error:
            # Whatever part is there must not stay in front of the next record.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, segment.size)
            raise OctopiaError(
                f"spool {self.folder}: {error.strerror}; nothing that was not kept is confirmed"
            ) from None
        self._note_record(segment, record, segment.size, len(parcels))
        segment.size += len(data)
        # Only now: the session stands in the last record, and must stand in one.
        self._delete_committed()
        self._note_fill()

    def _start_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        path = self.folder / f"{self.end.rows:020d}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._segments.append(_Segment(path, self.end.rows, 0, []))

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

    # -- what Spark calls

    def reach(self, start: int, rows_max: int, bytes_max: int) -> Position:
        """The end of a batch that begins here: at most so many rows, and about so many bytes."""
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
        """The last segment and entry that begin with this row or one before it."""
        at = max(bisect_right(self._segments, row, key=lambda segment: segment.first) - 1, 0)
        while at and not self._segments[at].index:
            at -= 1
        index = self._segments[at].index
        return at, index[max(bisect_right(index, row, key=lambda entry: entry.at.rows) - 1, 0)]

    def holds(self, start: int, end: int) -> bool:
        """Whether all these rows are still here."""
        return self._segments[0].first <= start and end <= self.end.rows

    def slice(self, start: int, end: int) -> "Slice":
        """These rows, as bytes that can go anywhere."""
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
                    length, _, rows = _HEAD.unpack_from(data, stop)
                    stop += _HEAD.size + length
                    if row + rows <= start:
                        begin = stop
                    elif row < start:
                        skip = start - row
                    row += rows
                parts.append(data[begin:stop])
        return Slice(b"".join(parts), skip, end - start)

    def commit(self, row: int) -> None:
        """Spark will not ask for rows before this one again."""
        with self._guard:
            if self._file < 0 or row <= self.committed:
                return
            self.committed = min(row, self.end.rows)
            partial = self.folder / "committed.new"
            partial.write_text(str(self.committed), encoding="ascii")
            partial.replace(self.folder / "committed")
            self._delete_committed()
            self._note_fill()


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of a spool: records, of which the first `skip` rows are not meant, and `rows` after them are."""

    data: bytes
    skip: int
    rows: int

    def chunks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Parcels, with the time at which they came in microseconds."""
        skip, left = self.skip, self.rows
        for _, record in _records(self.data):
            parcels = record.parcels[skip : skip + left] if skip or len(record.parcels) > left else record.parcels
            skip = max(skip - len(record.parcels), 0)
            if parcels:
                left -= len(parcels)
                yield record.at_us, parcels


def _records(data: bytes) -> Iterator[tuple[int, Record]]:
    """The records of these bytes with their places; ends where there is no whole one."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum, _ = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(body) < length or crc32(body) != checksum:
            return
        yield at, _decode(body)
        at += _HEAD.size + length


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
    """The spool's id, and what it was subscribed to before; that is noted anew."""
    path = folder / "spool.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["format"] != FORMAT:
            raise InputError(f"spool {folder} is of format {known['format']}, this version reads {FORMAT}")
        id, before = str(known["spool"]), str(known["subscribed_to"])
    except FileNotFoundError:
        if any(folder.glob(f"*{_SUFFIX}")):
            raise InputError(f"spool {folder}: spool.json is missing; files were deleted") from None
        id, before = secrets.token_hex(6), subscribed_to
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is not the head of a spool: use an empty folder") from None
    partial = folder / "spool.json.new"
    partial.write_text(json.dumps({"format": FORMAT, "spool": id, "subscribed_to": subscribed_to}), encoding="utf-8")
    partial.replace(path)
    return id, before
