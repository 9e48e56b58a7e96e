"""The page of scenes: one self-contained HTML file with a table of counts and the drawn scenes.

No script, no external addresses, no network; the numbers come from `scenes.py`, and differences to the paper are stated
beside them.
"""

from html import escape
from itertools import groupby
from pathlib import Path

from octopia.drawing import overlay_svg
from octopia.experiments.html import drawing_html, page_html, table_html
from octopia.experiments.scenes import PAPER_NOTES, PublishFigures, scene_of
from octopia.routing import POLICIES

_INTRO = """ <p>The brokers of this installation replayed every scene below, message by message. A publisher
<i>P</i> sends one notification; the subscribers <i>S</i> want it. The overlay is a tree times a complete graph: each
layer is a cluster, each column of layers a region. <b>SNR</b> decides the way once, at the publisher's host broker;
<b>IDR</b> goes around overloaded links by handing the clusters still to be served, as a bit vector (CIV), to another
copy; <b>TID</b> is the routing by advertisement trees that both are compared with. Under <b>FDR</b> copies name the
brokers they are for, and each notification takes the copy of the tree with the shortest queue.</p>
<p class="soft">Arrows are copies of the notification. A label such as 001 is the CIV that a copy carries, rightmost bit
is cluster 0; a label such as a,2 c,0 names its destinations, and the colour of the arrow the cluster whose tree it is
on. Dashed red links are overloaded, crossed-out brokers are dead.</p>
"""


def write_report(figures: list[PublishFigures], path: Path) -> None:
    """Write the page; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(figures), encoding="utf-8")


def _page(figures: list[PublishFigures]) -> str:
    sections = [_section(list(group)) for _, group in groupby(figures, key=lambda f: (f.scene, f.notification))]
    return page_html(
        "scenes", f"<h1>The paper's scenes, and ours, replayed</h1>{_INTRO}{_table(figures)}{''.join(sections)}"
    )


def _table(figures: list[PublishFigures]) -> str:
    heads = ("scene", "notification", "routing", "#messages", "#paper", "#deliveries", "#longest way", "CIVs carried")
    rows = [
        (
            f.scene,
            f"{f.notification} of {f.publisher}",
            f.routing.upper(),
            f.messages,
            "–" if f.paper_messages is None else f.paper_messages,
            f.deliveries,
            f"{f.hops_max} hops",
            ", ".join(f.civs) or "–",
        )
        for f in figures
    ]
    notes = "".join(
        f"<p class=soft>{escape(scene)}, {escape(routing)}: {escape(note)}</p>"
        for (scene, routing), note in PAPER_NOTES.items()
    )
    return table_html(heads, rows) + notes


def _section(figures: list[PublishFigures]) -> str:
    first = figures[0]
    title = f"{first.result.scenario.title}; {first.notification} of {first.publisher}"
    pictures = "".join(_picture(f) for f in figures)
    return f'\n<h2>{escape(title)}</h2>\n<div class="row">{pictures}</div>'


def _picture(f: PublishFigures) -> str:
    svg = drawing_html(overlay_svg(f.result.scenario.scot, scene_of(f.result, f.record)))
    used = "" if not f.overloaded_used else f", {f.overloaded_used} over an overloaded link"
    lost = "" if not f.record.lost else f", {len(f.record.lost)} lost where a link is down"
    why = "" if f.record.why is None else f". It takes {f.record.why}"
    caption = (
        f"{f.routing.upper()}, {POLICIES[f.routing].title}: {f.messages} messages{used}{lost}, "
        f"{f.deliveries} deliver{'y' if f.deliveries == 1 else 'ies'}{why}."
    )
    return f"<figure class=card>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
