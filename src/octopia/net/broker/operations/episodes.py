"""Log the beginning and end of episodes: overloaded links, an overloaded broker, dropped deliveries.

Links are checked at every tick and reported at most once per second each, so that a link that changes forty times per
second does not fill the log. Drops are added up once per second, and the clients that lost most are named.
"""

from collections.abc import Iterable
from typing import NamedTuple

from octopia.net.broker.operations.log import Log
from octopia.net.frame_queue import FrameQueue

LOOK_S = 1.0
# Clients named per second; the others are added up.
NAMED_MAX = 5


class LinkVerdict(NamedTuple):
    """The state of one link: its queue, and whether it is overloaded (Eq. 10)."""

    neighbour: str
    overloaded: bool
    queue: int
    element: float


class Episodes:
    """The episodes of one broker."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._links: dict[str, tuple[bool, float]] = {}  # what was reported last, and when
        self._overloaded = ""
        self._lost: dict[str, int] = {}
        self._lost_total = 0
        self._looked_s = 0.0

    def check_links(self, now: float, verdicts: Iterable[LinkVerdict]) -> None:
        """Check the links of this broker that are up."""
        for each in verdicts:
            told, told_s = self._links.get(each.neighbour, (False, -LOOK_S))
            if told != each.overloaded and now - told_s >= LOOK_S:
                self._links[each.neighbour] = (each.overloaded, now)
                text = "link overload begins" if each.overloaded else "link overload ends"
                self._log.event(text, neighbour=each.neighbour, queue=each.queue, element=round(each.element, 3))

    def check_broker(self, reason: str) -> None:
        """Check the broker itself; `reason`: why it is overloaded, or empty."""
        if bool(reason) != bool(self._overloaded):
            self._log.event("overload begins" if reason else "overload ends", reason=reason or self._overloaded)
        self._overloaded = reason

    def is_due(self, now: float) -> bool:
        """Whether it is time to check for drops."""
        if now - self._looked_s < LOOK_S:
            return False
        self._looked_s = now
        return True

    def check_drops(self, total: int, queues: Iterable[tuple[str, FrameQueue]]) -> None:
        """Check for drops: the total of deliveries lost so far, and the queues of current clients."""
        if total <= self._lost_total:
            return
        more, self._lost_total = total - self._lost_total, total
        lost = {name: queue.dropped_total + queue.too_old_total for name, queue in queues}
        news = {name: count - self._lost.get(name, 0) for name, count in lost.items() if count}
        self._lost = {name: count for name, count in lost.items() if count}
        worst = sorted((item for item in news.items() if item[1] > 0), key=lambda item: -item[1])[:NAMED_MAX]
        for name, count in worst:
            self._log.event("deliveries dropped", client=name, dropped=count)
        others = more - sum(count for _, count in worst)
        if others > 0:
            self._log.event("deliveries dropped", dropped=others, reason="other clients")
