"""Flooding: how news of links reaches all brokers.

Each broker forwards a new report once to all neighbours whose link is up, except the one it came from, and sends all it
knows to a neighbour whose link comes up. So a report takes at most one message on each link and direction, and survives
the loss of a broker or link as long as there is another way.

**The receiver of a copy knows what its sender knew.** A broker has sent everything it knows on each link that is up,
and links keep order. So brokers along the way of a copy know more and more, and `notify.py` relies on it.
"""

from octopia.errors import RemoteProtocolError
from octopia.protocol import LinkNews, LinkReport
from octopia.routing.actions import Action, Send
from octopia.routing.fdr.news import REPORTS_PER_MESSAGE_MAX
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot.interest import parts
from octopia.topology import BrokerId


def link_is_down(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    """One of this broker's links went down, or was never up and is not expected soon."""
    _spread(state, state.links.went_down(neighbour), None, now, out)


def link_is_up(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    reports = state.links.came_up(neighbour)
    _spread(state, reports, neighbour, now, out)
    if not reports:
        # its loss was never reported, since it was never up in this run; but messages sent over it are lost
        state.links_changed((LinkReport(state.id, neighbour, 0, False),), now, out)
    all_reports = parts(state.links.all_reports(), REPORTS_PER_MESSAGE_MAX)
    out.extend(Send(neighbour, LinkNews(part)) for part in all_reports)


def receive_link_news(state: FdrState, sender: BrokerId, message: LinkNews, now: float, out: list[Action]) -> None:
    if not 0 < len(message.reports) <= REPORTS_PER_MESSAGE_MAX:
        count = len(message.reports)
        raise RemoteProtocolError(
            f"{sender} sent news with {count} reports; between 1 and {REPORTS_PER_MESSAGE_MAX} are allowed"
        )
    # its own end reported it, but that is still in flight, or was lost with a link
    unheard = tuple([report._replace(is_up=False) for report in message.reports if state.links.skips_down(report)])
    fresh = state.links.heard(message.reports)
    if not fresh:
        # most news: it came from another neighbour before
        return
    for neighbour in state.neighbours:
        # the sender does not know this broker's own reports either
        some = fresh if neighbour != sender else tuple(report for report in fresh if report.reporter == state.id)
        if some and neighbour in state.up:
            out.append(Send(neighbour, LinkNews(some)))
    state.links_changed(fresh + unheard, now, out)


def _spread(
    state: FdrState, reports: tuple[LinkReport, ...], but: BrokerId | None, now: float, out: list[Action]
) -> None:
    if reports:
        news = LinkNews(reports)
        out.extend(
            Send(neighbour, news) for neighbour in state.neighbours if neighbour in state.up and neighbour != but
        )
        state.links_changed(reports, now, out)
