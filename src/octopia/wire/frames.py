"""Frames: length, kind and body, and how a stream of bytes is cut into them.

    frame               u32 length of what follows · u8 kind · body
    with notification   u32 length of what follows · u8 kind · u32 length of the header · header · parcel

All numbers are unsigned, most significant byte first. A length is checked when its four bytes are there, before
anything of the frame is kept. Partial frames are joined once, when complete, so a large frame in small pieces costs no
more than its size.
"""

from struct import Struct
from typing import Final

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.wire.limits import PREFIX_BYTES

_HEAD: Final = Struct(">IB")
_NOTIFICATION_HEAD: Final = Struct(">IBI")
_LENGTH_MAX: Final = 2**32 - 1
# The first bytes of other protocols that connect to the port by mistake.
_STRANGERS: Final = {
    b"\x16\x03": "TLS, but this port speaks plain TCP",
    b"GET ": "HTTP",
    b"HEAD": "HTTP",
    b"POST": "HTTP",
}


def frame(kind: int, body: bytes) -> bytes:
    """A frame without a notification."""
    if len(body) >= _LENGTH_MAX:
        raise LocalProtocolError(f"a frame of {len(body)} bytes cannot be sent")
    return _HEAD.pack(len(body) + 1, kind) + body


def notification_frame(kind: int, header: bytes, parcel: bytes) -> bytes:
    """A frame that carries a notification."""
    return _NOTIFICATION_HEAD.pack(len(header) + len(parcel) + 5, kind, len(header)) + header + parcel


def notification_head(kind: int, header: bytes, parcel_bytes: int) -> bytes:
    """The bytes before a parcel of this length in its frame."""
    return _NOTIFICATION_HEAD.pack(len(header) + parcel_bytes + 5, kind, len(header)) + header


def split_frames(data: bytes) -> list[bytes]:
    """Split consecutive whole frames."""
    frames, at = [], 0
    while at < len(data):
        stop = at + PREFIX_BYTES + int.from_bytes(data[at : at + PREFIX_BYTES], "big")
        frames.append(data[at:stop])
        at = stop
    return frames


class FrameBuffer:
    """Received bytes that do not make a complete frame yet."""

    __slots__ = ("_bytes", "_needed", "begun", "parts")

    def __init__(self) -> None:
        self.begun = 0  # changes with every frame that is begun
        self.parts: list[bytes] = []
        self._bytes = 0
        self._needed = 0

    def __len__(self) -> int:
        return self._bytes

    def take(self, data: bytes) -> bytes | None:
        """All pending bytes with these, or None while the current frame is incomplete."""
        if not self.parts:
            return data
        self.parts.append(data)
        self._bytes += len(data)
        if self._bytes < self._needed:
            return None
        joined = b"".join(self.parts)
        self.parts.clear()
        self._bytes = 0
        return joined

    def clear(self) -> None:
        """Discard the pending bytes."""
        self.keep(b"", 0)

    def keep(self, rest: bytes, needed: int) -> None:
        """Keep these bytes until there are `needed` of them."""
        self.begun += 1
        self.parts = [rest] if rest else []
        self._bytes = len(rest)
        self._needed = needed


def too_long(length: int, length_max: int, start: bytes) -> RemoteProtocolError:
    """The error message for a length out of bounds; most often the bytes are not a length at all."""
    for bytes_, name in _STRANGERS.items():
        if start.startswith(bytes_):
            return RemoteProtocolError(f"this is not an OctopiA peer: it speaks {name}")
    if not length:
        return RemoteProtocolError("a frame of 0 bytes; it has a kind at least")
    return RemoteProtocolError(f"a frame of {length:,} bytes; at most {length_max:,} are accepted here")
