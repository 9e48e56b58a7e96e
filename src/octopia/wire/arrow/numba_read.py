"""Parcels to columns in compiled code: first the names, then every value to its place, then the texts.

All of these trust the parcels, which were checked when they came (`numba_check`, or the ordinary reader).
"""

import numpy as np

from octopia.native import inlined, kernel, put_bytes, same_bytes
from octopia.wire.arrow.numba_msgpack import ABSENT, BIG, TEXT, map_at, value_at


@inlined
def _place_of(start, stop, names, name_starts, count, hint):  # type: ignore[no-untyped-def]
    """The index of a known name, searched from the one after the last; -1: not known. Places are addresses."""
    size = stop - start
    place = hint if hint < count else 0
    found = -1
    for _ in range(count):
        begin = name_starts[place]
        if name_starts[place + 1] - begin == size and same_bytes(names + begin, start, size):
            found = place
            break
        place = place + 1 if place + 1 < count else 0
    return found


@kernel
def collect_names(data, starts, stops, names, name_starts):  # type: ignore[no-untyped-def]
    """Copy every name to `names`, in order of first occurrence; -1 if they do not fit."""
    known = 0
    used = np.int64(0)
    base, to = np.int64(data.ctypes.data), np.int64(names.ctypes.data)
    for row in range(len(starts)):
        stop = base + stops[row]
        count, at = map_at(base + starts[row] + 1, stop)
        hint = 0
        for _ in range(count):
            _, start, after = value_at(at, stop)
            place = _place_of(start, after, to, name_starts, known, hint)
            if place < 0:
                size = after - start
                if known + 1 >= len(name_starts) or used + size > len(names):
                    return -1
                put_bytes(to + used, start, size)
                used += size
                place = known
                known += 1
                name_starts[known] = used
            hint = place + 1
            _, _, at = value_at(after, stop)
    return known


@kernel
def read_columns(data, starts, stops, names, name_starts, tags, values, lengths, sequences):  # type: ignore[no-untyped-def]
    """Write every value to its column and row, skipping those without a column; then publishers and sequences.

    `tags`, `values` and `lengths` have a line for each name and one more, for publishers.
    """
    count = len(name_starts) - 1
    base, known = np.int64(data.ctypes.data), np.int64(names.ctypes.data)
    for row in range(len(starts)):
        stop = base + stops[row]
        attributes, at = map_at(base + starts[row] + 1, stop)
        hint = 0
        for _ in range(attributes):
            _, start, after = value_at(at, stop)
            place = _place_of(start, after, known, name_starts, count, hint)
            tag, value, at = value_at(after, stop)
            if place >= 0:
                tags[place, row] = tag
                if tag in (TEXT, BIG):
                    values[place, row], lengths[place, row] = value - base, at - value
                else:
                    values[place, row] = value
                hint = place + 1
        _, start, at = value_at(at, stop)
        tags[count, row], values[count, row], lengths[count, row] = TEXT, start - base, at - start
        _, value, _ = value_at(at, stop)
        sequences[row] = value


@kernel
def gather_texts(data, tags, begins, lengths, offsets, out):  # type: ignore[no-untyped-def]
    """Concatenate the texts of a column, with their ends in `offsets`."""
    used = np.int64(0)
    base, to = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    for row in range(len(tags)):
        if tags[row] != ABSENT:
            size = np.int64(lengths[row])
            put_bytes(to + used, base + begins[row], size)
            used += size
        offsets[row + 1] = used
