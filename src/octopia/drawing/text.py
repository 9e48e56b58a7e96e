"""The overlay for a terminal: the tree once, and a grid of regions and clusters.

Plain text, no colour and no control codes, so that it can go into a log, a pipe or a test. Every cluster is the same
tree, so the tree is drawn once, from its middle; nodes in a row without a branch share a line. The grid shows which
brokers exist. Beyond the bounds below, items are counted instead of shown.
"""

from dataclasses import dataclass

from octopia.topology import Scot, Tree

LINES_MAX = 40
CLUSTERS_SHOWN_MAX = 12
_RUN_SHOWN_MAX = 12
_INNER = "●"
_EDGE = "○"


def draw_text(scot: Scot) -> str:
    """The tree, then one row per region: its mark, and its brokers by cluster."""
    return "\n".join([*_tree_lines(scot.tree), "", *_grid_lines(scot), "", f"{_INNER} inner  {_EDGE} edge"])


@dataclass(frozen=True)
class _Branch:
    """A node still to be drawn: `lead` stands before it, `inside` before what hangs off it."""

    node: str
    parent: str | None
    lead: str
    inside: str


def _tree_lines(tree: Tree) -> list[str]:
    lines: list[str] = []
    drawn = 0
    stack = [_Branch(_start(tree), None, "", "")]
    # Stop at the bound instead of hiding the rest: the indents of a deep tree would outgrow the tree.
    while stack and len(lines) < LINES_MAX:
        branch = stack.pop()
        run, children = _run(tree, branch)
        drawn += len(run)
        lines.append(branch.lead + _run_text(tree, run))
        # Branches at the end of a run are indented from its beginning, so that lines stay short.
        for place, child in reversed(list(enumerate(children))):
            corner, under = ("└─ ", "   ") if place == len(children) - 1 else ("├─ ", "│  ")
            stack.append(_Branch(child, run[-1], branch.inside + corner, branch.inside + under))
    hidden = len(tree.nodes) - drawn
    return [*lines, f"… and {hidden:,} more"] if hidden else lines


def _start(tree: Tree) -> str:
    """An end of a path, which then fits a line; else the middle of a longest path, for no start draws flatter."""
    if all(len(tree.neighbours(node)) <= 2 for node in tree.nodes):
        return next((node for node in tree.nodes if len(tree.neighbours(node)) == 1), tree.nodes[0])
    steps = tree.walk(tree.walk()[-1][0])
    parents = {node: parent for node, parent, _ in steps}
    node = steps[-1][0]
    for _ in range(tree.diameter // 2):
        node = parents[node] or node
    return node


def _run(tree: Tree, branch: _Branch) -> tuple[list[str], list[str]]:
    """The nodes from here on without a branch, and the children of the last one."""
    run, parent, node = [branch.node], branch.parent, branch.node
    children = [near for near in tree.neighbours(node) if near != parent]
    while len(children) == 1:
        parent, node = node, children[0]
        run.append(node)
        children = [near for near in tree.neighbours(node) if near != parent]
    return run, children


def _run_text(tree: Tree, run: list[str]) -> str:
    shown = [f"{_mark(tree, node)} {node}" for node in run[:_RUN_SHOWN_MAX]]
    if len(run) > _RUN_SHOWN_MAX:
        shown[-1] = f"… {len(run) - _RUN_SHOWN_MAX:,} more …"
        shown.append(f"{_mark(tree, run[-1])} {run[-1]}")
    return " ── ".join(shown)


def _mark(tree: Tree, node: str) -> str:
    return _INNER if len(tree.neighbours(node)) >= 2 else _EDGE


def _grid_lines(scot: Scot) -> list[str]:
    hidden = max(scot.clusters - CLUSTERS_SHOWN_MAX, 0)
    indices = range(scot.clusters - hidden)
    more = [f"… {hidden:,} more"] if hidden else []
    rows = [["region", *(f"C{index}" for index in indices), *more]]
    for node in scot.tree.nodes[:LINES_MAX]:
        brokers = [f"{node},{index}" for index in indices]
        rows.append([f"{_mark(scot.tree, node)} {node}", *brokers, *(["…"] if more else [])])
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    rest = len(scot.tree.nodes) - LINES_MAX
    return [*lines, f"… and {rest:,} more regions"] if rest > 0 else lines
