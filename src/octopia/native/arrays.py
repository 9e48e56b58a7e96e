"""Arrays by their addresses.

A call of a compiled function costs about 40 ns for each array that it is given. Code that needs many arrays for every
call writes their addresses and lengths to one array, once (`addresses`), and the kernel makes arrays of them again
(`ints_at` and so on). That is safe as long as these arrays are neither freed nor resized. So keep them, and use it only
for arrays that one object allocates and nobody else has, or whose owner counts its changes (`Matcher.search_table`).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic


def _pointer_to(typing_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), emit


_pointer: Any = intrinsic(_pointer_to)


def addresses(*arrays: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each array a line: its address, its length (the number of lines if it has columns), and its size."""
    return np.array([(array.ctypes.data, len(array), array.size) for array in arrays], dtype=np.int64)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def addresses_at(address, lines):  # type: ignore[no-untyped-def]
    """What `addresses` made, from its own address: passing a number takes a third of the time of an array."""
    return carray(_pointer(address), (lines, 3), np.int64)


def _arrays_of(kind: Any) -> Any:
    """The function that makes an array of this kind of a line of a table; and the one for an array with columns."""

    @njit(cache=True, nogil=True, error_model="numpy", inline="always")
    def array_at(table, line):  # type: ignore[no-untyped-def]
        return carray(_pointer(table[line, 0]), (table[line, 1],), kind)

    @njit(cache=True, nogil=True, error_model="numpy", inline="always")
    def lines_at(table, line, columns):  # type: ignore[no-untyped-def]
        return carray(_pointer(table[line, 0]), (table[line, 1], columns), kind)

    return array_at, lines_at


bytes_at, _ = _arrays_of(np.uint8)
words_at, _ = _arrays_of(np.uint64)
ints_at, int_lines_at = _arrays_of(np.int64)
short_ints_at, short_int_lines_at = _arrays_of(np.int32)
floats_at, float_lines_at = _arrays_of(np.float64)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def float_block(room, depth, height, width):  # type: ignore[no-untyped-def]
    """The beginning of an array that is long enough, as one of three dimensions; `reshape` takes 2 s to compile."""
    return carray(_pointer(np.int64(room.ctypes.data)), (depth, height, width), np.float64)
