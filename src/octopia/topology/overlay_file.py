"""Overlay files: a tree, its clusters, and the machines to run them on, in TOML; the one reader of these tables.

    [overlay]
    name = "evaluation"                 # optional, the file's name otherwise
    tree = "evaluation"                 # a name, or edges = [["a", "b"], ["b", "c"]] with optional nodes = ["a", …]
    clusters = 5                        # optional for the paper's trees, which have their own number
    [placement]                         # optional
    machines = ["m1", "m2"]             # or a number
    strict = true                       # optional: too few machines are an error

The same file may say how the brokers run: [routing], [brokers], [limits], [tls], [links] and [[clients]] belong to
`octopia.net`, which checks what is in them. Here their names are known and their content is left alone. Everything else
is checked while reading, nothing unknown is passed over, and every error names the file, the line and the key.
"""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from octopia.errors import PlacementError, TopologyError
from octopia.topology.named import default_clusters, is_named, parse_tree
from octopia.topology.placement import Placement, place
from octopia.topology.scot import Scot
from octopia.topology.toml_text import TomlText
from octopia.topology.tree import Tree

# For a tree without an overlay of its own: with three clusters there is a way around one congested iLink.
CLUSTERS_DEFAULT = 3
FILE_SUFFIX = ".toml"
_TABLES = ("overlay", "placement", "routing", "brokers", "limits", "tls", "links", "clients")


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
    return read_overlay(TomlText(path))


def read_overlay(text: TomlText) -> OverlayFile:
    """The overlay of a file whose other tables someone else reads."""
    text.check_tables(_TABLES)
    if "overlay" not in text.document:
        raise TopologyError(f"{text.file}: the table [overlay] is missing")
    table = text.table("overlay", ("name", "tree", "edges", "nodes", "clusters"))
    tree = _tree(text, table)
    with text.at("overlay", "clusters"):
        scot = Scot(tree, _clusters(table))
    name = text.typed("overlay", table, "name", str, "text", text.file.stem)
    return OverlayFile(name, scot, _placement(text, scot) if "placement" in text.document else None)


def find_overlay(text: str, clusters: int | None = None) -> OverlayFile:
    """The overlay that a person named on a command line or in settings: a tree by name, its edges, or a file."""
    if text.endswith(FILE_SUFFIX) or (not is_named(text) and _is_file(text)):
        if clusters is not None:
            raise TopologyError(f"clusters: {text} gives the number of clusters itself; leave it out")
        return load_overlay(text)
    if clusters is None:
        clusters = default_clusters(text) or CLUSTERS_DEFAULT
    return OverlayFile(f"{text} × {clusters}", Scot(parse_tree(text), clusters))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        # Too long for a path, or with a character that no path has.
        return False


def _tree(text: TomlText, table: dict[str, Any]) -> Tree:
    if ("tree" in table) == ("edges" in table or "nodes" in table):
        raise text.error("overlay", None, "give either tree, a name, or edges, with or without nodes")
    if "tree" in table:
        name = text.typed("overlay", table, "tree", str, "text", "")
        with text.at("overlay", "tree"):
            return parse_tree(name)
    edges: list[Any] = text.typed("overlay", table, "edges", list, "a list of pairs", [])
    nodes: list[Any] = text.typed("overlay", table, "nodes", list, "a list of labels", [])
    with text.at("overlay", "edges" if edges else "nodes"):
        return Tree.from_edges(edges, nodes)


def _clusters(table: dict[str, Any]) -> int:
    if "clusters" in table:
        # Whether it is a number at all is the overlay's own check.
        given: int = table["clusters"]
        return given
    clusters = default_clusters(table.get("tree", ""))
    if clusters is None:
        raise TopologyError("missing: give the number of clusters")
    return clusters


def _placement(text: TomlText, scot: Scot) -> Placement:
    table = text.table("placement", ("machines", "strict"))
    strict = text.typed("placement", table, "strict", bool, "true or false", False)
    with text.at("placement", "machines"):
        if "machines" not in table:
            raise PlacementError("missing: give a number or a list of names")
        return place(scot, table["machines"], strict=strict)
