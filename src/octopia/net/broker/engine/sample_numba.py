"""The notifications of a read that are recorded, and their frames, as columns (`outcome.py`), compiled.

A notification is chosen by the CRC-32 of its publisher and its sequence number, so that all brokers choose the same
ones. Most of the digits of consecutive numbers are the same, so only the last three are added each time.
"""

import numpy as np

from octopia.matching.tokens import HEADER, NOTE_COLUMNS, PARCEL, SEQUENCE, STOP
from octopia.matching.tokens import PUBLISHER as OF_PUBLISHER
from octopia.native import addresses_at, big_endian, byte_at, int_lines_at, ints_at, kernel, put_bytes
from octopia.net.broker.engine.arrays import (
    CHAIN_FIRST,
    CHAINS,
    CHOSEN,
    CHOSEN_BYTES,
    CHOSEN_FRAMES,
    CHOSEN_NOTES,
    CHOSEN_STARTS,
    EVENT,
    FRAMES,
    GROUPS,
    HEADER_SIZE,
    IDS,
    NEXT,
    OUT,
    SHEET_LINES,
    SPAN_BYTES,
    SPAN_COLUMNS,
    SPAN_END,
    SPAN_FRAMES,
    SPAN_SAME,
    SPANS,
)
from octopia.net.broker.engine.arrays import FRAME_COLUMNS as LINE_COLUMNS
from octopia.wire.scanner import NOTES, PUBLISHERS
from octopia.wire.scanner import SHEET_LINES as SCAN_LINES

_ALL = 1 << 32
_HEAD_BYTES = 9
_MASK = 0xFFFFFFFF
_TAIL = 1_000


def _table() -> list[int]:
    made = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        made.append(value)
    return made


_TABLE = np.array(_table(), dtype=np.int64)


@kernel
def _of_bytes(at, size):  # type: ignore[no-untyped-def]
    """The state of a CRC after some bytes."""
    state = np.int64(_MASK)
    for place in range(size):
        state = _TABLE[(state ^ byte_at(at + place)) & 0xFF] ^ state >> 8
    return state


@kernel
def _with_digits(state, number):  # type: ignore[no-untyped-def]
    """The state after the digits of a number, too."""
    unit = np.int64(1)
    while number // unit >= 10:
        unit *= 10
    while unit:
        state = _TABLE[(state ^ (48 + number // unit % 10)) & 0xFF] ^ state >> 8
        unit //= 10
    return state


@kernel
def _choose(count, below, base, notes, publishers, chosen):  # type: ignore[no-untyped-def]
    """Number the chosen notifications; the others have -1. Returns how many are chosen."""
    found = np.int64(0)
    publisher = front = np.int64(-1)
    of_publisher = of_front = np.int64(0)
    for event in range(count):
        if below < _ALL:
            if notes[event, OF_PUBLISHER] != publisher:
                publisher, front = notes[event, OF_PUBLISHER], np.int64(-1)
                of_publisher = _of_bytes(base + publishers[publisher, 0], publishers[publisher, 1])
            sequence = notes[event, SEQUENCE]
            if sequence < _TAIL:
                state = _with_digits(of_publisher, sequence)
            else:
                if sequence // _TAIL != front:
                    front = sequence // _TAIL
                    of_front = _with_digits(of_publisher, front)
                tail = sequence - front * _TAIL
                state = _TABLE[(of_front ^ (48 + tail // 100)) & 0xFF] ^ of_front >> 8
                state = _TABLE[(state ^ (48 + tail // 10 % 10)) & 0xFF] ^ state >> 8
                state = _TABLE[(state ^ (48 + tail % 10)) & 0xFF] ^ state >> 8
            if state ^ _MASK >= below:
                chosen[event] = -1
                continue
        chosen[event] = found
        found += 1
    return found


@kernel
def sample(data, count, found, below, parcels, scan_at, engine_at):  # type: ignore[no-untyped-def]
    """Choose from the notifications that were read last; `found` destinations have frames.

    Returns how many are chosen, their frames, and the bytes of all parcels (if asked for) and of these with all headers
    of deliveries. If there is no room for the bytes, they are not all written; their number is right.
    """
    base = np.int64(data.ctypes.data)
    engine, sheet = addresses_at(engine_at, SHEET_LINES), addresses_at(scan_at, SCAN_LINES)
    notes, chosen = int_lines_at(sheet, NOTES, NOTE_COLUMNS), ints_at(engine, CHOSEN)
    lines, groups = int_lines_at(engine, CHOSEN_NOTES, 5), ints_at(engine, GROUPS)
    to, room = engine[CHOSEN_BYTES, 0], engine[CHOSEN_BYTES, 1]
    many = _choose(count, below, base, notes, int_lines_at(sheet, PUBLISHERS, 3), chosen)
    size = made = np.int64(0)
    if not many:
        return many, made, size, size
    for event in range(count):
        at = chosen[event]
        if at >= 0:
            if parcels:
                parcel = notes[event, STOP] - notes[event, PARCEL]
                if size + parcel <= room:
                    put_bytes(to + size, base + notes[event, PARCEL], parcel)
                size += parcel
            lines[at, 0], lines[at, 1] = notes[event, OF_PUBLISHER], notes[event, SEQUENCE]
            lines[at, 2], lines[at, 3], lines[at, 4] = notes[event, HEADER], groups[event], size
    of_parcels = size
    frames, spans = int_lines_at(engine, FRAMES, LINE_COLUMNS), int_lines_at(engine, SPANS, SPAN_COLUMNS)
    chains, starts = int_lines_at(engine, CHAINS, 3), ints_at(engine, CHOSEN_STARTS)
    out = int_lines_at(engine, CHOSEN_FRAMES, 5)
    for span in range(found):
        starts[span] = made
        origin = span if spans[span, SPAN_SAME] < 0 else spans[span, SPAN_SAME]
        at = engine[OUT, 0] + spans[origin, SPAN_END] - spans[origin, SPAN_BYTES]
        line = chains[span, CHAIN_FIRST]
        for place in range(spans[span, SPAN_FRAMES]):
            event = frames[line, EVENT]
            if chosen[event] >= 0:
                if frames[line, IDS] >= 0:
                    if size + frames[line, HEADER_SIZE] <= room:
                        put_bytes(to + size, at + _HEAD_BYTES, frames[line, HEADER_SIZE])
                    size += frames[line, HEADER_SIZE]
                out[made, 0], out[made, 1], out[made, 2] = place, notes[event, OF_PUBLISHER], notes[event, SEQUENCE]
                out[made, 3], out[made, 4] = byte_at(at + 4), size - of_parcels
                made += 1
            at += 4 + big_endian(at, 4)
            line = frames[line, NEXT]
    starts[found] = made
    return many, made, of_parcels, size
