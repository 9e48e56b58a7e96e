"""A short run of the fuzz target; `python -m fuzz.frames` runs as long as one likes."""

import asyncio

import pytest
from fuzz.frames import fuzz


@pytest.mark.parametrize("routing", ["idr", "fdr"])
def test_mutated_frames_and_handshakes_do_not_disturb_the_broker(routing: str) -> None:
    assert asyncio.run(fuzz(200.0, seed=7, rounds_max=300, routing=routing)) == 300
