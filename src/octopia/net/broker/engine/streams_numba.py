"""Streams, compiled: stamps for what is published, and the gate at destinations. `wire/dests.py` describes a stamp."""

import numpy as np

from octopia.matching.tokens import HEADER, NOTE_COLUMNS, PARCEL, PUBLISHER, TAIL
from octopia.native import (
    addresses_at,
    big_endian,
    byte_at,
    inlined,
    int_lines_at,
    ints_at,
    kernel,
    put_big_endian,
    put_byte,
    put_bytes,
)
from octopia.net.broker.engine.arrays import (
    DELIVERS,
    DEST_STARTS,
    DESTS,
    GAPS,
    GROUPS,
    LATE,
    LOCAL,
    SENT_TO,
    SHEET_LINES,
    STAMP_ENDS,
    STAMP_FLAGS,
    STAMP_SETS,
    STAMP_SETS_AT,
    STAMPS,
    STREAM_COUNT,
    STREAM_HOST,
    STREAM_LAST,
)
from octopia.wire.scanner import NOTES
from octopia.wire.scanner import SHEET_LINES as SCAN_LINES

# As in `wire/dests.py`.
_LISTED, _ONE_GAP, _LOW_SHIFT = 1, 2, 5
_UNKNOWN = (1 << _LOW_SHIFT) - 1 & ~(_LISTED | _ONE_GAP)
_HEAD_BYTES = 9
_VARINT_BYTES_MAX = 9


@kernel
def _varint_bytes(number):  # type: ignore[no-untyped-def]
    size = 1
    while number >= 128:
        number >>= 7
        size += 1
    return size


@kernel
def _put_varint(at, number):  # type: ignore[no-untyped-def]
    """Write a number, seven bits a byte, the lowest first; returns where it ends."""
    while number >= 128:
        put_byte(at, number & 127 | 128)
        number >>= 7
        at += 1
    put_byte(at, number)
    return at + 1


@kernel
def stamp(count, sequence, engine_at):  # type: ignore[no-untyped-def]
    """Stamp the notifications of a read whose group has destinations, with the numbers after `sequence`.

    Returns how many there are; -1 if there is no room for the stamps. `SENT_TO` then has the last of each destination.
    """
    engine = addresses_at(engine_at, SHEET_LINES)
    groups, ends, starts = ints_at(engine, GROUPS), ints_at(engine, STAMP_ENDS), ints_at(engine, DEST_STARTS)
    dests, sent_to, gaps = ints_at(engine, DESTS), ints_at(engine, SENT_TO), ints_at(engine, GAPS)
    sets_at, flags = ints_at(engine, STAMP_SETS_AT), ints_at(engine, STAMP_FLAGS)
    to, room = engine[STAMPS, 0], engine[STAMPS, 1]
    end, stamped = np.int64(0), np.int64(0)
    ends[0] = 0
    for event in range(count):
        group = groups[event]
        first, number = starts[group], starts[group + 1] - starts[group]
        if number:
            sequence += 1
            stamped += 1
            alike, size = True, np.int64(0)
            for place in range(number):
                dest = dests[first + place]
                # a gap of 0 stands for the sequence itself: nothing was sent there before
                gaps[place] = sequence - sent_to[dest] if sent_to[dest] else 0
                sent_to[dest] = sequence
                alike = alike and gaps[place] == gaps[0]
                size += _varint_bytes(gaps[place])
            if alike:
                size = np.int64(_varint_bytes(gaps[0]))
            middle = sets_at[group + 1] - sets_at[group]
            size += _HEAD_BYTES + middle
            if end + size + _VARINT_BYTES_MAX > room:
                return np.int64(-1)
            at = _put_varint(to + end, size)
            put_byte(at, flags[group] | (_ONE_GAP if alike else 0))
            put_big_endian(at + 1, sequence, 8)
            put_bytes(at + _HEAD_BYTES, engine[STAMP_SETS, 0] + sets_at[group], middle)
            at += _HEAD_BYTES + middle
            for place in range(1 if alike else number):
                at = _put_varint(at, gaps[place])
            end = at - to
        ends[event + 1] = end
    return stamped


@inlined
def _varint_at(at, stop):  # type: ignore[no-untyped-def]
    """The number at `at`, and where the next item begins; -1 there if it ends too late, or not at all."""
    number, shift, after = np.int64(0), np.int64(0), np.int64(-1)
    last = min(stop, at + _VARINT_BYTES_MAX)
    while at < last and after < 0:
        byte = byte_at(at)
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            after = at
    return number, after


@kernel
def _bits(byte):  # type: ignore[no-untyped-def]
    found = 0
    while byte:
        found += byte & 1
        byte >>= 1
    return found


@kernel
def _listed(at, stop, low, brokers, me):  # type: ignore[no-untyped-def]
    """Of a set that is a list: as `_members`."""
    count, before, place, zeros = np.int64(0), np.int64(-1), np.int64(-1), np.int64(0)
    bit, end = np.int64(0), 8 * (stop - at)
    while bit < end:
        one = byte_at(at + (bit >> 3)) >> (7 - (bit & 7)) & 1
        bit += 1
        if not one:
            zeros += 1
            continue
        if bit + low > end:
            return np.int64(0), np.int64(-1)
        number = zeros
        for _ in range(low):
            number = number << 1 | byte_at(at + (bit >> 3)) >> (7 - (bit & 7)) & 1
            bit += 1
        place += 1 + number
        if place >= brokers:
            return np.int64(0), np.int64(-1)
        if place == me:
            before = count
        count += 1
        zeros = np.int64(0)
    if zeros >= 8:
        return np.int64(0), np.int64(-1)
    return count, before


@kernel
def _members(at, stop, flags, brokers, me):  # type: ignore[no-untyped-def]
    """How many brokers a set has, and how many of them come before `me`, or -1 if it is not in it; 0: it is wrong."""
    count, before = np.int64(0), np.int64(-1)
    size = stop - at
    if size > (brokers + 7) // 8:
        return np.int64(0), before
    if flags & _LISTED:
        return _listed(at, stop, flags >> _LOW_SHIFT << 1, brokers, me)
    for byte in range(size):
        # the last byte has the lowest places
        value, lowest = byte_at(stop - 1 - byte), 8 * byte
        if lowest + 8 > brokers and value >> (brokers - lowest):
            return np.int64(0), before
        if lowest <= me < lowest + 8 and value >> (me - lowest) & 1:
            before = count + _bits(value & (1 << (me - lowest)) - 1)
        count += _bits(value)
    return count, before


@kernel
def _read_stamp(at, stop, brokers, me):  # type: ignore[no-untyped-def]
    """The sequence, the host and the predecessor of a stamped copy at this broker; sequence 0: it is wrong, or not for
    this broker."""
    none = np.int64(0), np.int64(-1), np.int64(0)
    size, at = _varint_at(at, stop)
    if at < 0 or size < _HEAD_BYTES or at + size > stop:
        return none
    stop = at + size
    flags = byte_at(at)
    if (flags & ~_ONE_GAP and not flags & _LISTED) or flags & _UNKNOWN or byte_at(at + 1) >= 128:
        return none
    sequence = big_endian(at + 1, 8)
    host, at = _varint_at(at + _HEAD_BYTES, stop)
    if at < 0 or host >= brokers or not sequence:
        return none
    size, at = _varint_at(at, stop)
    if at < 0 or at + size > stop:
        return none
    count, before = _members(at, at + size, flags, brokers, me)
    if not count or before < 0:
        return none
    at += size
    mine = np.int64(0)
    for place in range(1 if flags & _ONE_GAP else count):
        gap, at = _varint_at(at, stop)
        if at < 0 or gap > sequence:
            return none
        if place == before or flags & _ONE_GAP:
            mine = gap
    if at != stop:
        return none
    return sequence, host, sequence - mine if mine else np.int64(0)


@kernel
def gate(data, count, brokers, me, scan_at, engine_at):  # type: ignore[no-untyped-def]
    """Which copies of a read are delivered here: those whose group says so, and that are the next in order.

    Returns how many need Python, which are in `LATE`. Once a copy of a publisher does, so do all after it.
    """
    engine, sheet = addresses_at(engine_at, SHEET_LINES), addresses_at(scan_at, SCAN_LINES)
    notes, local, late = int_lines_at(sheet, NOTES, NOTE_COLUMNS), ints_at(engine, LOCAL), ints_at(engine, LATE)
    delivers, hosts = ints_at(engine, DELIVERS), ints_at(engine, STREAM_HOST)
    lasts, passed = ints_at(engine, STREAM_LAST), ints_at(engine, STREAM_COUNT)
    base, found = np.int64(data.ctypes.data), np.int64(0)
    for event in range(count):
        local[event] = 0
        if not delivers[notes[event, HEADER]]:
            continue
        publisher = notes[event, PUBLISHER]
        if hosts[publisher] >= 0:
            sequence, host, before = _read_stamp(base + notes[event, TAIL], base + notes[event, PARCEL], brokers, me)
            if host == hosts[publisher] and before <= lasts[publisher] < sequence:
                local[event] = 1
                lasts[publisher] = sequence
                passed[publisher] += 1
                continue
            hosts[publisher] = -1
        late[found] = event
        found += 1
    return found
