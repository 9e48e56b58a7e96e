"""From the bytes of a read to columns, compiled: frames are cut, parcels checked, values found (`matching/tokens.py`).

MessagePack in short: the first byte of an item gives its type and, for small ones, its size or value. This reader knows
all forms of values, except integers of more than 64 bits (an extension of ours). Those, more attributes or names than
its arrays have room for, and any error are left to the ordinary reader in `parcel.py`, which reports errors. So this
reader may refuse valid input, but must never accept what the ordinary reader refuses, nor read a different value.
`tests/wire/test_scan.py` and `fuzz/scan.py` test that on mutated bytes.

Places (`at`, `here`, `stop`) are addresses. Every function checks that it reads only before `stop`, the end of the
frame.
"""

import numpy as np

from octopia.matching.tokens import (
    AT,
    BOOL,
    END,
    FIRST,
    HEADER,
    KIND,
    NAME,
    NUMBER,
    PARCEL,
    PUBLISHER,
    SEQUENCE,
    SIGNATURE,
    STOP,
    TAIL,
    TEXT,
    WIDTH,
)
from octopia.native import (
    addresses_at,
    big_endian,
    byte_at,
    characters,
    float_at,
    hash_of,
    inlined,
    int_lines_at,
    ints_at,
    kernel,
    same_bytes,
    short_ints_at,
    turned,
    word_at,
)
from octopia.wire.scanner import (
    HEADER_SLOTS,
    HEADERS,
    NAME_SLOTS,
    NAME_TEXTS,
    NAMES,
    PUBLISHER_SLOTS,
    PUBLISHERS,
    SHEET_LINES,
    SIGNATURE_NAMES,
    SIGNATURE_SLOTS,
    SIGNATURES,
)

_EXACT_MAX = 1 << 53
_EXACT_BITS, _ONE = np.uint64(53), np.uint64(1)
# What ended a scan: the bytes, or a frame of another kind; a frame for the ordinary reader; a name or a combination of
# names that is new; full arrays.
ENDED, UNUSUAL, NEW, FULL = range(4)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@kernel
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


@kernel
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


@kernel
def _pair_of(magnitude, negative):  # type: ignore[no-untyped-def]
    """An integer as the greatest float not above it and the rest, which is not negative."""
    shift = np.uint64(0)
    while magnitude >> shift >> _EXACT_BITS:
        shift += _ONE
    rest = magnitude & (_ONE << shift) - _ONE
    if negative and rest:
        rest = (_ONE << shift) - rest
        magnitude += rest
    elif not negative:
        magnitude -= rest
    below = np.float64(magnitude)
    return -below if negative else below, np.int64(rest)


@kernel
def _number_at(at, stop):  # type: ignore[no-untyped-def]
    """The number at `at`, as a float and a rest, and where the next item begins, or -1 if it is not a number."""
    first = byte_at(at)
    if first == 0xCB or first == 0xCA:
        after = at + 9 if first == 0xCB else at + 5
        if after > stop:
            return 0.0, 0, -1
        value = float_at(at + 1) if first == 0xCB else np.float64(np.uint32(big_endian(at + 1, 4)).view(np.float32))
        return value, 0, after if value == value else -1
    if first == 0xCF and at + 9 <= stop and byte_at(at + 1) >= 0x80:
        below, rest = _pair_of(turned(word_at(at + 1)), False)
        return below, rest, at + 9
    whole, after = _integer_at(at, stop)
    if -_EXACT_MAX <= whole <= _EXACT_MAX:
        return np.float64(whole), 0, after
    below, rest = _pair_of(np.uint64(-whole if whole < 0 else whole), whole < 0)
    return below, rest, after


@kernel
def _value_at(at, stop, chars_max):  # type: ignore[no-untyped-def]
    """The value at `at`: its kind, of a string its place, of a number its rest, the bytes of a string, the number of
    any other value, and where the next item begins: -1 if the ordinary reader has to read it.
    """
    first = byte_at(at) if at < stop else 0xC1
    if first == 0xC2 or first == 0xC3:
        return BOOL, 0, 0, np.float64(first - 0xC2), at + 1
    if 0xA0 <= first <= 0xBF or first == 0xD9 or first == 0xDA:
        start, size = _text_at(at, stop)
        fits = size >= 0 and 0 <= characters(start, size) <= chars_max
        return TEXT, start, size, 0.0, start + size if fits else -1
    if first == 0xC1:
        return NUMBER, 0, 0, 0.0, -1
    number, rest, after = _number_at(at, stop)
    return NUMBER, rest, 0, number, after


@kernel
def _attributes_at(at, stop):  # type: ignore[no-untyped-def]
    """The number of attributes of the map at `at`, and where the first begins; 0 if there is no such map."""
    first = byte_at(at) if at < stop else 0xC1
    if 0x80 <= first <= 0x8F:
        return first & 0x0F, at + 1
    if first == 0xDE and at + 3 <= stop:
        return big_endian(at + 1, 2), at + 3
    return 0, at


@kernel
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


@kernel
def _after_time(at, stop):  # type: ignore[no-untyped-def]
    """Where the time at `at` ends: always a full 64-bit number that is not negative. -1 if it is not."""
    fits = at >= 0 and at + 9 <= stop
    return at + 9 if fits and byte_at(at) == 0xCF and byte_at(at + 1) < 0x80 else -1


@kernel
def put_name(sheet_at, number):  # type: ignore[no-untyped-def]
    """Make a name that was written to the arrays of names known by its text."""
    sheet = addresses_at(sheet_at, SHEET_LINES)
    names, slots = int_lines_at(sheet, NAMES, 2), short_ints_at(sheet, NAME_SLOTS)
    last = len(slots) - 1
    slot = np.int64(hash_of(sheet[NAME_TEXTS, 0] + names[number, 0], names[number, 1])) & last
    while slots[slot] >= 0:
        slot = (slot + 1) & last
    slots[slot] = number


@inlined
def _next_key(key, name):  # type: ignore[no-untyped-def]
    """The hash of a combination of names, with one name more."""
    mixed = (key ^ np.uint64(name)) * _SPREAD
    return mixed ^ mixed >> _SHIFT


@kernel
def put_signature(sheet_at, number):  # type: ignore[no-untyped-def]
    """Make a combination of names that was written to the arrays known by its names."""
    sheet = addresses_at(sheet_at, SHEET_LINES)
    signatures, names = int_lines_at(sheet, SIGNATURES, 3), short_ints_at(sheet, SIGNATURE_NAMES)
    slots = short_ints_at(sheet, SIGNATURE_SLOTS)
    key, last = np.uint64(0), len(slots) - 1
    for at in range(signatures[number, 0], signatures[number, 0] + signatures[number, 1]):
        key = _next_key(key, names[at])
    signatures[number, 2] = np.int64(key)
    slot = np.int64(key) & last
    while slots[slot] >= 0:
        slot = (slot + 1) & last
    slots[slot] = number


@inlined
def _name_at(start, size, names, texts_at, slots, guess):  # type: ignore[no-untyped-def]
    """The number of the name at `start`, trying `guess` first; -1 if it is not known."""
    found = np.int64(-1)
    if guess >= 0 and names[guess, 1] == size and same_bytes(start, texts_at + names[guess, 0], size):
        found = np.int64(guess)
    else:
        last = len(slots) - 1
        slot = np.int64(hash_of(start, size)) & last
        while slots[slot] >= 0 and found < 0:
            number = slots[slot]
            if names[number, 1] == size and same_bytes(start, texts_at + names[number, 0], size):
                found = np.int64(number)
            slot = (slot + 1) & last
    return found


@inlined
def _read_attributes(here, stop, width, chars_max, base, token, tokens, numbers, names, texts_at, slots, follows):  # type: ignore[no-untyped-def]
    """Make tokens of `width` attributes; returns where the next thing begins, and the hash of their names.

    If a name is new, or something is for the ordinary reader, the place is -`NEW` or -`UNUSUAL`. `follows` has for each
    name the one that came after it the last time, which is tried first.
    """
    key, before = np.uint64(0), np.int64(-1)
    for j in range(width):
        start, size = _text_at(here, stop)
        here = np.int64(-UNUSUAL)
        if size <= 0:
            break
        name = _name_at(start, size, names, texts_at, slots, follows[before + 1])
        if name < 0:
            here = np.int64(-NEW)
            break
        follows[before + 1] = name
        kind, text, text_bytes, number, after = _value_at(start + size, stop, chars_max)
        if after < 0:
            break
        here = np.int64(after)
        tokens[token + j, NAME], tokens[token + j, KIND] = name, kind
        if kind == TEXT:
            tokens[token + j, AT], tokens[token + j, END] = text - base, text - base + text_bytes
        else:
            numbers[token + j], tokens[token + j, AT] = number, text
        key, before = _next_key(key, name), name
    return here, key


@inlined
def _signature_of(key, width, token, tokens, signatures, names, slots):  # type: ignore[no-untyped-def]
    """The number of the combination of names that tokens have from `token` on; -1 if it is new."""
    found, last = np.int64(-1), len(slots) - 1
    slot = np.int64(key) & last
    while slots[slot] >= 0 and found < 0:
        number = slots[slot]
        if signatures[number, 2] == np.int64(key) and signatures[number, 1] == width:
            start, at = signatures[number, 0], 0
            while at < width and tokens[token + at, NAME] == names[start + at]:
                at += 1
            if at == width:
                found = np.int64(number)
        slot = (slot + 1) & last
    return found


@inlined
def _numbered_piece(at, size, kind, base, pieces, count, slots, scan, guess):  # type: ignore[no-untyped-def]
    """The number of a piece of bytes of this kind among those of a read, `count` of which are known; -1: no room.

    `guess` is tried first. A new one is added. `slots` has numbers of this scan, together with its number, and
    leftovers of earlier ones.
    """
    found = np.int64(-1)
    alike = guess < count and pieces[guess, 1] == size and pieces[guess, 2] == kind
    if alike and same_bytes(at, base + pieces[guess, 0], size):
        found = guess
    else:
        last = len(slots) - 1
        slot = np.int64(hash_of(at, size)) & last
        while slots[slot] >> 16 == scan and found < 0:
            number = slots[slot] & 0xFFFF
            alike = pieces[number, 1] == size and pieces[number, 2] == kind
            if alike and same_bytes(at, base + pieces[number, 0], size):
                found = number
            slot = (slot + 1) & last
        if found < 0 and count < len(pieces):
            found = np.int64(count)
            # the loop ended at a slot that is free in this scan
            slots[slot] = scan << 16 | found
            pieces[found, 0], pieces[found, 1], pieces[found, 2] = at - base, size, kind
    return found


@kernel
def _parcel_at(tail, stop, stamped):  # type: ignore[no-untyped-def]
    """Where the parcel of a frame begins whose header ends at `tail`, how many attributes it has, where they begin.

    0 attributes if the ordinary reader has to read it. A parcel is an array of three or, with a time, of four.
    """
    parcel = _stamp_end(tail, stop) if stamped else tail
    if not tail <= parcel < stop:
        return tail, 0, tail
    array = byte_at(parcel)
    if array != 0x93 and array != 0x94:
        return parcel, 0, parcel
    width, here = _attributes_at(parcel + 1, stop)
    return parcel, width, here


@kernel
def _end_at(here, stop, array):  # type: ignore[no-untyped-def]
    """The sequence number at `here`, if nothing but a time follows it where the array is of four; otherwise -1."""
    sequence, here = _integer_at(here, stop)
    if array == 0x94:
        here = _after_time(here, stop)
    return sequence if here == stop and sequence >= 0 else -1


@inlined
def read_note(  # type: ignore[no-untyped-def]
    base, at, stop, kind, tail, stamped, attributes_max, chars_max, name_chars_max, scan, note, token, publisher_count,
    header_count, sheet, tokens, numbers, notes, follows,
):  # fmt: skip
    """Read the notification of the frame from `at` to `stop`, whose header ends at `tail`; returns why not, or ENDED.

    It becomes line `note` of `notes`, and tokens from `token` on. `publisher_count` and `header_count` are how many of
    these this scan has met; a new one gets the next number.
    """
    code = UNUSUAL
    parcel, width, here = _parcel_at(tail, stop, stamped)
    if 0 < width <= attributes_max:
        here, key = _read_attributes(
            here, stop, width, chars_max, base, token, tokens, numbers, int_lines_at(sheet, NAMES, 2),
            sheet[NAME_TEXTS, 0], short_ints_at(sheet, NAME_SLOTS), follows,
        )  # fmt: skip
        if here < 0:
            code = -here
        else:
            signature = _signature_of(
                key, width, token, tokens, int_lines_at(sheet, SIGNATURES, 3), short_ints_at(sheet, SIGNATURE_NAMES),
                short_ints_at(sheet, SIGNATURE_SLOTS),
            )  # fmt: skip
            start, size = _text_at(here, stop)
            sequence = _end_at(start + size, stop, byte_at(parcel)) if size > 0 else -1
            if signature < 0:
                code = NEW
            elif sequence >= 0:
                publishers = int_lines_at(sheet, PUBLISHERS, 3)
                # most often those of the notification before
                last_publisher = notes[note - 1, PUBLISHER] if note else np.int64(0)
                last_header = notes[note - 1, HEADER] if note else np.int64(0)
                publisher = _numbered_piece(
                    start, size, 0, base, publishers, publisher_count, ints_at(sheet, PUBLISHER_SLOTS), scan,
                    last_publisher,
                )  # fmt: skip
                header = _numbered_piece(
                    at + 9, tail - at - 9, kind, base, int_lines_at(sheet, HEADERS, 3), header_count,
                    ints_at(sheet, HEADER_SLOTS), scan, last_header,
                )  # fmt: skip
                if publisher < 0 or header < 0:
                    code = FULL
                elif publisher < publisher_count or 0 < characters(start, size) <= name_chars_max:
                    code = ENDED
                    notes[note, TAIL], notes[note, PARCEL], notes[note, STOP] = tail - base, parcel - base, stop - base
                    notes[note, SEQUENCE], notes[note, FIRST], notes[note, WIDTH] = sequence, token, width
                    notes[note, SIGNATURE], notes[note, PUBLISHER], notes[note, HEADER] = signature, publisher, header
    return code
