"""The compiled kernels for columns, and when they are worth loading.

Loading numba and its cached code takes about a second, as long as some 300,000 rows take without it. So a process that
moves a few rows never loads it, and one that moves many does so once: `loading_pays` counts rows, and `load_kernels` is
for another thread, so that an event loop is not blocked. If numba is loaded anyway, or was chosen with
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


def loading_pays(rows: int) -> bool:
    """Whether it pays to call `load_kernels`, in another thread, before this many more rows."""
    global _rows
    if _loaded or find_spec("numba") is None or _chosen() == "numpy":
        return False
    _rows += rows
    return _rows >= ROWS_MIN or "numba" in sys.modules or _chosen() == "numba"


def load_kernels() -> None:
    """Load the compiled code for rows, or compile it the first time."""
    loaded = {name: importlib.import_module(f"octopia.wire.arrow.numba_{name}") for name in _NAMES}
    from octopia.wire.arrow.warm_up import use_all

    use_all(loaded)
    _loaded.update(loaded)


def _chosen() -> str | None:
    from octopia.matching import chosen_kernels

    return chosen_kernels()


def kernels(name: str) -> ModuleType | None:
    """Those that `check` parcels, `read` them into columns, or `write` columns as frames; None if not loaded."""
    return _loaded.get(name) if _loaded and _chosen() != "numpy" else None


def deliveries_can_join() -> bool:
    """Whether connections can return deliveries as `Deliveries`, which needs loaded kernels."""
    return kernels("check") is not None
