"""Waits in queues farther on, as reported by neighbours: remote congestion, for the choice of a tree.

    Waits(wait_ms)   the longest wait beyond me of a message you give me now for my cluster's tree

An aLink neighbour is told the longest wait behind this broker as seen from there: in the other queues of this broker,
and in the reports of its other aLink neighbours, each plus the queue that leads there. A region mate is told the
longest of all, since it may send messages that take this tree. So news moves away from a congested link along one copy
of the tree, which is acyclic, and ends at the region mates.

A reported wait decreases by a second each second, like a queue that nothing enters. So it is reported again only if it
turned out longer, its end is not reported, and a wrong report expires within the wait it states. A broker reports its
own findings at most every `TELL_EVERY_S`; a neighbour is told only of waits at least half as long again as it assumes,
and of `WAIT_MAX_S` at most.
"""

from octopia.protocol import WAIT_MS_MAX, Waits
from octopia.routing.actions import Action, Send
from octopia.routing.fdr.waits import WaitingLst
from octopia.topology import BrokerId

TELL_EVERY_S = 0.25
# The shortest wait worth reporting.
WAIT_MIN_S = 0.1
WAIT_MAX_S = WAIT_MS_MAX / 1000


class Beyond:
    """The reports that one broker has received and sent. `news` grows with each report received."""

    __slots__ = ("_a_links", "_found_s", "_i_links", "_looked_s", "_lst", "_told", "_until", "news")

    def __init__(self, lst: WaitingLst, a_links: tuple[BrokerId, ...], i_links: tuple[BrokerId, ...]) -> None:
        self._lst = lst
        # those that are up
        self._a_links, self._i_links = a_links, i_links
        # by neighbour: until when the path beyond it is busy, and until when it was told that ours is
        self._until: dict[BrokerId, float] = {}
        self._told: dict[BrokerId, float] = {}
        # when samples came last, and when they last led to a report
        self._looked_s = self._found_s = 0.0
        self.news = 0

    def links_changed(self, a_links: tuple[BrokerId, ...], i_links: tuple[BrokerId, ...]) -> None:
        """Set the links that are up; reports over others are dropped."""
        self._a_links, self._i_links = a_links, i_links
        up = {*a_links, *i_links}
        for said in (self._until, self._told):
            for neighbour in [each for each in said if each not in up]:
                del said[neighbour]
        self.news += 1

    def is_quiet(self, now: float) -> bool:
        """Whether no wait is known anywhere."""
        if self._until and max(self._until.values()) <= now:
            self._until.clear()
        return not self._until

    def wait(self, neighbour: BrokerId, now: float) -> float:
        return max(0.0, self._until.get(neighbour, now) - now)

    def learn(self, neighbour: BrokerId, wait_s: float, now: float) -> None:
        self._until[neighbour] = now + min(wait_s, WAIT_MAX_S)
        self.news += 1

    def look(self, now: float, out: list[Action]) -> None:
        """Before a new sample: report all earlier samples to neighbours, unless that was done a moment ago."""
        if now > self._looked_s:
            self._looked_s = now
            if self._lst.queues and now - self._found_s >= TELL_EVERY_S:
                before = len(out)
                self.tell(now, out)
                if len(out) > before:
                    self._found_s = now

    def tell(self, now: float, out: list[Action]) -> None:
        waits = self._lst.waits
        along = [(waits[to] + self.wait(to, now), to) for to in self._a_links]
        ends = [(waits[to], to) for to in self._i_links]
        along += ends
        # one neighbour is told the second longest, all others the longest
        first, second, longest_by = 0.0, 0.0, None
        for wait, by in along:
            if wait > first:
                first, second, longest_by = wait, first, by
            elif wait > second:
                second = wait
        if first < WAIT_MIN_S:
            return
        for _, to in along:
            longest = min(second if to == longest_by else first, WAIT_MAX_S)
            if longest > WAIT_MIN_S + 1.5 * max(0.0, self._told.get(to, now) - now):
                self._told[to] = now + longest
                out.append(Send(to, Waits(round(longest * 1000))))
