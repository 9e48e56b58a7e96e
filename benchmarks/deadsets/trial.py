"""One trial after the other on one overlay: some brokers die and some links break, at drawn moments, and come back.

Every broker has a client that publishes and one that subscribes; filters are ranges of one number, so that the oracle
is brute force over them. Before a trial everyone has subscription 1, for low numbers. Subscription 2, for high ones,
comes and goes, so that often nobody knew of it before. A trial goes: *the fall*, in which what is to break breaks and
is noticed at drawn moments, between registrations, withdrawals and publications; *the outage*, once all is noticed and
quiet, in which who lives registers or withdraws; *the return*, at drawn moments, in the midst of all that.

What must hold, and raises `MissedError`:

- Nobody gets anything twice, for one subscription out of order, or what he does not want. It comes for all his
  subscriptions that match, but those made after it was published: it may have arrived before them.
- In the fall and the return: whoever was settled before gets it, if the publisher's broker lives on. Whatever is lost
  on the way is sent again. With more than k - 1 dead, he may have been cut off: then what was lost is left out.
- When all is noticed and quiet, before and after registrations of the outage: whoever wants it and can be reached gets
  it, whenever he registered; with at most k - 1 dead those are all who live.
- When all are back and quiet: likewise, nobody is in doubt, and the tables have exactly what is in force.
"""

from random import Random
from typing import NamedTuple

from benchmarks.deadsets.overlay import FailingOverlay
from benchmarks.deadsets.ranges import EVERYTHING, FILTERS, HIGH, LOW, NOTIFICATIONS, NUMBERS, SPANS, Range, overlap
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

    `publishers` is how many brokers publish in a trial, drawn anew for each, and three times as many register during an
    outage; None: all do, so that every pair is tried. Few that publish often have more of one stream on the way than
    many that publish once, and fewer confirmations.
    """

    def __init__(self, scot: Scot, rng: Random, publishers: int | None = None) -> None:
        self.scot = scot
        self.rng = rng
        self.overlay = FailingOverlay(scot, rng, self._delivered)
        self._publishers = publishers
        self._publishing: list[BrokerId] = []
        self.subscribed: dict[Registered, Range] = {}
        self.advertised: dict[Registered, Range] = {}
        self._settled: dict[Registered, Range] = {}
        self._settled_publishers: set[BrokerId] = set()
        # by what was published since all was last quiet: its number, who must get it, who got it
        self._published = 0
        self._numbers: dict[int, int] = {}
        self._homes: dict[int, BrokerId] = {}
        self._owed: dict[int, set[Registered]] = {}
        self._got: dict[int, list[BrokerId]] = {}
        # by publisher and subscriber the last that was delivered
        self._last: dict[tuple[BrokerId, Registered], int] = {}
        # for each subscription, how much had been published before it
        self._since: dict[Registered, int] = {}
        self._beyond = False
        self._died: set[BrokerId] = set()
        self._late: dict[int, None] = {}
        self.pairs = 0
        self.lost = 0
        for broker in scot.brokers:
            self._advertise(broker, "1", EVERYTHING)

    def run(self, failures: Failures) -> None:
        self._beyond = len(failures.brokers) + len(failures.links) >= self.scot.connectivity
        self._publishing = self._some(list(self.scot.brokers), 1)
        self._settle()
        self._fall(failures)
        self.overlay.load()
        self._check_all("after the fall", LOW)
        for broker in self._some(self._live(), 3):
            self._change_something(broker)
            self.overlay.arrive(self.rng.choice((0, 1, 5)))
        self.overlay.become_quiet()
        self._check_all("after registrations during the outage", LOW)
        self._check_all("after registrations during the outage", HIGH)
        self._return()
        self._check_all("after the return", self.rng.choice((LOW, HIGH)))
        self._check_tables()

    # -- what happens

    def _forget(self) -> None:
        """All is quiet: nothing of what was published can come any more.

        But for what waits for something that a dead host broker never sent, or that was written off: it comes with the
        next of its publisher.
        """
        late = {place for place, home in self._homes.items() if self._beyond or home in self._died}
        self._owed = {place: set() for place in [*self._late, *late]}
        self._late = dict.fromkeys(self._owed)
        self._numbers = {place: self._numbers[place] for place in self._owed}
        self._homes = {place: self._homes[place] for place in self._owed}
        self._got = {place: self._got[place] for place in self._owed}
        self.overlay.lost.clear()

    def _settle(self) -> None:
        for broker in self.scot.brokers:
            if (broker, "1") not in self.subscribed:
                self._subscribe(broker, "1", LOW)
        self.overlay.become_quiet()
        self._settled = dict(self.subscribed)
        self._settled_publishers = {broker for broker, _ in self.advertised}
        self._died.clear()
        self._forget()

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
        self._died.add(broker)
        for place, owed in self._owed.items():
            owed -= {(broker, which) for which in WHICH}
            if self._homes[place] == broker:
                owed.clear()
        self._settled_publishers.discard(broker)
        for which in WHICH:
            self._settled.pop((broker, which), None)

    def _return(self) -> None:
        overlay, rng = self.overlay, self.rng
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
                self._since[broker, which] = self._published
                self.overlay.tell(broker, Subscribed("s", which, FILTERS[span]))
        for (at, which), span in self.advertised.items():
            if at == broker:
                self.overlay.tell(broker, Advertised("p", which, FILTERS[span]))

    def _anything(self) -> None:
        what = self.rng.random()
        if what < 0.4:
            self._publish_owed(self.rng.choice(self._live_publishers()))
        elif what < 0.7:
            self._change_high(self.rng.choice(self._live()))

    def _live(self) -> list[BrokerId]:
        return [broker for broker in self.scot.brokers if broker not in self.overlay.dead]

    def _live_publishers(self) -> list[BrokerId]:
        live = [broker for broker in self._publishing if broker not in self.overlay.dead]
        return live or self.rng.sample(self._live(), 1)

    def _some(self, brokers: list[BrokerId], times: int) -> list[BrokerId]:
        """As many, so many times, as there are publishers in a trial."""
        most = len(brokers) if self._publishers is None else min(len(brokers), times * self._publishers)
        return self.rng.sample(brokers, most)

    def _change_something(self, broker: BrokerId) -> None:
        self._change_high(broker)
        if self.rng.random() < 0.2:
            if (broker, "1") in self.subscribed:
                self._unsubscribe(broker, "1")
            else:
                self._subscribe(broker, "1", LOW)
        if self.rng.random() < 0.2:
            if (broker, "2") in self.advertised:
                self.advertised.pop((broker, "2"))
                self.overlay.tell(broker, Unadvertised("p", "2"))
            else:
                self._advertise(broker, "2", self.rng.choice(SPANS))

    def _change_high(self, broker: BrokerId) -> None:
        if (broker, "2") in self.subscribed:
            self._unsubscribe(broker, "2")
        else:
            self._subscribe(broker, "2", self.rng.choice([span for span in SPANS if span[0] >= HIGH[0]]))

    def _subscribe(self, broker: BrokerId, which: str, span: Range) -> None:
        self.subscribed[broker, which] = span
        self._since[broker, which] = self._published
        self.overlay.tell(broker, Subscribed("s", which, FILTERS[span]))

    def _unsubscribe(self, broker: BrokerId, which: str) -> None:
        # before the answer comes what has arrived and waits for its turn
        self.overlay.tell(broker, Unsubscribed("s", which))
        del self.subscribed[broker, which]
        # one that is registered later is another, and in order by itself
        self._last = {stream: place for stream, place in self._last.items() if stream[1] != (broker, which)}
        self._settled.pop((broker, which), None)
        for owed in self._owed.values():
            owed.discard((broker, which))

    def _advertise(self, broker: BrokerId, which: str, span: Range) -> None:
        self.advertised[broker, which] = span
        self.overlay.tell(broker, Advertised("p", which, FILTERS[span]))

    # -- what must come of it

    def _publish(self, home: BrokerId, number: int, owed: set[Registered]) -> int:
        """The place of what was published among all that was."""
        place = self._published
        self._published += 1
        self._numbers[place], self._homes[place], self._owed[place], self._got[place] = number, home, owed, []
        self.overlay.tell(home, Published("p", str(place), NOTIFICATIONS[number]))
        return place

    def _publish_owed(self, home: BrokerId) -> None:
        number = self.rng.randrange(NUMBERS)
        state = self.overlay.brokers[home].state
        # the host broker keeps it for whom it knows to be out of reach, and sends it when they are back
        gone = state.unreachable if self._beyond else 0
        owed = {
            (at, which)
            for (at, which), span in self._settled.items()
            if span[0] <= number <= span[1] and not gone & state.places.brokers[at]
        }
        self._publish(home, number, owed if home in self._settled_publishers else set())

    def _delivered(self, broker: BrokerId, deliver: Deliver) -> None:
        place = int(deliver.id)
        if place not in self._numbers:
            raise MissedError(f"{broker} got {place} when all had been quiet")
        number, home = self._numbers[place], self._homes[place]
        ((_, ids),) = deliver.recipients
        wanted = {which for which in WHICH if self._wants(broker, which, number)}
        older = {which for which in wanted if self._since[broker, which] <= place}
        if not older <= set(ids) <= wanted:
            raise MissedError(f"{broker} got {number} for {ids}, and wants it for {sorted(wanted)}")
        if broker in self._got[place]:
            raise MissedError(f"{broker} got {number} twice")
        for which in ids:
            stream = home, (broker, which)
            if self._last.get(stream, -1) > place:
                raise MissedError(f"{broker} got {place} of {home} after {self._last[stream]} for {which}")
            self._last[stream] = place
        self._got[place].append(broker)

    def _wants(self, broker: BrokerId, which: str, number: int) -> bool:
        span = self.subscribed.get((broker, which))
        return span is not None and span[0] <= number <= span[1]

    def _check_owed(self, when: str) -> None:
        for place, owed in self._owed.items():
            lost = str(place) in self.overlay.lost
            self.lost += lost
            for broker, which in owed:
                if broker not in self._got[place] and not (lost and self._beyond):
                    raise MissedError(f"{when}: subscription {which} of {broker} was in force and missed {place}")
        self._forget()

    def _check_all(self, when: str, numbers: Range) -> None:
        """All is quiet and noticed. Each publisher publishes once."""
        places = [self._publish(home, self.rng.randint(*numbers), set()) for home in self._live_publishers()]
        self.overlay.become_quiet()
        for place in places:
            number, home = self._numbers[place], self._homes[place]
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
        self._forget()

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
