"""Frames that carry notifications, read in Python: a run of consecutive frames of one kind and header is a batch.

This is the reference for the compiled reader (`scan_numba.py`), and reports what is wrong with a frame. A batch ends
before a frame that is wrong, so that everything before it is handled first; at its own turn it raises.
"""

from struct import Struct
from typing import Final

import msgspec
from msgspec.msgpack import Decoder

from octopia.errors import RemoteProtocolError
from octopia.protocol import PLAIN
from octopia.wire.dests import split_stamp
from octopia.wire.kinds import Kind, kind_name
from octopia.wire.limits import HEADERS_REMEMBERED_MAX, PREFIX_BYTES
from octopia.wire.link_messages import PROBE, TRACED, Head, LinkReader
from octopia.wire.parcel import Batch, ParcelReader

# Length of the frame, its kind, length of the header.
_HEAD: Final = Struct(">IBI")
_LENGTH: Final = Struct(">I")
_PUBLICATION: Final = Head(PLAIN)
_TRACED: Final = Head(PLAIN, TRACED)
_PROBE: Final = Head(PLAIN, PROBE)


class BatchReader:
    """Reads notifications within given limits."""

    __slots__ = ("_headers", "_known", "_parcels", "_publish_header")

    def __init__(self, parcels: ParcelReader, links: LinkReader) -> None:
        self._parcels = parcels
        self._publish_header = Decoder(tuple[bool]).decode
        self._headers = {
            Kind.PUBLISH: self._of_publication,
            Kind.PROBE: self._of_probe,
            Kind.NOTIFY: links.notify_header,
            Kind.NOTIFY_TREE: links.tree_header,
            Kind.NOTIFY_ROUTES: links.routes_header,
            Kind.NOTIFY_DESTS: links.dests_header,
        }
        # by kind and bytes: the same few come over and over
        self._known: dict[bytes, Head] = {}

    def head(self, kind: int, header: bytes) -> Head:
        """The header of frames of a kind, or `RemoteProtocolError`."""
        key = bytes([kind]) + header
        known = self._known.get(key)
        if known is None:
            try:
                known = self._headers[Kind(kind)](header)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                said = f"a frame {kind_name(kind)} whose header cannot be decoded: {error}"
                raise RemoteProtocolError(said) from None
            if len(self._known) >= HEADERS_REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = known
        return known

    def _of_publication(self, header: bytes) -> Head:
        if not header:
            return _PUBLICATION
        return _TRACED if self._publish_header(header)[0] else _PUBLICATION

    def _of_probe(self, header: bytes) -> Head:
        if header:
            raise RemoteProtocolError("a probe has no header")
        return _PROBE

    def read(self, data: bytes, at: int, frame_bytes_max: int, most: int = 1 << 30) -> Batch:
        """The notifications of frames from `at` on that begin like the first, which is whole and within the bound."""
        length, kind, header_bytes = self._split_head(data, at)
        start = at + _HEAD.size
        tail = start + header_bytes
        if tail >= at + PREFIX_BYTES + length:
            raise RemoteProtocolError(f"a frame {kind_name(kind)} whose header leaves no room for a notification")
        batch = Batch(*self.head(kind, data[start:tail]))
        same, offset, end = data[at + PREFIX_BYTES : tail], tail - at, len(data)
        tails: list[bytes] = []
        stops: list[int] = []
        while at + offset < end and len(tails) < most:
            length = _LENGTH.unpack_from(data, at)[0]
            stop = at + PREFIX_BYTES + length
            fits = at + offset < stop <= end and length <= frame_bytes_max
            if not fits or not data.startswith(same, at + PREFIX_BYTES):
                break
            tails.append(data[at + offset : stop])
            stops.append(stop)
            at = stop
        if kind == Kind.NOTIFY_DESTS:
            self._read_stamped(tails, batch)
        else:
            self._read_parcels(tails, batch)
        batch.stops = stops[: len(batch)]
        return batch

    def _read_parcels(self, parcels: list[bytes], batch: Batch) -> None:
        """Decode parcels up to one that is wrong; raises if that is the first."""
        try:
            self._parcels.read_many(parcels, batch)
        except RemoteProtocolError:
            if not len(batch):
                raise

    def _read_stamped(self, stamped: list[bytes], batch: Batch) -> None:
        parcels: list[bytes] = []
        try:
            for each in stamped:
                parcels.append(split_stamp(each)[1])
        except RemoteProtocolError:
            if not parcels:
                raise
        self._read_parcels(parcels, batch)
        batch.stamped = stamped[: len(batch)]

    @staticmethod
    def _split_head(data: bytes, at: int) -> tuple[int, int, int]:
        length, kind = _LENGTH.unpack_from(data, at)[0], data[at + PREFIX_BYTES]
        if length < _HEAD.size - PREFIX_BYTES:
            raise RemoteProtocolError(f"a frame {kind_name(kind)} of {length} bytes has no room for its header")
        return _HEAD.unpack_from(data, at)
