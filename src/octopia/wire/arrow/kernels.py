"""The compiled kernels for columns, and when they are worth loading.

Loading numba and its cached code takes about a second, as long as some 300,000 rows take without it. So a process that
moves a few rows never loads it, and one that moves many does so once: `worth_loading` counts rows, and `load` is for
another thread, so that an event loop is not blocked. If numba is loaded anyway, or was chosen with
`octopia.matching.use_kernels`, kernels are used from the first row on.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Final

ROWS_MIN: Final = 100_000
_NAMES: Final = ("check", "read", "write")
_loaded: dict[str, ModuleType] = {}
_rows = 0  # rows moved so far, until kernels are loaded


def worth_loading(rows: int) -> bool:
    """Whether this many more rows make it worthwhile to load kernels that are not loaded yet."""
    global _rows
    if _loaded or find_spec("numba") is None or _chosen() == "numpy":
        return False
    _rows += rows
    return _rows >= ROWS_MIN or "numba" in sys.modules or _chosen() == "numba"


def load() -> None:
    """Load all kernels, or compile them the first time."""
    loaded = {name: importlib.import_module(f"octopia.wire.arrow.numba_{name}") for name in _NAMES}
    from octopia.wire.arrow.warm_up import use_all

    use_all(loaded)
    _loaded.update(loaded)


def _chosen() -> str | None:
    from octopia.matching import chosen_kernels

    return chosen_kernels()


def _kernels(name: str) -> ModuleType | None:
    return _loaded.get(name) if _loaded and _chosen() != "numpy" else None


def check_kernels() -> ModuleType | None:
    """Kernels that check parcels; None if not loaded."""
    return _kernels("check")


def read_kernels() -> ModuleType | None:
    """Kernels that read parcels into columns; None if not loaded."""
    return _kernels("read")


def write_kernels() -> ModuleType | None:
    """Kernels that write columns as frames; None if not loaded."""
    return _kernels("write")
