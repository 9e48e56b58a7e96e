"""Checks of parcels in compiled code: finds those that are plain and valid, without decoding them.

`ParcelReader` reads a parcel that passes without its slow path. One that does not pass is invalid, or rare (an
infinity, a long integer, very many attributes): the ordinary reader decides which.
"""

import numpy as np

from octopia.native import big_endian, byte_at, characters, inlined, kernel, same_bytes
from octopia.wire.arrow.numba_msgpack import BIG, FLOAT, INT, TEXT, WRONG, map_at, value_at
from octopia.wire.kinds import Kind
from octopia.wire.limits import NAME_CHARS_MAX, PLAIN_OVERHEAD_BYTES, PREFIX_BYTES

# More attributes are rare, and each is compared with all others.
KEYS_MAX = 64
_TEXT_BYTES_MAX = 65_536
_NOT_FINITE = 0x7FF
_DELIVER = int(Kind.DELIVER)
_HEAD = PLAIN_OVERHEAD_BYTES
_TIME_BYTES = 9


@inlined
def _names_repeat(key_starts, key_stops, count):  # type: ignore[no-untyped-def]
    """Whether a name is repeated."""
    repeats = False
    for i in range(1, count):
        size = key_stops[i] - key_starts[i]
        for j in range(i):
            if key_stops[j] - key_starts[j] == size and same_bytes(key_starts[i], key_starts[j], size):
                repeats = True
    return repeats


@inlined
def _is_plain(tag, value, after):  # type: ignore[no-untyped-def]
    """Whether a value is valid and not rare."""
    plain = tag not in (WRONG, BIG)
    if tag == FLOAT:
        plain = (value >> np.int64(52)) & np.int64(_NOT_FINITE) != _NOT_FINITE
    elif tag == TEXT:
        plain = after - value <= _TEXT_BYTES_MAX and characters(value, after - value) >= 0
    return plain


@inlined
def _after_attributes(at, end, count, key_starts, key_stops, before):  # type: ignore[no-untyped-def]
    """Where the bytes after `count` plain attributes begin; -1 if one is not plain or a name is repeated.

    The scratch arrays hold the addresses of the names of the previous parcel, and get those of this one.
    """
    # Most parcels have the previous one's names, in the same order; then none is repeated, either.
    familiar = count == before
    for i in range(count):
        tag, start, after = value_at(at, end)
        right = tag == TEXT and after > start
        if right:
            familiar = familiar and key_stops[i] - key_starts[i] == after - start
            familiar = familiar and same_bytes(key_starts[i], start, after - start)
            right = familiar or characters(start, after - start) >= 0
            key_starts[i], key_stops[i] = start, after
            tag, value, at = value_at(after, end)
            right = right and _is_plain(tag, value, at)
        if not right:
            at = np.int64(-1)
            break
    if at >= 0 and not familiar and _names_repeat(key_starts, key_stops, count):
        at = np.int64(-1)
    return at


@inlined
def _plain_parcel(at, stop, attributes_max, key_starts, key_stops, before):  # type: ignore[no-untyped-def]
    """Whether a parcel is plain and valid, and the number of names in the scratch arrays; -1 if it is not."""
    end = np.int64(stop)
    right = stop - at > 4 and (byte_at(at) == 0x93 or byte_at(at) == 0x94)
    if right and byte_at(at) == 0x94:
        end = np.int64(stop) - np.int64(_TIME_BYTES)
        right = end > at + 4 and byte_at(end) == 0xCF and byte_at(end + 1) < 0x80
    count, at = map_at(np.int64(at) + np.int64(1), end)
    right = right and 0 < count <= min(attributes_max, KEYS_MAX)
    if right:
        at = _after_attributes(at, end, count, key_starts, key_stops, before)
        right = at >= 0
    if right:
        tag, start, after = value_at(at, end)
        right = tag == TEXT and 0 < after - start <= NAME_CHARS_MAX and characters(start, after - start) >= 0
        tag, value, after = value_at(after, end)
        right = right and tag == INT and value >= 0 and after == end
    return right, count if right else np.int64(-1)


@kernel
def split_deliveries(data, at, frame_bytes_max, attributes_max, starts, stops, headers, header_at):  # type: ignore[no-untyped-def]
    """Cut consecutive DELIVER frames, each plain and valid, from `at` on.

    Fills, per frame, where its parcel begins and ends and which header it has; per header, where that begins and ends.
    Returns how many frames there are, how many headers, and where the next frame begins.
    """
    key_starts = np.empty(KEYS_MAX, np.int64)
    key_stops = np.empty(KEYS_MAX, np.int64)
    before = np.int64(-1)
    base = np.int64(data.ctypes.data)
    count, known, end = 0, 0, base + len(data)
    at = base + at
    header = 0
    while count < len(starts) and at + _HEAD < end and byte_at(at + PREFIX_BYTES) == _DELIVER:
        length = big_endian(at, PREFIX_BYTES)
        stop = at + np.int64(PREFIX_BYTES) + length
        if length > frame_bytes_max or stop > end:
            break
        begin = at + np.int64(_HEAD)
        parcel = begin + big_endian(at + 5, 4)
        if parcel >= stop:
            break
        right, before = _plain_parcel(parcel, stop, attributes_max, key_starts, key_stops, before)
        if not right:
            break
        size = parcel - begin
        # Mostly the header of the previous frame.
        tried = 0
        while tried < known:
            if header_at[header, 1] - header_at[header, 0] == size and same_bytes(
                base + header_at[header, 0], begin, size
            ):
                break
            tried += 1
            header = header + 1 if header + 1 < known else 0
        if tried == known:
            if known == len(header_at):
                break
            header = known
            header_at[header, 0], header_at[header, 1] = begin - base, parcel - base
            known += 1
        starts[count], stops[count], headers[count] = parcel - base, stop - base, header
        count += 1
        at = stop
    return count, known, at - base
