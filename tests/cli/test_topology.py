"""`octopia topology`: output, files and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from octopia import InputError, PlacementError, TopologyError
from octopia.cli.topology import topology

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "three-machines.toml")
app = typer.Typer()
app.command()(topology)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def _json(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_run(*arguments, "--json"))
    return document


def test_the_evaluation_overlay_is_the_default() -> None:
    output = _run()
    assert "evaluation × 5" in output
    assert "any 4 brokers can fail without a partition" in output
    assert "● F     F,0  F,1  F,2  F,3  F,4" in output
    assert "placement" not in output


def test_facts_for_a_program() -> None:
    document = _json("evaluation")
    assert document["facts"] == {
        "brokers": 70,
        "regions": 14,
        "clusters": 5,
        "a_links": 65,
        "i_links": 140,
        "inner": 20,
        "edge": 50,
        "diameter": 6,
        "connectivity": 5,
    }
    assert document["placement"] is None
    assert document["drawing"] is None


def test_the_whole_document() -> None:
    assert _json("a-b", "--clusters", "2", "--machines", "east,west") == {
        "name": "a-b × 2",
        "tree": {"nodes": ["a", "b"], "edges": [["a", "b"]]},
        "facts": {
            "brokers": 4,
            "regions": 2,
            "clusters": 2,
            "a_links": 2,
            "i_links": 2,
            "inner": 0,
            "edge": 4,
            "diameter": 2,
            "connectivity": 2,
        },
        "failures": {
            "brokers": 1,
            "delivered": {
                "snr": "a dead broker cuts its cluster's tree, and what passes it there is lost",
                "idr": (
                    "goes around iLinks that are down; "
                    "a dead broker cuts its cluster's tree, and what passes it there is lost"
                ),
                "fdr": "everything, once and in order, whichever brokers these are",
                "tid": "what the one tree of its advertisement leads past the dead; tables stay as they are",
                "tid-dynamic": "what some tree of its advertisements leads past the dead; tables stay as they are",
            },
        },
        "brokers": [
            {"broker": ["a", 0], "inner": False},
            {"broker": ["b", 0], "inner": False},
            {"broker": ["a", 1], "inner": False},
            {"broker": ["b", 1], "inner": False},
        ],
        "a_links": [[["a", 0], ["b", 0]], [["a", 1], ["b", 1]]],
        "i_links": [[["a", 0], ["a", 1]], [["b", 0], ["b", 1]]],
        "sites": None,
        "placement": {
            "needed": 2,
            "machines": [
                {"machine": "east", "load": 2, "brokers": [["a", 0], ["b", 1]]},
                {"machine": "west", "load": 2, "brokers": [["b", 0], ["a", 1]]},
            ],
            "violations": [],
        },
        "trees": None,
        "drawing": None,
    }


def test_the_trees_of_a_broker(tmp_path: Path) -> None:
    picture = tmp_path / "trees.svg"
    output = _run("path:3", "--trees", "b,2", "--draw", str(picture))
    rows = [line for line in output.splitlines() if line.startswith("│ C")]
    assert rows == [
        "│ C2   │ its own       │ b→a b→c │",
        "│ C0   │ (b,2) → (b,0) │ b→a b→c │",
        "│ C1   │ (b,2) → (b,1) │ b→a b→c │",
    ]
    drawn = picture.read_text(encoding="utf-8")
    assert "path:3 × 3: the 3 trees of (b,2)" in drawn
    assert [f"C{index}&apos;s tree" in drawn or f"C{index}'s tree" in drawn for index in range(3)] == [True] * 3
    assert _json("a-b", "-k", "2", "--trees", "b,1")["trees"] == [
        {"cluster": 1, "links": [[["b", 1], ["a", 1]]]},
        {"cluster": 0, "links": [[["b", 1], ["b", 0]], [["b", 0], ["a", 0]]]},
    ]


def test_the_papers_testbed() -> None:
    output = _run("--machines", "6", "--strict")
    assert "│ m6      │   11 │ F,0 L,0 N,0 C,1 E,1 G,2 I,2 K,3 M,3 B,4 D,4     │" in output
    assert "no broker shares a machine with a neighbour" in output


def test_too_few_machines_are_told() -> None:
    output = _run("path:2", "--machines", "2")
    assert "2 links join brokers on one machine, the fewest 2 machines allow; with 3 there would be none: " in output
    assert "(a,0)-(a,2) (b,0)-(b,2)" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("path:1", "-k", "1"), "a single broker"),
        (("path:1", "-k", "4"), "one region: every two brokers share a link"),
        (("path:4", "-k", "1"), "a tree: one failure can partition it"),
        (("path:4", "-k", "2"), "any 1 broker can fail without a partition"),
        (("h",), "any 2 brokers can fail without a partition"),
    ],
)
def test_what_an_overlay_survives(arguments: tuple[str, ...], words: str) -> None:
    assert words in _run(*arguments)


def test_what_failures_mean_is_said_for_each_routing() -> None:
    output = _run("path:3")
    assert "delivered between the others while 2 brokers are dead" in output
    assert "│ fdr         │ everything, once and in order, whichever brokers these are" in output
    assert "delivered between the others while one is dead" in _run("path:4", "-k", "2")
    assert "delivered between" not in _run("path:4", "-k", "1")


def test_a_file_and_its_machines(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text('[overlay]\ntree = "h"\n[placement]\nmachines = 2\n', encoding="utf-8")
    output = _run("--file", str(file))
    assert output.startswith("lab ")
    assert "│ m2 " in output
    assert len(_json("--file", str(file), "--machines", "3")["placement"]["machines"]) == 3
    with pytest.raises(PlacementError, match="3 machines are needed"):
        _run("--file", str(file), "--strict")


@pytest.mark.parametrize("arguments", [("-f", EXAMPLE), (EXAMPLE,)])
def test_the_file_of_the_examples_is_read_with_and_without_the_option(arguments: tuple[str, ...]) -> None:
    document = _json(*arguments)
    assert document["name"] == "quotes"
    assert document["tree"]["nodes"] == ["a", "b", "c"]
    assert [each["machine"] for each in document["placement"]["machines"]] == ["m1", "m2", "m3"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_drawing_is_written(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"overlay.{suffix}"
    assert f"drawn: {file}" in _run("h", "--draw", str(file)).replace("\n", "")
    assert file.stat().st_size > 1000
    assert _json("h", "--draw", str(file))["drawing"] == str(file)


def test_large_overlays_are_shown_abbreviated() -> None:
    output = _run("path:2000", "-k", "5", "--machines", "60")
    assert "10,000" in output
    assert "20 more machines" in output
    assert len(output.splitlines()) < 200


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        (("evaluatoin",), TopologyError, r"did you mean evaluation\?"),
        (("a-b,b-c,c-a",), TopologyError, "the tree has a cycle: a-b-c-a"),
        (("h", "-k", "0"), TopologyError, "0 clusters"),
        (("h", "--machines", "2", "--strict"), PlacementError, "3 machines are needed"),
        (("h", "--machines", "0"), PlacementError, "0 machines"),
        (("h", "--machines", "a,,b"), PlacementError, "must not be empty"),
        (("h", "--machines", "9" * 40), PlacementError, "999999999 machines: between 1 and 100,000 are allowed"),
        (("h", "--strict"), InputError, "--strict is about machines: add --machines N"),
        (("h", "--file", "x.toml"), InputError, "--file gives the tree and the clusters"),
        (("h", "--draw", "x.pdf"), InputError, r"a picture is written as \.svg or \.png"),
        (("path:6000", "-k", "1", "--draw", "x.svg"), TopologyError, "too many for a picture"),
    ],
)
def test_what_makes_no_sense_is_left_to_main(arguments: tuple[str, ...], error: type[InputError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        _run(*arguments)


SITES = str(Path(__file__).parents[2] / "examples" / "two-sites.toml")


def test_sites_and_what_the_loss_of_one_means(tmp_path: Path) -> None:
    output = _run(SITES)
    assert "8 of 21 links go from site to site, all of them iLinks" in output
    assert "│ east │ 0 1      │       8 │    west 20 ms │ one overlay is left:" in output
    assert "no broker shares a machine with a neighbour" in output
    document = _json(SITES)["sites"]
    assert [(site["site"], site["members"], site["delays_ms"]) for site in document["sites"]] == [
        ("east", [0, 1], {"east": 0.0, "west": 20.0}),
        ("west", [2], {"east": 20.0, "west": 0.0}),
    ]
    assert document["sites"][1]["loss"] == {"brokers": 8, "clusters": 2, "groups": [["a", "b", "c", "d"]]}
    assert len(document["links_between"]) == 8
    assert _json(SITES, "--strict")["placement"]["needed"] == 4
    file = tmp_path / "regions.toml"
    text = '[overlay]\ntree = "path:5"\nclusters = 2\n[sites]\nby = "region"\n'
    text += 'members = { x = ["c"], y = ["a", "b", "d", "e"] }\n'
    file.write_text(text, encoding="utf-8")
    output = " ".join(_run(str(file)).replace("│", " ").split())
    assert "4 of 13 links go from site to site, all of them aLinks" in output
    assert [site["loss"]["groups"] for site in _json(str(file))["sites"]["sites"]] == [
        [["a", "b"], ["d", "e"]],
        [["c"]],
    ]


def test_machines_of_sites_are_those_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the machines of this overlay are at sites; change sites"):
        _run(SITES, "--machines", "3")
    file = tmp_path / "few.toml"
    text = Path(SITES).read_text(encoding="utf-8").replace('west = ["w1", "w2"]', 'west = ["w1"]')
    file.write_text(text.replace(', w2 = "127.0.0.1"', ""), encoding="utf-8")
    assert "with 2 at east, 2 at west there would be none" in _run(str(file))
    with pytest.raises(PlacementError, match="site west: 2 machines are needed"):
        _run(str(file), "--strict")
