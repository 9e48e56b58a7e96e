"""The resources used by a broker's process: CPU time, memory, version, uptime. Brokers in one process share them."""

import os
import resource
import sys
import time
from dataclasses import dataclass

from octopia.version import __version__

_STARTED_S = time.time()


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """Figures of the whole process, for all of its brokers."""

    pid: int
    version: str
    python: str
    started_s: float  # by the wall clock
    cpu_s: float  # user and system
    resident_bytes: int
    brokers: int


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        # Elsewhere only the maximum so far is known: in KiB, or bytes on macOS.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def process_report(brokers: int) -> ProcessReport:
    """The state of this process, which runs `brokers` brokers."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return ProcessReport(
        os.getpid(),
        __version__,
        sys.version.split()[0],
        round(_STARTED_S, 3),
        round(used.ru_utime + used.ru_stime, 4),
        _resident_bytes(),
        brokers,
    )
