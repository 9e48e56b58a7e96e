"""What a broker counts is what its process holds: strangers in waves, with every routing's queues and both engines."""

import json
import sys

import pytest

from tests.commands import run
from tests.net.waves import AWAY_BYTES_MAX, MEMORY_BYTES_MAX, MIB, WAVES

# What the process needs to do the work: the output of one read for all clients, twice while it is put into queues; and
# what Python and the C library keep for themselves.
CONSTANT = 64 * MIB
SCRIPT = "import asyncio, sys\nfrom tests.net.waves import main\nasyncio.run(main(*sys.argv[1:]))"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("routing", ["idr", "fdr"])
@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("kind", ["away", "silent", "down"])
def test_the_process_holds_what_its_broker_counts(kind: str, engine: str, routing: str) -> None:
    done = run(routing, engine, kind, script=SCRIPT)
    assert done.returncode == 0, done.stderr
    waves = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(waves) == WAVES
    for counted, grown in waves:
        assert counted <= (AWAY_BYTES_MAX if kind == "away" else MEMORY_BYTES_MAX) * 1.1, waves
        assert grown <= 2 * max(counted for counted, _ in waves) + CONSTANT, waves
