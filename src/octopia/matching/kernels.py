"""Which kernels search the runs: the compiled ones where numba is installed, else numpy.

Numba is imported when a run is first searched, since the import takes longer than many small programs run. Both give
the same results; `use_kernels` chooses between them.
"""

import importlib
from types import ModuleType

from octopia.errors import InputError
from octopia.extras import install

CHOICES = ("numba", "numpy")
_chosen: str | None = None
_loaded: dict[str, ModuleType | None] = {}
# The kernels in use, once chosen: read for every notification.
_current: ModuleType | None = None


def use_kernels(name: str | None) -> None:
    """Search with `numba` or `numpy` from now on; None restores the default."""
    global _chosen, _current
    if name is not None and name not in CHOICES:
        raise InputError(f"no kernels {name!r}: there are {' and '.join(CHOICES)}")
    _chosen, _current = name, None


def chosen_kernels() -> str | None:
    """The choice made with `use_kernels`; loads nothing."""
    return _chosen


def kernels_in_use() -> str:
    """`numba` or `numpy`."""
    if _chosen is not None:
        return _chosen
    return "numba" if _load("numba") is not None else "numpy"


def kernels() -> ModuleType:
    """The kernels in use."""
    return _current or _find()


def compiled() -> ModuleType | None:
    """The compiled kernels, if they are in use."""
    found = kernels()
    return found if found is _loaded.get("numba") else None


def _find() -> ModuleType:
    global _current
    found = _load(_chosen or "numba")
    if found is None and _chosen == "numba":
        raise InputError(f"numba is not installed: {install('numba')}, or use_kernels(None)")
    _current = found or _numpy()
    return _current


def _load(name: str) -> ModuleType | None:
    """A module of kernels; None if its dependencies are not installed or do not work here."""
    if name not in _loaded:
        try:
            _loaded[name] = importlib.import_module(f"octopia.matching.kernels_{name}")
        except ImportError:
            _loaded[name] = None
    return _loaded[name]


def _numpy() -> ModuleType:
    found = _load("numpy")
    assert found is not None, "numpy is a dependency of this package"  # noqa: S101
    return found
