"""One broker's knowledge of all links of the overlay, from the reports of their ends.

A link is up until one of its ends reports it down, and down while the latest report of either end says so. Each end
numbers its reports. Of two reports of the same end about the same link, the one with the higher version counts; of
equal versions, the one that says down. So knowledge of a link only ever grows in one order. Brokers forward new reports
and exchange all they know when a link comes up, so connected brokers agree once the overlay is quiet.

**Each end answers for its own reports.** A broker that hears an outdated report of its own, from before a restart,
takes it back with a higher version. So it need not know what it reported before it restarted, an old report cannot keep
a link down, and nothing is reported at the start of an overlay: a link that comes up for the first time is not news.

**A dead broker** reports nothing, but each of its neighbours reports the link to it down. So no path leads to it, and
it is `unreachable`. Brokers in another part of a partitioned overlay are unreachable in the same way.

This module sends no messages; `flood.py` does. There is at most one report for each end of a link of the overlay, and a
report about an unknown link is a protocol violation by its sender.
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.errors import RemoteProtocolError
from octopia.protocol import LinkReport
from octopia.routing.fdr.broker_sets import AROUND, places_of
from octopia.topology import BrokerId, Scot

# Reports in one message; more make more messages.
REPORTS_PER_MESSAGE_MAX = 100
# A version takes at most 63 bits on the wire.
VERSION_MAX = (1 << 63) - 1

_End = tuple[BrokerId, BrokerId]  # the end of a link at the first broker
# A neighbour, and the destinations that are reached by it, as bits.
Way = tuple[BrokerId, int]


class KnownLinks:
    """All links of an overlay as known at one broker. `unreachable` has bits of brokers, as in `broker_sets.py`."""

    __slots__ = (
        "_bits",
        "_down",
        "_everyone",
        "_latest",
        "_mates",
        "_me",
        "_mine",
        "_overlay",
        "_surroundings",
        "_version",
        "_ways",
    )

    def __init__(self, overlay: Scot, me: BrokerId, first_version: int = 0) -> None:
        """`first_version` should exceed all versions used before a restart; otherwise convergence takes longer."""
        self._overlay = overlay
        self._me = me
        self._bits = places_of(overlay, me.region).brokers
        # kept here: to look it up by the overlay takes as long as a tenth of a search
        self._surroundings = _surroundings(overlay)
        self._everyone = (1 << overlay.broker_count) - 1
        # the brokers of the first region
        self._mates = sum(1 << cluster * len(overlay.tree.nodes) for cluster in range(overlay.clusters))
        self._version = first_version
        # by end, its latest report
        self._latest: dict[_End, LinkReport] = {}
        # by neighbour, whether the link is up, as far as this broker was told since it started
        self._mine: dict[BrokerId, bool] = {}
        # by broker, the neighbours whose link to it is down, if any
        self._down: dict[BrokerId, int] = {}
        # computed on demand after a change
        self._ways: tuple[Way, ...] | None = None

    # -- what the host of this broker tells

    def went_down(self, neighbour: BrokerId) -> tuple[LinkReport, ...]:
        """One of our links is down: the report to spread, or none if it was spread already."""
        return self._own(neighbour, False)

    def came_up(self, neighbour: BrokerId, *, lost: bool = False) -> tuple[LinkReport, ...]:
        """One of our links is up: the report to spread, or none if it was never reported down.

        `lost`: something of others was lost on it, so report it in any case. They know by that that it was down.
        """
        return self._own(neighbour, True, lost)

    def _own(self, neighbour: BrokerId, is_up: bool, lost: bool = False) -> tuple[LinkReport, ...]:
        self._mine[neighbour] = is_up
        before = self._latest.get((self._me, neighbour))
        if is_up is (before is None or before.is_up) and not lost:
            return ()
        version = self._version if before is None else max(self._version, before.version + 1)
        if version > VERSION_MAX:
            # a forged report whose version cannot be exceeded
            return ()
        self._version = version + 1
        return (LinkReport(self._me, neighbour, version, is_up),)

    # -- what other brokers tell

    def heard(self, reports: Sequence[LinkReport]) -> tuple[LinkReport, ...]:
        """The new reports among these, to be forwarded; and our own reports that correct outdated ones."""
        self.check(reports)
        fresh: list[LinkReport] = []
        for report in reports:
            if not counts(report, self._latest.get(report[:2])):
                continue
            self._take(report)
            truth = self._mine.get(report.neighbour) if report.reporter == self._me else None
            if truth is None or truth is report.is_up:
                fresh.append(report)
            else:
                for correction in self._own(report.neighbour, truth):
                    self._take(correction)
                    fresh.append(correction)
        return tuple(fresh)

    def skips_down(self, report: LinkReport) -> bool:
        """Whether it reports a link as up again that was never known here to be down."""
        if not report.is_up:
            return False
        before = self._latest.get(report[:2])
        return (before is None or before.is_up) and counts(report, before)

    def check(self, reports: Sequence[LinkReport]) -> None:
        """`RemoteProtocolError` if they are not about links of the overlay."""
        for reporter, neighbour, version, _ in reports:
            if (reporter, neighbour) not in self._latest and not is_link(self._overlay, reporter, neighbour):
                raise RemoteProtocolError(
                    f"news of a link between {reporter} and {neighbour}, which the overlay has not"
                )
            if not 0 <= version <= VERSION_MAX:
                raise RemoteProtocolError(f"news of a link between {reporter} and {neighbour} has version {version}")

    def _take(self, report: LinkReport) -> None:
        reporter, neighbour, _, is_up = report
        self._latest[reporter, neighbour] = report
        other = self._latest.get((neighbour, reporter))
        is_down = not is_up or (other is not None and not other.is_up)
        if is_down is not self.is_down(reporter, neighbour):
            self._turn(reporter, neighbour)
            self._turn(neighbour, reporter)
            self._ways = None

    def _turn(self, broker: BrokerId, neighbour: BrokerId) -> None:
        down = self._down.pop(broker, 0) ^ self._bits[neighbour]
        if down:
            self._down[broker] = down

    # -- what is known

    def all_reports(self) -> tuple[LinkReport, ...]:
        """All reports, for a neighbour whose link came up."""
        return tuple(self._latest.values())

    def is_new(self, report: LinkReport) -> bool:
        return counts(report, self._latest.get(report[:2]))

    def says_up(self, reporter: BrokerId, neighbour: BrokerId) -> bool:
        """Whether, as far as was spread, this broker considers its link up."""
        latest = self._latest.get((reporter, neighbour))
        return latest is None or latest.is_up

    @property
    def untouched(self) -> bool:
        """Whether no link was ever reported, down or up."""
        return not self._latest

    @property
    def any_down(self) -> bool:
        return bool(self._down)

    def is_down(self, one: BrokerId, other: BrokerId) -> bool:
        return bool(self._down.get(one, 0) & self._bits[other])

    @property
    def unreachable(self) -> int:
        """The brokers that cannot be reached from here, as bits."""
        if not self._down:
            return 0
        return self._everyone & ~self._bits[self._me] & ~sum(brokers for _, brokers in self.ways)

    @property
    def ways(self) -> tuple[Way, ...]:
        """The neighbours through which other brokers are reached over links that are not down, each with its share.

        A destination counts as reached at itself, and at every region mate with a link to it. The path has the fewest
        hops; of several, it begins with the first of our own aLinks, then of our own iLinks from the next cluster on.
        So it follows our own cluster's copy of the tree while that is whole. If it is not, everything that cannot
        continue there goes to the same region mate.
        """
        if self._ways is None:
            self._ways = self._search()
        return self._ways

    def _search(self) -> tuple[Way, ...]:
        """Breadth first, from each broker to all its neighbours at once, grouped by a path's first neighbour."""
        me, down = self._me, self._down.get(self._me, 0)
        mates = self._overlay.i_links(me)
        first = (*self._overlay.a_links(me), *mates[me.cluster :], *mates[: me.cluster])
        layer = {near: self._bits[near] for near in first if not down & self._bits[near]}
        ways = {near: self._bits[near] if near.region == me.region else 0 for near in layer}
        seen = self._bits[me] | sum(layer.values())
        served = self._bits[me] | sum(ways.values())
        while layer:
            found = {}
            for near, brokers in layer.items():
                reached, beyond = self._around(brokers)
                ways[near] |= reached & ~served
                served |= reached
                if beyond & ~seen:
                    found[near] = beyond & ~seen
                    seen |= beyond
            layer = found
        return tuple(way for way in ways.items() if way[1])

    def _around(self, brokers: int) -> tuple[int, int]:
        """These brokers and their region mates, and all their neighbours, over links that are not down."""
        reached, beyond, down = brokers, 0, self._down
        surroundings = self._surroundings
        while brokers:
            place = brokers.bit_length() - 1
            brokers ^= 1 << place
            broker, mates, near = surroundings[place]
            up = ~down.get(broker, 0)
            reached |= mates & up
            beyond |= (mates | near) & up
        return reached, beyond

    def cut_by(self, link: _End, tree: int) -> int:
        """The brokers whose path from here on this tree crosses this link, without detours.

        `tree` is a cluster, or `AROUND`: there the neighbouring region by which region mates are reached depends on the
        other destinations, so a region mate counts if any of its ways crosses the link.
        """
        one, other = link
        me = self._me
        if tree == AROUND:
            cut = self._cut_on_tree(one, other, me.cluster) & ~self._region(me.region)
            return cut | self._cut_around(one, other)
        cut = self._cut_on_tree(one, other, tree)
        if me.region == one.region == other.region and {one.cluster, other.cluster} == {me.cluster, tree}:
            cut = self._everyone
        return cut & ~self._bits[me]

    def _cut_on_tree(self, one: BrokerId, other: BrokerId, tree: int) -> int:
        """From the region mate in that cluster, along its copy of the tree, to region mates where the copy ends."""
        if one.region == other.region:
            if tree not in (one.cluster, other.cluster):
                return 0
            return self._bits[other if one.cluster == tree else one]
        if one.cluster != tree:
            return 0
        beyond = places_of(self._overlay, one.region).beyond[other.region]
        if beyond & self._bits[self._me]:
            return places_of(self._overlay, other.region).beyond[one.region]
        return beyond

    def _cut_around(self, one: BrokerId, other: BrokerId) -> int:
        """Region mates: directly if there are no other destinations, otherwise by a neighbouring region and back."""
        me = self._me
        mates = self._region(me.region) & ~self._bits[me]
        if one.region == other.region == me.region:
            return mates & self._cut_on_tree(one, other, me.cluster)
        if one.region == other.region:
            if one.region not in self._overlay.tree.neighbours(me.region) or me.cluster not in (
                one.cluster,
                other.cluster,
            ):
                return 0
            mate = BrokerId(me.region, other.cluster if one.cluster == me.cluster else one.cluster)
            return self._bits[mate]
        if me.region not in (one.region, other.region):
            return 0
        return mates if one.cluster == me.cluster else self._bits[BrokerId(me.region, one.cluster)]

    def _region(self, region: str) -> int:
        return self._mates << self._overlay.tree.rank[region]


class Unspread:
    """Reports that wait for others about the same broker; `due` is when the first of them are spread."""

    __slots__ = ("_about", "_due", "due")

    def __init__(self) -> None:
        # by the broker that they are about: by end the report
        self._about: dict[BrokerId, dict[_End, LinkReport]] = {}
        self._due: dict[BrokerId, float] = {}
        self.due: float | None = None

    def add(self, report: LinkReport, due: float) -> None:
        about = report.neighbour
        self._about.setdefault(about, {})[report[:2]] = report
        self._due[about] = min(due, self._due.get(about, due))
        self.due = min(self._due.values())

    def about(self, broker: BrokerId) -> dict[_End, LinkReport]:
        return self._about.get(broker, {})

    def take(self, broker: BrokerId) -> tuple[LinkReport, ...]:
        """All reports about a broker, which then no longer wait."""
        self._due.pop(broker, None)
        self.due = min(self._due.values(), default=None)
        return tuple(self._about.pop(broker, {}).values())

    def due_by(self, now: float) -> list[BrokerId]:
        """The brokers whose reports are due."""
        return [broker for broker, due in self._due.items() if due <= now]

    def drop_old(self, links: KnownLinks) -> None:
        """Forget what everyone knows by now."""
        for about in list(self._about):
            waiting = self._about[about]
            for end in [end for end, report in waiting.items() if not links.is_new(report)]:
                del waiting[end]
            if not waiting:
                self.take(about)


@lru_cache(maxsize=16)
def _surroundings(overlay: Scot) -> tuple[tuple[BrokerId, int, int], ...]:
    """For every broker, by place: itself, the brokers of its region and its primary neighbours, as bits."""
    bits = {broker: 1 << place for place, broker in enumerate(overlay.brokers)}
    regions = {region: sum(bits[mate] for mate in overlay.region(region)) for region in overlay.tree.nodes}
    return tuple(
        (broker, regions[broker.region], sum(bits[near] for near in overlay.a_links(broker)))
        for broker in overlay.brokers
    )


def is_link(overlay: Scot, one: BrokerId, other: BrokerId) -> bool:
    if one not in overlay or other not in overlay:
        return False
    if one.region == other.region:
        return one.cluster != other.cluster
    return one.cluster == other.cluster and other.region in overlay.tree.neighbours(one.region)


def counts(report: LinkReport, before: LinkReport | None) -> bool:
    """Whether a report replaces the previous one."""
    if before is None:
        return True
    return report.version > before.version or (report.version == before.version and before.is_up and not report.is_up)
