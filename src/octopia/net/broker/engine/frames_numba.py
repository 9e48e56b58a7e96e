"""From matches and decisions to the bytes for each destination, compiled.

Each frame is first a line of numbers (`arrays.py`): one for each client that a notification is for, with its matching
subscriptions in order, and one for each copy that its group asks for. Then the bytes of each destination are measured.
Destinations with equal frames share them: forty subscribers to one stream are served from one piece of bytes. The rest
is written, grouped by destination.
"""

import numpy as np

from octopia.matching.tokens import NOTE_COLUMNS, PARCEL, STOP, TAIL
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
    put_word,
    same_bytes,
    short_ints_at,
    word_at,
)
from octopia.net.broker.engine.arrays import (
    CHAIN_FIRST,
    CHAIN_KEY,
    CHAIN_LAST,
    CHAINS,
    CLIENT_ENDS,
    CLIENT_ROWS,
    CLIENTS,
    COUNTS,
    DELIVERS,
    EVENT,
    FOUND,
    FRAME_COLUMNS,
    FRAMES,
    FROM,
    GROUPS,
    HEADER_AT,
    HEADER_BYTES,
    HEADER_KIND,
    HEADER_LENGTH,
    HEADER_SIZE,
    HEADERS,
    IDS,
    KEYS,
    LANES,
    LOCAL,
    NEXT,
    OUT,
    PLAN,
    PLAN_HEADER,
    PLAN_STARTS,
    PLAN_TO,
    SHEET_LINES,
    SORTED_ROWS,
    SPAN_BYTES,
    SPAN_COLUMNS,
    SPAN_END,
    SPAN_FRAMES,
    SPAN_OF,
    SPAN_OLDEST,
    SPAN_SAME,
    SPAN_SLOTS,
    SPAN_TO,
    SPANS,
    STAMP_ENDS,
    STAMPS,
    TO,
)
from octopia.routing.rows import CLIENT, ID_AT, ID_BYTES, ID_KEY, ORDER, PRIORITY, ROW_BITS, ROWS
from octopia.routing.rows import COLUMNS as ROW_COLUMNS
from octopia.routing.rows import IDS as ROW_IDS
from octopia.routing.rows import SHEET_LINES as ROWS_LINES
from octopia.wire.scanner import NOTES
from octopia.wire.scanner import SHEET_LINES as SCAN_LINES

# Up to this many are sorted by insertion, which is fastest for few.
_FEW = 24
# Length of a frame, its kind, the length of its header.
_HEAD_BYTES = 9
_TIMED = 0x94
_TIME_BYTES = 9
_DELIVER = 0x22
# In place of a time: as in `net/frame_queue.py`.
_NEVER = 1 << 62
_ROW_MASK = (1 << ROW_BITS) - 1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@inlined
def _mixed(key, number):  # type: ignore[no-untyped-def]
    mixed = (np.uint64(key) ^ np.uint64(number)) * _SPREAD
    return np.int64(mixed ^ mixed >> _SHIFT)


@inlined
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


@inlined
def _gather_by_client(rows, start, stop, lines, ends, clients, found, keys):  # type: ignore[no-untyped-def]
    """Write a key for each client row to `keys`, from `start` on, client by client; returns the number of clients.

    A key is the order of the subscription and, in the lower bits, its row. `clients` are the clients in the order of
    their first row. `found` has room for two numbers per row. `ends` has, by client, where its keys end; it is 0 for
    all others, and must be set back to 0 for these.
    """
    count, kept = 0, start
    for place in range(start, stop):
        row = rows[place]
        client = lines[row, CLIENT]
        if client >= 0:
            found[kept, 0], found[kept, 1] = client, lines[row, ORDER] << ROW_BITS | np.int64(row)
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


@kernel
def _line_up_deliveries(engine, lines, count, first_client):  # type: ignore[no-untyped-def]
    """Write a frame line for each recipient of a notification, rows in order of subscription; returns their number.

    `first_client` is the number of links and the log, which come before clients. Also returns the last notification
    that somebody gets, or -1.
    """
    counts, rows, local = ints_at(engine, COUNTS), short_ints_at(engine, FOUND), ints_at(engine, LOCAL)
    groups, delivers = ints_at(engine, GROUPS), ints_at(engine, DELIVERS)
    ends, clients = short_ints_at(engine, CLIENT_ENDS), ints_at(engine, CLIENTS)
    found, keys = int_lines_at(engine, CLIENT_ROWS, 2), ints_at(engine, KEYS)
    sorted_rows, out = short_ints_at(engine, SORTED_ROWS), int_lines_at(engine, FRAMES, FRAME_COLUMNS)
    at = made = np.int64(0)
    last_event = np.int64(-1)
    for event in range(count):
        stop = at + counts[event]
        if not local[event] or not delivers[groups[event]]:
            at = stop
            continue
        of_event = _gather_by_client(rows, at, stop, lines, ends, clients, found, keys)
        first = at
        for number in range(of_event):
            client = clients[number]
            end = np.int64(ends[client])
            ends[client] = 0
            _put_in_order(keys, first, end)
            lane = size = np.int64(0)
            for place in range(first, end):
                row = keys[place] & _ROW_MASK
                sorted_rows[place] = row
                lane = max(lane, lines[row, PRIORITY])
                size += lines[row, ID_BYTES]
            ids = end - first
            # the head of a MessagePack array
            size += 1 if ids < 16 else 3 if ids < 65536 else 5
            out[made, EVENT], out[made, TO] = event, (first_client + client) * LANES + lane
            out[made, FROM], out[made, IDS], out[made, HEADER_SIZE] = first, ids, size
            made += 1
            first = end
            last_event = np.int64(event)
        at = stop
    return made, last_event


@kernel
def _line_up_copies(engine, count, made):  # type: ignore[no-untyped-def]
    """Add a frame line for each copy of each notification after the `made` existing ones; returns the new total."""
    groups, starts, plan = ints_at(engine, GROUPS), ints_at(engine, PLAN_STARTS), int_lines_at(engine, PLAN, 2)
    headers, out = int_lines_at(engine, HEADERS, 3), int_lines_at(engine, FRAMES, FRAME_COLUMNS)
    for event in range(count):
        for copy in range(starts[groups[event]], starts[groups[event] + 1]):
            header = plan[copy, PLAN_HEADER]
            out[made, EVENT], out[made, TO] = event, plan[copy, PLAN_TO]
            out[made, FROM], out[made, IDS] = header, -1
            out[made, HEADER_SIZE] = headers[header, HEADER_LENGTH]
            made += 1
    return made


@inlined
def _oldest(base, parcel, stop, accepted_ms):  # type: ignore[no-untyped-def]
    """When a notification was accepted, where that is known."""
    oldest = np.int64(_NEVER)
    if accepted_ms >= 0:
        oldest = accepted_ms
    elif byte_at(base + parcel) == _TIMED:
        oldest = big_endian(base + stop - 8, 8)
    return oldest


@kernel
def _measure(engine, notes, lines, base, made, accepted_ms, stamped):  # type: ignore[no-untyped-def]
    """Add up bytes and frames for each destination; returns the number of destinations.

    Frames of one destination are chained.
    """
    frames, spans = int_lines_at(engine, FRAMES, FRAME_COLUMNS), int_lines_at(engine, SPANS, SPAN_COLUMNS)
    chains = int_lines_at(engine, CHAINS, 3)
    span_of, stamp_ends = short_ints_at(engine, SPAN_OF), ints_at(engine, STAMP_ENDS)
    sorted_rows = short_ints_at(engine, SORTED_ROWS)
    more = _TIME_BYTES if accepted_ms >= 0 else 0
    found = np.int64(0)
    for line in range(made):
        to, event = frames[line, TO], frames[line, EVENT]
        parcel, stop = notes[event, PARCEL], notes[event, STOP]
        span = np.int64(span_of[to])
        if span < 0:
            span = found
            span_of[to] = span
            spans[span, SPAN_TO], spans[span, SPAN_BYTES], spans[span, SPAN_FRAMES] = to, 0, 0
            chains[span, CHAIN_FIRST], chains[span, CHAIN_KEY], spans[span, SPAN_OLDEST] = line, 0, _NEVER
            found += 1
        else:
            frames[chains[span, CHAIN_LAST], NEXT] = line
        chains[span, CHAIN_LAST] = line
        size = _HEAD_BYTES + frames[line, HEADER_SIZE] + more + stop
        key = _mixed(chains[span, CHAIN_KEY], event)
        if frames[line, IDS] >= 0:
            size -= parcel
            for place in range(frames[line, FROM], frames[line, FROM] + frames[line, IDS]):
                key = _mixed(key, lines[sorted_rows[place], ID_KEY])
        else:
            size += (stamp_ends[event + 1] - stamp_ends[event] if stamped else 0) - notes[event, TAIL]
            key = _mixed(key, -1 - frames[line, FROM])
        spans[span, SPAN_BYTES] += size
        spans[span, SPAN_FRAMES] += 1
        chains[span, CHAIN_KEY] = key
        spans[span, SPAN_OLDEST] = min(spans[span, SPAN_OLDEST], _oldest(base, parcel, stop, accepted_ms))
    return found


@kernel
def _have_equal_frames(engine, lines, ids_at, span, other):  # type: ignore[no-untyped-def]
    """Whether two destinations get the same frames; their sizes and numbers are equal."""
    frames, spans = int_lines_at(engine, FRAMES, FRAME_COLUMNS), int_lines_at(engine, SPANS, SPAN_COLUMNS)
    chains = int_lines_at(engine, CHAINS, 3)
    rows = short_ints_at(engine, SORTED_ROWS)
    mine, theirs = chains[span, CHAIN_FIRST], chains[other, CHAIN_FIRST]
    for _ in range(spans[span, SPAN_FRAMES]):
        ids = frames[mine, IDS]
        if frames[mine, EVENT] != frames[theirs, EVENT] or ids != frames[theirs, IDS]:
            return False
        if ids < 0 and frames[mine, FROM] != frames[theirs, FROM]:
            return False
        for place in range(ids):
            row, like = rows[frames[mine, FROM] + place], rows[frames[theirs, FROM] + place]
            size = lines[row, ID_BYTES]
            if size != lines[like, ID_BYTES] or not same_bytes(
                ids_at + lines[row, ID_AT], ids_at + lines[like, ID_AT], size
            ):
                return False
        mine, theirs = frames[mine, NEXT], frames[theirs, NEXT]
    return True


@kernel
def _find_equal_spans(engine, lines, ids_at, found):  # type: ignore[no-untyped-def]
    """Note for each destination an earlier one with the same frames; returns the bytes of all others."""
    chains = int_lines_at(engine, CHAINS, 3)
    spans, slots = int_lines_at(engine, SPANS, SPAN_COLUMNS), short_ints_at(engine, SPAN_SLOTS)
    last, total = len(slots) - 1, np.int64(0)
    for span in range(found):
        same = np.int64(-1)
        slot = chains[span, CHAIN_KEY] & last
        while slots[slot] >= 0 and same < 0:
            other = np.int64(slots[slot])
            if (
                chains[other, CHAIN_KEY] == chains[span, CHAIN_KEY]
                and spans[other, SPAN_BYTES] == spans[span, SPAN_BYTES]
                and spans[other, SPAN_FRAMES] == spans[span, SPAN_FRAMES]
                and _have_equal_frames(engine, lines, ids_at, np.int64(span), other)
            ):
                same = other
            slot = (slot + 1) & last
        spans[span, SPAN_SAME] = same
        if same < 0:
            # the search ended at a free slot
            slots[slot] = span
            spans[span, SPAN_END] = total
            total += spans[span, SPAN_BYTES]
    for span in range(found):
        if spans[span, SPAN_SAME] < 0:
            slot = chains[span, CHAIN_KEY] & last
            while slots[slot] >= 0:
                slots[slot] = -1
                slot = (slot + 1) & last
    return total


@kernel
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


@kernel
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


@kernel
def _write_frames(engine, notes, lines, ids_at, base, made, accepted_ms, stamped):  # type: ignore[no-untyped-def]
    """Write all frames, grouped by destination; afterwards `SPAN_END` is where those of a destination end."""
    frames, spans = int_lines_at(engine, FRAMES, FRAME_COLUMNS), int_lines_at(engine, SPANS, SPAN_COLUMNS)
    span_of, stamp_ends = short_ints_at(engine, SPAN_OF), ints_at(engine, STAMP_ENDS)
    rows, headers = short_ints_at(engine, SORTED_ROWS), int_lines_at(engine, HEADERS, 3)
    to = engine[OUT, 0]
    for line in range(made):
        span = span_of[frames[line, TO]]
        if spans[span, SPAN_SAME] >= 0:
            continue
        event, size = frames[line, EVENT], frames[line, HEADER_SIZE]
        begin = to + spans[span, SPAN_END]
        at = begin + _HEAD_BYTES
        if frames[line, IDS] >= 0:
            put_byte(begin + 4, _DELIVER)
            at = _write_ids(at, frames[line, IDS])
            for place in range(frames[line, FROM], frames[line, FROM] + frames[line, IDS]):
                row = rows[place]
                # a word at a time: the surplus is overwritten by the following bytes, the last by the parcel
                for word in range(0, lines[row, ID_BYTES], 8):
                    put_word(at + word, word_at(ids_at + lines[row, ID_AT] + word))
                at += lines[row, ID_BYTES]
            end = _write_parcel(at, base + notes[event, PARCEL], base + notes[event, STOP], accepted_ms)
        else:
            header = frames[line, FROM]
            put_byte(begin + 4, headers[header, HEADER_KIND])
            put_bytes(at, engine[HEADER_BYTES, 0] + headers[header, HEADER_AT], size)
            at += size
            if stamped:
                stamp = stamp_ends[event + 1] - stamp_ends[event]
                put_bytes(at, engine[STAMPS, 0] + stamp_ends[event], stamp)
                at += stamp
            end = _write_parcel(at, base + notes[event, TAIL], base + notes[event, STOP], accepted_ms)
        put_big_endian(begin, end - begin - 4, 4)
        put_big_endian(begin + 5, size, 4)
        spans[span, SPAN_END] += end - begin


@kernel
def make_frames(data, count, matched, links, accepted_ms, stamped, scan_at, rows_at, engine_at):  # type: ignore[no-untyped-def]
    """The frames of the notifications that were read last; returns what follows.

    `matched`: whether rows were found for them, some of which may be clients. `links`: the number of links.
    `accepted_ms`: the time to add to each parcel; -1 for none. Returns the number of destinations, of frames for
    clients, of bytes (nothing is written if there is no room for them), and the last notification that a client gets,
    or -1. If there is no room for all frame lines, the number of destinations is -1, and that of bytes how many lines
    are needed.
    """
    engine, sheet = addresses_at(engine_at, SHEET_LINES), addresses_at(scan_at, SCAN_LINES)
    rows = addresses_at(rows_at, ROWS_LINES)
    notes, lines = int_lines_at(sheet, NOTES, NOTE_COLUMNS), int_lines_at(rows, ROWS, ROW_COLUMNS)
    base, ids_at = np.int64(data.ctypes.data), rows[ROW_IDS, 0]
    groups, starts, counts = ints_at(engine, GROUPS), ints_at(engine, PLAN_STARTS), ints_at(engine, COUNTS)
    needed = np.int64(0)
    for event in range(count):
        needed += (counts[event] if matched else 0) + starts[groups[event] + 1] - starts[groups[event]]
    if needed > engine[FRAMES, 1]:
        return np.int64(-1), np.int64(0), needed, np.int64(-1)
    deliveries, last = np.int64(0), np.int64(-1)
    if matched:
        deliveries, last = _line_up_deliveries(engine, lines, count, links + 1)
    made = _line_up_copies(engine, count, deliveries)
    found = _measure(engine, notes, lines, base, made, accepted_ms, stamped)
    size = _find_equal_spans(engine, lines, ids_at, found)
    # as `Arrays.room`
    if size < engine[OUT, 1] - 8:
        _write_frames(engine, notes, lines, ids_at, base, made, accepted_ms, stamped)
    spans, span_of = int_lines_at(engine, SPANS, SPAN_COLUMNS), short_ints_at(engine, SPAN_OF)
    for span in range(found):
        span_of[spans[span, SPAN_TO]] = -1
    return found, deliveries, size, last


@kernel
def last_delivered(made, scan_at, engine_at, last):  # type: ignore[no-untyped-def]
    """For each publisher, the last of its notifications among the first `made` frames; otherwise -1 stays."""
    engine, sheet = addresses_at(engine_at, SHEET_LINES), addresses_at(scan_at, SCAN_LINES)
    frames, notes = int_lines_at(engine, FRAMES, FRAME_COLUMNS), int_lines_at(sheet, NOTES, NOTE_COLUMNS)
    for line in range(made):
        publisher = notes[frames[line, EVENT], 7]
        last[publisher] = max(last[publisher], frames[line, EVENT])
