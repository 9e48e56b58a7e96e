"""The state that a restarting broker saves for its next start: one file per broker.

    magic and version (8 bytes) │ BLAKE2b of the rest (32 bytes) │ MessagePack: `SavedBroker`

A session is saved with everything needed to resume it: its secret, the number of frames in each direction, the
client's queue, and its registrations as the frames that the client sent. For a link, only notifications that the
neighbour has not confirmed are saved; neighbours exchange everything else again. Under a routing with streams, how far
each was taken is saved, so that repeats are recognised, and what was sent and not confirmed by all its destinations.

A file is written atomically (a temporary file, `fsync`, rename) and is readable only by its owner, since it contains
the secrets of sessions. The temporary file is made, with the space that it needs, before the broker drains (`Room`), so
that a broker without room can continue to serve. The file is read once, and removed before it is examined. If it is
damaged, too old, or belongs to another broker, overlay, address or user, that is an `InputError` with the reason, and
the broker starts without it. Its size is limited by the queues of a running broker; beyond `BYTES_MAX`, the sessions
with the longest queues are left out and end. Files that are not used within a day are removed.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from octopia.errors import InputError
from octopia.net.addresses import Address
from octopia.net.broker.identity import OverlayIdentity
from octopia.routing import POLICIES
from octopia.topology import BrokerId

BYTES_MAX = 1 << 30
LEFT_BEHIND_S = 86_400.0
_SUFFIX = ".saved"
_TEMPORARY_SUFFIX = ".new"
_MAGIC = b"OCTOPIA\x01"
_SUM_BYTES = 32

Count = Annotated[int, Meta(ge=0)]


class SavedSession(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client's session. Counts refer to numbered frames."""

    name: str
    owner: str  # of the rights it had
    secret: bytes
    session_s: float
    received: Count
    last_sequence: Annotated[int, Meta(ge=-1)]
    published: Count
    confirmed: Count
    unconfirmed: list[bytes]
    waiting: list[bytes]
    dropped: Count  # of which the client has not been told
    dropped_total: Count
    registrations: list[bytes]
    unanswered: list[tuple[str, str]]  # request and id
    too_old_total: Count = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.unconfirmed)) + sum(map(len, self.waiting)) + sum(map(len, self.registrations))


class SavedLink(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Notifications for a neighbour that were never sent."""

    neighbour: str
    frames: list[bytes]


class SavedStreams(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How far the streams of one host broker were taken here: by publisher, the number of the last notification."""

    host: Count  # its place among all brokers, as in stamps
    publishers: dict[str, Count]


class SavedSent(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A notification of a client of this broker that some destinations have not confirmed."""

    number: Count
    dests: bytes  # as bits at their places among all brokers, the lowest first
    priority: Count
    parcel: bytes


class SavedState(NamedTuple):
    """The state for the next process."""

    sessions: list[SavedSession]
    links: list[SavedLink]
    streams: list[SavedStreams]
    sent: list[SavedSent]


class SavedBroker(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    whose: str
    saved_s: float
    sessions: list[SavedSession]
    links: list[SavedLink]
    routing: str = ""  # under which the frames of links were made, and the streams numbered
    streams: list[SavedStreams] = []
    sent: list[SavedSent] = []


class Place(NamedTuple):
    """The file of one broker, and its identity."""

    folder: Path
    overlay: OverlayIdentity
    broker: BrokerId
    address: Address

    @property
    def whose(self) -> str:
        return self._whose(self.overlay.place_digest)

    @property
    def path(self) -> Path:
        return self._path(self.whose)

    @property
    def temporary(self) -> Path:
        """Where the file is written before it gets its name."""
        return self.path.with_suffix(_TEMPORARY_SUFFIX)

    def files(self) -> Iterator[tuple[Path, str, str]]:
        """Where this broker may have left its state: path, identity, and routing if the file does not contain it.

        Earlier versions named the file after the shape and the routing of the overlay, without its name.
        """
        yield self.path, self.whose, ""
        for routing in POLICIES:
            whose = self._whose(self.overlay.nameless_digest_with(routing))
            yield self._path(whose), whose, routing

    def _whose(self, digest: str) -> str:
        return f"{digest} {self.broker} {self.address}"

    def _path(self, whose: str) -> Path:
        name = blake2b(whose.encode(), digest_size=8).hexdigest()
        return self.folder / f"{self.broker.region}-{self.broker.cluster}-{name}{_SUFFIX}"


class Room:
    """Disk space for the state of one broker, reserved before the broker commits itself to a restart.

    It is the temporary file, of the expected size. `save` fills it and gives it its name; `release` removes it.
    """

    def __init__(self, place: Place, size: int) -> None:
        """`OSError` if there is no such room; then nothing is left behind."""
        self._place = place
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.temporary.unlink(missing_ok=True)
        self._file = os.open(place.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._open = True
        try:
            _allocate(self._file, size)
        except OSError:
            self.release()
            raise

    def save(self, state: SavedState, now_s: float) -> list[str]:
        """Write the file with this wall-clock time; returns the names of sessions that did not fit.

        After an `OSError`, nothing is left behind.
        """
        others = sum(len(frame) for link in state.links for frame in link.frames)
        others += sum(len(sent.parcel) for sent in state.sent)
        fitting, left_out = _fitting(state.sessions, BYTES_MAX - others)
        place = self._place
        body = msgspec.msgpack.encode(
            SavedBroker(place.whose, now_s, fitting, state.links, place.overlay.routing, state.streams, state.sent)
        )
        try:
            start = _MAGIC + _sum(body)
            _write(self._file, start)
            _write(self._file, body)
            os.ftruncate(self._file, len(start) + len(body))
            os.fsync(self._file)
            self._close()
            place.temporary.rename(place.path)
            _sync_folder(place.folder)
        except OSError:
            self.release()
            with suppress(OSError):
                place.path.unlink(missing_ok=True)
            raise
        return left_out

    def release(self) -> None:
        """Give the space back."""
        with suppress(OSError):
            self._close()
        with suppress(OSError):
            self._place.temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)


def _allocate(file: int, size: int) -> None:
    if sys.platform == "darwin":
        # It cannot reserve space; `save` notices if there is none.
        return
    try:
        os.posix_fallocate(file, 0, max(1, size))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def take(place: Place, now_s: float, age_s_max: float) -> SavedBroker | None:
    """Read the file and remove it; None if there is none, `InputError` if it cannot be used."""
    _remove_left_behind(place.folder, now_s)
    found: SavedBroker | None = None
    problem: InputError | None = None
    for path, whose, routing in place.files():
        try:
            saved = _take(path, whose, now_s, age_s_max)
        except InputError as error:
            problem = problem or error
            continue
        if saved is not None and (found is None or saved.saved_s > found.saved_s):
            found = saved if saved.routing else msgspec.structs.replace(saved, routing=routing)
    if found is None and problem is not None:
        raise problem
    return found


def _take(path: Path, whose: str, now_s: float, age_s_max: float) -> SavedBroker | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    with os.fdopen(file, "rb") as taken:
        try:
            path.unlink()
        except OSError as error:
            # Otherwise another start would use it again.
            raise InputError(f"{path} cannot be removed: {error.strerror}") from None
        state = os.fstat(taken.fileno())
        if state.st_uid != os.geteuid():
            raise InputError(f"{path} belongs to another user")
        if state.st_size > 2 * BYTES_MAX:
            raise InputError(f"{path} has {state.st_size} bytes; {2 * BYTES_MAX} are allowed")
        data = taken.read()
    saved = _decoded(path, data)
    if saved.whose != whose:
        raise InputError(f"{path} is of another overlay, broker or address")
    if not abs(now_s - saved.saved_s) <= age_s_max:
        raise InputError(f"{path} is {now_s - saved.saved_s:.0f} s old; sessions last {age_s_max:g} s")
    return saved


def _remove_left_behind(folder: Path, now_s: float) -> None:
    for suffix in (_SUFFIX, _TEMPORARY_SUFFIX):
        for file in folder.glob(f"*{suffix}"):
            with suppress(OSError):
                if now_s - file.stat().st_mtime > LEFT_BEHIND_S:
                    file.unlink()


def _decoded(path: Path, data: bytes) -> SavedBroker:
    start = len(_MAGIC) + _SUM_BYTES
    if data[: len(_MAGIC)] != _MAGIC:
        raise InputError(f"{path} is not of this version")
    body = memoryview(data)[start:]
    if data[len(_MAGIC) : start] != _sum(body):
        raise InputError(f"{path} is damaged")
    try:
        return msgspec.msgpack.decode(body, type=SavedBroker)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}") from None


def _sum(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=_SUM_BYTES).digest()


def _fitting(sessions: list[SavedSession], bytes_max: int) -> tuple[list[SavedSession], list[str]]:
    """The sessions that fit, in order, and the names of the others; the largest are left out first."""
    sizes = [session.size for session in sessions]
    total = sum(sizes)
    left_out: set[int] = set()
    for at in sorted(range(len(sessions)), key=sizes.__getitem__, reverse=True):
        if total <= bytes_max:
            break
        total -= sizes[at]
        left_out.add(at)
    fitting = [session for at, session in enumerate(sessions) if at not in left_out]
    return fitting, [session.name for at, session in enumerate(sessions) if at in left_out]
