"""The decorator of every compiled function.

Compiled code is cached on disk, beside its file or in NUMBA_CACHE_DIR. Numba checks only the file of the outermost
function before it uses what it finds there, so after an edit of a kernel that others call, those would run the old
code. Here all of them carry a digest of all files that kernels are made of: those with numba in their name, this
package, and the files that these import numbers from.
"""

import hashlib
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = Path(__file__).parent.parent
_IMPORT = re.compile(rb"^from octopia\.([a-z_.]+) import", re.MULTILINE)


def _digest() -> str:
    files = {*_PACKAGE.rglob("*numba*.py"), *(_PACKAGE / "native").glob("*.py")}
    for file in sorted(files):
        for name in _IMPORT.findall(file.read_bytes()):
            module = _PACKAGE / (name.decode().replace(".", "/") + ".py")
            if module.exists():
                files.add(module)
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(str(file.relative_to(_PACKAGE)).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


DIGEST = _digest()


def kernel(function: Any) -> Any:
    """Compile on first use, without the interpreter's lock, and cache the result."""
    return _stamped(njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Any) -> Any:
    """The same for a small function that is compiled into its callers.

    Arrays passed to it are not counted in and out, which takes an instruction that locks memory.
    """
    return _stamped(njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))


def _stamped(made: Any) -> Any:
    made._cache._cache_file._source_stamp = DIGEST  # noqa: SLF001  numba has no public name for it
    return made


def _mark() -> Path:
    """The file that says that all kernels were compiled: for this code, interpreter, compiler and processor."""
    from llvmlite.binding import get_host_cpu_name
    from numba import __version__
    from numba.core import config

    cache: str = config.CACHE_DIR  # type: ignore[attr-defined]  # set when the module is loaded
    folder = Path(cache) if cache else Path(__file__).parent / "__pycache__"
    version = f"{sys.version_info.major}{sys.version_info.minor}-{__version__}-{get_host_cpu_name()}"
    return folder / f"compiled-{DIGEST[:16]}-{version}"


def was_compiled() -> bool:
    """Whether all kernels were compiled here before, so that loading them takes a second or two."""
    return _mark().exists()


def note_compiled() -> None:
    """All kernels are compiled now. Where nothing can be written, that is not noted."""
    mark = _mark()
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
