"""Bytes for compiled code: words, comparison, hashing, numbers. Importing this package loads numba.

Only the `*_numba` modules of other packages import it, and they are loaded when they are first needed. The functions
take addresses and trust them: callers check that what they ask for lies inside their array.
"""

from octopia.native.arrays import (
    addresses,
    addresses_at,
    bytes_at,
    float_block,
    float_lines_at,
    floats_at,
    int_lines_at,
    ints_at,
    short_int_lines_at,
    short_ints_at,
    words_at,
)
from octopia.native.texts import characters, hash_of, same_bytes
from octopia.native.words import (
    big_endian,
    byte_at,
    float_at,
    put_big_endian,
    put_byte,
    put_bytes,
    put_word,
    turned,
    word_at,
)

__all__ = [
    "addresses",
    "addresses_at",
    "big_endian",
    "byte_at",
    "bytes_at",
    "characters",
    "float_at",
    "float_block",
    "float_lines_at",
    "floats_at",
    "hash_of",
    "int_lines_at",
    "ints_at",
    "put_big_endian",
    "put_byte",
    "put_bytes",
    "put_word",
    "same_bytes",
    "short_int_lines_at",
    "short_ints_at",
    "turned",
    "word_at",
    "words_at",
]
