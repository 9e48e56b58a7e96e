"""Freed memory goes back to the operating system.

The C library of most Linux systems (glibc) keeps large pieces that were freed, for the next ones. After the long queues
of many clients, that is more than all the rest of a broker. Elsewhere nothing needs to be done.
"""

import ctypes
import sys


def give_back() -> None:
    """Return the pages that nothing is in. Takes some milliseconds if they are many."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
