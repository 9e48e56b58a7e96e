"""What differs between versions of the product, and the figures by which the trial judges: the one place to change.

A key of the overlay file that the product does not know is left out; what it knows is asked of `octopia serve` itself,
which reads the whole file before it looks for the broker, so that a broker that does not exist costs nothing.
"""

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

# The criteria of the trial.
RATE_RATIO_MIN = 0.95
DELAY_COST_S_MAX = 0.25
NOTICE_S_MAX = 2.5
# A fault that ends by itself, or by a failover, is over for clients by then.
# A registration waits for its neighbours as long as a link may be broken: `link_grace_s` (5 s) and, where the other end
# dials, three of its heartbeats (2.1 s).
RECOVERY_S_MAX = 8.0
# How long delivery may pause under fdr: where connections break, and where brokers fall silent.
GAP_RESET_S_MAX = 0.5
GAP_SILENT_S_MAX = 2.5
# The most that one attacker may make a broker's memory grow.
MEMORY_BYTES_MAX = 128 * 1024 * 1024
# Wrong tokens that may be answered in GUESSING_S.
GUESSES_MAX = 300
GUESSING_S = 8.0

OCTOPIA = (sys.executable, "-m", "octopia")
POLICY_LOSSLESS = "block"
POLICY_HARMLESS = "drop_oldest"


@cache
def _knows(file_text: str, word: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "asked.toml"
        file.write_text(file_text, encoding="utf-8")
        asked = subprocess.run(  # noqa: S603 - the product's own command
            [*OCTOPIA, "serve", str(file), "--broker", "zz,9"], capture_output=True, text=True, timeout=30, check=False
        )
    return not ("unknown key" in asked.stderr and word in asked.stderr)


def limit_line(key: str, value: float) -> str:
    """A line of [limits]; empty if there is no such limit (any more)."""
    known = _knows(f'[overlay]\ntree = "path:1"\nclusters = 1\n[limits]\n{key} = {value}\n', key)
    return f"{key} = {value}\n" if known else ""


def client_keys(block: bool) -> str:
    """The lines of a client's entry that grant what newer versions do not give to all."""
    text = (
        '[overlay]\ntree = "path:1"\nclusters = 1\n[links]\ntoken = "0123456789abcdef0123456789abcdef"\n'
        '[[clients]]\nname = "a"\ntoken = "fedcba9876543210fedcba9876543210"\nsubscribe = "true"\nblock = true\n'
    )
    return "block = true\n" if block and _knows(text, "block") else ""
