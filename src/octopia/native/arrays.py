"""Arrays by their addresses.

A call of a compiled function costs about 40 ns for each array that it is given, and kernels that hand arrays to each
other count them in and out. So a kernel takes the address of a sheet (`sheets.py`) and makes arrays of its lines
(`ints_at` and so on), or takes the address of an array (`ints_from`). That is safe as long as these arrays are neither
freed nor resized, which is what sheets are for.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

from octopia.native.kernels import inlined


def _pointer_to(typing_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), emit


_pointer: Any = intrinsic(_pointer_to)


def addresses(*arrays: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each array a line: its address, its length (the number of lines if it has columns), and its size."""
    return np.array([(array.ctypes.data, len(array), array.size) for array in arrays], dtype=np.int64)


@inlined
def addresses_at(address, lines):  # type: ignore[no-untyped-def]
    """What `addresses` made, from its own address: passing a number takes a third of the time of an array."""
    return carray(_pointer(address), (lines, 3), np.int64)


def _arrays_of(kind: Any) -> Any:
    """Functions that make an array of this kind: of a line of a sheet, without and with columns; and of an address."""

    @inlined
    def array_at(table, line):  # type: ignore[no-untyped-def]
        return carray(_pointer(table[line, 0]), (table[line, 1],), kind)

    @inlined
    def lines_at(table, line, columns):  # type: ignore[no-untyped-def]
        return carray(_pointer(table[line, 0]), (table[line, 1], columns), kind)

    @inlined
    def array_from(address, length):  # type: ignore[no-untyped-def]
        return carray(_pointer(address), (length,), kind)

    @inlined
    def lines_from(address, length, columns):  # type: ignore[no-untyped-def]
        return carray(_pointer(address), (length, columns), kind)

    return array_at, lines_at, array_from, lines_from


bytes_at, *_ = _arrays_of(np.uint8)
words_at, word_lines_at, *_ = _arrays_of(np.uint64)
ints_at, int_lines_at, ints_from, int_lines_from = _arrays_of(np.int64)
short_ints_at, short_int_lines_at, short_ints_from, short_int_lines_from = _arrays_of(np.int32)
floats_at, float_lines_at, floats_from, float_lines_from = _arrays_of(np.float64)


@inlined
def float_block_from(address, depth, height, width):  # type: ignore[no-untyped-def]
    """Floats at an address as an array of three dimensions."""
    return carray(_pointer(address), (depth, height, width), np.float64)
