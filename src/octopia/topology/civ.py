"""Cluster index vectors: one bit per cluster, bit index = cluster index, the rightmost is 0.

Rules of this file: a CIV is a plain `int`, because it is tested and changed for every copy of every notification. These
functions name the few things done with one; the text form (`101`) is for people, traces and tests.
"""

from collections.abc import Iterable

from octopia.errors import TopologyError


def bit(index: int) -> int:
    """The vector in which only this cluster's bit is ON."""
    return 1 << index


def vector(indices: Iterable[int]) -> int:
    """The vector in which exactly these clusters' bits are ON."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def full(clusters: int) -> int:
    """The vector in which every bit is ON."""
    return (1 << clusters) - 1


def bits(mask: int) -> tuple[int, ...]:
    """The indices of the clusters whose bit is ON, ascending."""
    indices = []
    while mask:
        lowest = mask & -mask
        indices.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(indices)


def to_string(mask: int, clusters: int) -> str:
    """`0b101` of three clusters as `101`: as many digits as clusters, cluster 0 rightmost."""
    if mask < 0 or mask >> clusters:
        raise TopologyError(f"vector {mask:b} has a bit outside clusters 0..{clusters - 1}")
    return f"{mask:0{clusters}b}"


def from_string(text: str) -> int:
    """The vector that `to_string` wrote."""
    bad = next((character for character in text if character not in "01"), None)
    if bad is not None:
        raise TopologyError(f"{text!r} is no cluster index vector: {bad!r} is neither 0 nor 1")
    if not text:
        raise TopologyError("'' is no cluster index vector: it has one digit per cluster")
    return int(text, 2)
