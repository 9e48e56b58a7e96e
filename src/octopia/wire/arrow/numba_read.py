"""Parcels to columns in compiled code: first the names, then every value to its place, then the texts.

All of these trust the parcels, which were checked when they came (`numba_check`, or the ordinary reader).
"""

import numpy as np
from numba import njit

from octopia.wire.arrow.numba_msgpack import ABSENT, BIG, TEXT, map_at, same_bytes, value_at


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _place_of(data, start, stop, names, name_starts, count, hint):  # type: ignore[no-untyped-def]
    """The index of a known name, searched from the one after the last; -1: not known."""
    size = stop - start
    place = hint if hint < count else 0
    found = -1
    for _ in range(count):
        begin = name_starts[place]
        if name_starts[place + 1] - begin == size and same_bytes(names, begin, data, start, size):
            found = place
            break
        place = place + 1 if place + 1 < count else 0
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def collect_names(data, starts, stops, names, name_starts):  # type: ignore[no-untyped-def]
    """Copy every name to `names`, in order of first occurrence; -1 if they do not fit."""
    known = 0
    used = np.int64(0)
    for row in range(len(starts)):
        count, at = map_at(data, starts[row] + 1, stops[row])
        hint = 0
        for _ in range(count):
            _, start, after = value_at(data, at, stops[row])
            place = _place_of(data, start, after, names, name_starts, known, hint)
            if place < 0:
                size = after - start
                if known + 1 >= len(name_starts) or used + size > len(names):
                    return -1
                for i in range(size):
                    names[used + i] = data[start + i]
                used += size
                place = known
                known += 1
                name_starts[known] = used
            hint = place + 1
            _, _, at = value_at(data, after, stops[row])
    return known


@njit(cache=True, nogil=True, error_model="numpy")
def read_columns(data, starts, stops, names, name_starts, tags, values, lengths, sequences):  # type: ignore[no-untyped-def]
    """Write every value to its column and row, skipping those without a column; then publishers and sequences.

    `tags`, `values` and `lengths` have a line for each name and one more, for publishers.
    """
    count = len(name_starts) - 1
    for row in range(len(starts)):
        stop = stops[row]
        attributes, at = map_at(data, starts[row] + 1, stop)
        hint = 0
        for _ in range(attributes):
            _, start, after = value_at(data, at, stop)
            place = _place_of(data, start, after, names, name_starts, count, hint)
            tag, value, at = value_at(data, after, stop)
            if place >= 0:
                tags[place, row] = tag
                values[place, row] = value
                if tag in (TEXT, BIG):
                    lengths[place, row] = at - value
                hint = place + 1
        _, start, at = value_at(data, at, stop)
        tags[count, row], values[count, row], lengths[count, row] = TEXT, start, at - start
        _, value, _ = value_at(data, at, stop)
        sequences[row] = value


@njit(cache=True, nogil=True, error_model="numpy")
def gather_texts(data, tags, begins, lengths, offsets, out):  # type: ignore[no-untyped-def]
    """Concatenate the texts of a column, with their ends in `offsets`."""
    used = np.int64(0)
    for row in range(len(tags)):
        if tags[row] != ABSENT:
            begin = begins[row]
            for i in range(lengths[row]):
                out[used + i] = data[begin + i]
            used += np.int64(lengths[row])
        offsets[row + 1] = used
