"""Flooding: how news of links reaches all brokers.

Each broker forwards a new report once to all neighbours whose link is up, except the one it came from, and sends all it
knows to a neighbour whose link comes up. So a report takes at most one message on each link and direction, and survives
the loss of a broker or link as long as there is another way.

**The receiver of a copy knows what its sender knew.** A broker has sent everything it knows on each link that is up,
and links keep order. So brokers along the way of a copy know more and more, and `notify.py` relies on it.

**Reports about one broker are gathered.** When a broker dies or comes back, all its neighbours notice, and as many
floods would say almost the same. So a report is not spread at once. It goes to the first region mate of the broker that
it is about, which waits until all neighbours of that broker have reported, for `GATHER_S` at most, and spreads all in
one flood. Until then nobody counts the report as known, not even its reporter: copies still take the link, and what is
lost on it is sent again like everything else that was under way when it broke. Nothing is concluded from a report about
other links. A broker that passed a report on spreads it itself if it has not come back after `OWN_S`, since the broker
that gathers may have died as well; the reporter also does so before a second report about the same link.
"""

from octopia.errors import RemoteProtocolError
from octopia.protocol import LinkNews, LinkReport
from octopia.routing.actions import Action, Send
from octopia.routing.fdr.news import REPORTS_PER_MESSAGE_MAX, counts
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot.interest import parts
from octopia.topology import BrokerId

# How long a report waits for others about the same broker.
GATHER_S = 0.05
# How long one that was passed on waits to be spread: two hops, and the time above.
OWN_S = 4 * GATHER_S


def link_is_down(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    """One of this broker's links went down, or was never up and is not expected soon."""
    _spread_own(state, neighbour, now, out)
    for report in state.links.went_down(neighbour):
        _gather(state, report, now, out)


def link_is_up(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    _spread_own(state, neighbour, now, out)
    reports = state.links.came_up(neighbour, lost=state.lost_on.pop(neighbour, False))
    if not reports:
        # its loss was never reported, since it was never up in this run; but messages sent over it are lost
        state.links_changed((LinkReport(state.id, neighbour, 0, False),), now, out)
    all_reports = parts(state.links.all_reports(), REPORTS_PER_MESSAGE_MAX)
    out.extend(Send(neighbour, LinkNews(part)) for part in all_reports)
    for report in reports:
        _gather(state, report, now, out)


def receive_link_news(state: FdrState, sender: BrokerId, message: LinkNews, now: float, out: list[Action]) -> None:
    if not 0 < len(message.reports) <= REPORTS_PER_MESSAGE_MAX:
        count = len(message.reports)
        raise RemoteProtocolError(
            f"{sender} sent news with {count} reports; between 1 and {REPORTS_PER_MESSAGE_MAX} are allowed"
        )
    if message.gather:
        state.links.check(message.reports)
        for report in message.reports:
            if state.links.is_new(report):
                _gather(state, report, now, out)
    else:
        _spread(state, message.reports, sender, now, out)


def spread_due(state: FdrState, now: float, out: list[Action]) -> None:
    """Spread reports that have waited long enough."""
    for about in state.unspread.due_by(now):
        _spread(state, state.unspread.take(about), None, now, out)


def _spread_own(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    """Before a new report about a link: spread an earlier one that still waits."""
    if (state.id, neighbour) in state.unspread.about(neighbour):
        _spread(state, state.unspread.take(neighbour), None, now, out)


def _gather(state: FdrState, report: LinkReport, now: float, out: list[Action]) -> None:
    """Keep a report that nobody knows, or pass it on to the broker that gathers those about the same broker."""
    about, unspread = report.neighbour, state.unspread
    if not counts(report, unspread.about(about).get(report[:2])):
        return
    to = _gatherer(state, about)
    unspread.add(report, now + (GATHER_S if to == state.id else OWN_S))
    state.streams.renew_due()
    if to != state.id:
        out.append(Send(to, LinkNews((report,), gather=True)))
    elif _all_agree(state, about, report.is_up):
        _spread(state, unspread.take(about), None, now, out)


def _gatherer(state: FdrState, about: BrokerId) -> BrokerId:
    """The next broker on the way to the one that gathers reports about this broker: itself, if nobody else is there.

    That is the region mate of the lowest cluster. Each broker on the way leads to a region mate, or to one of a lower
    cluster, so the way ends.
    """
    me, up = state.id, state.up
    is_mate = about.region == me.region and about != me
    if is_mate or about.cluster == me.cluster:
        for mate in state.i_links:
            if is_mate and me.cluster < mate.cluster:
                return me
            if mate != about and mate in up:
                return mate
        return me
    across = BrokerId(about.region, me.cluster)
    return across if across in up else me


def _all_agree(state: FdrState, about: BrokerId, is_up: bool) -> bool:
    """Whether all neighbours of a broker say the same about their links to it."""
    waiting, links = state.unspread.about(about), state.links
    for neighbour in state.overlay.neighbours(about):
        report = waiting.get((neighbour, about))
        if is_up is not (links.says_up(neighbour, about) if report is None else report.is_up):
            return False
    return True


def _spread(
    state: FdrState, reports: tuple[LinkReport, ...], sender: BrokerId | None, now: float, out: list[Action]
) -> None:
    # its own end reported it, but that is still in flight, or was lost with a link
    unheard = tuple([report._replace(is_up=False) for report in reports if state.links.skips_down(report)])
    fresh = state.links.heard(reports)
    if not fresh:
        # most news: it came from another neighbour before
        return
    for neighbour in state.neighbours:
        # the sender does not know this broker's own reports either
        some = fresh if neighbour != sender else tuple(report for report in fresh if report.reporter == state.id)
        if neighbour in state.up:
            out.extend(Send(neighbour, LinkNews(part)) for part in parts(some, REPORTS_PER_MESSAGE_MAX))
    state.unspread.drop_old(state.links)
    state.links_changed(fresh + unheard, now, out)
