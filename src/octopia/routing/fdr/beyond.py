"""Waits in queues farther on, as reported by neighbours: remote congestion, for the choice of a tree.

    Waits(wait_ms, pace_us)   the longest wait beyond me of a message you give me now for my cluster's tree, and the
                              pace of the link where it waits

An aLink neighbour is told the longest wait behind this broker as seen from there: in the other queues of this broker,
and in the reports of its other aLink neighbours, each plus the queue that leads there. A region mate is told the
longest of all, since it may send messages that take this tree. So news moves away from a congested link along one copy
of the tree, which is acyclic, and ends at the region mates.

**The slowest link of a tree decides.** What is still in the queue for the neighbour will wait there, too: so it counts
at that link's pace where that is slower than the link to the neighbour. Otherwise a burst would go on for a while into
a tree whose slow link is far away, since the report tells only of what came there already.

A reported wait decreases by a second each second, like a queue that nothing enters, and grows with each message that
leaves for the neighbour. So it is reported again only if it turned out longer, its end is not reported, and a wrong
report expires once nothing is sent there. A broker reports its
own findings at most every `TELL_EVERY_S`; a neighbour is told only of waits at least half as long again as it assumes,
and of `WAIT_MAX_S` at most.
"""

from octopia.protocol import PACE_US_MAX, WAIT_MS_MAX, Waits
from octopia.routing.actions import Action, Send
from octopia.routing.fdr.waits import WaitingLst
from octopia.topology import BrokerId

TELL_EVERY_S = 0.25
# How many times as long as here a message must take farther on for a link there to count as slow: equal links are
# measured with an error, which would add up over a long queue.
SLOWER = 2
# The shortest wait worth reporting.
WAIT_MIN_S = 0.1
WAIT_MAX_S = WAIT_MS_MAX / 1000


class Beyond:
    """The reports that one broker has received and sent. `news` grows with each report received."""

    __slots__ = ("_a_links", "_found_s", "_i_links", "_left", "_looked_s", "_lst", "_paces", "_told", "_until", "news")

    def __init__(self, lst: WaitingLst, a_links: tuple[BrokerId, ...], i_links: tuple[BrokerId, ...]) -> None:
        self._lst = lst
        # those that are up
        self._a_links, self._i_links = a_links, i_links
        # by neighbour: until when the path beyond it is busy, the pace of the link where it is, and how many messages
        # had left for the neighbour when they were last counted; and until when it was told that ours is
        self._until: dict[BrokerId, float] = {}
        self._paces: dict[BrokerId, float] = {}
        self._left: dict[BrokerId, int] = {}
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
        """How long the first message of the queue for this neighbour will wait beyond it."""
        if neighbour not in self._until:
            return 0.0
        self._grow(neighbour, now)
        return max(0.0, self._until[neighbour] - now)

    def _grow(self, neighbour: BrokerId, now: float) -> None:
        """Count what left for a neighbour since this was last called."""
        left = self._lst.left[neighbour]
        grown = self._until[neighbour] + (left - self._left[neighbour]) * self.slower(neighbour, now)
        self._until[neighbour] = min(grown, now + WAIT_MAX_S)
        self._left[neighbour] = left

    def pace(self, neighbour: BrokerId, now: float) -> float:
        """How much longer each message more waits beyond a neighbour; 0 if none waits."""
        return self._paces[neighbour] if self._until.get(neighbour, now) > now else 0.0

    def slower(self, neighbour: BrokerId, now: float) -> float:
        """How much longer a message takes at a slow link beyond a neighbour than on the link to it; 0: none is slow."""
        here, there = self._lst.measured_pace(neighbour), self.pace(neighbour, now)
        return there - here if here is not None and there > SLOWER * here else 0.0

    def learn(self, neighbour: BrokerId, wait_s: float, pace_s: float, now: float) -> None:
        self._until[neighbour] = now + min(wait_s, WAIT_MAX_S)
        self._paces[neighbour] = pace_s
        self._left[neighbour] = self._lst.left[neighbour]
        self.news += 1

    def look(self, now: float, out: list[Action]) -> None:
        """Before a new sample: report all earlier samples to neighbours, unless that was done a moment ago."""
        if now > self._looked_s:
            self._looked_s = now
            for neighbour in self._until:
                self._grow(neighbour, now)
            if self._lst.queues and now - self._found_s >= TELL_EVERY_S:
                before = len(out)
                self.tell(now, out)
                if len(out) > before:
                    self._found_s = now

    def tell(self, now: float, out: list[Action]) -> None:
        lst = self._lst
        along = []
        for to in self._a_links:
            slower = self.slower(to, now)
            wait = lst.waits[to] + lst.queue_lengths[to] * slower + self.wait(to, now)
            along.append((wait, lst.pace(to) + slower, to))
        along += [(lst.waits[to], lst.pace(to), to) for to in self._i_links]
        # one neighbour is told the second longest, all others the longest
        first, second, longest_by = (0.0, 0.0), (0.0, 0.0), None
        for wait, pace, by in along:
            if wait > first[0]:
                first, second, longest_by = (wait, pace), first, by
            elif wait > second[0]:
                second = wait, pace
        if first[0] < WAIT_MIN_S:
            return
        for _, _, to in along:
            longest, pace = second if to == longest_by else first
            longest = min(longest, WAIT_MAX_S)
            if longest > WAIT_MIN_S + 1.5 * max(0.0, self._told.get(to, now) - now):
                self._told[to] = now + longest
                out.append(Send(to, Waits(round(longest * 1000), min(round(pace * 1e6), PACE_US_MAX))))
