"""From the bytes of a read to columns, compiled: frames are cut, parcels checked, values found (`matching/tokens.py`).

MessagePack in short: the first byte of an item gives its type and, for small ones, its size or value. This reader knows
the forms that our clients and most others write. Everything else (long integers, infinities, 32-bit floats, more than
64 attributes, any error) is left to the ordinary reader in `parcel.py`, which knows all forms and reports errors. So
this reader may refuse valid input, but must never accept what the ordinary reader refuses, nor read a different value.
`tests/wire/test_scan.py` and `fuzz/scan.py` test that on mutated bytes.

Places (`at`, `here`, `stop`) are addresses. Every function checks that it reads only before `stop`, the end of the
frame.
"""

import numpy as np
from numba import njit

from octopia.native import big_endian, byte_at, characters, float_at, put_bytes, same_bytes

# Lines of the array of facts that a scan leaves, as in `matching/tokens.py`.
NOTES, TOKENS, NAMES, SIGNATURES, PUBLISHERS, BREAKS, FIRST_NUMBER, LAST_NUMBER, TIMED = range(9)

_EXACT_MAX = 1 << 53
_FLOAT_MAX = 1.7976931348623157e308
# Columns, as in `matching/tokens.py`; numba wants plain numbers of this module.
_TAIL, _PARCEL, _STOP, _SEQUENCE, _FIRST, _WIDTH, _SIGNATURE, _PUBLISHER = range(8)
_NUMBER, _TEXT, _BOOL = range(3)


@njit(cache=True, nogil=True, error_model="numpy")
def _text_at(at, stop):  # type: ignore[no-untyped-def]
    """Where the string at `at` begins, and its number of bytes; -1 bytes if there is none that fits."""
    start, size = at, -1
    if at < stop:
        first = byte_at(at)
        if 0xA0 <= first <= 0xBF:
            start, size = at + 1, first & 0x1F
        elif first == 0xD9 and at + 2 <= stop:
            start, size = at + 2, byte_at(at + 1)
        elif first == 0xDA and at + 3 <= stop:
            start, size = at + 3, big_endian(at + 1, 2)
        if start + size > stop:
            size = -1
    return start, size


@njit(cache=True, nogil=True, error_model="numpy")
def _integer_at(at, stop):  # type: ignore[no-untyped-def]
    """The integer at `at` and where the next item begins, or -1 there if it is not an integer below 2^63 that fits."""
    if at >= stop:
        return 0, -1
    first = byte_at(at)
    if first < 0x80:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    signed = first >= 0xD0
    size = 1 << (first & 3)
    if not 0xCC <= first <= 0xD3 or at + 1 + size > stop or (first == 0xCF and byte_at(at + 1) >= 0x80):
        return 0, -1
    value = big_endian(at + 1, size)
    if signed and size < 8 and value >> (8 * size - 1):
        value -= 1 << (8 * size)
    return value, at + 1 + size


@njit(cache=True, nogil=True, error_model="numpy")
def _value_at(at, stop, chars_max):  # type: ignore[no-untyped-def]
    """The value at `at`: its kind, of a string its place, its bytes, of others its number, and where the next begins.

    The latter is -1 if the ordinary reader has to read it.
    """
    first = byte_at(at) if at < stop else 0xC1
    if first == 0xCB:
        value = float_at(at + 1) if at + 9 <= stop else np.nan
        # NaN fails both comparisons
        return _NUMBER, 0, 0, value, at + 9 if -_FLOAT_MAX <= value <= _FLOAT_MAX else -1
    if first == 0xC2 or first == 0xC3:
        return _BOOL, 0, 0, np.float64(first - 0xC2), at + 1
    if 0xA0 <= first <= 0xBF or first == 0xD9 or first == 0xDA:
        start, size = _text_at(at, stop)
        fits = size >= 0 and 0 <= characters(start, size) <= chars_max
        return _TEXT, start, size, 0.0, start + size if fits else -1
    whole, after = _integer_at(at, stop)
    # beyond, an integer may lie between two floats
    return _NUMBER, 0, 0, np.float64(whole), after if -_EXACT_MAX <= whole <= _EXACT_MAX else -1


@njit(cache=True, nogil=True, error_model="numpy")
def _attributes_at(at, stop):  # type: ignore[no-untyped-def]
    """The number of attributes of the map at `at`, and where the first begins; 0 if there is no such map."""
    first = byte_at(at) if at < stop else 0xC1
    if 0x80 <= first <= 0x8F:
        return first & 0x0F, at + 1
    if first == 0xDE and at + 3 <= stop:
        return big_endian(at + 1, 2), at + 3
    return 0, at


@njit(cache=True, nogil=True, error_model="numpy")
def _stamp_end(at, stop):  # type: ignore[no-untyped-def]
    """Where the stamp at `at` ends; its length comes first, seven bits a byte. -1: the length is cut off or too big."""
    size = shift = 0
    while at < stop and shift < 28:
        byte = byte_at(at)
        size |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return at + size
        shift += 7
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _after_time(at, stop):  # type: ignore[no-untyped-def]
    """Where the time at `at` ends: always a full 64-bit number that is not negative. -1 if it is not."""
    fits = at >= 0 and at + 9 <= stop
    return at + 9 if fits and byte_at(at) == 0xCF and byte_at(at + 1) < 0x80 else -1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _numbered(base, at, size, texts, count, guess):  # type: ignore[no-untyped-def]
    """The index of a text among `count` texts, trying `guess` first; `count` if it is new."""
    found = count
    if 0 <= guess < count and texts[guess, 1] == size and same_bytes(at, base + texts[guess, 0], size):
        found = guess
    else:
        for number in range(count):
            if texts[number, 1] == size and same_bytes(at, base + texts[number, 0], size):
                found = number
                break
    return found


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _signature(note, notes, tokens, heads, count):  # type: ignore[no-untyped-def]
    """The index of a notification's combination of names; `count` if it is new."""
    found = count
    first, width = notes[note, _FIRST], notes[note, _WIDTH]
    for number in range(count):
        head = heads[number]
        alike = notes[head, _WIDTH] == width
        at = 0
        while alike and at < width:
            alike = tokens[first + at, 0] == tokens[notes[head, _FIRST] + at, 0]
            at += 1
        if alike:
            found = number
            break
    return found


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _read_attributes(  # type: ignore[no-untyped-def]
    base, here, stop, width, chars_max, note, token, before, alike, name_count,
    tokens, numbers, names, texts, last_note, usual,
):  # fmt: skip
    """Make tokens of `width` attributes; returns where the next thing begins (-1: unusual), whether all names are those
    of the notification before, whose tokens begin at `before`, and how many names there are now. `note` is a number
    that no other notification has."""
    texts_base = np.int64(texts.ctypes.data)
    for j in range(width):
        start, size = _text_at(here, stop)
        here = -1
        if size <= 0:
            break
        guess = np.int64(tokens[before + j, 0]) if alike else usual[j]
        name = _numbered(texts_base, start, size, names, name_count, guess)
        alike = alike and name == guess
        if name == name_count:
            end = names[name - 1, 0] + names[name - 1, 1] if name else np.int64(0)
            if name == len(names) or end + size + 8 > len(texts) or characters(start, size) < 0:
                break
            put_bytes(texts_base + end, start, size)
            names[name, 0], names[name, 1], last_note[name] = end, size, -1
            name_count += 1
        # the same name twice in one notification is wrong
        if last_note[name] == note:
            break
        last_note[name] = note
        kind, text, text_bytes, number, here = _value_at(start + size, stop, chars_max)
        tokens[token + j, 0], tokens[token + j, 1] = name, kind
        if kind == _TEXT:
            tokens[token + j, 2], tokens[token + j, 3] = text - base, text - base + text_bytes
        else:
            numbers[token + j] = number
        if here < 0:
            break
    return here, alike, name_count


@njit(cache=True, nogil=True, error_model="numpy")
def _parcel_at(tail, stop, stamped, first_byte):  # type: ignore[no-untyped-def]
    """Where the parcel of a frame begins whose header ends at `tail`, how many attributes it has, where they begin.

    0 attributes if the ordinary reader has to read it. A parcel is an array of three or, with a time, of four; all of a
    batch have a time, or none: `first_byte` is that of the first parcel, -1 for the first itself.
    """
    parcel = _stamp_end(tail, stop) if stamped else tail
    if not tail <= parcel < stop:
        return tail, 0, tail
    array = byte_at(parcel)
    if (array != 0x93 and array != 0x94) or (first_byte >= 0 and array != first_byte):
        return parcel, 0, parcel
    width, here = _attributes_at(parcel + 1, stop)
    return parcel, width, here


@njit(cache=True, nogil=True, error_model="numpy")
def _end_at(here, stop, array):  # type: ignore[no-untyped-def]
    """The sequence number at `here`, if nothing but a time follows it where the array is of four; otherwise -1."""
    sequence, here = _integer_at(here, stop)
    if array == 0x94:
        here = _after_time(here, stop)
    return sequence if here == stop and sequence >= 0 else -1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _read_publisher(base, here, stop, chars_max, publishers, count, guess):  # type: ignore[no-untyped-def]
    """The number of the publisher whose name is at `here`, and where the next item begins: -1 if it is unusual.

    A new one is added, and counts once the caller says so.
    """
    start, size = _text_at(here, stop)
    number, after = count, start + size
    if size <= 0:
        after = -1
    else:
        number = _numbered(base, start, size, publishers, count, guess)
        if number == count:
            if number == len(publishers) or not 0 < characters(start, size) <= chars_max:
                after = -1
            else:
                publishers[number, 0], publishers[number, 1] = start - base, size
    return number, after


@njit(cache=True, nogil=True, error_model="numpy")
def scan(  # type: ignore[no-untyped-def]
    data, at, head_bytes, stamped, frame_bytes_max, attributes_max, chars_max, name_chars_max, scanned, name_count,
    names, texts, last_note, usual, notes, tokens, numbers, heads, publishers, facts,
):  # fmt: skip
    """Read the frames from `at` on that begin like the first, up to one that is unusual; returns where the next begins.

    Frames are alike if their `head_bytes` bytes after the length are equal: kind and header. `stamped`: a stamp comes
    before the parcel. `scanned` is the number of the first notification, above those of all earlier scans. From `names`
    to `usual`: the names known so far (`scanner.Known`), of which there are `name_count`. The result is in the arrays
    after these, and its size in `facts`. A batch also ends when the arrays are full.
    """
    note = token = before = signature_count = publisher_count = breaks = 0
    first_byte = -1
    base = np.int64(data.ctypes.data)
    at, end = base + at, base + len(data)
    first_head = at + 4
    while at + 4 + head_bytes < end and note < len(notes) and signature_count < len(heads):
        length = big_endian(at, 4)
        stop = at + 4 + length
        if not head_bytes < length <= frame_bytes_max or stop > end or not same_bytes(at + 4, first_head, head_bytes):
            break
        tail = at + 4 + head_bytes
        parcel, width, here = _parcel_at(tail, stop, stamped, first_byte)
        if not 0 < width <= min(attributes_max, len(tokens) - token):
            break
        alike = note > 0 and notes[note - 1, _WIDTH] == width
        # names and publishers count only with their notification
        here, alike, names_then = _read_attributes(
            base, here, stop, width, chars_max, scanned + note, token, before, alike, name_count,
            tokens, numbers, names, texts, last_note, usual,
        )  # fmt: skip
        if here < 0:
            break
        guess = notes[note - 1, _PUBLISHER] if note else -1
        publisher, here = _read_publisher(base, here, stop, name_chars_max, publishers, publisher_count, guess)
        sequence = _end_at(here, stop, byte_at(parcel)) if here >= 0 else -1
        if sequence < 0:
            break
        notes[note, _TAIL], notes[note, _PARCEL], notes[note, _STOP] = tail - base, parcel - base, stop - base
        notes[note, _SEQUENCE], notes[note, _FIRST], notes[note, _WIDTH] = sequence, token, width
        signature = notes[note - 1, _SIGNATURE] if alike else _signature(note, notes, tokens, heads, signature_count)
        if signature == signature_count:
            heads[signature] = note
        notes[note, _SIGNATURE], notes[note, _PUBLISHER] = signature, publisher
        breaks += note > 0 and sequence != notes[note - 1, _SEQUENCE] + 1
        name_count, publisher_count = names_then, max(publisher_count, publisher + 1)
        signature_count = max(signature_count, signature + 1)
        first_byte, before = byte_at(parcel), token
        note, token, at = note + 1, token + width, stop
    if note:
        for j in range(notes[0, _WIDTH]):
            usual[j] = tokens[j, 0]
        facts[FIRST_NUMBER], facts[LAST_NUMBER] = notes[0, _SEQUENCE], notes[note - 1, _SEQUENCE]
    facts[NOTES], facts[TOKENS], facts[NAMES] = note, token, name_count
    facts[SIGNATURES], facts[PUBLISHERS], facts[BREAKS] = signature_count, publisher_count, breaks
    facts[TIMED] = first_byte == 0x94
    return at - base
