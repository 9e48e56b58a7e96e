"""Compiled code on disk is used again, and never after an edit of a kernel that it calls."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

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
    source = Path(__file__).parent.parent.parent / "src" / "octopia"
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
