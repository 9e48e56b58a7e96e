"""The compiled engine does what the reference does, and never reads an array that was replaced."""

from random import Random

import numpy as np
import pytest

from octopia.matching import kernels_in_use
from octopia.sheets import Sheet
from tests.effort import cases
from tests.native.guard import guarded
from tests.native.stories import ROUTINGS, Story


@pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")
@pytest.mark.parametrize("seed", range(cases(24)))
@pytest.mark.parametrize("routing", ROUTINGS)
def test_both_engines_write_the_same_while_all_tables_grow_and_shrink(
    routing: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(monkeypatch) as old:
        Story(routing, Random(f"{routing} {seed}")).play(50)
    assert old.buried > 100


def test_the_guard_finds_who_goes_on_with_an_old_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(sheet: Sheet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        sheet.put(0, np.arange(4))
        kept = sheet[0]
        assert sheet.grow(0, 8).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
        return kept

    with guarded(monkeypatch):
        assert stale(Sheet(1)).tolist() != [0, 1, 2, 3]
    with pytest.raises(AssertionError, match="was replaced"), guarded(monkeypatch):
        stale(Sheet(1))[2] = 7
