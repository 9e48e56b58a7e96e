"""Product commands that run to their end, or until they have shown their effect."""

import os
import subprocess
import threading
from functools import cache
from pathlib import Path

from benchmarks.chaos.versions import OCTOPIA

LISTENS_S_MAX = 10.0


@cache
def _apart() -> tuple[str, ...]:
    """A prefix that gives a command its own network, if the system supports it."""
    try:
        done = subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=5, check=False)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return ("unshare", "--net") if done.returncode == 0 else ()


def serve_says(file: Path, *, apart: bool = False) -> tuple[bool, str]:
    """Whether `octopia serve` listens with this file, and the last line that it wrote to standard error.

    With `apart` it listens where nobody can reach it; where that cannot be had it is told an address that is nobody's,
    so that it reads the file and says why it cannot listen.
    """
    prefix = _apart() if apart else ()
    if apart and not prefix:
        file.write_text(file.read_text(encoding="utf-8").replace("0.0.0.0", "192.0.2.1"), encoding="utf-8")  # noqa: S104
    process = subprocess.Popen(  # noqa: S603 - the product's own command
        [*prefix, *OCTOPIA, "serve", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env=os.environ,
    )
    limit = threading.Timer(LISTENS_S_MAX, process.kill)
    limit.start()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        process.kill()
        said = process.stderr.read().strip().splitlines()
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    told = said[-1].removeprefix("octopia: ").replace(f"{file.parent}/", "") if said else ""
    if apart and not prefix and "cannot listen" in told:
        return True, ""
    return line.startswith("("), told


def octopia_says(*arguments: str, timeout_s: float = 20.0) -> tuple[int, str]:
    """Run a command; its exit code and all it said."""
    done = subprocess.run(  # noqa: S603 - the product's own command
        [*OCTOPIA, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return done.returncode, f"{done.stdout}\n{done.stderr}".strip()
