"""Overlay files: a tree, its clusters, and the machines to run them on, in TOML; the one reader of these tables.

    [overlay]
    name = "evaluation"                 # optional, the file's name otherwise
    tree = "evaluation"                 # a name, or edges = [["a", "b"], ["b", "c"]] with optional nodes = ["a", …]
    clusters = 5                        # optional for the paper's trees, which have their own number
    [placement]                         # optional
    machines = ["m1", "m2"]             # or a number
    strict = true                       # optional: too few machines are an error
    [sites]                             # optional: the places of clusters, or of regions
    by = "cluster"                      # or "region"
    members = { east = [0, 1], west = [2] }         # every cluster, or region, at one site
    machines = { east = 2, west = ["w1", "w2"] }    # optional; then [placement] has none of its own
    delay_ms = 40                       # optional: one way, between two sites of which nothing else is said
    [[sites.delays]]                    # optional
    between = ["east", "west"]
    ms = 35

The same file may configure the brokers: [routing], [brokers], [limits], [qos], [tls], [links] and [[clients]] belong to
`octopia.net`, which checks their content; this module only knows their names. Everything else is checked while reading,
unknown keys are refused, and every error names the file, the line and the key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from octopia.errors import PlacementError, TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.topology.limits import SITES_MAX
from octopia.topology.named import default_clusters, is_named, parse_tree
from octopia.topology.placement import Placement, place, place_at_sites
from octopia.topology.scot import Scot
from octopia.topology.sites import UNITS, Sites
from octopia.topology.toml_text import TomlText
from octopia.topology.tree import Tree

# For trees that are not the paper's: with three clusters there is a way around one congested iLink.
CLUSTERS_DEFAULT = 3
FILE_SUFFIX = ".toml"
_TABLES = ("overlay", "placement", "routing", "brokers", "limits", "tls", "links", "clients", "sites", "qos")
_SITES_KEYS = ("by", "members", "machines", "delay_ms", "delays")
_DELAYS = "sites.delays"


@dataclass(frozen=True)
class OverlayFile:
    """The content of an overlay file. `placement` is None if it names no machines, `sites` if it has none."""

    name: str
    scot: Scot
    placement: Placement | None = None
    sites: Sites | None = None

    @property
    def machines(self) -> tuple[str, ...]:
        return () if self.placement is None else self.placement.machines


def load_overlay(path: str | PathLike[str]) -> OverlayFile:
    """Read an overlay file; an error is one line that begins with the file's name."""
    return read_overlay(TomlText(path))


def read_overlay(text: TomlText) -> OverlayFile:
    """The overlay of a file whose other tables another module reads."""
    text.check_tables(_TABLES)
    if "overlay" not in text.document:
        raise TopologyError(f"{text.file}: the table [overlay] is missing")
    table = text.table("overlay", ("name", "tree", "edges", "nodes", "clusters"))
    tree = _tree(text, table)
    with text.at("overlay", "clusters"):
        scot = Scot(tree, _clusters(table))
    name = text.typed("overlay", table, "name", str, "text", text.file.stem)
    sites = _sites(text, scot) if "sites" in text.document else None
    return OverlayFile(name, scot, _placement(text, scot, sites), sites)


def find_overlay(text: str, clusters: int | None = None) -> OverlayFile:
    """The overlay named on a command line or in settings: a tree by name, its edges, or a file."""
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
        # Too long for a path, or with a character that paths cannot contain.
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


def _placement(text: TomlText, scot: Scot, sites: Sites | None) -> Placement | None:
    table = text.table("placement", ("machines", "strict"))
    strict = text.typed("placement", table, "strict", bool, "true or false", False)
    if sites is not None:
        return _placement_at_sites(text, scot, sites, table, strict)
    if "placement" not in text.document:
        return None
    with text.at("placement", "machines"):
        if "machines" not in table:
            raise PlacementError("missing: give a number or a list of names")
        return place(scot, table["machines"], strict=strict)


def _placement_at_sites(
    text: TomlText, scot: Scot, sites: Sites, table: dict[str, Any], strict: bool
) -> Placement | None:
    if "machines" in table:
        raise text.error(
            "placement", "machines", f"machines belong to sites: write sites.machines = {{ {sites.names[0]} = 2, … }}"
        )
    content = text.table("sites", _SITES_KEYS)
    machines = text.typed("sites", content, "machines", dict, "a table of site = machines", {})
    if "machines" not in content:
        if "placement" in text.document:
            raise text.error("placement", None, "sites.machines is missing: give each site a number or a list of names")
        return None
    with text.at("sites", "machines"):
        return place_at_sites(scot, sites, machines, strict=strict)


def _sites(text: TomlText, scot: Scot) -> Sites:
    table = text.table("sites", _SITES_KEYS)
    by = text.typed("sites", table, "by", str, "cluster or region", "")
    if by not in UNITS:
        raise text.error("sites", "by", "say what a site holds: cluster or region" + maybe_meant(by, UNITS))
    members = text.typed("sites", table, "members", dict, "a table of site = list", {})
    for site, inside in members.items():
        if not isinstance(inside, list):
            raise text.error("sites", "members", f"{site} must be a list of {by}s, not {shortened(repr(inside))}")
    with text.at("sites", "members"):
        Sites.of(scot, by, members)
    delay_ms = text.typed("sites", table, "delay_ms", float, "a number of milliseconds", 0.0)
    with text.at("sites", "delay_ms"):
        Sites.of(scot, by, members, delay_ms=delay_ms)
    delays: dict[tuple[str, str], float] = {}
    for number, pair, ms in _delays(text, table):
        if pair in delays or pair[::-1] in delays:
            raise text.error(_DELAYS, "between", f"{pair[0]} and {pair[1]} have a delay already", number)
        delays[pair] = ms
        with text.at(_DELAYS, "ms" if pair[0] in members and pair[1] in members else "between", number):
            Sites.of(scot, by, members, {pair: ms})
    return Sites.of(scot, by, members, delays, delay_ms=delay_ms)


def _delays(text: TomlText, table: dict[str, Any]) -> Iterator[tuple[int, tuple[str, str], float]]:
    given = table.get("delays", [])
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise text.error("sites", "delays", f"must be tables: write [[{_DELAYS}]]")
    if len(given) > SITES_MAX**2:
        raise text.error("sites", "delays", f"{len(given):,} delays: at most one for each pair of sites")
    for number, entry in enumerate(given):
        text.check_keys(_DELAYS, entry, ("between", "ms"), number)
        between = text.typed(_DELAYS, entry, "between", list, "a pair of sites", [], number)
        if len(between) != 2 or not all(isinstance(site, str) for site in between):
            raise text.error(_DELAYS, "between", 'must be a pair of sites, such as ["east", "west"]', number)
        if "ms" not in entry:
            raise text.error(_DELAYS, None, "ms is missing: give the delay, one way, in milliseconds", number)
        yield number, (between[0], between[1]), text.typed(_DELAYS, entry, "ms", float, "a number", 0.0, number)
