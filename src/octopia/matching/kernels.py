"""Which kernels search the runs: the compiled ones where numba is installed, else numpy.

Rules of this file: numba is imported when a run is first searched, not before; importing it takes longer than many a
small program runs. Both give the same results; a program or a test may choose with `use_kernels`.
"""

import importlib
import importlib.util
from types import ModuleType

from octopia.errors import InputError

CHOICES = ("numba", "numpy")
_chosen: str | None = None
_loaded: dict[str, ModuleType] = {}


def use_kernels(name: str | None) -> None:
    """Search with `numba` or `numpy` from now on; None goes back to what is best here."""
    global _chosen
    if name is not None and name not in CHOICES:
        raise InputError(f"no kernels {name!r}: there are {' and '.join(CHOICES)}")
    _chosen = name


def kernels_in_use() -> str:
    """`numba` or `numpy`."""
    if _chosen is not None:
        return _chosen
    return "numba" if importlib.util.find_spec("numba") else "numpy"


def kernels() -> ModuleType:
    """The kernels in use."""
    name = _chosen
    if name is None or name not in _loaded:
        name = kernels_in_use()
        if name not in _loaded:
            _loaded[name] = importlib.import_module(f"octopia.matching.kernels_{name}")
    return _loaded[name]
