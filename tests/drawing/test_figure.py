"""Pictures: the right file, the same bytes, their required content, and refusals."""

import builtins
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopia import InputError, OctopiaError, TopologyError
from octopia.drawing import DrawnClient, DrawnMessage, Scene, draw_overlay, overlay_svg
from octopia.topology import BrokerId, Scot, parse_tree
from tests.drawing.test_geometry import FIGURE_7

PATH_3 = Scot(parse_tree("path:3"), 3)


def _words(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("tree", "clusters"), [("path:3", 3), ("h", 3), ("evaluation", 5), ("path:1", 1), ("star:4", 1)]
)
def test_every_broker_is_named_once(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    words = _words(overlay_svg(scot))
    for broker in scot.brokers:
        assert words.count(f"{broker.region},{broker.cluster}") == 1
    assert [word for word in words if word.startswith("C")][:clusters] == [f"C{index}" for index in range(clusters)]


def test_a_scene_shows_clients_messages_and_its_legend() -> None:
    words = _words(overlay_svg(PATH_3, FIGURE_7))
    for word in (
        "a scene",
        "P",
        "S4",
        "n1 001",
        "cib_set",
        "overloaded",
        "publisher",
        "copy with a CIV",
        "control message",
    ):
        assert word in words
    plain = _words(overlay_svg(PATH_3))
    assert "overloaded" not in plain
    assert "publisher" not in plain


def test_trees_detours_and_what_is_dead_or_down_have_their_legend() -> None:
    b2, b1, c2 = BrokerId("b", 2), BrokerId("b", 1), BrokerId("c", 2)
    copies = (DrawnMessage(b2, b1, "c,1", "detour", tree=1), DrawnMessage(b1, BrokerId("c", 1), "c,1", tree=1))
    svg = overlay_svg(PATH_3, Scene(messages=copies, dead=(c2,), down=((b2, c2),)))
    words = _words(svg)
    assert {"C1's tree", "handed over", "dead broker", "down"} < set(words)
    assert not {"C0's tree", "copy", "overloaded"} & set(words)
    assert words.count("c,2") == 1
    # 10,000 brokers would be refused; 400 are dots, the dead among them
    many = Scot(parse_tree("path:200"), 2)
    assert overlay_svg(many, Scene(dead=(many.brokers[0],), down=(many.links[0],))).startswith("<svg")


def test_a_dollar_is_a_dollar() -> None:
    scene = Scene(title="costs $5 and $6", clients=(DrawnClient("$S$", BrokerId("a", 0), "subscriber"),))
    words = _words(overlay_svg(PATH_3, scene))
    assert "costs $5 and $6" in words
    assert "$S$" in words


@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG\r\n\x1a\n"), (".SVG", b"<?xml")])
def test_the_suffix_says_the_format(tmp_path: Path, suffix: str, magic: bytes) -> None:
    file = tmp_path / f"overlay{suffix}"
    assert draw_overlay(PATH_3, file, title="path", highlights=[BrokerId("a", 1)]) == file
    assert file.read_bytes().startswith(magic)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_overlay_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    one = draw_overlay(PATH_3, tmp_path / f"one.{suffix}", scene=FIGURE_7).read_bytes()
    other = draw_overlay(PATH_3, tmp_path / f"other.{suffix}", scene=FIGURE_7).read_bytes()
    assert one == other


def test_many_brokers_are_drawn_without_labels() -> None:
    words = _words(overlay_svg(Scot(parse_tree("path:101"), 3)))
    assert "a,0" not in words
    assert words[:3] == ["C0", "C1", "C2"]


def test_a_long_overlay_fits_a_sheet(tmp_path: Path) -> None:
    file = draw_overlay(Scot(parse_tree("path:300"), 1), tmp_path / "long.svg")
    width = ET.fromstring(file.read_text(encoding="utf-8")).attrib["width"]  # noqa: S314 - our own text
    assert float(width.removesuffix("pt")) <= 40 * 72


@pytest.mark.parametrize(
    ("scot", "problem"),
    [
        (Scot(parse_tree("path:5001"), 1), "5,001 brokers are too many for a picture, at most 5,000 are drawn"),
        (Scot(parse_tree("path:4"), 400), "320,400 links are too many for a picture, at most 50,000 are drawn"),
    ],
)
def test_what_nobody_could_read_is_refused(scot: Scot, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        overlay_svg(scot)


@pytest.mark.parametrize("name", ["overlay.pdf", "overlay"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"a picture is written as \.svg or \.png"):
        draw_overlay(PATH_3, tmp_path / name)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        draw_overlay(PATH_3, tmp_path / "nowhere" / "overlay.svg")


@pytest.mark.parametrize(
    ("scene", "problem"),
    [
        (Scene(clients=(DrawnClient("P", BrokerId("x", 0), "publisher"),)), r"no broker \(x,0\)"),
        (Scene(highlights=(BrokerId("a", 9),)), r"no broker \(a,9\)"),
        (
            Scene(messages=(DrawnMessage(BrokerId("a", 0), BrokerId("c", 0)),)),
            r"no link \(a,0\)-\(c,0\) in the overlay",
        ),
        (Scene(overloaded=((BrokerId("a", 0), BrokerId("b", 1)),)), r"no link \(a,0\)-\(b,1\) in the overlay"),
        (Scene(dead=(BrokerId("a", 9),)), r"no broker \(a,9\)"),
        (Scene(down=((BrokerId("a", 0), BrokerId("b", 1)),)), r"no link \(a,0\)-\(b,1\) in the overlay"),
        (Scene(messages=(DrawnMessage(BrokerId("a", 0), BrokerId("b", 0), tree=3),)), "no cluster 3: 3 clusters"),
        (Scene(clients=(DrawnClient("P", BrokerId("a", 0), "both"),)), "kind 'both' is none of"),  # type: ignore[arg-type]
        (
            Scene(messages=(DrawnMessage(BrokerId("a", 0), BrokerId("b", 0), style="loud"),)),  # type: ignore[arg-type]
            "style 'loud' is none of",
        ),
    ],
)
def test_a_scene_shows_only_what_is_there(scene: Scene, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        overlay_svg(PATH_3, scene)


def test_without_matplotlib_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(OctopiaError, match=r"pip install 'octopia\[figures\]'"):
        overlay_svg(PATH_3)


def test_drawing_is_imported_without_matplotlib_or_networkx() -> None:
    code = "import sys, octopia.drawing; sys.exit(bool({'matplotlib', 'networkx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
