"""One trial after the other on one overlay: some brokers die and some links break, at drawn moments, and come back.

Every broker has a client that publishes and one that subscribes; filters are ranges of one number, so that the oracle
is brute force over them. A trial goes: *the fall*, in which what is to break breaks and is noticed at drawn moments,
between registrations, withdrawals and publications; *the outage*, once all is noticed and quiet, with registrations and
withdrawals again; *the return*, at drawn moments, in the midst of all that.

What must hold, and raises `MissedError`:

- Nobody gets anything twice, or what he does not want.
- In the fall and the return: whoever was settled before gets it, unless a copy was lost with a link.
- When all is noticed and quiet, before and after registrations of the outage: whoever wants it and can be reached gets
  it, whenever he registered; with at most k - 1 dead those are all who live.
- When all are back and quiet: likewise, nobody is in doubt, and the tables have exactly what is in force.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from benchmarks.deadsets.overlay import FailingOverlay
from benchmarks.deadsets.ranges import EVERYTHING, FILTERS, NOTIFICATIONS, NUMBERS, SPANS, Range, overlap
from octopia.routing import Advertised, Deliver, Published, Subscribed, Unadvertised, Unsubscribed
from octopia.topology import BrokerId, Scot

WHICH = ("1", "2")
Link = tuple[BrokerId, BrokerId]
Registered = tuple[BrokerId, str]


class MissedError(Exception):
    """Something that must not happen did."""


class Failures(NamedTuple):
    """What breaks in a trial."""

    brokers: tuple[BrokerId, ...]
    links: tuple[Link, ...] = ()

    def __str__(self) -> str:
        links = (f"{a}-{b}" for a, b in self.links)
        return ", ".join([*map(str, self.brokers), *links]) or "nothing"


class Trials:
    """An overlay that is whole and quiet between trials, and what its clients have in force.

    `publishers` is how many brokers publish at each check; None: all, so that every pair is tried.
    """

    def __init__(self, scot: Scot, rng: Random, publishers: int | None = None) -> None:
        self.scot = scot
        self.rng = rng
        self.overlay = FailingOverlay(scot, rng, self._delivered)
        self._publishers = publishers
        self.subscribed: dict[Registered, Range] = {}
        self.advertised: dict[Registered, Range] = {}
        self._settled: dict[Registered, Range] = {}
        self._settled_publishers: set[BrokerId] = set()
        self._numbers: list[int] = []
        self._owed: list[set[Registered]] = []
        self._got: list[list[BrokerId]] = []
        self.pairs = 0
        self.lost = 0
        for broker in scot.brokers:
            self._subscribe(broker, "1", EVERYTHING)
            self._advertise(broker, "1", EVERYTHING)
        self.overlay.become_quiet()

    def run(self, failures: Failures) -> None:
        self._settle()
        self._fall(failures)
        self._check_all("after the fall")
        self._register_some(2 * len(self.scot.brokers) // 3)
        self.overlay.become_quiet()
        self._check_all("after registrations during the outage")
        self._return()
        self._check_all("after the return")
        self._check_tables()

    # -- what happens

    def _settle(self) -> None:
        self._settled = dict(self.subscribed)
        self._settled_publishers = {broker for broker, _ in self.advertised}
        self._numbers, self._owed, self._got = [], [], []
        self.overlay.lost.clear()

    def _fall(self, failures: Failures) -> None:
        overlay, rng = self.overlay, self.rng
        to_break: list[BrokerId | Link] = [*failures.brokers, *failures.links]
        rng.shuffle(to_break)
        while to_break or overlay.unnoticed:
            self._anything()
            overlay.arrive(rng.choice((0, 1, 5, 20)))
            if to_break and rng.random() < 0.4:
                broken = to_break.pop()
                if isinstance(broken, BrokerId):
                    self._kill(broken)
                elif not overlay.dead & set(broken):
                    overlay.break_link(*broken)
            if rng.random() < 0.6:
                overlay.notice_one()
        overlay.become_quiet()
        self._check_owed("the fall")

    def _kill(self, broker: BrokerId) -> None:
        self.overlay.kill(broker)
        for owed in self._owed:
            owed -= {(broker, which) for which in WHICH}
        self._settled_publishers.discard(broker)
        for which in WHICH:
            self._settled.pop((broker, which), None)

    def _return(self) -> None:
        overlay, rng = self.overlay, self.rng
        # Who registered during the outage is not owed what is published before it is over: it may be still on its way.
        while overlay.dead or overlay.links_to_mend():
            self._anything()
            overlay.arrive(rng.choice((0, 1, 5, 20)))
            if overlay.dead and rng.random() < 0.5:
                self._revive(rng.choice(sorted(overlay.dead)))
            links = overlay.links_to_mend()
            if links:
                overlay.mend_link(*rng.choice(links))
        overlay.become_quiet()
        self._check_owed("the return")

    def _revive(self, broker: BrokerId) -> None:
        self.overlay.revive(broker)
        for (at, which), span in self.subscribed.items():
            if at == broker:
                self.overlay.tell(broker, Subscribed("s", which, FILTERS[span]))
        for (at, which), span in self.advertised.items():
            if at == broker:
                self.overlay.tell(broker, Advertised("p", which, FILTERS[span]))

    def _anything(self) -> None:
        what = self.rng.random()
        if what < 0.4:
            self._publish_owed(self._live_broker())
        elif what < 0.7:
            self._register_some(1)

    def _live_broker(self) -> BrokerId:
        return self.rng.choice([broker for broker in self.scot.brokers if broker not in self.overlay.dead])

    def _register_some(self, count: int) -> None:
        """Registrations and withdrawals; every broker always has one of each kind, so that every pair has work."""
        for _ in range(count):
            broker, span = self._live_broker(), self.rng.choice(SPANS)
            if self.rng.random() < 0.7:
                if (broker, "2") in self.subscribed:
                    self._unsubscribe(broker, "2")
                else:
                    self._subscribe(broker, "2", span)
                if self.rng.random() < 0.3:
                    self._unsubscribe(broker, "1")
                    self._subscribe(broker, "1", EVERYTHING if (broker, "2") not in self.subscribed else span)
            elif (broker, "2") in self.advertised:
                self.advertised.pop((broker, "2"))
                self.overlay.tell(broker, Unadvertised("p", "2"))
            else:
                self._advertise(broker, "2", span)

    def _subscribe(self, broker: BrokerId, which: str, span: Range) -> None:
        self.subscribed[broker, which] = span
        self.overlay.tell(broker, Subscribed("s", which, FILTERS[span]))

    def _unsubscribe(self, broker: BrokerId, which: str) -> None:
        del self.subscribed[broker, which]
        self._settled.pop((broker, which), None)
        for owed in self._owed:
            owed.discard((broker, which))
        self.overlay.tell(broker, Unsubscribed("s", which))

    def _advertise(self, broker: BrokerId, which: str, span: Range) -> None:
        self.advertised[broker, which] = span
        self.overlay.tell(broker, Advertised("p", which, FILTERS[span]))

    # -- what must come of it

    def _publish(self, home: BrokerId, number: int, owed: set[Registered]) -> int:
        """The place of what was published among all that was."""
        place = len(self._numbers)
        self._numbers.append(number)
        self._owed.append(owed)
        self._got.append([])
        self.overlay.tell(home, Published("p", str(place), NOTIFICATIONS[number]))
        return place

    def _publish_owed(self, home: BrokerId) -> None:
        number = self.rng.randrange(NUMBERS)
        owed = {at for at, span in self._settled.items() if span[0] <= number <= span[1]}
        self._publish(home, number, owed if home in self._settled_publishers else set())

    def _delivered(self, broker: BrokerId, deliver: Deliver) -> None:
        place = int(deliver.id)
        number = self._numbers[place]
        ((_, ids),) = deliver.recipients
        wanted = [which for which in WHICH if self._wants(broker, which, number)]
        if sorted(ids) != wanted:
            raise MissedError(f"{broker} got {number} for {ids}, and wants it for {wanted}")
        if broker in self._got[place]:
            raise MissedError(f"{broker} got {number} twice")
        self._got[place].append(broker)

    def _wants(self, broker: BrokerId, which: str, number: int) -> bool:
        span = self.subscribed.get((broker, which))
        return span is not None and span[0] <= number <= span[1]

    def _check_owed(self, when: str) -> None:
        for place, owed in enumerate(self._owed):
            if str(place) in self.overlay.lost:
                self.lost += 1
                continue
            for broker, which in owed:
                if broker not in self._got[place]:
                    raise MissedError(f"{when}: subscription {which} of {broker} was in force and missed {place}")
        self._numbers, self._owed, self._got = [], [], []
        self.overlay.lost.clear()

    def _check_all(self, when: str) -> None:
        """All is quiet and noticed. One publication at a time, so that what is found is told of one."""
        live = [broker for broker in self.scot.brokers if broker not in self.overlay.dead]
        homes: Sequence[BrokerId] = live
        if self._publishers is not None and self._publishers < len(live):
            homes = self.rng.sample(live, self._publishers)
        for home in homes:
            number = self.rng.randrange(NUMBERS)
            place = self._publish(home, number, set())
            self.overlay.become_quiet()
            expected = {
                broker
                for broker in self.overlay.reachable(home)
                if any(self._wants(broker, which, number) for which in WHICH)
            }
            got = set(self._got[place])
            if got != expected:
                missed, more = sorted(expected - got), sorted(got - expected)
                raise MissedError(f"{when}: what {home} published was missed by {missed} and came to {more}")
            self.pairs += len(expected)
        self._numbers, self._owed, self._got = [], [], []
        self.overlay.lost.clear()

    def _check_tables(self) -> None:
        for id, broker in self.overlay.brokers.items():
            state = broker.state
            if state.in_doubt or state.unlearnt or state.untold or state.links.any_down:
                raise MissedError(f"{id} is still in doubt")
            own = sum(at.cluster == id.cluster for at, _ in self.subscribed)
            published = [span for (at, _), span in self.advertised.items() if at == id]
            lent = sum(
                any(overlap(span, other) for other in published)
                for (at, _), span in self.subscribed.items()
                if at.cluster != id.cluster
            )
            there = (len(list(state.prt)), len(state.prt.borrowed))
            if there != (own, lent):
                raise MissedError(f"{id} holds {there} subscriptions of its cluster and of others, not {(own, lent)}")
