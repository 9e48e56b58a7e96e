"""The page of scenes: one self-contained HTML file with a table of counts and the drawn scenes.

Rules of this file: no script, no address of another place, nothing that needs a network; numbers come from
`scenes.py`, and a difference to the paper is said beside the number.
"""

import re
from html import escape
from itertools import groupby
from pathlib import Path

from octopia.drawing import overlay_svg
from octopia.experiments.scenes import PAPER_NOTES, PublishFigures, scene_of
from octopia.routing import POLICIES

_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_STYLE = """ :root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #d8dee5; --good: #1b7f4d; } body {
font: 16px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 1240px; margin: 2rem auto; padding: 0 1rem; } h1 {
font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem } p { max-width: 52rem }
.soft { color: var(--soft) } table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .3rem .8rem;
border-bottom: 1px solid var(--line) } th { text-align: left; font-weight: 600 } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums } .row { display: grid; grid-template-columns: repeat(2, 1fr); gap: 1rem } @media
(max-width: 900px) { .row { display: block } } figure { margin: .5rem 0; border: 1px solid var(--line); border-radius:
8px; padding: .5rem } figcaption { font-size: .9rem; color: var(--soft); padding: .2rem .4rem } figure svg { width:
100%; height: auto } .key { font-size: .9rem; color: var(--soft) }
"""

_INTRO = """ <p>Every scene below was replayed, message by message, by the brokers of this installation. A publisher
<i>P</i> sends one notification; the subscribers <i>S</i> want it. The overlay is a tree times a complete graph: each
layer is a cluster, each column of layers a region. <b>SNR</b> decides the way once, at the publisher's host broker;
<b>IDR</b> goes around overloaded links by handing the clusters still to be served, as a bit vector (CIV), to another
copy; <b>TID</b> is the routing by advertisement trees that both are compared with. Under <b>FDR</b> copies name the
brokers they are for, and each notification takes the copy of the tree with the shortest queue.</p>
<p class="key">Arrows are copies of the notification. A label such as 001 is the CIV that a copy carries, rightmost bit
is cluster 0; a label such as a,2 c,0 names its destinations, and the colour of the arrow the cluster whose tree it is
on. Dashed red links are overloaded, crossed-out brokers are dead.</p>
"""


def write_report(figures: list[PublishFigures], path: Path) -> None:
    """Write the page; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(figures), encoding="utf-8")


def _page(figures: list[PublishFigures]) -> str:
    sections = [_section(list(group)) for _, group in groupby(figures, key=lambda f: (f.scene, f.notification))]
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>OctopiA: scenes</title><style>{_STYLE}</style></head>\n<body>\n"
        "<h1>The paper's scenes, and ours, replayed</h1>"
        f"{_INTRO}{_table(figures)}{''.join(sections)}\n</body>\n</html>\n"
    )


def _table(figures: list[PublishFigures]) -> str:
    heads = ["scene", "notification", "routing", "messages", "paper", "deliveries", "longest way", "CIVs carried"]
    numeric = {"messages", "paper", "deliveries", "longest way"}
    head = "".join(f"<th{_n(h in numeric)}>{h}</th>" for h in heads)
    rows = "".join(_row(f) for f in figures)
    notes = "".join(
        f"<p class=soft>{escape(scene)}, {escape(routing)}: {escape(note)}</p>"
        for (scene, routing), note in PAPER_NOTES.items()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def _row(f: PublishFigures) -> str:
    paper = "–" if f.paper_messages is None else str(f.paper_messages)
    cells = [
        (f.scene, False),
        (f"{f.notification} of {f.publisher}", False),
        (f.routing.upper(), False),
        (str(f.messages), True),
        (paper, True),
        (str(f.deliveries), True),
        (f"{f.hops_max} hops", True),
        (", ".join(f.civs) or "–", False),
    ]
    return "<tr>" + "".join(f"<td{_n(number)}>{escape(text)}</td>" for text, number in cells) + "</tr>\n"


def _n(number: bool) -> str:
    return ' class="n"' if number else ""


def _section(figures: list[PublishFigures]) -> str:
    first = figures[0]
    title = f"{first.result.scenario.title}; {first.notification} of {first.publisher}"
    pictures = "".join(_picture(f) for f in figures)
    return f'\n<h2>{escape(title)}</h2>\n<div class="row">{pictures}</div>'


def _picture(f: PublishFigures) -> str:
    # A picture's metadata names other places; a page that needs no network had better not look as if it did.
    svg = _METADATA.sub("", overlay_svg(f.result.scenario.scot, scene_of(f.result, f.record)))
    used = "" if not f.overloaded_used else f", {f.overloaded_used} over an overloaded link"
    lost = "" if not f.record.lost else f", {len(f.record.lost)} lost where a link is down"
    why = "" if f.record.why is None else f". It takes {f.record.why}"
    caption = (
        f"{f.routing.upper()}, {POLICIES[f.routing].title}: {f.messages} messages{used}{lost}, "
        f"{f.deliveries} deliver{'y' if f.deliveries == 1 else 'ies'}{why}."
    )
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
