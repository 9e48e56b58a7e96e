"""The overlay: the tree, the SCOT made of it, cluster index vectors, sites, placement on machines, and overlay files.

Values only. No clock, no randomness, no I/O but reading an overlay file.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily
from octopia.topology import civ

if TYPE_CHECKING:
    from octopia.topology.broker_id import BrokerId
    from octopia.topology.named import default_clusters, parse_tree
    from octopia.topology.overlay_file import OverlayFile, find_overlay, load_overlay, read_overlay
    from octopia.topology.placement import Placement, fewest_violations, machines_needed, place, place_at_sites
    from octopia.topology.scot import Link, Scot
    from octopia.topology.sites import SiteLoss, Sites
    from octopia.topology.toml_text import TomlText
    from octopia.topology.tree import Tree
    from octopia.topology.trees_of_host import HostTree, host_trees

__all__ = [
    "BrokerId",
    "HostTree",
    "Link",
    "OverlayFile",
    "Placement",
    "Scot",
    "SiteLoss",
    "Sites",
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
    "place_at_sites",
    "read_overlay",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.topology.broker_id": "BrokerId",
        "octopia.topology.trees_of_host": "HostTree host_trees",
        "octopia.topology.named": "default_clusters parse_tree",
        "octopia.topology.overlay_file": "OverlayFile find_overlay load_overlay read_overlay",
        "octopia.topology.placement": "Placement fewest_violations machines_needed place place_at_sites",
        "octopia.topology.scot": "Link Scot",
        "octopia.topology.sites": "SiteLoss Sites",
        "octopia.topology.toml_text": "TomlText",
        "octopia.topology.tree": "Tree",
    },
)
