"""Sets of brokers on the wire: the header of a copy in full dynamic routing, and the stamp of its notification.

    header   u8 flags, with the priority in bits 2 and 3 | the set of destinations; flag 2: traced, flag 16: a probe
    stamp    u8 flags | u64 sequence | varint host | varint length of the set | set | varint gap, one or one for each

A broker is its place in `Scot.brokers`. A set is a bitmap, most significant byte first, or, with flag 1, a list: the
first place, and for each further one the number of places between it and the one before. Each number is in Rice code:
as many zeros as its upper part says, a one, and its 2n lowest bits, where n is in the three highest bits of the flags;
the last byte is filled up with zeros. So 1,000 of 10,000 brokers take five bits each, one more than the mean of any
code. The shorter form is sent and both are understood, but no list that is longer than a bitmap of all brokers.

Other numbers are varints: seven bits a byte, the lowest first, the highest bit says that more follow. A gap of 0 means
that nothing was sent there before; with flag 2 of a stamp all gaps are equal, and one stands for all.

Forwarders pass a stamp on unchanged and check only its length; destinations read it. Every reader knows the overlay: a
broker that does not exist, or is named twice, is an error. Reading a set never costs more than the overlay's size.
"""

from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Final

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.protocol import PRIORITY_MAX, Dests, Stamp
from octopia.topology import civ
from octopia.wire.limits import HEADERS_REMEMBERED_MAX, SEQUENCE_MAX

LISTED: Final = 1
TRACED: Final = 2
_PRIORITY_SHIFT: Final = 2
_PRIORITIES: Final = PRIORITY_MAX << _PRIORITY_SHIFT
PROBED: Final = 16
# Half of the number of low bits, with flag 1.
_LOW_SHIFT: Final = 5
_LOW: Final = 7 << _LOW_SHIFT
_LOW_BITS_MAX: Final = 14
_HEADER_FLAGS: Final = LISTED | TRACED | _PRIORITIES | PROBED
_ONE_GAP: Final = 2
_STAMP_FLAGS: Final = LISTED | _ONE_GAP
_STAMP_HEAD: Final = Struct(">BQ")
# The highest bit of a byte: more follow. A number up to 2^63 takes nine.
_MORE: Final = 128
_VARINT_BYTES_MAX: Final = 9
# Stamps of up to this many bytes are cached.
STAMP_BYTES_MAX: Final = 64


# ---- numbers and sets


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= _MORE:
        out.append(number & 127 | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at this position, and where the next item begins."""
    number = shift = 0
    for each in data[at : at + _VARINT_BYTES_MAX]:
        at += 1
        number |= (each & 127) << shift
        if each < _MORE:
            return number, at
        shift += 7
    raise RemoteProtocolError("a number that ends too late, or not at all")


def _bitmap(places: int) -> bytes:
    return places.to_bytes((places.bit_length() + 7) // 8, "big")


def _set_out(places: int) -> tuple[int, bytes]:
    """The flags and the bytes of a set."""
    bitmap = _bitmap(places)
    # a list of a quarter of all brokers would save little or nothing
    if 4 * places.bit_count() >= 8 * len(bitmap):
        return 0, bitmap
    at = civ.bits(places)
    between = [at[0], *(b - a - 1 for a, b in pairwise(at))]
    low = _low_bits(sum(between), len(between))
    listed = "".join(["0" * (each >> low) + f"{1 << low | each & (1 << low) - 1:b}" for each in between])
    size = (len(listed) + 7) // 8
    if size >= len(bitmap):
        return 0, bitmap
    return LISTED | low // 2 << _LOW_SHIFT, int(f"{listed:0<{8 * size}}", 2).to_bytes(size, "big")


def _low_bits(total: int, count: int) -> int:
    """How many low bits make the list shortest, or nearly so."""
    low = 0
    while low < _LOW_BITS_MAX and 3 * total >= 2 * count << low + 2:
        low += 2
    return low


def _bitmap_in(data: bytes, size: int) -> int:
    places = int.from_bytes(data, "big") if len(data) <= (size + 7) // 8 else 1 << size
    if places >> size:
        raise RemoteProtocolError(f"it names a broker that the overlay has not: there are {size}")
    return places


def _list_in(data: bytes, low: int, size: int) -> int:
    if len(data) > (size + 7) // 8:
        raise RemoteProtocolError("a list that is longer than a bitmap of all brokers")
    end = 8 * len(data)
    bits = f"{int.from_bytes(data, 'big'):0{end}b}"
    places, place, at = 0, -1, 0
    while (one := bits.find("1", at)) >= 0:
        stop = one + 1 + low
        if stop > end:
            raise RemoteProtocolError("a number that ends too late, or not at all")
        place += 1 + (one - at << low) + (int(bits[one + 1 : stop], 2) if low else 0)
        if place >= size:
            raise RemoteProtocolError(f"it names broker {place}; the overlay has {size}")
        places |= 1 << place
        at = stop
    if data and end - at >= 8:
        raise RemoteProtocolError("a list that ends too late")
    return places


def _set_in(data: bytes, flags: int, size: int) -> int:
    if flags & LISTED:
        places = _list_in(data, (flags & _LOW) >> _LOW_SHIFT << 1, size)
    elif flags & _LOW:
        raise RemoteProtocolError("it has flags that are not known, or none")
    else:
        places = _bitmap_in(data, size)
    if not places:
        raise RemoteProtocolError("it names no destination")
    return places


# ---- headers


@lru_cache(maxsize=HEADERS_REMEMBERED_MAX)
def header_bytes(header: Dests, traced: bool = False, probe: bool = False) -> bytes:
    """The header of a copy."""
    flags, places = _set_out(header.dests)
    if not places:
        raise LocalProtocolError("a copy without destinations")
    flags |= (TRACED if traced else 0) | (PROBED if probe else 0)
    return bytes([flags | header.priority << _PRIORITY_SHIFT]) + places


class DestsReader:
    """Reads headers and stamps, given the number of brokers. The core checks what may come on a link."""

    __slots__ = ("_headers", "_stamps", "brokers")

    def __init__(self, brokers: int) -> None:
        self.brokers = brokers
        # by bytes: the same few come over and over
        self._headers: dict[bytes, tuple[Dests, bool, bool]] = {}
        # by flags and the bytes after the sequence: host, destinations, gaps, and one more than the largest gap
        self._stamps: dict[bytes, tuple[int, int, tuple[int, ...], int]] = {}

    def header(self, data: bytes) -> tuple[Dests, bool, bool]:
        """The header of a copy, whether it is traced, and whether it is a probe."""
        known = self._headers.get(data)
        if known is not None:
            return known
        try:
            made = self._header(data)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"a copy whose header is wrong: {error}") from None
        if len(self._headers) >= HEADERS_REMEMBERED_MAX:
            self._headers.clear()
        self._headers[data] = made
        return made

    def _header(self, data: bytes) -> tuple[Dests, bool, bool]:
        if not data or data[0] & ~(_HEADER_FLAGS | _LOW):
            raise RemoteProtocolError("it has flags that are not known, or none")
        flags = data[0]
        dests = _set_in(data[1:], flags, self.brokers)
        priority = (flags & _PRIORITIES) >> _PRIORITY_SHIFT
        return Dests(dests, priority), bool(flags & TRACED), bool(flags & PROBED)

    def stamp(self, data: bytes) -> Stamp:
        """A stamp in full, at a destination."""
        key = data[:1] + data[9:]
        known = self._stamps.get(key)
        if known is not None:
            # most often only the sequence differs from the previous stamp
            host, dests, gaps, longest = known
            sequence = int.from_bytes(data[1:9], "big")
            if longest <= sequence <= SEQUENCE_MAX:
                return Stamp(host, sequence, dests, gaps)
        try:
            stamp = self._stamp(data)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"a copy whose stamp is wrong: {error}") from None
        # a gap of 0 stands for the sequence itself, so that such a stamp does not come again
        if len(key) <= STAMP_BYTES_MAX and max(stamp.gaps) < stamp.sequence:
            if len(self._stamps) >= HEADERS_REMEMBERED_MAX:
                self._stamps.clear()
            self._stamps[key] = stamp.host, stamp.dests, stamp.gaps, max(stamp.gaps) + 1
        return stamp

    def _stamp(self, data: bytes) -> Stamp:
        brokers = self.brokers
        if len(data) < _STAMP_HEAD.size:
            raise RemoteProtocolError(f"it has {len(data)} bytes, and {_STAMP_HEAD.size} at least are needed")
        flags, sequence = _STAMP_HEAD.unpack_from(data)
        if flags & ~(_STAMP_FLAGS | _LOW):
            raise RemoteProtocolError("it has flags that are not known")
        if not 0 < sequence <= SEQUENCE_MAX:
            raise RemoteProtocolError(f"its sequence is {sequence}")
        host, at = read_varint(data, _STAMP_HEAD.size)
        if host >= brokers:
            raise RemoteProtocolError(f"it was made by broker {host}; the overlay has {brokers}")
        length, at = read_varint(data, at)
        if at + length > len(data):
            raise RemoteProtocolError("it ends within its destinations")
        dests = _set_in(data[at : at + length], flags, brokers)
        wanted = 1 if flags & _ONE_GAP else dests.bit_count()
        gaps = _gaps_in(data, at + length, wanted, sequence)
        return Stamp(host, sequence, dests, gaps * dests.bit_count() if flags & _ONE_GAP else gaps)


# ---- stamps


@lru_cache(maxsize=HEADERS_REMEMBERED_MAX)
def stamp_set_of(host: int, dests: int) -> tuple[int, bytes]:
    """Of a stamp, the flags that follow from its destinations, and the bytes between its sequence and its gaps."""
    flags, places = _set_out(dests)
    return flags, varint(host) + varint(len(places)) + places


def stamp_bytes(stamp: Stamp) -> bytes:
    """A stamp, as it is made once by the publisher's host broker."""
    sequence, gaps = stamp.sequence, stamp.gaps
    flags, places = stamp_set_of(stamp.host, stamp.dests)
    head = _STAMP_HEAD.pack
    if gaps.count(gaps[0]) == len(gaps):
        return head(flags | _ONE_GAP, sequence) + places + varint(0 if gaps[0] == sequence else gaps[0])
    return head(flags, sequence) + places + b"".join([varint(0 if gap == sequence else gap) for gap in gaps])


def _gaps_in(data: bytes, at: int, wanted: int, sequence: int) -> tuple[int, ...]:
    if len(data) - at == wanted and max(data[at:]) < _MORE:
        gaps = tuple(data[at:])
    else:
        some: list[int] = []
        while at < len(data) and len(some) < wanted:
            gap, at = read_varint(data, at)
            some.append(gap)
        if at < len(data) or len(some) < wanted:
            raise RemoteProtocolError(f"it does not have exactly one gap for each of {wanted} destinations")
        gaps = tuple(some)
    if max(gaps) > sequence:
        raise RemoteProtocolError(f"a gap of {max(gaps)} before sequence {sequence}")
    return tuple([gap or sequence for gap in gaps]) if 0 in gaps else gaps


def stamp_block(stamp: Stamp | None) -> bytes:
    """The bytes before the parcel of a stamped copy: the length of the stamp, and the stamp."""
    made = b"" if stamp is None else stamp_bytes(stamp)
    return varint(len(made)) + made


def split_stamp(stamped: bytes) -> tuple[bytes, bytes]:
    """The stamp and the parcel of a stamped copy."""
    length = stamped[0]
    start = 1
    if length >= _MORE:
        length, start = read_varint(stamped, 0)
    stop = start + length
    if stop >= len(stamped):
        raise RemoteProtocolError("a stamp that leaves no room for a notification")
    return stamped[start:stop], stamped[stop:]
