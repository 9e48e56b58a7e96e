"""One overlay under one routing, driven by random choices and judged at every turn by the brute force of `model.py`.

Links keep order and delay arbitrarily: which link's oldest message arrives next is drawn. All choices come from the
`Random` that each method is given, so the same history can be driven by a seed or by Hypothesis.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cache
from random import Random
from typing import Any

from octopia.embedded import Hop, Network
from octopia.language import Filter, parse_filter, parse_notification
from octopia.protocol import AskConfirm, Confirm, Key, Notify
from octopia.routing import (
    POLICIES,
    Action,
    Advertised,
    Broker,
    ClientLeft,
    Deliver,
    Published,
    Received,
    Refuse,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.routing.covering import CoverSet
from octopia.routing.tid.spread import PerTree
from octopia.topology import BrokerId, Scot, Tree
from tests.routing.model import ALL_SAMPLES, Sample, Spec, World, covered, draw_spec, overlapping

IDS = ("1", "2", "3")
Which = tuple[str, str]
# Each broker covers as it is drawn.
MIXED = "mixed"


# SQL is slow to parse, and there are few filters.
@cache
def filter_of(spec: Spec) -> Filter:
    return parse_filter(spec.text())


def draw_tree(draw: Random) -> Tree:
    names = "abcde"[: draw.choice((1, 2, 3, 3, 4, 5))]
    edges = [(names[draw.randrange(i)], names[i]) for i in range(1, len(names))]
    return Tree.from_edges(edges, nodes=list(names))


class Harness:
    """The overlay, the registrations of its clients, and the deliveries still owed to them."""

    def __init__(self, routing: str, draw: Random, covering: str = "none") -> None:
        self.routing = routing
        self.covering = covering
        # whether tables hold no more than they need
        self.tight = covering != MIXED
        # with covering many clients in few clusters, so that one's subscriptions often cover another's
        self.scot = Scot(draw_tree(draw), draw.choice((1, 2, 3, 3, 4) if covering == "none" else (1, 1, 2, 3)))
        self.coverings = dict.fromkeys(self.scot.brokers, covering)
        if covering == MIXED:
            kinds = ("none", *POLICIES[routing].covering)
            self.coverings = {id: draw.choice(kinds) for id in self.scot.brokers}
        self.network = self.make_network()
        # every filter that was ever subscribed to
        self.specs: dict[Filter, Spec] = {}
        self.links = [(a, b) for a in self.scot.brokers for b in self.scot.neighbours(a)]
        clients = draw.randint(2, 6) * (1 if covering == "none" else 2)
        homes = {f"c{i}": draw.choice(self.scot.brokers) for i in range(clients)}
        self.world = World(homes, {}, {})
        self.settled_advertisements: dict[Which, Spec] = {}
        self.settled_subscriptions: dict[Which, Spec] = {}
        self.published: dict[str, Sample] = {}
        self.promised: dict[str, dict[str, list[Which]]] = {}
        self.delivered: dict[str, list[str]] = {}
        self.refused: list[str] = []
        self._first_hops: dict[BrokerId, dict[str, BrokerId | None]] = {}
        # by publisher and subscription, the last that was delivered
        self.last: dict[tuple[str, Which], int] = {}
        # how much had been published before each subscription, here, was made
        self.since: dict[Which, int] = {}

    def make_network(self) -> Network:
        network = Network(self.scot, self.routing, on_action=self.observe)
        for id, kind in self.coverings.items():
            if kind != "none":
                network.brokers[id] = Broker(id, self.scot, self.routing, covering=kind)
        return network

    def observe(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        """At any time: only to who wants it now, with exactly its matching subscriptions, never twice.

        Where it may have waited for its turn, those made after it arrived do not count.
        """
        if isinstance(action, Refuse):
            self.refused.append(action.id)
        if not isinstance(action, Deliver):
            return
        sample = self.published[action.id]
        for client, subscriptions in action.recipients:
            assert self.world.homes[client] == broker
            number, matching = int(action.id[1:]), self.world.matching(client, sample)
            waits = POLICIES[self.routing].streams is not None
            older = {id for id in matching if not waits or self.since.get((client, id), 0) <= number}
            assert older <= set(subscriptions) <= set(matching)
            assert client not in self.delivered[action.id], "delivered twice"
            self.delivered[action.id].append(client)
            if POLICIES[self.routing].promises.in_order:
                for id in subscriptions:
                    stream = action.publisher, (client, id)
                    assert self.last.get(stream, -1) < number, "out of order"
                    self.last[stream] = number

    # -- operations: each is told to the host broker at once; what it sends stays in flight

    def client(self, draw: Random) -> tuple[str, BrokerId]:
        name = draw.choice(list(self.world.homes))
        return name, self.world.homes[name]

    def advertise(self, draw: Random) -> None:
        (name, home), id, spec = self.client(draw), draw.choice(IDS), draw_spec(draw)
        self.network.tell(home, Advertised(name, id, filter_of(spec)))
        # an id in use for another filter is refused, the same again changes nothing: both leave what is there
        self.world.advertisements.setdefault((name, id), spec)

    def subscribe(self, draw: Random) -> None:
        (name, home), id, spec = self.client(draw), draw.choice(IDS), draw_spec(draw)
        filter = filter_of(spec)
        self.specs[filter] = spec
        self.network.tell(home, Subscribed(name, id, filter))
        if (name, id) not in self.world.subscriptions:
            self.world.subscriptions[name, id] = spec
            self.since[name, id] = len(self.published)

    def unadvertise(self, draw: Random) -> None:
        (name, home), id = self.client(draw), draw.choice(IDS)
        self.network.tell(home, Unadvertised(name, id))
        self._forget_advertisement((name, id))

    def unsubscribe(self, draw: Random) -> None:
        (name, home), id = self.client(draw), draw.choice(IDS)
        self.network.tell(home, Unsubscribed(name, id))
        self._forget_subscription((name, id))

    def leave(self, draw: Random) -> None:
        name, home = self.client(draw)
        self.network.tell(home, ClientLeft(name))
        for id in IDS:
            self._forget_advertisement((name, id))
            self._forget_subscription((name, id))

    def _forget_advertisement(self, which: Which) -> None:
        self.world.advertisements.pop(which, None)
        self.settled_advertisements.pop(which, None)

    def _forget_subscription(self, which: Which) -> None:
        self.world.subscriptions.pop(which, None)
        self.settled_subscriptions.pop(which, None)
        for promises in self.promised.values():
            for owed in promises.values():
                if which in owed:
                    owed.remove(which)

    def overload(self, draw: Random) -> None:
        """Any set of overloaded links, and lengths below the threshold for the choice among free ones."""
        share = draw.choice((0.0, 0.2, 0.6, 1.0))
        for sender, receiver in self.links:
            queue = draw.randint(11, 60) if draw.random() < share else draw.choice((0, 0, 3, 7))
            self.network.hold_queue(sender, receiver, queue)

    def publish_in_the_midst(self, draw: Random) -> None:
        """What was settled before is owed a delivery, even while the rest of the overlay is in motion."""
        name, home = self.client(draw)
        settled = [spec for (c, _), spec in self.settled_advertisements.items() if c == name]
        promising = [s for s in ALL_SAMPLES if any(spec.allows(s) for spec in settled)]
        sample = draw.choice(promising if promising and draw.random() < 0.9 else ALL_SAMPLES)
        id = self.publish(name, home, sample)
        if id is not None and sample in promising:
            owed: dict[str, list[Which]] = {}
            for which, spec in self.settled_subscriptions.items():
                if spec.matched_by(sample):
                    owed.setdefault(which[0], []).append(which)
            self.promised[id] = owed

    def publish(self, name: str, home: BrokerId, sample: Sample) -> str | None:
        id = f"n{len(self.published)}"
        self.published[id] = sample
        self.delivered[id] = []
        self.network.tell(home, Published(name, id, parse_notification(sample.as_dict())))
        allowed = sample in self.world.publishable(name)
        assert (id in self.refused) == (not allowed), "refused exactly what was not advertised"
        return id if allowed else None

    def messages_arrive(self, draw: Random) -> None:
        repeat = draw.random() < 0.3
        for _ in range(draw.randint(1, 12)):
            heads = self.network.oldest_of_each_link()
            if not heads:
                return
            hop = draw.choice(heads)
            self.network.receive(hop)
            # Confirmations and requests for them are carried to one broker, as notifications are to destinations.
            if repeat and not isinstance(hop.message, Notify | Confirm | AskConfirm):
                again = self.network.brokers[hop.receiver].handle(Received(hop.sender, hop.message), self.network.now)
                assert again == [], "a repeated message changes nothing and is answered with nothing"

    # -- quiet

    def become_quiet(self, draw: Random) -> None:
        self.let_all_arrive(draw)
        for id, promises in self.promised.items():
            for client, owed in promises.items():
                assert not owed or client in self.delivered[id], f"{client} was settled and missed {id}"
        self.promised.clear()
        self.settled_advertisements = dict(self.world.advertisements)
        self.settled_subscriptions = dict(self.world.subscriptions)

    def let_all_arrive(self, draw: Random) -> None:
        """Until nothing is in flight, and nothing due."""
        while True:
            heads = self.network.oldest_of_each_link()
            if heads:
                self.network.receive(draw.choice(heads))
            elif not self.network.let_time_pass():
                return

    def quiet_then_publish(self, draw: Random) -> None:
        """Tables are exact, and a notification of each publisher reaches everyone interested once, and nobody else."""
        self.become_quiet(draw)
        self.check_tables()
        expected: dict[str, list[str]] = {}
        for name, home in self.world.homes.items():
            samples = list(self.world.publishable(name))
            if samples:
                sample = draw.choice(samples)
                id = self.publish(name, home, sample)
                assert id is not None
                expected[id] = sorted(self.world.interested(sample))
        self.become_quiet(draw)
        assert {id: sorted(self.delivered[id]) for id in expected} == expected

    def check_tables(self) -> None:
        (check_scot_tables if POLICIES[self.routing].keeps_civ else check_tid_tables)(self)
        if self.routing == "fdr":
            check_borrowed(self)

    def whose(self) -> dict[Key, Which]:
        """The clients' names of all subscriptions in force."""
        brokers, homes = self.network.brokers, self.world.homes
        return {brokers[homes[c]].state.subscriptions.of(c)[id].key: (c, id) for c, id in self.world.subscriptions}

    def first_hop(self, start: BrokerId, goal: BrokerId) -> BrokerId | None:
        """By search: the neighbour of `start` in its cluster from which `goal` is reached without coming back."""
        if start not in self._first_hops:
            found: dict[str, BrokerId | None] = {start.region: None}
            for first in self.scot.tree.neighbours(start.region):
                todo = [first]
                for region in todo:
                    found[region] = BrokerId(first, start.cluster)
                    todo += [near for near in self.scot.tree.neighbours(region) if near not in found]
            self._first_hops[start] = found
        return self._first_hops[start][goal.region]

    def check_held(
        self,
        held: Iterable[Which],
        wanted: Iterable[Which],
        came_by: Callable[[Which], Hashable],
        advertisement: Spec | None = None,
    ) -> None:
        """Whether these subscriptions are those that a table should hold for the ones that are wanted there.

        Without covering: all of them. With it each is held, or others that are held cover it, which have the same host,
        or came by the same link (`came_by`; None: a client of this very broker has it, so that it is held). And none is
        held that another one covers. If the table holds what overlaps an advertisement, notifications that this allows
        are all that must be covered: the cover of another part of a subscription may not overlap it.
        """
        there, wanted = list(held), list(wanted)
        assert len(there) == len(set(there))
        if self.covering == "none":
            assert sorted(there) == sorted(wanted)
            return
        assert set(there) <= set(wanted)
        specs, homes = self.world.subscriptions, self.world.homes
        ways = {which: came_by(which) for which in wanted}
        units = {which: homes[which[0]] if self.covering == "host" else way for which, way in ways.items()}
        for which in wanted:
            near = [w for w in there if units[w] == units[which]]
            assert which in there or ways[which] is not None, f"{which} is not held"
            assert covered(specs[which], (specs[w] for w in near), advertisement), f"{which} is not covered"
            if self.tight and ways[which] is not None and which in there:
                assert [w for w in near if covered(specs[which], [specs[w]])] == [which], f"{which} need not be held"

    def check_lent(self, host: BrokerId, held: list[Which], wanted: list[Which], advertisement: Spec) -> None:
        """Under `fdr`, a host broker holds what it should of other clusters' subscriptions for an advertisement.

        Of its region mates' own clients it holds all, of others what came to the mates.
        """
        mates, homes = self.scot.i_links(host), self.world.homes
        own = {which for which in wanted if homes[which[0]] in mates}
        assert sorted(own) == sorted(which for which in held if which in own)
        others = [which for which in wanted if which not in own]
        lent = [which for which in held if which not in own]
        self.check_held(lent, others, lambda which: homes[which[0]], advertisement)

    def withdraw_everything(self, draw: Random) -> None:
        """All tables are empty once everything is withdrawn and the overlay is quiet."""
        for name, home in self.world.homes.items():
            self.network.tell(home, ClientLeft(name))
            for id in IDS:
                self._forget_advertisement((name, id))
                self._forget_subscription((name, id))
        self.become_quiet(draw)
        for broker in self.network.brokers.values():
            state = broker.state
            sizes = [len(t) for t in (state.srt, state.prt, state.advertisements, state.subscriptions)]
            assert sizes == [0, 0, 0, 0]
            if not POLICIES[self.routing].keeps_civ:
                assert state.fading == {}
            for kept in cover_sets(state.spread):
                assert (kept._groups, len(kept._pool)) == ({}, 0)


def cover_sets(spread: Any) -> list[CoverSet[Any]]:
    """All that a broker keeps for covering; of a tree that was withdrawn nothing is kept."""
    if hasattr(spread, "_own"):
        return [spread._own]
    sets = getattr(spread, "_sets", {})
    if isinstance(spread, PerTree):
        assert (sets, len(spread._pool)) == ({}, 0)
    return list(sets.values())


def check_scot_tables(harness: Harness) -> None:
    """SRT: the region's advertisements. PRT: the cluster's subscriptions. CIV: ON iff an overlapping one is there."""
    network, world = harness.network, harness.world
    held: dict[BrokerId, list[Which]] = {}
    whose = harness.whose()
    for id, broker in network.brokers.items():
        here = [a for a in world.advertisements if world.homes[a[0]][0] == id.region]
        assert len(broker.state.srt) == len(here)
        wanted = [s for s in world.subscriptions if world.homes[s[0]][1] == id.cluster]
        ways = {s: harness.first_hop(id, world.homes[s[0]]) for s in wanted}
        hops = {whose[entry.key]: entry.last_hop for entry in broker.state.prt}
        assert hops == {which: ways[which] for which in hops}
        harness.check_held(hops, wanted, ways.__getitem__)
        held[id] = list(hops)
    for (client, name), spec in world.advertisements.items():
        home = world.homes[client]
        key = network.brokers[home].state.advertisements.of(client)[name].key
        wanting = [world.homes[c][1] for (c, _), other in world.subscriptions.items() if overlapping(spec, other)]
        for at in network.overlay.region(home.region):
            entry = network.brokers[at].state.srt.get(key)
            assert entry.interest == sum(overlapping(spec, world.subscriptions[which]) for which in held[at])
            assert (entry.interest > 0) == (at.cluster in wanting)
            known = {home.cluster} | (set(wanting) if at == home else set(wanting) & {at.cluster})
            assert entry.civ == sum(1 << cluster for cluster in known)


def check_borrowed(harness: Harness) -> None:
    """A host broker holds of other clusters exactly what overlaps its clients' advertisements, bound to those."""
    network, world, whose = harness.network, harness.world, harness.whose()
    for (client, name), spec in world.advertisements.items():
        home = world.homes[client]
        advertisement = network.brokers[home].state.advertisements.of(client)[name].key
        bound = [e.key for e in network.brokers[home].state.prt.borrowed.values() if advertisement in e.advertisements]
        wanted = [
            which
            for which, other in world.subscriptions.items()
            if world.homes[which[0]].cluster != home.cluster and overlapping(spec, other)
        ]
        harness.check_lent(home, [whose[key] for key in bound], wanted, spec)
    for broker in network.brokers.values():
        prt = broker.state.prt
        held = {(advertisement, key) for key, entry in prt.borrowed.items() for advertisement in entry.advertisements}
        advertised = {entry.key for entry in broker.state.srt if entry.last_hop is None}
        assert {advertisement for advertisement, _ in held} <= advertised
        assert {(ad, key) for (ad, _), keys in prt._bound.items() for key in keys} == held
        assert len(prt) == len(list(prt)) + len({key for _, key in held})
        assert [entry.key for entry in broker.state.srt if entry.unknown] == []


def check_tid_tables(harness: Harness) -> None:
    """SRT: every advertisement, everywhere, in a tree. PRT: each subscription on the way to each overlapping root."""
    network, world, whose = harness.network, harness.world, harness.whose()
    entries: dict[BrokerId, dict[Which, Any]] = {
        id: {whose[entry.key]: entry for entry in broker.state.prt} for id, broker in network.brokers.items()
    }
    for id, broker in network.brokers.items():
        assert len(broker.state.srt) == len(world.advertisements)
        assert broker.state.fading == {}
        assert len(entries[id]) == len(broker.state.prt)
        own = {which for which in world.subscriptions if world.homes[which[0]] == id}
        assert own == {which for which, entry in entries[id].items() if entry.last_hop is None}
        assert [which for which in entries[id] if which not in own and not entries[id][which].bindings] == []
    for (client, name), spec in world.advertisements.items():
        home = world.homes[client]
        key = network.brokers[home].state.advertisements.of(client)[name].key
        # by broker, the subscriptions whose way to the root leads there, and by which link they come
        ways: dict[BrokerId, dict[Which, BrokerId | None]] = {id: {} for id in network.brokers}
        for which, other in world.subscriptions.items():
            if overlapping(spec, other):
                at, came_by = world.homes[which[0]], None
                for _ in network.brokers:
                    ways[at][which] = came_by
                    if at == home:
                        break
                    at, came_by = network.brokers[at].state.srt.get(key).last_hop, at
                assert at == home, "the last hops of a tree lead to its root"
        for id, there in ways.items():
            bound = {w: entry.bindings[key] for w, entry in entries[id].items() if key in entry.bindings}
            assert bound == {which: there[which] for which in bound}
            harness.check_held(bound, there, there.__getitem__, spec)
