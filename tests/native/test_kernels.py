"""Compiled code on disk is used again, never after an edit of a kernel that it calls, and nothing is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import cases

pytest.importorskip("numba")

ROOT = Path(__file__).parent.parent.parent

INNER = """
from octopia.native import kernel

@kernel
def answer(given):
    return given + {added}
"""
OUTER = """
from numba import int64
from octopia.native import kernel
from octopia.inner_numba import answer

@kernel
def asked(given):
    return 10 * answer(given)

print(asked(1), asked.stats.cache_hits[(int64,)] if asked.stats.cache_hits else 0)
"""


def test_an_edit_of_an_inner_kernel_is_noticed(tmp_path: Path) -> None:
    source = ROOT / "src" / "octopia"
    package = tmp_path / "octopia"
    package.mkdir()
    for name in ("native",):
        (package / name).mkdir()
        for file in (source / name).glob("*.py"):
            (package / name / file.name).write_bytes(file.read_bytes())
    (package / "__init__.py").write_text("")
    (package / "outer_numba.py").write_text(OUTER)

    def run(added: int) -> str:
        (package / "inner_numba.py").write_text(INNER.format(added=added))
        command = [sys.executable, "-m", "octopia.outer_numba"]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert run(1).split()[0] == "20"
    assert run(1) == "20 1", "the second process uses what the first has compiled"
    assert run(2) == "30 0"


def test_nothing_is_compiled_after_the_warm_up() -> None:
    """A kernel that is compiled in the midst of a read stops a broker for a second or more.

    The stories have all routings, conditions of all kinds, priorities, times, observers, copies that wait for earlier
    ones, and streams with stamps.
    """
    command = [sys.executable, "-m", "tests.native.compiling", str(cases(24))]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)
    assert told["kernels"] > 50
    assert told["new"] == {}
