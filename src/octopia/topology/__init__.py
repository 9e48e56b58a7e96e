"""The overlay: the tree, the SCOT made of it, cluster index vectors, placement on machines, and overlay files.

Rules of this package: values only. No clock, no randomness, no I/O but reading an overlay file.
"""

from octopia.topology import civ
from octopia.topology.broker_id import BrokerId
from octopia.topology.host_trees import HostTree, host_trees
from octopia.topology.named import default_clusters, parse_tree
from octopia.topology.overlay_file import OverlayFile, find_overlay, load_overlay, read_overlay
from octopia.topology.placement import Placement, fewest_violations, machines_needed, place
from octopia.topology.scot import Link, Scot
from octopia.topology.toml_text import TomlText
from octopia.topology.tree import Tree

__all__ = [
    "BrokerId",
    "HostTree",
    "Link",
    "OverlayFile",
    "Placement",
    "Scot",
    "TomlText",
    "Tree",
    "civ",
    "default_clusters",
    "fewest_violations",
    "find_overlay",
    "host_trees",
    "load_overlay",
    "machines_needed",
    "parse_tree",
    "place",
    "read_overlay",
]
