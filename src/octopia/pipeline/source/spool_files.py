"""The bytes of a spool's files: records with checksums, small sealed files, and the mark of what was kept.

Every byte is covered by a checksum, so a flipped bit is found wherever it is. A checksum cannot show that a file ends
too early, at the end of a record. The mark does: it records how far the last segment reached at the last confirmation,
and how much of it had been synced.

    record     head (length, rows, checksum of the body, checksum of the head), then the body in MessagePack
    mark       one line of text and its checksum, rewritten in place after every record
    others     one line of text and its checksum, replaced as a whole
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from octopia.errors import InputError

HEAD: Final = Struct(">IIII")
_HEAD_FIELDS: Final = Struct(">III")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
# The mark has a fixed length, within one sector of a disk, and is never torn.
_MARK_BYTES: Final = 160


class Record(msgspec.Struct, array_like=True, frozen=True):
    """The notifications of one read."""

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


class DamagedError(InputError):
    """Bytes that differ from those written. `at` is the offset."""

    def __init__(self, at: int) -> None:
        super().__init__(f"damaged at byte {at}")
        self.at = at


def encode_record(record: Record) -> bytes:
    body = _encode(record)
    fields = _HEAD_FIELDS.pack(len(body), len(record.parcels), crc32(body))
    return fields + crc32(fields).to_bytes(4, "big") + body


def records(data: bytes) -> Iterator[tuple[int, int, Record]]:
    """The records in these bytes, each with its beginning and end; `DamagedError` at one that is damaged."""
    at = 0
    while at < len(data):
        if at + HEAD.size > len(data):
            raise DamagedError(at)
        length, rows, checksum, own = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        body = data[at + HEAD.size : end]
        if crc32(data[at : at + _HEAD_FIELDS.size]) != own or len(body) < length or crc32(body) != checksum:
            raise DamagedError(at)
        record = _decode(body)
        if len(record.parcels) != rows:
            raise DamagedError(at)
        yield at, end, record
        at = end


def seal(text: str) -> bytes:
    """A line of text with its checksum."""
    data = text.encode()
    return b"%08x %s\n" % (crc32(data), data)


def unseal(data: bytes) -> str | None:
    """The text, or None if the checksum does not fit."""
    checksum, space, rest = data.partition(b" ")
    text = rest[:-1]
    if not space or rest[-1:] != b"\n" or checksum != b"%08x" % crc32(text):
        return None
    return text.decode()


def replace_sealed(path: Path, text: str, *, sync: bool) -> None:
    """Replace a small file: it contains either the old text or the new one."""
    replace_file(path, seal(text), sync=sync)


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    partial = path.with_name(path.name + ".new")
    with partial.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the spool reached when this was last written: the segment, its bytes, and how many of them are synced."""

    first: int = 0
    size: int = 0
    synced: int = 0
    boot: str = ""


def this_boot() -> str:
    """Identifies the time since the machine was started; empty if the system does not tell."""
    with contextlib.suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""


def encode_mark(mark: Mark) -> bytes:
    text = f"{mark.first} {mark.size} {mark.synced} {mark.boot}"
    return seal(text.ljust(_MARK_BYTES - len(seal(""))))


def read_mark(path: Path) -> Mark:
    """The mark of a spool that has segments."""
    try:
        text = unseal(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} is missing; files were deleted") from None
    if text is None:
        raise InputError(
            f"{path} is damaged, so missing rows cannot be detected; start with an empty spool folder and a new "
            "checkpointLocation"
        )
    first, size, synced, *boot = text.split()
    return Mark(int(first), int(size), int(synced), boot[0] if boot else "")
