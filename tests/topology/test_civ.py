"""Cluster index vectors: bits, indices, digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia import TopologyError
from octopia.topology import civ


def test_the_rightmost_digit_is_cluster_0() -> None:
    assert civ.to_string(civ.bit(0), 3) == "001"
    assert civ.to_string(civ.bit(0) | civ.bit(2), 3) == "101"
    assert civ.bits(0b10110) == (1, 2, 4)
    assert (civ.full(3), civ.bits(0), civ.to_string(0, 2)) == (7, (), "00")


@given(st.sets(st.integers(0, 40)), st.integers(41, 60))
def test_digits_and_indices_agree(indices: set[int], clusters: int) -> None:
    mask = sum(civ.bit(index) for index in indices)
    text = civ.to_string(mask, clusters)
    assert civ.bits(mask) == tuple(sorted(indices))
    assert [place for place, digit in enumerate(reversed(text)) if digit == "1"] == sorted(indices)
    assert len(text) == clusters
    assert int(text, 2) == mask


@pytest.mark.parametrize("mask", [-1, 0b1000])
def test_a_bit_outside_the_clusters_is_refused(mask: int) -> None:
    with pytest.raises(TopologyError, match=r"outside clusters 0\.\.2"):
        civ.to_string(mask, 3)
