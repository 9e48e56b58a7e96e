"""Overlay files: a tree, its clusters, and the machines to run them on, in TOML.

    [overlay]
    name = "evaluation"                 # optional, the file's name otherwise
    tree = "evaluation"                 # a name, or edges = [["a", "b"], ["b", "c"]] with optional nodes = ["a", …]
    clusters = 5                        # optional for the paper's trees, which have their own number
    [placement]                         # optional
    machines = ["m1", "m2"]             # or a number
    strict = true                       # optional: too few machines are an error

Rules of this file: everything is checked while reading, nothing unknown is passed over, and every error names the file
and the key (or the line, where the text is no TOML), so that a person can fix it without reading this.
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from octopia.errors import PlacementError, TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.topology.limits import BROKERS_MAX
from octopia.topology.named import default_clusters, parse_tree
from octopia.topology.placement import Placement, place
from octopia.topology.scot import Scot
from octopia.topology.tree import Tree

_T = TypeVar("_T")
# Room for the largest overlay with the longest labels, and no more: the file is read whole.
_BYTES_MAX = BROKERS_MAX * 200


@dataclass(frozen=True)
class OverlayFile:
    """What an overlay file says. `placement` is None where the file names no machines."""

    name: str
    scot: Scot
    placement: Placement | None = None

    @property
    def machines(self) -> tuple[str, ...]:
        return () if self.placement is None else self.placement.machines


def load_overlay(path: str | PathLike[str]) -> OverlayFile:
    """Read an overlay file; an error is one line that begins with the file's name."""
    file = Path(path)
    try:
        return _overlay_file(_read_toml(file), file.stem)
    except (TopologyError, PlacementError) as error:
        raise type(error)(f"{file}: {error}") from None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = stream.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        raise TopologyError("no such file") from None
    except OSError as error:
        raise TopologyError(f"cannot be read: {error.strerror or error}") from None
    if len(content) > _BYTES_MAX:
        raise TopologyError(f"the file is larger than {_BYTES_MAX:,} bytes")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TopologyError(f"line {line}: the text is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise TopologyError(f"no TOML: {error}") from None
    except RecursionError:
        raise TopologyError("no TOML: values are nested too deeply") from None


def _overlay_file(document: dict[str, Any], stem: str) -> OverlayFile:
    _check_keys("the file", document, ("overlay", "placement"))
    if "overlay" not in document:
        raise TopologyError("the table [overlay] is missing")
    overlay = _table(document, "overlay", ("name", "tree", "edges", "nodes", "clusters"))
    tree = _tree(overlay)
    with _at("overlay.clusters"):
        scot = Scot(tree, _clusters(overlay))
    name = _typed(overlay, "overlay", "name", str, "text") if "name" in overlay else stem
    if "placement" not in document:
        return OverlayFile(name, scot)
    return OverlayFile(name, scot, _placement(scot, _table(document, "placement", ("machines", "strict"))))


def _tree(overlay: dict[str, Any]) -> Tree:
    if ("tree" in overlay) == ("edges" in overlay or "nodes" in overlay):
        raise TopologyError("overlay: give either tree, a name, or edges, with or without nodes")
    if "tree" in overlay:
        name = _typed(overlay, "overlay", "tree", str, "text")
        with _at("overlay.tree"):
            return parse_tree(name)
    edges = _typed(overlay, "overlay", "edges", list, "a list of pairs") if "edges" in overlay else []
    nodes = _typed(overlay, "overlay", "nodes", list, "a list of labels") if "nodes" in overlay else []
    with _at("overlay.edges" if edges else "overlay.nodes"):
        return Tree.from_edges(edges, nodes)


def _clusters(overlay: dict[str, Any]) -> int:
    if "clusters" in overlay:
        # Whether it is a number at all is the overlay's own check.
        given: int = overlay["clusters"]
        return given
    clusters = default_clusters(overlay.get("tree", ""))
    if clusters is None:
        raise TopologyError("missing: give the number of clusters")
    return clusters


def _placement(scot: Scot, placement: dict[str, Any]) -> Placement:
    strict = _typed(placement, "placement", "strict", bool, "true or false") if "strict" in placement else False
    with _at("placement.machines"):
        if "machines" not in placement:
            raise PlacementError("missing: give a number or a list of names")
        return place(scot, placement["machines"], strict=strict)


def _check_keys(where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise TopologyError(
                f"unknown key {shortened(key)!r} in {where}{maybe_meant(key, known)}; known are {', '.join(known)}"
            )


def _table(document: dict[str, Any], key: str, known: tuple[str, ...]) -> dict[str, Any]:
    table = document[key]
    if not isinstance(table, dict):
        raise TopologyError(f"{key} must be a table: write [{key}]")
    _check_keys(f"[{key}]", table, known)
    return table


def _typed(table: dict[str, Any], where: str, key: str, kind: type[_T], words: str) -> _T:
    value = table[key]
    if not isinstance(value, kind):
        raise TopologyError(f"{where}.{key} must be {words}, not {shortened(repr(value))}")
    return value


@contextmanager
def _at(key: str) -> Iterator[None]:
    """Errors from inside begin with the key that they are about."""
    try:
        yield
    except (TopologyError, PlacementError) as error:
        raise type(error)(f"{key}: {error}") from None
