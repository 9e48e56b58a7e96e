"""Trees by name: `path:5`, `star:6`, `balanced:2,3`, and the paper's `h` and `evaluation`.

Sizes are checked as numbers before a single node is made. Nodes of the generated families are labelled a, b, … in the
order networkx numbers them. A text with a dash in it is read as edges, `a-b,b-c` or in one run `a-b-c`, the short form
for a command line; labels that contain a dash need a file.
"""

import re
from collections.abc import Callable
from itertools import pairwise

from octopia.errors import TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.topology.labels import generated_label
from octopia.topology.limits import BROKERS_MAX
from octopia.topology.tree import Tree

_SIZE_DIGITS_MAX = 12
_EVALUATION = "A-F E-F K-F B-G L-G C-H M-H D-I N-I I-J F-G G-H H-I"
_H = "a-b b-c b-d d-e e-f"


def parse_tree(text: str) -> Tree:
    """The tree with this name, or with these edges."""
    name, colon, sizes = text.strip().partition(":")
    if name in _PAPERS and not colon:
        return _PAPERS[name]()
    if name in _FAMILIES:
        return _family(name, sizes)
    if text.strip().endswith(".toml"):
        # A dash in a file's name would make it a list of edges.
        raise TopologyError(
            f"{shortened(text)!r} is an overlay file, not the name of a tree; read it with load_overlay"
        )
    if "-" in text and (not colon or "-" in name):
        return _edges(text)
    raise TopologyError(
        f"no tree is called {shortened(text)!r}{maybe_meant(name, _NAMES)}; "
        f"the names are {', '.join(_FORMS)}, or give edges such as a-b,b-c"
    )


def is_named(text: str) -> bool:
    """Whether the text names a tree; its sizes may still be invalid."""
    return text.strip().partition(":")[0] in _NAMES


def default_clusters(name: str) -> int | None:
    """The number of clusters that the paper gives this overlay; None for trees that are not the paper's."""
    return _CLUSTERS.get(name.strip())


def _edges(text: str) -> Tree:
    pairs: list[tuple[str, str]] = []
    for part in re.split(r"[,\s]+", text.strip()):
        labels = part.split("-")
        if len(labels) < 2 or not all(labels):
            raise TopologyError(f"bad edge {shortened(part)!r}: write two labels with a dash between, for example a-b")
        pairs.extend(pairwise(labels))
    return Tree.from_edges(pairs)


def _family(name: str, sizes: str) -> Tree:
    maker, form, count = _FAMILIES[name]
    numbers = [part.strip() for part in sizes.split(",")]
    if len(numbers) != count or not all(re.fullmatch(r"[+-]?[0-9]+", number, re.ASCII) for number in numbers):
        raise TopologyError(f"{name}:{shortened(sizes)} is not a tree: write {form}")
    for number in numbers:
        if len(number) > _SIZE_DIGITS_MAX:
            raise _too_large(f"{name}:{shortened(sizes)}")
    return maker(*(int(number) for number in numbers))


def _path(size: int) -> Tree:
    _check_size(f"path:{size}", size)
    return _numbered(size, [(node, node + 1) for node in range(size - 1)])


def _star(size: int) -> Tree:
    _check_size(f"star:{size}", size)
    return _numbered(size, [(0, leaf) for leaf in range(1, size)])


def _balanced(branching: int, height: int) -> Tree:
    text = f"balanced:{branching},{height}"
    if branching < 1 or height < 0:
        raise TopologyError(f"{text} is not a tree: at least 1 branch and a height from 0 are needed")
    size = level = 1
    # Level by level, stopping at the bound: the closed form of an absurd height is itself an absurd number.
    for _ in range(min(height, BROKERS_MAX)):
        level *= branching
        size += level
        if size > BROKERS_MAX:
            raise _too_large(text)
    return _numbered(size, [((node - 1) // branching, node) for node in range(1, size)])


def _check_size(text: str, size: int) -> None:
    if size < 1:
        raise TopologyError(f"{text} is not a tree: at least 1 node is needed")
    if size > BROKERS_MAX:
        raise _too_large(text)


def _too_large(text: str) -> TopologyError:
    return TopologyError(f"{text} is too large: a tree has at most {BROKERS_MAX:,} nodes")


def _numbered(size: int, edges: list[tuple[int, int]]) -> Tree:
    labels = [generated_label(number) for number in range(size)]
    return Tree.from_edges([(labels[one], labels[other]) for one, other in edges], labels)


def _paper(edges: str) -> Tree:
    pairs = [edge.split("-") for edge in edges.split()]
    # In alphabetical order, as the paper's figures are read, not in the order in which the figure lists the links.
    return Tree.from_edges(pairs, sorted({label for pair in pairs for label in pair}))


_PAPERS: dict[str, Callable[[], Tree]] = {"h": lambda: _paper(_H), "evaluation": lambda: _paper(_EVALUATION)}
_CLUSTERS = {"h": 3, "evaluation": 5}
_FAMILIES: dict[str, tuple[Callable[..., Tree], str, int]] = {
    "path": (_path, "path:N with N nodes, for example path:5", 1),
    "star": (_star, "star:N with N nodes, the first in the centre, for example star:6", 1),
    "balanced": (_balanced, "balanced:R,H with R branches and height H, for example balanced:2,3", 2),
}
_NAMES = (*_FAMILIES, *_PAPERS)
_FORMS = ("path:N", "star:N", "balanced:R,H", "h", "evaluation")
