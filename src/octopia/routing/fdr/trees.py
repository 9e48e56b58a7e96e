"""The choice of a tree for a notification: the one with the shortest wait, here and farther on.

The wait here comes from the broker's own queues (`waits.py`), the wait farther on from neighbours' reports
(`beyond.py`) and from what this broker has yet to send there. Queues are sampled only every t_w, and in a burst many
notifications are published in between; so each is counted on its tree until the next sample.

    own       while no queue here is longer than `OWN_QUEUE_MAX`, the own cluster's tree, unless another saves
              `SAVES_S`; without queues and with fast links it is the choice for any number of notifications
    another   else all destinations in one copy to the region mate whose tree has the shortest wait
    AROUND    or the own cluster's tree without the iLinks: region mates are reached from a neighbouring region
"""

from octopia.routing.fdr.beyond import Beyond
from octopia.routing.fdr.broker_sets import AROUND
from octopia.routing.fdr.waits import WaitingLst
from octopia.topology import BrokerId

OWN_QUEUE_MAX = 1
# Factor on the wait of AROUND here, since copies of other hosts use the same aLinks.
AROUND_SHARE = 2
# The time that another tree must save, since it takes one more hop.
SAVES_S = 0.1


class Trees:
    """The choice of one broker; `costs` has the wait on each candidate tree, in order of preference."""

    __slots__ = (
        "_a_links",
        "_beyond",
        "_i_links",
        "_lst",
        "_own",
        "_seen",
        "_steps",
        "_up_a_links",
        "_weighed_s",
        "costs",
    )

    def __init__(self, id: BrokerId, lst: WaitingLst, beyond: Beyond, a_links: tuple[BrokerId, ...]) -> None:
        self._own = id.cluster
        self._lst = lst
        self._beyond = beyond
        self._a_links = self._up_a_links = a_links
        self._i_links: tuple[BrokerId, ...] = ()
        self.costs: dict[int, float] = {self._own: 0.0}
        # by tree, how much one more notification adds to its wait
        self._steps: dict[int, float] = {self._own: 0.0}
        self._seen = -1
        self._weighed_s = 0.0

    def links_changed(self, up_a_links: tuple[BrokerId, ...], up_i_links: tuple[BrokerId, ...]) -> None:
        self._up_a_links, self._i_links = up_a_links, up_i_links
        self._seen = -1

    def best(self, now: float) -> int:
        """The tree for a notification that is published now."""
        return self._own if self.is_steady(now) else self._least(now)

    def _least(self, now: float) -> int:
        lst = self._lst
        seen = lst.queues_changed + self._beyond.news
        if seen != self._seen or now - self._weighed_s > lst.window_s:
            self._seen, self._weighed_s = seen, now
            self._weigh(now)
        costs = self.costs
        return min(costs, key=costs.__getitem__)

    def is_steady(self, now: float) -> bool:
        """Whether the own cluster's tree is the choice, however many notifications are published at once."""
        return not self._lst.queues and self._lst.is_fast and self._beyond.is_quiet(now)

    def take(self, now: float, count: int) -> int:
        """Like `best`, and counts so many notifications on it."""
        if self.is_steady(now):
            return self._own
        tree = self._least(now)
        self.costs[tree] += count * self._steps[tree]
        return tree

    def _weigh(self, now: float) -> None:
        lst, beyond = self._lst, self._beyond
        waits = lst.waits
        busy = max(lst.queue_lengths.values()) > OWN_QUEUE_MAX
        mates = {mate.cluster: max(waits[mate], self._farther(mate, now)) for mate in self._i_links}
        steps = {mate.cluster: max(lst.pace(mate), beyond.pace(mate, now)) for mate in self._i_links}
        here = max((waits[to] for to in self._a_links), default=0.0)
        farther = max((self._farther(to, now) for to in self._a_links), default=0.0)
        if not busy or not mates:
            mates = {cluster: wait + SAVES_S for cluster, wait in mates.items()}
            self.costs = {self._own: max(here, farther), **mates}
            steps[self._own] = max((max(lst.pace(to), beyond.pace(to, now)) for to in self._a_links), default=0.0)
        elif self._a_links and self._up_a_links == self._a_links:
            self.costs = {**mates, AROUND: max(AROUND_SHARE * here, farther)}
            steps[AROUND] = max(max(AROUND_SHARE * lst.pace(to), beyond.pace(to, now)) for to in self._a_links)
        else:
            self.costs = mates
        self._steps = steps

    def _farther(self, to: BrokerId, now: float) -> float:
        """The wait beyond a neighbour when all in the queue for it has come to the slower link there."""
        lst, beyond = self._lst, self._beyond
        return beyond.wait(to, now) + lst.queue_lengths[to] * beyond.slower(to, now)
