"""Cluster index vectors: one bit per cluster, bit index = cluster index, the rightmost is 0.

A CIV is a plain `int`, because it is tested and changed for every copy of every notification. These functions are its
few operations; the text form (`101`) is for people, traces and tests.
"""

from octopia.errors import TopologyError


def bit(index: int) -> int:
    """The vector in which only this cluster's bit is ON."""
    return 1 << index


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
