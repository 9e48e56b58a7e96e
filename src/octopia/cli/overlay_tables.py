"""Tables of a running overlay for the terminal: brokers, links and totals of one snapshot."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from octopia.cli.terminal import printable
from octopia.cli.watch_options import BAD, BUSY, FAINT, GOOD, rate, size, status_text

if TYPE_CHECKING:
    from octopia.watch import BrokerView, LinkView, OverlayView, Totals

LINKS_SHOWN_MAX = 12
_LEFT = ("broker", "status", "overloaded", "link", "state", "history")
# The latest values of a series, by its name, as text.
History = Callable[[str], str]
Cell = str | Text


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table of these rows; empty columns are omitted."""
    table = Table(box=None, pad_edge=False)
    used = [at for at in range(len(columns)) if any(str(row[at]).strip() for row in rows)]
    for at in used:
        name = columns[at]
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=name != "overloaded")
    for row in rows:
        table.add_row(*(row[at] for at in used))
    return table


def broker_table(view: "OverlayView", history: History | None = None) -> Table:
    """A row for each broker; with `history`, also its publishing rate over time."""
    columns = ["broker", "status", "clients", "PRT", "SRT", "links up", "Q_l", "around", "in/s", "deliveries/s", "cpu"]
    rows = [
        [*_broker_cells(broker), history(f"{broker.broker} published") if history else ""]
        for broker in view.brokers.values()
    ]
    return _table([*columns, "memory", "overloaded", "history"], rows)


def _broker_cells(broker: "BrokerView") -> list[Cell]:
    links = broker.links
    up = sum(link.up for link in links)
    answers = broker.status in ("ok", "stopping")
    return [
        str(broker.broker),
        status_text(broker.status, broker.overloaded),
        str(broker.clients) if answers else "",
        str(broker.subscriptions) if answers else "",
        str(broker.advertisements) if answers else "",
        Text(f"{up}/{len(links)}", "" if up == len(links) else BAD) if links else "",
        str(broker.queue) if links else "",
        "" if broker.around is None else f"{broker.around:,}",
        rate(broker.published_rate),
        rate(broker.delivered_rate),
        "" if broker.cpu is None else f"{broker.cpu:.0%}",
        size(broker.memory_bytes) if broker.memory_bytes else "",
        Text(" ".join(str(link.receiver) for link in links if link.overloaded), BUSY),
    ]


def link_table(links: Iterable["LinkView"], history: History | None = None) -> Table:
    """A row for each link and direction; with `history`, also its queue over time."""
    columns = ("link", "state", "Q_l", "CE", "Q_l·CE/τ", "messages/s", "sent", "lost", "history")
    rows: list[list[Cell]] = [
        [
            f"{link.sender} → {link.receiver}",
            _link_state(link),
            f"{link.queue:,}",
            f"{link.element:.2f}",
            f"{link.load:.2f}",
            rate(link.rate),
            f"{link.sent:,}",
            f"{link.lost:,}",
            history(f"{link.sender}-{link.receiver} queue") if history else "",
        ]
        for link in links
    ]
    return _table(columns, rows)


def _link_state(link: "LinkView") -> Text:
    if not link.up:
        return Text("down", BAD)
    state = "overloaded" if link.overloaded else "broken" if not link.connected else "up"
    return Text(f"{state}, avoided" if link.avoided else state, GOOD if state == "up" else BUSY)


def troubled(view: "OverlayView", most: int = LINKS_SHOWN_MAX) -> list["LinkView"]:
    """Links that are down, broken or have a queue, worst first."""
    found = [link for link in view.links() if not link.up or not link.connected or link.queue]
    return sorted(found, key=lambda link: (link.up, link.connected, -link.load))[:most]


def totals_line(totals: "Totals") -> Text:
    """One line about the whole overlay."""
    line = Text()
    line.append(f"{totals.up}/{totals.brokers} brokers", GOOD if totals.up == totals.brokers else BAD)
    up = totals.links_up == totals.links
    line.append(f"  {totals.links_up}/{totals.links} links up", "" if up else BAD)
    if totals.links_overloaded:
        line.append(f"  {totals.links_overloaded} overloaded", BUSY)
    clients = "client" if totals.clients == 1 else "clients"
    line.append(f"  {totals.clients:,} {clients}  {totals.subscriptions:,} table entries")
    for name, value in (("in", totals.published_rate), ("deliveries", totals.delivered_rate)):
        if value is not None:
            line.append(f"  {value:,.0f} {name}/s")
    if totals.dropped_rate:
        line.append(f"  {totals.dropped_rate:,.0f} dropped/s", BAD)
    line.append(f"  Q_l {totals.queue:,}", "" if totals.queue else FAINT)
    return line


def shared_line(view: "OverlayView") -> Text | None:
    """A note on shared CPU and memory figures, for brokers that share a process."""
    shares = max((broker.shares for broker in view.brokers.values()), default=1)
    return Text(f"cpu and memory are of the process, which runs {shares} brokers", FAINT) if shares > 1 else None


def event_lines(events: Sequence[dict[str, object]], most: int) -> list[Text]:
    """The last events, a line each."""
    import time

    lines = []
    for event in list(events)[-most:]:
        said = {k: v for k, v in event.items() if k not in ("sequence", "time_s", "level", "text", "broker")}
        about = " ".join(f"{name}={value}" for name, value in said.items())
        at = time.strftime("%H:%M:%S", time.localtime(float(str(event["time_s"]))))
        style = BUSY if event["level"] == "warning" else BAD if event["level"] == "error" else ""
        what = (f"{event['broker']} {event['text']} ", style)
        lines.append(Text.assemble((f"{at} ", FAINT), what, (printable(about), FAINT)))
    return lines
