"""Public names that load their module when they are first used.

A package lists its names twice: as imports under `TYPE_CHECKING`, for type checkers and editors, and as a table for
`lazily`. A program that only connects a client then loads neither the broker nor the matcher, and `octopia --help`
loads next to nothing. tests/test_architecture.py holds the two lists equal.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_Lookup = Callable[[str], Any]
_Listing = Callable[[], list[str]]


def lazily(package: str, modules: Mapping[str, str]) -> tuple[_Lookup, _Listing]:
    """`__getattr__` and `__dir__` for `package`; `modules` maps each full module name to its names, blanks between."""
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def lookup(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        # The next look-up is an ordinary one.
        setattr(sys.modules[package], name, value)
        return value

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return lookup, listing
