"""Keys that Spark's hash partitioning sends to partitions of their own, to spread work exactly over tasks.

`repartition(n, key)` puts a row into a partition by a hash of its key, so with plain numbers as keys some of twenty
partitions get several of twenty chunks and others none. This module finds keys that land in partitions 0, 1, 2, …: the
hash is Murmur3 with Spark's seed, which Spark cannot change since tables on disk are bucketed by it.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

_SEED: Final = 42
# This many keys are tried at once for each partition; nearly all partitions have theirs after that.
_TRIED: Final = 8

_Words = npt.NDArray[np.uint32]


def spread_keys(partitions: int) -> list[int]:
    """For each partition, a key (Spark's type int) that `repartition(partitions, key)` puts there."""
    keys = np.full(partitions, -1, dtype=np.int64)
    first, size = 0, _TRIED * partitions
    while (keys < 0).any():
        tried = np.arange(first, first + size, dtype=np.int64)
        places = partition_of(tried, partitions)
        # backwards, so that the smallest of several keys for a partition stays
        fresh = keys[places[::-1]] < 0
        keys[places[::-1][fresh]] = tried[::-1][fresh]
        first += size
    return [int(key) for key in keys]


def partition_of(keys: npt.NDArray[np.int64], partitions: int) -> npt.NDArray[np.int64]:
    """The partition in which `repartition(partitions, key)` puts each key of type int."""
    return np.asarray(_murmur3(keys.astype(np.int32).view(np.uint32)).view(np.int32).astype(np.int64) % partitions)


def _murmur3(words: _Words) -> _Words:
    with np.errstate(over="ignore"):
        mixed = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        found = _turned(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        found ^= np.uint32(4)
        found ^= found >> np.uint32(16)
        found *= np.uint32(0x85EBCA6B)
        found ^= found >> np.uint32(13)
        found *= np.uint32(0xC2B2AE35)
        found ^= found >> np.uint32(16)
    return found


def _turned(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
