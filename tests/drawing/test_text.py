"""The terminal form: whole for small overlays, counted for large ones."""

from octopia.drawing import draw_text
from octopia.topology import Scot, Tree, parse_tree


def test_the_papers_overlay() -> None:
    assert draw_text(Scot(parse_tree("h"), 3)).splitlines() == [
        "● d",
        "├─ ● b",
        "│  ├─ ○ a",
        "│  └─ ○ c",
        "└─ ● e ── ○ f",
        "",
        "region  C0   C1   C2",
        "○ a     a,0  a,1  a,2",
        "● b     b,0  b,1  b,2",
        "○ c     c,0  c,1  c,2",
        "● d     d,0  d,1  d,2",
        "● e     e,0  e,1  e,2",
        "○ f     f,0  f,1  f,2",
        "",
        "● inner  ○ edge",
    ]


def test_a_path_is_one_line() -> None:
    assert draw_text(Scot(parse_tree("path:3"), 1)).splitlines()[0] == "○ a ── ● b ── ○ c"
    assert draw_text(Scot(parse_tree("path:1"), 1)).splitlines()[0] == "○ a"


def test_a_long_path_is_cut_in_the_middle() -> None:
    line = draw_text(Scot(parse_tree("path:100"), 1)).splitlines()[0]
    assert line.startswith("○ a ── ● b ── ")
    assert line.endswith("── … 88 more … ── ○ cv")
    assert line.count("──") == 12


def test_many_regions_and_clusters_are_counted() -> None:
    text = draw_text(Scot(parse_tree("star:1000"), 20))
    lines = text.splitlines()
    assert "… and 960 more" in lines
    assert "… and 960 more regions" in lines
    assert "… 8 more" in text
    assert len(lines) < 100


def test_deep_and_large_trees_give_short_texts() -> None:
    edges = [(f"s{n}", f"s{n + 1}") for n in range(20_000)] + [(f"s{n}", f"t{n}") for n in range(20_000)]
    scot = Scot(Tree.from_edges(edges), 2)
    lines = draw_text(scot).splitlines()
    assert len(lines) < 100
    assert max(len(line) for line in lines) < 300
