"""Seconds of a piece of work: on the wall, and of CPU over this process, the JVM and its Python workers.

Python workers that ended are counted too, by whoever waited for them; the JVM waits for its own.
"""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

# has no types of its own
psutil: Any = import_module("psutil")
Answer = TypeVar("Answer")


class Took(NamedTuple):
    """Seconds."""

    wall_s: float
    cpu_s: float


def timed(work: Callable[[], Answer]) -> tuple[Answer, Took]:
    """The result of the work, and its cost."""
    cpu, begin = cpu_s(), time.perf_counter()
    answer = work()
    return answer, Took(time.perf_counter() - begin, cpu_s() - cpu)


def best(work: Callable[[], Answer], rounds: int) -> tuple[Answer, Took]:
    """The round of least CPU of several; the first, which warms everything up, is not counted."""
    work()
    found = [timed(work) for _ in range(rounds)]
    return min(found, key=lambda one: one[1].cpu_s)


def cpu_s() -> float:
    """CPU seconds of this process and everything it started."""
    own = psutil.Process()
    return sum(_one(process) for process in [own, *own.children(recursive=True)])


def _one(process: Any) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    # what is waited for, not what has children that are counted themselves
    return float(times.user + times.system + times.children_user + times.children_system)


def rate(count: int, seconds: float) -> float:
    """The rate per second."""
    return count / seconds if seconds > 0 else 0.0
