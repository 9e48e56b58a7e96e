"""Random numbers by counter: a value depends on the seed, the name of the stream and the counter, and on nothing else.

Without state, any part of a stream can be computed alone, in any order, on any machine, and the parts make up the
whole. The mixing is that of splitmix64 on 64-bit words. Everything is integer arithmetic or exactly rounded float
arithmetic (+, -, ×): no logarithm, no exponential, whose last digit differs between platforms; and none of numpy's
generators, whose streams may change between versions. Not for secrets.
"""

from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

# Above this, a float of 53 random bits cannot reach every integer.
BELOW_MAX: Final = 2**53

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_TWO: Final = np.uint64(0x94D049BB133111EB)
_ROW_CELLS_MAX: Final = 1 << 22


def stream(seed: int, name: str) -> Words:
    """The key of a stream, as an array of one word: streams of different names or seeds have nothing in common."""
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return np.array([int.from_bytes(digest, "little")], dtype=np.uint64)


def words(key: Words, counters: npt.ArrayLike) -> Words:
    """The random words at these counters. The words of one stream may themselves be keys of streams below it."""
    mixed: Words = key + (np.atleast_1d(counters).astype(np.uint64) + np.uint64(1)) * _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_ONE
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_TWO
    return mixed ^ (mixed >> np.uint64(31))


def uniform(key: Words, counters: npt.ArrayLike) -> Floats:
    """Floats in [0, 1), multiples of 2**-53."""
    return (words(key, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(key: Words, counters: npt.ArrayLike, bound: int) -> Integers:
    """Integers in [0, bound), uniform up to a bias of bound/2**53."""
    if not 1 <= bound <= BELOW_MAX:
        raise ValueError(f"an integer below {bound} cannot be drawn: the bound is 1 to 2**53")
    return (uniform(key, counters) * float(bound)).astype(np.int64)


def bell(key: Words, counters: npt.ArrayLike) -> Floats:
    """Bell-shaped floats of mean 0 and deviation 1 within ±6: twelve 16-bit uniforms, summed as integers."""
    base = np.atleast_1d(counters).astype(np.uint64) * np.uint64(3)
    low = np.uint64(0xFFFF)
    total = np.zeros(np.broadcast(key, base).shape, dtype=np.int64)
    for part in range(3):
        word = words(key, base + np.uint64(part))
        for shift in (0, 16, 32, 48):
            total += ((word >> np.uint64(shift)) & low).astype(np.int64)
    return (total - 6 * 0xFFFF).astype(np.float64) * 2.0**-16


def permutation(key: Words, count: int) -> Integers:
    """The integers below `count` in random order."""
    return np.argsort(words(key, np.arange(count)), kind="stable").astype(np.int64)


def sample(key: Words, count: int, size: int) -> Integers:
    """`size` different integers below `count`, in random order."""
    if not 0 <= size <= count:
        raise ValueError(f"{size} different integers below {count} cannot be drawn")
    return permutation(key, count)[:size]


def samples(keys: Words, count: int, size: int) -> Integers:
    """One `sample` per key, as rows. Memory is bounded: keys are taken a few million cells at a time."""
    if not 0 <= size <= count:
        raise ValueError(f"{size} different integers below {count} cannot be drawn")
    at_once = max(1, _ROW_CELLS_MAX // max(1, count))
    drawn = np.empty((len(keys), size), dtype=np.int64)
    for first in range(0, len(keys), at_once):
        block = words(keys[first : first + at_once, None], np.arange(count)[None, :])
        drawn[first : first + at_once] = np.argsort(block, axis=1, kind="stable")[:, :size]
    return drawn
