"""Frames: the length, the kind, the body; and how a stream of bytes is cut into them.

    frame               u32 length of what follows · u8 kind · body
    with notification   u32 length of what follows · u8 kind · u32 length of the header · header · parcel

All numbers are unsigned, most significant byte first. Rules of this file: a length is checked when its four bytes are
there, before anything of the frame is kept. Bytes that wait for the rest of their frame are joined once, when it is
complete, so that a large frame in small pieces costs no more than its size.
"""

from struct import Struct
from typing import Final

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.wire.limits import PREFIX_BYTES

_HEAD: Final = Struct(">IB")
_NOTIFICATION_HEAD: Final = Struct(">IBI")
_LENGTH_MAX: Final = 2**32 - 1
# The first bytes of what people point at the port by mistake.
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
    """What comes before a parcel of so many bytes in the frame that carries it."""
    return _NOTIFICATION_HEAD.pack(len(header) + parcel_bytes + 5, kind, len(header)) + header


class FrameBuffer:
    """Bytes that have come in and are no frame yet."""

    __slots__ = ("_bytes", "_needed", "_parts", "begun")

    def __init__(self) -> None:
        self.begun = 0  # changes with every frame that is begun
        self._parts: list[bytes] = []
        self._bytes = 0
        self._needed = 0

    def __len__(self) -> int:
        return self._bytes

    def take(self, data: bytes) -> bytes | None:
        """All bytes at hand with these, or None while the frame that is waited for is not complete."""
        if not self._parts:
            return data
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes < self._needed:
            return None
        joined = b"".join(self._parts)
        self._parts.clear()
        self._bytes = 0
        return joined

    def clear(self) -> None:
        """Forget what has come."""
        self.keep(b"", 0)

    def keep(self, rest: bytes, needed: int) -> None:
        """These bytes wait until there are `needed` of them."""
        self.begun += 1
        self._parts = [rest] if rest else []
        self._bytes = len(rest)
        self._needed = needed


def too_long(length: int, length_max: int, start: bytes) -> RemoteProtocolError:
    """What to say of a length that is out of bounds; most often it is no length at all."""
    for bytes_, name in _STRANGERS.items():
        if start.startswith(bytes_):
            return RemoteProtocolError(f"this is no OctopiA peer: it speaks {name}")
    if not length:
        return RemoteProtocolError("a frame of 0 bytes; it has a kind at least")
    return RemoteProtocolError(f"a frame of {length:,} bytes; at most {length_max:,} are accepted here")


__all__ = ["PREFIX_BYTES", "FrameBuffer", "frame", "notification_frame", "notification_head", "too_long"]
