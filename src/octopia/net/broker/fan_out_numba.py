"""From matching rows to the bytes for each destination, compiled (`fan_out.py`).

A *frame line* describes one frame for one destination before it has bytes: the notification, the destination and the
header. The header is either a list of subscription ids, in `rows` from some position on, or one made before. Columns:
"""

import numpy as np
from numba import njit

from octopia.native import put_big_endian, put_byte, put_bytes, put_word, word_at

# The notification; the destination; where its rows begin, or the number of its header; how many rows, or -1; the bytes
# of its header.
EVENT, TO, FROM, IDS, HEADER_BYTES = range(5)
# Columns of `spans`, one line per destination: its number, bytes, frames, and where its bytes begin.
SPAN_TO, SPAN_BYTES, SPAN_FRAMES, SPAN_AT = range(4)
# Columns of `headers`: where it begins in their bytes, its length, and the kind of its frames.
HEADER_AT, HEADER_SIZE, HEADER_KIND = range(3)
LANES = 4

# As in `routing/rows.py` and `matching/tokens.py`; numba wants plain numbers.
_CLIENT, _WAY, _ORDER, _PRIORITY, _ID_AT, _ID_BYTES = range(6)
# As in `routing/rows.py`: a row takes this many bits, an order the rest.
_ROW_BITS = 26
_ROW_MASK = (1 << _ROW_BITS) - 1
_TAIL, _PARCEL, _STOP = range(3)
# Up to this many are sorted by insertion, which is fastest for few.
_FEW = 24
# Length of a frame, its kind, the length of its header.
_HEAD_BYTES = 9
_TIMED = 0x94
_TIME_BYTES = 9


@njit(cache=True, nogil=True, error_model="numpy")
def mark_ways(counts, rows, lines, sets):  # type: ignore[no-untyped-def]
    """Set, for each notification, the bits of the ways of its rows. `lines` are those of `routing/rows.py`."""
    at = 0
    for event in range(len(counts)):
        for place in range(at, at + counts[event]):
            way = lines[rows[place], _WAY]
            if way >= 0:
                sets[event, way >> 6] |= np.uint64(1) << np.uint64(way & 63)
        at += counts[event]


@njit(cache=True, nogil=True, error_model="numpy")
def number_sets(sets, slots, numbers, firsts):  # type: ignore[no-untyped-def]
    """Number the distinct lines of `sets`; returns their count.

    `numbers` gets the number of each line, `firsts` the first line of each number. `slots` is a hash table, empty where
    -1, with at least twice as many slots as lines, a power of 2.
    """
    count, last = 0, len(slots) - 1
    for line in range(len(sets)):
        key = np.uint64(0)
        for word in range(sets.shape[1]):
            key = (key ^ sets[line, word]) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        slot = np.int64(key) & last
        while slots[slot] >= 0:
            same = True
            for word in range(sets.shape[1]):
                same = same and sets[firsts[slots[slot]], word] == sets[line, word]
            if same:
                break
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = count
            firsts[count] = line
            count += 1
        numbers[line] = slots[slot]
    return count


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _put_in_order(keys, start, stop):  # type: ignore[no-untyped-def]
    """Sort a range of keys."""
    if stop - start <= _FEW:
        for at in range(start + 1, stop):
            key, to = keys[at], at
            while to > start and keys[to - 1] > key:
                keys[to] = keys[to - 1]
                to -= 1
            keys[to] = key
    else:
        keys[start:stop].sort()


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _gather_by_client(rows, start, stop, lines, ends, clients, found, keys):  # type: ignore[no-untyped-def]
    """Write a key for each client row to `keys`, from `start` on, client by client; returns the number of clients.

    A key is the order of the subscription and, in the lower bits, its row. `clients` are the clients in the order of
    their first row. `found` has room for two numbers per row. `ends` has, by client, where its keys end; it is 0 for
    all others, and must be set back to 0 for these.
    """
    count, kept = 0, start
    for place in range(start, stop):
        row = rows[place]
        client = lines[row, _CLIENT]
        if client >= 0:
            found[kept, 0], found[kept, 1] = client, lines[row, _ORDER] << _ROW_BITS | np.int64(row)
            kept += 1
            if not ends[client]:
                clients[count] = client
                count += 1
            ends[client] += 1
    at = start
    for number in range(count):
        of_client = ends[clients[number]]
        ends[clients[number]] = at
        at += of_client
    for place in range(start, kept):
        client = found[place, 0]
        keys[ends[client]] = found[place, 1]
        ends[client] += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _line_up_deliveries(  # type: ignore[no-untyped-def]
    counts, rows, lines, links, ends, clients, found, keys, sorted_rows, out
):
    """Write a frame line for each recipient of a notification, rows in order of subscription; returns their number.

    The rows are in `sorted_rows`, which has as much room as `rows`; so have `clients`, `found` and `keys`. `ends` is 0
    for every client, before and after. Destinations: lane l of link n is 4 n + l; clients follow after all `links`,
    numbered likewise.
    """
    at = made = 0
    for event in range(len(counts)):
        stop = at + counts[event]
        count = _gather_by_client(rows, at, stop, lines, ends, clients, found, keys)
        first = np.int64(at)
        for number in range(count):
            client = clients[number]
            end = np.int64(ends[client])
            ends[client] = 0
            _put_in_order(keys, first, end)
            lane = size = np.int64(0)
            for place in range(first, end):
                row = keys[place] & _ROW_MASK
                sorted_rows[place] = row
                lane = max(lane, lines[row, _PRIORITY])
                size += lines[row, _ID_BYTES]
            ids = end - first
            # the head of a MessagePack array
            size += 1 if ids < 16 else 3 if ids < 65536 else 5
            out[made, EVENT], out[made, TO] = event, (links + client) * LANES + lane
            out[made, FROM], out[made, IDS], out[made, HEADER_BYTES] = first, ids, size
            made += 1
            first = end
        at = stop
    return made


@njit(cache=True, nogil=True, error_model="numpy")
def _line_up_copies(groups, plan_starts, plan, headers, made, out):  # type: ignore[no-untyped-def]
    """Add a frame line for each copy of each notification after the `made` existing ones; returns the new total.

    `groups`: the number of each notification's plan. A plan is the lines of `plan` from one of `plan_starts` to the
    next, each with a destination and the number of a header.
    """
    for event in range(len(groups)):
        for copy in range(plan_starts[groups[event]], plan_starts[groups[event] + 1]):
            out[made, EVENT], out[made, TO] = event, plan[copy, 0]
            out[made, FROM], out[made, IDS] = plan[copy, 1], -1
            out[made, HEADER_BYTES] = headers[plan[copy, 1], HEADER_SIZE]
            made += 1
    return made


@njit(cache=True, nogil=True, error_model="numpy")
def _measure(frame_lines, count, notes, first, timed, stamp_ends, span_of, spans):  # type: ignore[no-untyped-def]
    """Add up bytes and frames for each destination; returns the number of destinations and the total of bytes.

    `first` is the line of `notes` of notification 0, `timed` the number of bytes for the time in each parcel,
    `stamp_ends` where the stamp of each notification ends among all stamps. `span_of` has, by destination, its line in
    `spans`; it is -1 at the start.
    """
    found = total = 0
    for line in range(count):
        to, event = frame_lines[line, TO], frame_lines[line, EVENT]
        span = span_of[to]
        if span < 0:
            span = span_of[to] = found
            spans[span, SPAN_TO], spans[span, SPAN_BYTES], spans[span, SPAN_FRAMES] = to, 0, 0
            found += 1
        size = _HEAD_BYTES + frame_lines[line, HEADER_BYTES] + timed + notes[first + event, _STOP]
        if frame_lines[line, IDS] >= 0:
            size -= notes[first + event, _PARCEL]
        else:
            size += stamp_ends[event + 1] - stamp_ends[event] - notes[first + event, _TAIL]
        spans[span, SPAN_BYTES] += size
        spans[span, SPAN_FRAMES] += 1
    for span in range(found):
        spans[span, SPAN_AT] = total
        total += spans[span, SPAN_BYTES]
    return found, total


@njit(cache=True, nogil=True, error_model="numpy")
def _write_ids(at, count):  # type: ignore[no-untyped-def]
    """Write the head of a MessagePack array of `count` strings; returns where they begin."""
    if count < 16:
        put_byte(at, 0x90 | count)
        return at + 1
    if count < 65536:
        put_byte(at, 0xDC)
        put_big_endian(at + 1, count, 2)
        return at + 3
    put_byte(at, 0xDD)
    put_big_endian(at + 1, count, 4)
    return at + 5


@njit(cache=True, nogil=True, error_model="numpy")
def _write_parcel(at, start, stop, accepted_ms):  # type: ignore[no-untyped-def]
    """Write a parcel, with the time of acceptance unless it is negative; returns where it ends."""
    put_bytes(at, start, stop - start)
    end = at + stop - start
    if accepted_ms >= 0:
        put_byte(at, _TIMED)
        put_byte(end, 0xCF)
        put_big_endian(end + 1, accepted_ms, 8)
        end += _TIME_BYTES
    return end


@njit(cache=True, nogil=True, error_model="numpy")
def _write_frames(  # type: ignore[no-untyped-def]
    frame_lines, count, data, notes, first, accepted_ms, rows, lines, ids, headers, header_bytes, stamps, stamp_ends,
    deliver_kind, span_of, spans, out,
):  # fmt: skip
    """Write all frames, grouped by destination, where `_measure` put them.

    Afterwards, `SPAN_AT` is where those of a destination end.
    """
    base, id_base, header_base = (
        np.int64(data.ctypes.data),
        np.int64(ids.ctypes.data),
        np.int64(header_bytes.ctypes.data),
    )
    stamp_base, to = np.int64(stamps.ctypes.data), np.int64(out.ctypes.data)
    for line in range(count):
        event, size = frame_lines[line, EVENT], frame_lines[line, HEADER_BYTES]
        span = span_of[frame_lines[line, TO]]
        begin = to + spans[span, SPAN_AT]
        at = begin + _HEAD_BYTES
        if frame_lines[line, IDS] >= 0:
            put_byte(begin + 4, deliver_kind)
            at = _write_ids(at, frame_lines[line, IDS])
            for place in range(frame_lines[line, FROM], frame_lines[line, FROM] + frame_lines[line, IDS]):
                row = rows[place]
                # a word at a time: the surplus is overwritten by the following bytes, the last by the parcel
                for word in range(0, lines[row, _ID_BYTES], 8):
                    put_word(at + word, word_at(id_base + lines[row, _ID_AT] + word))
                at += lines[row, _ID_BYTES]
            start = notes[first + event, _PARCEL]
        else:
            header = frame_lines[line, FROM]
            put_byte(begin + 4, headers[header, HEADER_KIND])
            put_bytes(at, header_base + headers[header, HEADER_AT], size)
            at += size
            stamp = stamp_ends[event + 1] - stamp_ends[event]
            put_bytes(at, stamp_base + stamp_ends[event], stamp)
            at += stamp
            start = notes[first + event, _TAIL]
        end = _write_parcel(at, base + start, base + notes[first + event, _STOP], accepted_ms)
        put_big_endian(begin, end - begin - 4, 4)
        put_big_endian(begin + 5, size, 4)
        spans[span, SPAN_AT] += end - begin


@njit(cache=True, nogil=True, error_model="numpy")
def make_frames(  # type: ignore[no-untyped-def]
    counts, rows, lines, ids, groups, plan_starts, plan, headers, header_bytes, data, notes, stamps, stamp_ends,
    links, first, timed, accepted_ms, deliver_kind,
    ends, clients, found, keys, sorted_rows, frame_lines, span_of, spans, out,
):  # fmt: skip
    """All steps in one call, which is cheaper: frame lines for clients and copies, their sizes, the bytes.

    Returns the number of frames for clients, of destinations and of bytes, and the last notification that a client
    gets, or -1. If `out` is too short for the bytes, nothing is written to it.
    """
    deliveries = _line_up_deliveries(
        counts, rows, lines, links, ends, clients, found, keys, sorted_rows, frame_lines
    )  # fmt: skip
    count = _line_up_copies(groups, plan_starts, plan, headers, deliveries, frame_lines)
    destinations, size = _measure(frame_lines, count, notes, first, timed, stamp_ends, span_of, spans)
    if size <= len(out):
        _write_frames(
            frame_lines, count, data, notes, first, accepted_ms, sorted_rows, lines, ids, headers, header_bytes,
            stamps, stamp_ends, deliver_kind, span_of, spans, out,
        )  # fmt: skip
    for span in range(destinations):
        span_of[spans[span, SPAN_TO]] = -1
    last = frame_lines[deliveries - 1, EVENT] if deliveries else -1
    return deliveries, destinations, size, last


@njit(cache=True, nogil=True, error_model="numpy")
def last_delivered(frame_lines, count, notes, first, last):  # type: ignore[no-untyped-def]
    """For each publisher of the batch, the last of its notifications that has a frame line; otherwise -1 stays."""
    for line in range(count):
        publisher = notes[first + frame_lines[line, EVENT], 7]
        last[publisher] = max(last[publisher], first + frame_lines[line, EVENT])
