"""The notifications of a read that are recorded, and their frames, as columns (`outcome.py`), compiled.

A notification is chosen by the CRC-32 of its publisher and its sequence number, so that all brokers choose the same
ones. Most digits of consecutive numbers are the same, so only the last three are worked in each time, from a table.
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
    CHOSEN_STATES,
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


def _after(text: bytes) -> int:
    state = 0
    for byte in text:
        state = int(_TABLE[(state ^ byte) & 0xFF]) ^ state >> 8
    return state


# The states after three digits, from the state 0. Any other state after them is what it would be after zeros, and this.
_TAILS = np.array([_after(b"%03d" % number) for number in range(_TAIL)], dtype=np.int64)


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
def _with_zeros(state):  # type: ignore[no-untyped-def]
    """The state after three zero bytes, too."""
    for _ in range(3):
        state = _TABLE[state & 0xFF] ^ state >> 8
    return state


@kernel
def _choose(count, below, base, notes, publishers, states, chosen):  # type: ignore[no-untyped-def]
    """Number the chosen notifications; the others have -1. Returns how many are chosen.

    `states` has for each publisher the state after its name, its last number without the last three digits, and the
    state after that and three zero bytes.
    """
    found = seen = np.int64(0)
    for event in range(count):
        if below < _ALL:
            publisher, sequence = notes[event, OF_PUBLISHER], notes[event, SEQUENCE]
            if publisher == seen:
                states[publisher, 0] = _of_bytes(base + publishers[publisher, 0], publishers[publisher, 1])
                states[publisher, 1] = -1
                seen += 1
            front = sequence // _TAIL
            if not front:
                state = _with_digits(states[publisher, 0], sequence)
            else:
                if front != states[publisher, 1]:
                    states[publisher, 1] = front
                    states[publisher, 2] = _with_zeros(_with_digits(states[publisher, 0], front))
                state = states[publisher, 2] ^ _TAILS[sequence - front * _TAIL]
            if state ^ _MASK >= below:
                chosen[event] = -1
                continue
        chosen[event] = found
        found += 1
    return found


@kernel
def _frames_of(engine, notes, chosen, found, of_parcels):  # type: ignore[no-untyped-def]
    """List the frames of chosen notifications, and add the headers of deliveries to the bytes of parcels.

    Returns the number of frames, the bytes of parcels, and all bytes.
    """
    to, room = engine[CHOSEN_BYTES, 0], engine[CHOSEN_BYTES, 1]
    made, size = np.int64(0), of_parcels
    frames, spans = int_lines_at(engine, FRAMES, LINE_COLUMNS), int_lines_at(engine, SPANS, SPAN_COLUMNS)
    chains, starts = int_lines_at(engine, CHAINS, 3), ints_at(engine, CHOSEN_STARTS)
    out = int_lines_at(engine, CHOSEN_FRAMES, 5)
    for span in range(found):
        starts[span] = made
        line, wanted = chains[span, CHAIN_FIRST], np.int64(0)
        for _ in range(spans[span, SPAN_FRAMES]):
            wanted += chosen[frames[line, EVENT]] >= 0
            line = frames[line, NEXT]
        if not wanted:
            continue
        origin = span if spans[span, SPAN_SAME] < 0 else spans[span, SPAN_SAME]
        at = engine[OUT, 0] + spans[origin, SPAN_END] - spans[origin, SPAN_BYTES]
        line, place = chains[span, CHAIN_FIRST], np.int64(0)
        while wanted:
            event = frames[line, EVENT]
            if chosen[event] >= 0:
                if frames[line, IDS] >= 0:
                    if size + frames[line, HEADER_SIZE] <= room:
                        put_bytes(to + size, at + _HEAD_BYTES, frames[line, HEADER_SIZE])
                    size += frames[line, HEADER_SIZE]
                out[made, 0], out[made, 1], out[made, 2] = place, notes[event, OF_PUBLISHER], notes[event, SEQUENCE]
                out[made, 3], out[made, 4] = byte_at(at + 4), size - of_parcels
                made += 1
                wanted -= 1
            at += 4 + big_endian(at, 4)
            line, place = frames[line, NEXT], place + 1
    starts[found] = made
    return made, of_parcels, size


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
    publishers, states = int_lines_at(sheet, PUBLISHERS, 3), int_lines_at(engine, CHOSEN_STATES, 3)
    many = _choose(count, below, base, notes, publishers, states, chosen)
    size = np.int64(0)
    if not many:
        return many, size, size, size
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
    made, of_parcels, size = _frames_of(engine, notes, chosen, found, size)
    return many, made, of_parcels, size
