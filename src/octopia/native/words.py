"""Bytes by their address, one, four or eight at a time.

Compiled functions that hand an array of bytes to each other count it in and out, by an instruction that locks memory
and takes longer than what they do with it. So a kernel takes the address of its bytes once (`data.ctypes.data`) and
hands on numbers. The intrinsics here emit the one machine instruction that loads from an address; `context`, `builder`
and the rest are numba's names for the parts of the compiler.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from octopia.native.kernels import kernel


def _load(builder, address, kind):  # type: ignore[no-untyped-def]
    """The value of this kind at an address that need not be aligned."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def _byte_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The byte at an address."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.zext(_load(builder, arguments[0], ir.IntType(8)), ir.IntType(64))  # type: ignore[no-untyped-call]

    return types.int64(types.int64), emit


def _word_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Eight bytes from an address on as a number, the first byte lowest."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _load(builder, arguments[0], ir.IntType(64))  # type: ignore[no-untyped-call]

    return types.uint64(types.int64), emit


def _half_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Four bytes from an address on as a number, the first byte lowest."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.zext(_load(builder, arguments[0], ir.IntType(32)), ir.IntType(64))  # type: ignore[no-untyped-call]

    return types.uint64(types.int64), emit


def _put_byte(typing_context, address, byte):  # type: ignore[no-untyped-def]
    """Write a byte to an address."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), place)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit


def _put_word(typing_context, address, word):  # type: ignore[no-untyped-def]
    """Write eight bytes to an address, the lowest first."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        written = builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        written.align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), emit


def _put_bytes(typing_context, to, source, size):  # type: ignore[no-untyped-def]
    """Copy bytes from one address to another; the two ranges do not overlap."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        byte = ir.IntType(8).as_pointer()
        to, source = (builder.inttoptr(each, byte) for each in arguments[:2])
        cgutils.raw_memcpy(builder, to, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


def _turned(typing_context, word):  # type: ignore[no-untyped-def]
    """The same eight bytes in the opposite order."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), emit


byte_at: Any = intrinsic(_byte_at)
word_at: Any = intrinsic(_word_at)
half_at: Any = intrinsic(_half_at)
put_byte: Any = intrinsic(_put_byte)
put_bytes: Any = intrinsic(_put_bytes)
put_word: Any = intrinsic(_put_word)
turned: Any = intrinsic(_turned)


@kernel
def big_endian(address, size):  # type: ignore[no-untyped-def]
    """A number of `size` bytes, the first byte highest. It must be below 2^63."""
    number = 0
    for i in range(size):
        number = number << 8 | byte_at(address + i)
    return number


@kernel
def put_big_endian(address, number, size):  # type: ignore[no-untyped-def]
    """Write a number as `size` bytes, the highest first."""
    for i in range(size):
        put_byte(address + i, number >> (8 * (size - 1 - i)) & 255)


@kernel
def float_at(address):  # type: ignore[no-untyped-def]
    """A double as MessagePack writes it, the first byte highest."""
    return np.uint64(turned(word_at(address))).view(np.float64)
