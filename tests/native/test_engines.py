"""The compiled engine does what the reference does, whatever the arrays that it reads were before."""

from random import Random

import pytest

from octopia.matching import kernels_in_use
from tests.effort import cases
from tests.native.stories import ROUTINGS, Story

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


@pytest.mark.parametrize("seed", range(cases(30)))
@pytest.mark.parametrize("routing", ROUTINGS)
def test_both_engines_write_the_same_while_all_tables_grow_and_shrink(routing: str, seed: int) -> None:
    Story(routing, Random(f"{routing} {seed}")).play(60)
