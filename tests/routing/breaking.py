"""Links that break and brokers that restart, for the harness: what a host may do at its worst, and what must hold then.

`BreakingNetwork` is a host whose connections end at any moment with all that is in flight, whose brokers notice that
late or not at all, and whose ends of a fresh connection are told one after the other. `BreakingHarness` drives it and
adds to the rules of `Harness`:

- Nothing that lives on is forgotten, not even for a moment: what was in force when the overlay was last whole and quiet
  stays in the table of every broker that has lived since, and its bits stay ON.
- A notification of then-settled clients is missed only if a copy of it was lost with a connection; or if the routing
  knows of links elsewhere, and no way led to the subscriber by what the publisher's broker or one on the way knew.
- Once all links are up and quiet, the tables are exactly those of the registrations in force.
"""

from collections.abc import Callable
from random import Random

from octopia.embedded import Hop, Network
from octopia.routing import (
    Action,
    Broker,
    Dests,
    LinkCameUp,
    LinkGivenUp,
    LinkWentDown,
    Notify,
)
from octopia.topology import BrokerId, Scot
from tests.routing.harness import IDS, Harness, Which
from tests.routing.model import Sample, overlapping

OnAction = Callable[[BrokerId, Action, Hop | None], None]
End = tuple[BrokerId, BrokerId]  # the end of a link at the first broker


class BreakingNetwork(Network):
    """`cut` has both ends of every link without a connection, `untold` the ends of fresh ones that were not told yet.

    `down` has the ends whose broker believes that the link is down: not always those of `cut`. `keeps`: notifications
    for a link that is down wait for the next connection.
    """

    def __init__(self, scot: Scot, routing: str, on_action: OnAction, keeps: bool) -> None:
        super().__init__(scot, routing, on_hop=self._sent, on_action=on_action)
        self.routing = routing
        self.ends: list[End] = [(a, b) for a in scot.brokers for b in scot.neighbours(a)]
        self.cut: set[End] = set()
        self.untold: set[End] = set()
        self.down: set[End] = set()
        self.lives = dict.fromkeys(scot.brokers, 0)
        self.lost: set[str] = set()
        self._keeps = keeps
        self._kept: dict[End, list[Hop]] = {}

    def _sent(self, hop: Hop) -> None:
        """A message for a link without a connection is lost; a notification may be kept for the next connection."""
        end = (hop.sender, hop.receiver)
        if end not in self.cut and end not in self.untold:
            return
        self.in_flight.pop()
        assert end not in self.down or isinstance(hop.message, Notify), (
            "control messages are not for links that are down"
        )
        if self._keeps and end in self.down:
            self._kept.setdefault(end, []).append(hop)
        else:
            self._lose(hop)

    def _lose(self, hop: Hop) -> None:
        if isinstance(hop.message, Notify):
            self.lost.add(hop.message.id)

    def oldest_of_each_link(self) -> list[Hop]:
        return [hop for hop in super().oldest_of_each_link() if (hop.receiver, hop.sender) not in self.untold]

    def receive(self, hop: Hop) -> None:
        header = hop.message.header if isinstance(hop.message, Notify) else None
        if isinstance(header, Dests) and header.dests & self.out_of_reach(hop.receiver):
            assert isinstance(hop.message, Notify)
            self.lost.add(hop.message.id)
        super().receive(hop)

    def out_of_reach(self, id: BrokerId) -> int:
        """The brokers, as bits, that no way leads to by what this broker knows; none where it does not know of ways."""
        out: int = getattr(self.brokers[id].state, "written_off", 0)
        return out

    def run_until_quiet(self) -> None:
        while heads := self.oldest_of_each_link():
            self.receive(heads[0])

    def cut_link(self, a: BrokerId, b: BrokerId) -> None:
        """The connection ends, and what is in flight with it. Nobody has noticed yet."""
        both = {(a, b), (b, a)}
        for hop in [hop for hop in self.in_flight if (hop.sender, hop.receiver) in both]:
            self.in_flight.remove(hop)
            self._lose(hop)
        self.cut |= both
        self.untold -= both

    def notice(self, end: End) -> None:
        """A broker is told that a link is down."""
        self.down.add(end)
        self.tell(end[0], LinkWentDown(end[1]))

    def connect(self, a: BrokerId, b: BrokerId) -> None:
        """There is a fresh connection; neither end was told yet."""
        both = {(a, b), (b, a)}
        self.cut -= both
        self.untold |= both

    def tell_end(self, end: End) -> None:
        self.untold.discard(end)
        self.down.discard(end)
        self.tell(end[0], LinkCameUp(end[1]))
        self.in_flight.extend(self._kept.pop(end, []))

    def restart(self, id: BrokerId) -> None:
        """The broker dies with all its connections and comes back empty, above its earlier serials."""
        for neighbour in self.overlay.neighbours(id):
            self.cut_link(id, neighbour)
            self.down.add((id, neighbour))
            for hop in self._kept.pop((id, neighbour), []):
                self._lose(hop)
        serial = self.brokers[id].state.new_key().serial
        self.brokers[id] = Broker(id, self.overlay, self.routing, first_serial=serial, links_up=False)
        self.lives[id] += 1

    def links_among(self, ends: set[End]) -> list[End]:
        return [end for end in self.ends if end in ends and end[0] < end[1]]


class BreakingHarness(Harness):
    """The overlay under clients, delays and faults. In half of the histories it starts with no link up."""

    network: BreakingNetwork

    def __init__(self, routing: str, draw: Random) -> None:
        super().__init__(routing, draw)
        self.network = BreakingNetwork(self.scot, routing, self.observe, keeps=draw.random() < 0.5)
        self.settled_lives: dict[BrokerId, int] = {}
        # whom the last notification could not reach
        self.excused = 0
        if draw.random() < 0.5:
            for id in self.scot.brokers:
                self.network.restart(id)

    # -- faults

    def break_link(self, draw: Random) -> None:
        links = self.network.links_among(set(self.network.ends) - self.network.cut)
        if links:
            a, b = draw.choice(links)
            self.network.cut_link(a, b)
            for end in draw.sample([(a, b), (b, a)], draw.choice((0, 1, 2, 2, 2))):
                self.network.notice(end)
        self.check_nothing_forgotten()

    def break_many(self, draw: Random) -> None:
        """So many that a copy has few ways left, or none."""
        share = draw.choice((0.3, 0.6, 0.9))
        for a, b in self.network.links_among(set(self.network.ends) - self.network.cut):
            if (a.cluster != b.cluster or draw.random() < 0.3) and draw.random() < share:
                self.network.cut_link(a, b)
                self.network.notice((a, b))
                self.network.notice((b, a))
        self.check_nothing_forgotten()

    def ordeal(self, draw: Random) -> None:
        """All is settled; then faults, and at once the way back, with notifications all the time."""
        self.quiet_then_publish(draw)
        draw.choice((self.restart, self.restart, self.break_link, self.break_many))(draw)
        for _ in range(draw.choice((0, 0, 2))):
            self.publish_in_the_midst(draw)
        for link in self.network.links_among(self.network.cut):
            if draw.random() < 0.9:
                self.network.connect(*link)
        while self.network.untold:
            step = draw.choice((self.tell_ends, self.publish_in_the_midst, self.messages_arrive, self.unsubscribe))
            step(draw)

    def notice(self, draw: Random) -> None:
        ends = [end for end in self.network.ends if end in self.network.cut]
        if ends:
            self.network.notice(draw.choice(ends))

    def connect(self, draw: Random) -> None:
        links = self.network.links_among(self.network.cut)
        if links:
            self.network.connect(*draw.choice(links))

    def tell_ends(self, draw: Random) -> None:
        for _ in range(draw.choice((1, 2, 4))):
            ends = [end for end in self.network.ends if end in self.network.untold]
            if ends:
                self.network.tell_end(draw.choice(ends))
        self.check_nothing_forgotten()

    def restart(self, draw: Random) -> None:
        for id in draw.sample(self.scot.brokers, draw.choice((1, 1, 1, min(2, len(self.scot.brokers))))):
            self.network.restart(id)
            for name, home in self.world.homes.items():
                if home == id:
                    for registration in IDS:
                        self._forget_advertisement((name, registration))
                        self._forget_subscription((name, registration))
            for end in [(n, id) for n in self.scot.neighbours(id) if draw.random() < 0.6]:
                self.network.notice(end)
        self.check_nothing_forgotten()

    def give_up(self, draw: Random) -> None:
        """What lies beyond may be forgotten now: nothing is settled any more."""
        ends = [end for end in self.network.ends if end in self.network.down]
        if ends:
            end = draw.choice(ends)
            self.network.tell(end[0], LinkGivenUp(end[1]))
            self._unsettle()

    def publish(self, name: str, home: BrokerId, sample: Sample) -> str | None:
        id = super().publish(name, home, sample)
        self.excused = self.network.out_of_reach(home)
        return id

    def publish_in_the_midst(self, draw: Random) -> None:
        before = len(self.promised)
        super().publish_in_the_midst(draw)
        for owed in list(self.promised.values())[before:]:
            for client in list(owed):
                if self.excused >> self.scot.brokers.index(self.world.homes[client]) & 1:
                    del owed[client]

    def messages_arrive(self, draw: Random) -> None:
        super().messages_arrive(draw)
        self.check_nothing_forgotten()

    # -- what must hold

    def _unsettle(self) -> None:
        self.settled_advertisements.clear()
        self.settled_subscriptions.clear()
        self.promised.clear()

    def check_nothing_forgotten(self) -> None:
        brokers = self.network.brokers
        for which, spec in self.settled_subscriptions.items():
            home = self.world.homes[which[0]]
            key = brokers[home].state.subscriptions.of(which[0])[which[1]].key
            for id in self.scot.cluster(home.cluster):
                if self.network.lives[id] == self.settled_lives[id]:
                    assert key in brokers[id].state.prt, f"{id} forgot {which}"
            for (client, name), other in self.settled_advertisements.items():
                if overlapping(other, spec):
                    state = brokers[self.world.homes[client]].state
                    civ = state.srt.get(state.advertisements.of(client)[name].key).civ
                    if home.cluster != self.world.homes[client].cluster:
                        assert civ >> home.cluster & 1, f"the bit of {which} went OFF"

    def become_quiet(self, draw: Random) -> None:
        """Quiet, with whatever links there are; settled only where all are up."""
        for id in self.network.lost:
            self.promised.pop(id, None)
        if self.network.cut or self.network.untold:
            while heads := self.network.oldest_of_each_link():
                self.network.receive(draw.choice(heads))
                self.check_nothing_forgotten()
            return
        super().become_quiet(draw)
        self.settled_lives = dict(self.network.lives)

    def become_quiet_in_parts(self, draw: Random) -> None:
        self.become_quiet(draw)

    def make_whole(self, draw: Random) -> None:
        """All links come up and both ends of all are told, while messages go on arriving."""
        for end in list(self.network.links_among(self.network.cut)):
            self.network.connect(*end)
            if draw.random() < 0.5:
                self.messages_arrive(draw)
        while self.network.untold:
            self.tell_ends(draw)
            if draw.random() < 0.5:
                self.messages_arrive(draw)

    def quiet_then_publish(self, draw: Random) -> None:
        self.make_whole(draw)
        super().quiet_then_publish(draw)

    def withdraw_everything(self, draw: Random) -> None:
        self.make_whole(draw)
        super().withdraw_everything(draw)

    def check_tables(self) -> None:
        super().check_tables()
        for id, broker in self.network.brokers.items():
            state = broker.state
            there = {which: self.world.homes[which[0]] for which in self.world.subscriptions}
            expected = {
                which: None if home == id else self.first_hop(id, home)
                for which, home in there.items()
                if home.cluster == id.cluster
            }
            assert {self.which(entry.key): entry.last_hop for entry in state.prt} == expected
            assert (state.unlearnt, [keys for keys in state.stale.values() if keys]) == ({}, [])
            assert (state.cut_off, [entry.key for entry in state.srt if entry.unknown]) == (0, [])
            assert (state.up_a_links, state.up_i_links) == (state.a_links, state.i_links)

    def which(self, key: tuple[BrokerId, int]) -> Which:
        """The client's name of a subscription in force."""
        subscriptions = self.network.brokers[key[0]].state.subscriptions
        (found,) = [w for w in self.world.subscriptions if w[1] in (s := subscriptions.of(w[0])) and s[w[1]].key == key]
        return found

    def first_hop(self, start: BrokerId, goal: BrokerId) -> BrokerId:
        """By search: the neighbour of `start` in its cluster from which `goal` is reached without coming back."""
        for first in self.scot.tree.neighbours(start.region):
            seen, todo = {start.region, first}, [first]
            for region in todo:
                fresh = [near for near in self.scot.tree.neighbours(region) if near not in seen]
                seen.update(fresh)
                todo += fresh
            if goal.region in todo:
                return BrokerId(first, start.cluster)
        raise AssertionError(f"no way from {start} to {goal}")
