"""Links that break and brokers that restart, for the harness: what a host may do at its worst, and what must hold then.

`BreakingNetwork` is a host whose connections end at any moment with all that is in flight, whose brokers notice that
late or not at all, and whose ends of a fresh connection are told one after the other. `BreakingHarness` drives it and
adds to the rules of `Harness`:

- Nothing that lives on is forgotten, not even for a moment: what was in force when the overlay was last whole and quiet
  stays in the table of every broker that has lived since, or another that covers it and came the same way; and its bits
  stay ON (under `fdr`: its host broker stays a destination of what overlaps).
- A notification of then-settled clients is missed only if a copy of it was lost with a connection; under `fdr` only if
  its host broker counted it as missed, or a broker restarted.
- Once all links are up and quiet, the tables are exactly those of the registrations in force.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random

from octopia.embedded import Hop, Network
from octopia.protocol import AskConfirm, Confirm, Dests, Key, Notify
from octopia.routing import POLICIES, Action, Broker, Event, LinkCameUp, LinkGivenUp, LinkWentDown, Send
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.fdr.state import FdrState
from octopia.routing.fdr.streams import DestStreams
from octopia.topology import BrokerId, Scot
from tests.routing.harness import IDS, Harness
from tests.routing.model import Spec, covered, overlapping

OnAction = Callable[[BrokerId, Action, Hop | None], None]
# More than a broker gives out in a history, of keys or of numbers in its streams.
SERIALS_PER_LIFE = 1_000_000
End = tuple[BrokerId, BrokerId]  # the end of a link at the first broker


class BreakingNetwork(Network):
    """`cut` has both ends of every link without a connection, `untold` the ends of fresh ones that were not told yet.

    `down` has the ends whose broker believes that the link is down: not always those of `cut`. `keeps`: notifications
    for a link that is down wait for the next connection.
    """

    def __init__(
        self,
        scot: Scot,
        routing: str,
        on_action: OnAction,
        keeps: bool,
        coverings: Mapping[BrokerId, str] | None = None,
    ) -> None:
        super().__init__(scot, routing, on_hop=self._sent, on_action=on_action)
        self.routing = routing
        self.coverings = coverings or dict.fromkeys(scot.brokers, "none")
        for id, covering in self.coverings.items():
            if covering != "none":
                self.brokers[id] = Broker(id, scot, routing, covering=covering)
        self.ends: list[End] = [(a, b) for a in scot.brokers for b in scot.neighbours(a)]
        self.cut: set[End] = set()
        self.untold: set[End] = set()
        self.down: set[End] = set()
        self.lives = dict.fromkeys(scot.brokers, 0)
        self.lost: set[str] = set()
        self.keeps = keeps
        self._kept: dict[End, list[Hop]] = {}

    def _sent(self, hop: Hop) -> None:
        """A message for a link without a connection is lost; a notification may be kept for the next connection."""
        end = (hop.sender, hop.receiver)
        if end not in self.cut and end not in self.untold:
            return
        self.in_flight.pop()
        # confirmations go the ways of copies
        assert end not in self.down or isinstance(hop.message, Notify | Confirm | AskConfirm), (
            "control messages are not for links that are down"
        )
        if self.keeps and end in self.down:
            self._kept.setdefault(end, []).append(hop)
        else:
            self._lose(hop)

    def _carry_out(self, broker: BrokerId, actions: list[Action], cause: Hop | None) -> None:
        super()._carry_out(broker, actions, cause)
        header = cause.message.header if cause is not None and isinstance(cause.message, Notify) else None
        if cause is not None and isinstance(header, Dests):
            # a destination that no way leads to is left out: it counts as lost
            left = header.dests & ~self.brokers[broker].state.me
            for action in actions:
                if isinstance(action, Send) and isinstance(action.message, Notify):
                    copy = action.message.header
                    assert isinstance(copy, Dests)
                    left &= ~copy.dests
            if left:
                self._lose(cause)

    def _lose(self, hop: Hop) -> None:
        if isinstance(hop.message, Notify):
            self.lost.add(hop.message.id)

    def oldest_of_each_link(self) -> list[Hop]:
        return [hop for hop in super().oldest_of_each_link() if (hop.receiver, hop.sender) not in self.untold]

    def run_until_quiet(self) -> None:
        """Until nothing is in flight, and nothing due."""
        while True:
            # the first of all is the first of its link
            first = next((hop for hop in self.in_flight if (hop.receiver, hop.sender) not in self.untold), None)
            if first is not None:
                self.receive(first)
            elif not self.let_time_pass():
                return

    def do(self, broker: BrokerId, *events: Event) -> None:
        """Events of one broker, and all that follows from them."""
        for event in events:
            self.tell(broker, event)
        self.run_until_quiet()

    def cut_link(self, a: BrokerId, b: BrokerId) -> None:
        """The connection ends, and messages in flight are lost. Neither end has noticed yet."""
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

    def lose(self, a: BrokerId, b: BrokerId) -> None:
        """The connection ends, and both ends notice."""
        self.cut_link(a, b)
        self.notice((a, b))
        self.notice((b, a))

    def reconnect(self, a: BrokerId, b: BrokerId) -> None:
        """There is a fresh connection, and both ends are told."""
        self.connect(a, b)
        self.tell_end((a, b))
        self.tell_end((b, a))

    def mend(self, a: BrokerId, b: BrokerId) -> None:
        self.reconnect(a, b)
        self.run_until_quiet()

    def restart(self, id: BrokerId) -> None:
        """The broker dies with all its connections and comes back empty, above its earlier serials."""
        for neighbour in self.overlay.neighbours(id):
            self.cut_link(id, neighbour)
            self.down.add((id, neighbour))
            for hop in self._kept.pop((id, neighbour), []):
                self._lose(hop)
        self.lives[id] += 1
        self.brokers[id] = Broker(
            id,
            self.overlay,
            self.routing,
            first_serial=self.lives[id] * SERIALS_PER_LIFE,
            links_up=False,
            covering=self.coverings[id],
        )

    def links_among(self, ends: set[End]) -> list[End]:
        return [end for end in self.ends if end in ends and end[0] < end[1]]


class BreakingHarness(Harness):
    """The overlay under clients, delays and faults. In half of the histories it starts with no link up."""

    network: BreakingNetwork

    def __init__(self, routing: str, draw: Random, covering: str = "none") -> None:
        super().__init__(routing, draw, covering)
        self.network.keeps = draw.random() < 0.5
        self.settled_lives: dict[BrokerId, int] = {}
        self._missed = 0
        self._may_wait = False
        if draw.random() < 0.5:
            for id in self.scot.brokers:
                self.network.restart(id)

    def make_network(self) -> BreakingNetwork:
        return BreakingNetwork(self.scot, self.routing, self.observe, False, self.coverings)

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
        """So many that a copy has few paths left, or none."""
        share = draw.choice((0.3, 0.6, 0.9))
        for a, b in self.network.links_among(set(self.network.ends) - self.network.cut):
            if (a.cluster != b.cluster or draw.random() < 0.3) and draw.random() < share:
                self.network.lose(a, b)
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

    def slow_return(self, draw: Random) -> None:
        """All is settled; a broker restarts, and its links come up one after the other."""
        self.quiet_then_publish(draw)
        self.restart(draw)
        links = self.network.links_among(self.network.cut)
        for a, b in draw.sample(links, len(links)):
            self.network.reconnect(a, b)
            if draw.random() < 0.7:
                self.let_all_arrive(draw)
            self.check_nothing_forgotten()
            if draw.random() < 0.3:
                self.publish_in_the_midst(draw)

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
                    self.forget_client(name)
            for end in [(n, id) for n in self.scot.neighbours(id) if draw.random() < 0.6]:
                self.network.notice(end)
        self.check_nothing_forgotten()

    def forget_client(self, name: str) -> None:
        """Its host broker died, with its registrations and with the memory of what was delivered.

        A notification that the dead broker did not confirm is sent again, and a client that registers anew may get it
        a second time.
        """
        for registration in IDS:
            self._forget_advertisement((name, registration))
            self._forget_subscription((name, registration))
        for delivered in self.delivered.values():
            if name in delivered:
                delivered.remove(name)
        for stream in [stream for stream in self.last if stream[1][0] == name]:
            del self.last[stream]

    def give_up(self, draw: Random) -> None:
        """Entries beyond may be forgotten now: nothing is settled any more."""
        ends = [end for end in self.network.ends if end in self.network.down]
        if ends:
            end = draw.choice(ends)
            self.network.tell(end[0], LinkGivenUp(end[1]))
            self._unsettle()

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
                    assert self.is_held(brokers[id].state.prt, key, spec, self.first_hop(id, home)), (
                        f"{id} forgot {which}"
                    )
            for (client, name), other in self.settled_advertisements.items():
                if overlapping(other, spec):
                    state = brokers[self.world.homes[client]].state
                    entry = state.srt.get(state.advertisements.of(client)[name].key)
                    if self.routing == "fdr":
                        is_destination = self.is_destination(state, entry, key, spec, other)
                        assert is_destination, f"{which} is no destination for {client} {name}"
                    elif home.cluster != self.world.homes[client].cluster:
                        assert entry.civ >> home.cluster & 1, f"the bit of {which} went OFF"

    def is_held(self, entries: Iterable[PrtEntry], key: Key, spec: Spec, way: BrokerId | None) -> bool:
        """Whether a subscription is among these entries, or is represented by those that came the same way."""
        held = list(entries)
        if any(entry.key == key for entry in held):
            return True
        if self.covering == "none" or way is None:
            return False
        near = [e for e in held if (e.key.host == key.host if self.covering == "host" else e.last_hop == way)]
        return covered(spec, (self.specs[entry.filter] for entry in near))

    def is_destination(self, state: FdrState, entry: SrtEntry, key: Key, spec: Spec, advertisement: Spec) -> bool:
        """Whether a host broker under `fdr` knows this subscription for an advertisement, or is in doubt about it."""
        if state.in_doubt & state.places.brokers[key.host] or entry.unknown >> key.host.cluster & 1:
            return True
        borrowed = [each for each in state.prt.borrowed.values() if entry.key in each.advertisements]
        entries = [each for each in (*state.prt, *borrowed) if each.key.host == key.host]
        return any(each.key == key for each in entries) or (
            self.covering != "none" and covered(spec, (self.specs[each.filter] for each in entries), advertisement)
        )

    def let_all_arrive(self, draw: Random) -> None:
        """As in `Harness`, of several links at a time: it takes long to find the oldest of each where much is sent."""
        while True:
            heads = self.network.oldest_of_each_link()
            for hop in draw.sample(heads, draw.randint(1, len(heads))) if heads else ():
                self.network.receive(hop)
            if not heads and not self.network.let_time_pass():
                return

    def become_quiet(self, draw: Random) -> None:
        """Quiet, with whatever links there are; settled only where all are up."""
        in_parts = bool(self.network.cut or self.network.untold)
        self.let_all_arrive(draw)
        if not POLICIES[self.routing].promises.despite_crashes:
            for id in self.network.lost:
                self.promised.pop(id, None)
        if in_parts:
            self.check_nothing_forgotten()
            return
        if POLICIES[self.routing].promises.despite_crashes:
            self._excuse()
        super().become_quiet(draw)
        self.settled_lives = dict(self.network.lives)

    def _excuse(self) -> None:
        """Whatever is lost, is sent again; but not by a host that restarted, nor to a broker that nobody could reach.

        Those are counted. At the end nothing is kept; and nothing waits, but for what a host wrote off or forgot: it
        goes with the next of its publisher.
        """
        streams: list[DestStreams] = [broker.state.streams for broker in self.network.brokers.values()]
        assert [(len(each.log), each.log.given_up) for each in streams] == [(0, 0)] * len(streams)
        missed = sum(sum(each.missed.values()) for each in streams)
        if missed != self._missed or self.settled_lives != self.network.lives:
            self.promised.clear()
            self._may_wait = True
        assert self._may_wait or not any(each.gate.held for each in streams)
        self._missed = missed

    def become_quiet_in_parts(self, draw: Random) -> None:
        self.become_quiet(draw)

    def make_whole(self, draw: Random) -> None:
        """All links come up and both ends of all are told, while messages keep arriving."""
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
        for broker in self.network.brokers.values():
            state = broker.state
            assert (state.unlearnt, [keys for keys in state.stale.values() if keys]) == ({}, [])
            assert (state.cut_off, [entry.key for entry in state.srt if entry.unknown]) == (0, [])
            assert (state.up_a_links, state.up_i_links) == (state.a_links, state.i_links)
            if self.routing == "fdr":
                assert (state.in_doubt, state.untold, state.links.any_down) == (0, {}, False)


class FdrHarness(BreakingHarness):
    """As `BreakingHarness`, and more under `fdr`: an outage changes nothing for clients who can reach each other.

    Once all who lost a link have noticed it and all is quiet, whatever is published reaches all who want it and can
    be reached at all, whenever they registered. Who is in doubt about whom is exact as well. Nothing is ever given up.
    """

    def __init__(self, draw: Random, covering: str = "none") -> None:
        super().__init__("fdr", draw, covering)

    def _unsettle(self) -> None:
        """To give up a link changes nothing."""

    def become_quiet_in_parts(self, draw: Random) -> None:
        for end in [end for end in self.network.ends if end in self.network.cut - self.network.down]:
            self.network.notice(end)
        for end in [end for end in self.network.ends if end in self.network.untold]:
            self.network.tell_end(end)
        for end in [end for end in self.network.ends if end in self.network.down]:
            # a link that has been down since its broker started is not news until then
            self.network.tell(end[0], LinkGivenUp(end[1]))
        self.become_quiet(draw)
        self.check_doubts()
        self.check_borrowed_in_parts()
        expected: dict[str, list[str]] = {}
        for name, home in self.world.homes.items():
            samples = list(self.world.publishable(name))
            if samples:
                sample = draw.choice(samples)
                id = self.publish(name, home, sample)
                assert id is not None
                part = self.reachable(home)
                expected[id] = sorted(c for c in self.world.interested(sample) if self.world.homes[c] in part)
        self.become_quiet(draw)
        assert {id: sorted(self.delivered[id]) for id in expected} == expected

    def reachable(self, start: BrokerId) -> set[BrokerId]:
        found = [start]
        for at in found:
            found += [n for n in self.scot.neighbours(at) if (at, n) not in self.network.cut and n not in found]
        return set(found)

    def apart(self, broker: BrokerId) -> set[BrokerId]:
        """The brokers of its cluster to which the way along the cluster's tree is broken."""
        whole = [broker]
        for at in whole:
            whole += [n for n in self.scot.a_links(at) if (at, n) not in self.network.cut and n not in whole]
        return set(self.scot.cluster(broker.cluster)) - set(whole)

    def in_doubt(self, broker: BrokerId) -> set[BrokerId]:
        doubts = self.apart(broker)
        for mate in self.scot.i_links(broker):
            cut = (broker, mate) in self.network.cut
            doubts |= set(self.scot.cluster(mate.cluster)) if cut else self.apart(mate)
        return doubts

    def check_doubts(self) -> None:
        for id, broker in self.network.brokers.items():
            state = broker.state
            assert set(state.unlearnt) == self.apart(id)
            assert {b for b, bit in state.places.brokers.items() if state.in_doubt & bit} == self.in_doubt(id)

    def check_borrowed_in_parts(self) -> None:
        """Of brokers that it is not in doubt about, a host broker holds exactly what overlaps."""
        brokers, homes, whose = self.network.brokers, self.world.homes, self.whose()
        for (client, name), spec in self.world.advertisements.items():
            home = homes[client]
            prt, key = brokers[home].state.prt, brokers[home].state.advertisements.of(client)[name].key
            doubts = self.in_doubt(home)
            held = [
                whose[entry.key]
                for entry in prt.borrowed.values()
                if key in entry.advertisements and entry.key.host not in doubts
            ]
            wanted = [
                which
                for which, other in self.world.subscriptions.items()
                if homes[which[0]].cluster != home.cluster
                and homes[which[0]] not in doubts
                and overlapping(spec, other)
            ]
            self.check_lent(home, held, wanted, spec)
