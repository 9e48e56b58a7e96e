"""The common parts of report pages: style, page frame, tables, and embedded drawings.

A page is one file without script; it loads nothing, follows the reader's light or dark setting, and fits a phone. So do
plots: their colours become the variables below. A drawing with many colours of its own is shown on a light card
(`class=card`) instead.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
# A number and its unit stay on one line.
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs)(?:[\s.,;:)]|</))")
# Of plots: the variable for each colour, and its value in dark mode.
_COLOURS: Final = {
    "#000000": ("ink", "#e6eaef"),
    "#ffffff": ("paper", "#14191f"),
    "#e3e7ec": ("grid", "#2b333c"),
    "#8793a0": ("axis", "#8793a0"),
    "#4477aa": ("blue", "#7aa7dd"),
    "#c2570c": ("orange", "#f08a45"),
    "#0f766e": ("teal", "#3cc4b4"),
    "#6b7280": ("gray", "#a3acb8"),
    "#88559a": ("purple", "#c08ad6"),
    "#9a8700": ("olive", "#d8c43a"),
    "#228833": ("green", "#5cc26d"),
}
_LIGHT: Final = "--soft: #5b6875; --line: #d8dee5; --good: #1b7f4d; --bad: #b3261e; --back: #f4f6f8; --link: #0b57b0;"
_DARK: Final = "--soft: #a3acb8; --line: #39424d; --good: #57c08a; --bad: #f2857d; --back: #1d242c; --link: #86b7f5;"
STYLE: Final = (
    f":root {{ color-scheme: light dark; {_LIGHT} "
    + " ".join(f"--{name}: {colour};" for colour, (name, _) in _COLOURS.items())
    + " --ink: #1d2733 }\n"
    + f"@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} "
    + " ".join(f"--{name}: {dark};" for name, dark in _COLOURS.values())
    + " } }\n"
    + """body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1240px;
margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word }
h1 { font-size: clamp(1.25rem, 4vw, 1.6rem); line-height: 1.3; margin-bottom: .6rem }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem } p { max-width: 56rem } a { color: var(--link) }
.soft { color: var(--soft) } .good { color: var(--good) } .bad { color: var(--bad) } .wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line) }
th { text-align: left; font-weight: 600 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem }
figure { margin: .5rem 0; border: 1px solid var(--line); border-radius: 8px; padding: .5rem; min-width: 0 }
figure.wide { grid-column: 1 / -1 } figcaption { font-size: .9rem; color: var(--soft); padding: .2rem .4rem }
figure svg { width: 100%; height: auto; display: block } figure:not(.card) svg text { fill: var(--ink) }
.card { background: #fff; color: #1d2733 } .card figcaption { color: #5b6875 }
details { margin: 1.2rem 0 } summary { cursor: pointer; font-weight: 600; font-size: 1.15rem }
pre { background: var(--back); padding: .8rem; border-radius: 8px; overflow-x: auto }
@media (max-width: 600px) { body { margin: 1rem auto; padding: 0 .75rem } th, td { padding: .3rem .5rem } }"""
)


def page_html(title: str, body: str) -> str:
    """A page with our style around its content."""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>OctopiA: {escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f"{_UNIT.sub('&nbsp;', body)}\n</body>\n</html>\n"
    )


def plot_html(svg: bytes) -> str:
    """A plot as an element of a page, in the page's colours."""
    return _COLOUR.sub(_variable, drawing_html(svg.decode("utf-8")))


def drawing_html(svg: str) -> str:
    """A drawing as an element of a page: without a file's prologue, and without metadata, which names other places."""
    return _METADATA.sub("", svg[svg.index("<svg") :])


def table_html(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table. A head that begins with `#` is that of a column of numbers; a cell may be a pair of text and class."""
    kinds = ["n" if head.startswith("#") else "" for head in heads]
    head = _line("th", [head.removeprefix("#") for head in heads], kinds)
    body = "\n".join(_line("td", row, kinds) for row in rows)
    return f"<div class=wide><table><thead>{head}</thead>{body}</table></div>"


def _line(tag: str, values: Sequence[Any], kinds: Sequence[str]) -> str:
    cells = ""
    for value, kind in zip(values, kinds, strict=True):
        text, style = value if isinstance(value, tuple) else (value, kind)
        look = f' class="{style}"' if style else ""
        cells += f"<{tag}{look}>{escape(str(text))}</{tag}>"
    return f"<tr>{cells}</tr>"


def details_html(title: str, content: str) -> str:
    """Something long that few readers need, closed at first."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _variable(colour: re.Match[str]) -> str:
    known = _COLOURS.get(colour[0])
    return colour[0] if known is None else f"var(--{known[0]})"
