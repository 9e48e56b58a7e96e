"""Overlay files: read, and refused by file and key."""

from pathlib import Path

import pytest

from octopia import InputError, PlacementError, TopologyError
from octopia.topology import (
    OverlayFile,
    Scot,
    Sites,
    Tree,
    find_overlay,
    load_overlay,
    parse_tree,
    place,
    place_at_sites,
)


def _load(folder: Path, text: str | bytes) -> OverlayFile:
    file = folder / "site.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_overlay(file)


def _refused(folder: Path, text: str | bytes, kind: type[InputError] = TopologyError) -> str:
    """The error, without the name of the file that it begins with."""
    with pytest.raises(kind) as caught:
        _load(folder, text)
    file, message = f"{folder / 'site.toml'}: ", str(caught.value)
    assert message.startswith(file)
    assert "\n" not in message
    return message.removeprefix(file)


def test_a_named_tree_with_its_own_clusters(tmp_path: Path) -> None:
    found = _load(tmp_path, '[overlay]\ntree = "evaluation"\n')
    assert found == OverlayFile("site", Scot(parse_tree("evaluation"), 5))
    assert found.machines == ()


def test_edges_nodes_and_machines(tmp_path: Path) -> None:
    found = _load(
        tmp_path,
        """
        [overlay]
        name = "lab"
        edges = [["b", "a"], ["b", "c"]]
        nodes = ["a", "b", "c"]
        clusters = 2
        [placement]
        machines = ["m1", "m2"]
        strict = true
        """,
    )
    scot = Scot(Tree.from_edges([("b", "a"), ("b", "c")], ["a", "b", "c"]), 2)
    assert found == OverlayFile("lab", scot, place(scot, ["m1", "m2"]))
    assert found.machines == ("m1", "m2")


def test_machines_by_number_and_a_single_node(tmp_path: Path) -> None:
    found = _load(tmp_path, '[overlay]\nnodes = ["a"]\nclusters = 4\n[placement]\nmachines = 2\n')
    assert found.scot.tree.nodes == ("a",)
    assert found.placement is not None
    assert len(found.placement.violations) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[overlay]\ntree = "h"\nclustres = 3',
            "line 3: overlay.clustres: unknown key (did you mean clusters?); known are ",
        ),
        ("", "the table [overlay] is missing"),
        ("overlay = 3", "line 1: overlay: must be a table: write [overlay]"),
        ('[overlay]\ntree = "path:3"', "overlay.clusters: missing: give the number of clusters"),
        ("[overlay]\nclusters = 3", "line 1: overlay: give either tree, a name, or edges, with or without nodes"),
        (
            '[overlay]\ntree = "h"\nedges = []',
            "line 1: overlay: give either tree, a name, or edges, with or without nodes",
        ),
        ("[overlay]\ntree = 3", "line 2: overlay.tree: must be text, not 3"),
        ('[overlay]\ntree = "hh"', "line 2: overlay.tree: no tree is called 'hh'"),
        ('[overlay]\ntree = "h"\nname = 3', "line 3: overlay.name: must be text, not 3"),
        ('[overlay]\nedges = "a-b"\nclusters = 1', "line 2: overlay.edges: must be a list of pairs, not 'a-b'"),
        ('[overlay]\nedges = [["a"]]\nclusters = 1', "line 2: overlay.edges: bad edge ['a']"),
        ('[overlay]\nedges = [["a", 3]]\nclusters = 1', "line 2: overlay.edges: bad label 3"),
        (
            '[overlay]\nedges = [["a", "b"], ["b", "c"], ["c", "a"]]\nclusters = 1',
            "line 2: overlay.edges: the tree has a cycle: a-b-c-a",
        ),
        (
            '[overlay]\nnodes = ["a", "b"]\nclusters = 1',
            "line 2: overlay.nodes: the tree is not connected: no path from a to b",
        ),
        ('[overlay]\ntree = "h"\nclusters = 0', "line 3: overlay.clusters: 0 clusters: between 1 and 1,024"),
        (
            '[overlay]\ntree = "h"\nclusters = "3"',
            "line 3: overlay.clusters: the number of clusters must be a whole number, not '3'",
        ),
        (
            '[overlay]\ntree = "h"\nclusters = 3.0',
            "line 3: overlay.clusters: the number of clusters must be a whole number",
        ),
        ("[overlay]\ntree =\nclusters = 3", "line 2, column 7: is not TOML: invalid value"),
        ("x = " + "[" * 100_000, "is nested too deeply"),
        (b'[overlay]\ntree = "\xff"', "line 2: is not UTF-8 text"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert _refused(tmp_path, text).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("machines = 2\nstrict = true", "line 4: placement.machines: 3 machines are needed"),
        ('machines = ["a", "a"]', "line 4: placement.machines: machine a is given twice"),
        ('machines = "m1"', "line 4: placement.machines: machines must be a number or a list of names, not 'm1'"),
        ("machine = 3", "line 4: placement.machine: unknown key (did you mean machines?)"),
        ("strict = true", "placement.machines: missing: give a number or a list of names"),
    ],
)
def test_placement_errors_say_so(tmp_path: Path, text: str, problem: str) -> None:
    assert _refused(tmp_path, f'[overlay]\ntree = "h"\n[placement]\n{text}\n', PlacementError).startswith(problem)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_overlay(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_overlay(tmp_path)


def test_a_file_without_end_is_not_read_whole(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is too large: it may have at most"):
        _load(tmp_path, b"#" * 20_000_001)


def test_tables_of_the_network_layer_are_known_and_left_alone(tmp_path: Path) -> None:
    others = "[routing]\nname = 3\n[brokers]\n[limits]\n[tls]\n[links]\n[[clients]]\n"
    found = _load(tmp_path, f'[overlay]\ntree = "path:2"\nclusters = 2\n{others}')
    assert found == OverlayFile("site", Scot(parse_tree("path:2"), 2))
    with pytest.raises(InputError, match=r"site\.toml: line 2: routes: unknown"):
        _load(tmp_path, "[overlay]\n[routes]\n")
    with pytest.raises(InputError, match=r"site\.toml: line 1: overlays: unknown \(did you mean overlay\?\)"):
        _load(tmp_path, '[overlays]\ntree = "h"')


def test_lists_over_several_lines_are_not_taken_for_tables(tmp_path: Path) -> None:
    text = '[overlay]\nnodes = [\n  "a",\n"c",\n"b"]\nedges = [\n["a", "b"],\n["b", "c"]\n]\nclusters = "3"\n'
    with pytest.raises(TopologyError, match=r"site\.toml: line 10: overlay\.clusters: the number of clusters"):
        _load(tmp_path, text)


def test_an_overlay_is_found_by_name_by_edges_or_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("three-machines.toml", "three-machines", "h"):
        (tmp_path / name).write_text('[overlay]\ntree = "path:2"\nclusters = 2\n', encoding="utf-8")
    path = Scot(parse_tree("path:2"), 2)
    assert find_overlay("three-machines.toml") == OverlayFile("three-machines", path)
    assert find_overlay("three-machines").scot == path
    assert find_overlay("h") == OverlayFile("h × 3", Scot(parse_tree("h"), 3))
    assert find_overlay("a-b", 4) == OverlayFile("a-b × 4", Scot(parse_tree("a-b"), 4))
    assert find_overlay("path:2").scot.clusters == 3
    with pytest.raises(TopologyError, match=r"three-machines\.toml gives the number of clusters itself"):
        find_overlay("three-machines.toml", 3)
    with pytest.raises(TopologyError, match=r"no-such\.toml: cannot be read: No such file"):
        find_overlay("no-such.toml")
    with pytest.raises(TopologyError, match=r"'three-machines\.toml' is an overlay file"):
        parse_tree("three-machines.toml")
    with pytest.raises(TopologyError, match="no tree is called"):
        find_overlay("x" * 10_000)


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "examples").glob("*.toml")), ids=lambda file: file.name
)
def test_the_overlays_of_the_examples_can_be_read(file: Path) -> None:
    assert load_overlay(file).scot.broker_count > 1


# -- sites

_SITES = """
[overlay]
tree = "path:3"
clusters = 3
[sites]
by = "cluster"
members = { east = [0, 2], west = [1] }
"""


def test_sites_with_machines_and_delays(tmp_path: Path) -> None:
    more = """machines = { east = 3, west = ["w1", "w2"] }
delay_ms = 40
[[sites.delays]]
between = ["west", "east"]
ms = 2.5
[[sites.delays]]
between = ["east", "east"]
ms = 1
"""
    scot = Scot(parse_tree("path:3"), 3)
    found = _load(tmp_path, _SITES + more)
    delays = {("west", "east"): 2.5, ("east", "east"): 1}
    sites = Sites.of(scot, "cluster", {"east": [0, 2], "west": [1]}, delays, delay_ms=40)
    assert found == OverlayFile("site", scot, place_at_sites(scot, sites, {"east": 3, "west": ["w1", "w2"]}), sites)
    assert found.machines == ("east1", "east2", "east3", "w1", "w2")


def test_sites_of_regions_in_tables_of_their_own(tmp_path: Path) -> None:
    text = (
        '[overlay]\ntree = "path:3"\nclusters = 2\n[sites]\nby = "region"\n[sites.members]\nx = ["a", "b"]\ny = ["c"]\n'
    )
    scot = Scot(parse_tree("path:3"), 2)
    expected = Sites.of(scot, "region", {"x": ["a", "b"], "y": ["c"]})
    assert _load(tmp_path, text) == OverlayFile("site", scot, None, expected)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("maschines = {}", "line 8: sites.maschines: unknown key (did you mean machines?)"),
        ("machines = 3", "line 8: sites.machines: must be a table of site = machines, not 3"),
        ("machines = { east = 3 }", "line 8: sites.machines: site west has no machines"),
        ("machines = { east = 3, west = 0 }", "line 8: sites.machines: 0 machines: between 1 and"),
        (
            "machines = { east = 1, west = 2 }\n[placement]\nstrict = true",
            "line 8: sites.machines: site east: 2 machine",
        ),
        ("[placement]\nmachines = 3", "line 9: placement.machines: machines belong to sites: write sites.machines = {"),
        ("[placement]\nstrict = true", "line 8: placement: sites.machines is missing"),
        ("delay_ms = -1", "line 8: sites.delay_ms: a delay of -1.0 ms: a number from 0 to 60,000"),
        ("delays = 3", "line 8: sites.delays: must be tables: write [[sites.delays]]"),
        ('[[sites.delays]]\nbetween = ["east"]\nms = 3', "line 9: sites.delays.between: must be a pair of sites"),
        ('[[sites.delays]]\nbetween = ["east", "wst"]\nms = 3', "line 9: sites.delays.between: no site 'wst' (did you"),
        ('[[sites.delays]]\nbetween = ["east", "west"]', "line 8: sites.delays: ms is missing"),
        ('[[sites.delays]]\nbetween = ["east", "west"]\nms = "3"', "line 10: sites.delays.ms: must be a number"),
        ('[[sites.delays]]\nbetween = ["east", "west"]\nms = 1e9', "line 10: sites.delays.ms: a delay of 1000000000.0"),
        (
            '[[sites.delays]]\nbetween=["east", "west"]\nms = 1\n[[sites.delays]]\nbetween = ["west", "east"]\nms = 2',
            "line 12: sites.delays.between: west and east have a delay already",
        ),
    ],
)
def test_what_is_wrong_with_sites_is_named(tmp_path: Path, more: str, problem: str) -> None:
    assert _refused(tmp_path, f"{_SITES}{more}\n", InputError).startswith(problem)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("members = { x = [0, 1, 2] }", "sites.by: say what a site holds: cluster or region"),
        (
            'by = "clusters"\nmembers = { x = [0, 1, 2] }',
            "line 5: sites.by: say what a site holds: cluster or region (did",
        ),
        ('by = "cluster"', "sites.members: 0 sites: between 1 and 256"),
        ('by = "cluster"\nmembers = { x = 1 }', "line 6: sites.members: x must be a list of clusters, not 1"),
        ('by = "cluster"\nmembers = { x = [0, 1] }', "line 6: sites.members: cluster 2 is at no site"),
        ('by = "region"\nmembers = { x = [0, 1] }', "line 6: sites.members: site x: there is no region 0"),
    ],
)
def test_members_that_make_no_sense(tmp_path: Path, table: str, problem: str) -> None:
    assert _refused(tmp_path, f'[overlay]\ntree = "path:3"\nclusters = 3\n[sites]\n{table}\n').startswith(problem)
