"""News of links: how it comes to all brokers.

Each broker passes on what is fresh to it, once, to all its neighbours whose link is up, but for the one it came from;
and it tells all it knows to a neighbour whose link came up. So a report takes at most one message on each link and
direction, and is not lost with a broker or a link as long as there is another way.

**Whoever gets a copy knows what its sender knew.** What a broker knows it has told on each link that is up, and links
keep order. So along the way of a copy brokers know more and more, and `notify.py` relies on it.
"""

from octopia.errors import RemoteProtocolError
from octopia.routing.actions import Action, Send
from octopia.routing.fdr.news import REPORTS_PER_MESSAGE_MAX, parts
from octopia.routing.fdr.state import FdrState
from octopia.routing.messages import LinkNews, LinkReport
from octopia.topology import BrokerId


def link_is_down(state: FdrState, neighbour: BrokerId, out: list[Action]) -> None:
    """An own link went down, or was never up and is not expected to come up soon."""
    _spread(state, state.links.went_down(neighbour), None, out)


def link_is_up(state: FdrState, neighbour: BrokerId, out: list[Action]) -> None:
    reports = state.links.came_up(neighbour)
    _spread(state, reports, neighbour, out)
    if not reports:
        # nobody was told that it was down, since it never was up in this life; but what was put on it is lost
        state.links_changed((LinkReport(state.id, neighbour, 0, False),), out)
    out.extend(Send(neighbour, LinkNews(part)) for part in parts(state.links.all_reports()))


def receive_link_news(state: FdrState, sender: BrokerId, message: LinkNews, out: list[Action]) -> None:
    if not 0 < len(message.reports) <= REPORTS_PER_MESSAGE_MAX:
        count = len(message.reports)
        raise RemoteProtocolError(
            f"{sender} sent news with {count} reports; between 1 and {REPORTS_PER_MESSAGE_MAX} are allowed"
        )
    # the end that reports it said so, but that is still under way, or was on a link that was down
    unheard = tuple(report._replace(is_up=False) for report in message.reports if state.links.skips_down(report))
    fresh = state.links.heard(message.reports)
    for neighbour in state.neighbours:
        # what this broker has to say itself, the sender does not know either
        some = fresh if neighbour != sender else tuple(report for report in fresh if report.reporter == state.id)
        if some and neighbour in state.up:
            out.append(Send(neighbour, LinkNews(some)))
    if fresh:
        state.links_changed(fresh + unheard, out)


def _spread(state: FdrState, reports: tuple[LinkReport, ...], but: BrokerId | None, out: list[Action]) -> None:
    if reports:
        news = LinkNews(reports)
        out.extend(
            Send(neighbour, news) for neighbour in state.neighbours if neighbour in state.up and neighbour != but
        )
        state.links_changed(reports, out)
