"""Full dynamic routing, piece by piece: what host brokers borrow, which tree is chosen, what copies carry."""

import pytest

from octopia.embedded import Hop, Network
from octopia.errors import RemoteProtocolError
from octopia.language import Filter, parse_filter, parse_notification
from octopia.protocol import CibClear, CibSet, Confirm, Confirmation, Confirmed, Dests, Key, Lent, Notify
from octopia.routing import Action, Advertised, Broker, Deliver, Published, Received, Send, Subscribed, Unsubscribed
from octopia.routing.fdr import interest
from octopia.routing.fdr.streams.confirming import PASS_ON_AFTER_S
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.breaking import BreakingHarness
from tests.routing.harness import Harness, check_scot_tables
from tests.routing.histories import BREAKING_WEIGHTS, WEIGHTS, play_histories

STOCK = parse_filter("x is not null")
QUOTE = parse_notification({"x": 1})
PATH = Scot(parse_tree("path:3"), 3)
A0, A1, A2, B0, B1, B2, C0, C1, C2 = sorted(PATH.brokers)


class Recorded(Network):
    """An overlay of which every copy of a notification is kept, with its destinations by name."""

    def __init__(self, scot: Scot) -> None:
        super().__init__(scot, "fdr", on_hop=self._keep, on_action=self._act)
        self.got: list[BrokerId] = []
        self.copies: list[tuple[BrokerId, BrokerId, list[BrokerId]]] = []
        self.control: list[Hop] = []

    def _keep(self, hop: Hop) -> None:
        if isinstance(hop.message, Notify):
            header = hop.message.header
            assert isinstance(header, Dests)
            named = [broker for place, broker in enumerate(self.overlay.brokers) if header.dests >> place & 1]
            self.copies.append((hop.sender, hop.receiver, sorted(named)))
        else:
            self.control.append(hop)

    def _act(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            self.got += [broker for _ in action.recipients]

    def subscribe(self, *brokers: BrokerId, filter: Filter = STOCK) -> None:
        for broker in brokers:
            self.tell(broker, Subscribed("c", "s", filter))
        self.run_until_quiet()

    def publish(self, home: BrokerId) -> list[tuple[BrokerId, BrokerId, list[BrokerId]]]:
        self.copies, self.got = [], []
        self.tell(home, Published("p", "n", QUOTE))
        self.run_until_quiet()
        return self.copies


def everyone(home: BrokerId, *subscribed: BrokerId) -> Recorded:
    network = Recorded(PATH)
    network.tell(home, Advertised("p", "a", STOCK))
    network.subscribe(*(subscribed or PATH.brokers))
    return network


def test_idle_it_takes_the_own_tree() -> None:
    network = everyone(B1, A0, B0, C1, C2)
    assert network.publish(B1) == [
        (B1, A1, [A0]),
        (B1, C1, [C1, C2]),
        (B1, B0, [B0]),
        (A1, A0, [A0]),
        (C1, C2, [C2]),
    ]
    assert sorted(network.got) == [A0, B0, C1, C2]


def test_loaded_it_takes_the_tree_with_the_shortest_first_queue() -> None:
    network = everyone(B1, A0, B0, C1, C2)
    for neighbour, queue in ((A1, 2), (C1, 0), (B0, 4), (B2, 1)):
        network.hold_queue(B1, neighbour, queue)
    assert network.publish(B1) == [
        (B1, B2, [A0, B0, C1, C2]),
        (B2, A2, [A0]),
        (B2, C2, [C1, C2]),
        (B2, B0, [B0]),
        (A2, A0, [A0]),
        (C2, C1, [C1]),
    ]
    assert sorted(network.got) == [A0, B0, C1, C2]


def test_loaded_iLinks_are_spared_where_the_aLinks_are_free() -> None:  # noqa: N802  # the paper's word
    network = everyone(B1, A0, B0, C1, C2)
    for neighbour in (B0, B2):
        network.hold_queue(B1, neighbour, 20)
    assert network.publish(B1) == [
        (B1, A1, [A0, B0]),
        (B1, C1, [C1, C2]),
        (A1, A0, [A0, B0]),
        (C1, C2, [C2]),
        (A0, B0, [B0]),
    ]
    assert sorted(network.got) == [A0, B0, C1, C2]


def test_host_brokers_borrow_what_overlaps_and_give_it_back() -> None:
    network = everyone(B1, A0, B0, C1)
    prt = network.brokers[B1].state.prt
    assert sorted(key.host for key in prt.borrowed) == [A0, B0]
    assert len(prt) == 3
    network.control.clear()
    network.tell(A0, Unsubscribed("c", "s"))
    network.run_until_quiet()
    sent = [(hop.sender, hop.receiver, hop.message) for hop in network.control if isinstance(hop.message, CibClear)]
    assert [(sender, receiver) for sender, receiver, _ in sent] == [(B0, B1)]
    assert [key.host for key in sent[0][2].subscriptions] == [A0]
    assert sorted(key.host for key in prt.borrowed) == [B0]


def test_what_does_not_overlap_is_not_told() -> None:
    network = Recorded(PATH)
    network.tell(B1, Advertised("p", "a", parse_filter("y > 0")))
    network.subscribe(A0, filter=parse_filter("x > 0"))
    assert [hop.message.kind for hop in network.control] == ["advertise"] * 2 + ["subscribe"] * 2
    assert network.brokers[B1].state.prt.borrowed == {}


@pytest.mark.parametrize(
    "message",
    [CibSet((Key(B1, 0),), (Lent(Key(A2, 7), STOCK),)), CibClear((), (Key(A2, 7),))],
)
def test_a_lender_speaks_for_its_own_cluster_only(message: CibSet | CibClear) -> None:
    broker = Broker(B1, PATH, "fdr")
    broker.handle(Advertised("p", "a", STOCK), 0.0)
    with pytest.raises(RemoteProtocolError, match=r"\(b,0\) told of a subscription of \(a,2\), which is not in its"):
        broker.handle(Received(B0, message), 0.0)
    assert broker.state.prt.borrowed == {}


def said(by: BrokerId, to: BrokerId, upto: int, *, at_once: bool = False) -> Confirmation:
    return Confirmation(by, to, (Confirmed("p", upto),), at_once)


def test_confirmations_wait_for_others_that_go_the_same_way() -> None:
    """At (b,0) of path:3, on the way from (c,0) and (c,1) to (a,0), and to (b,1)."""
    broker = Broker(BrokerId("b", 0), Scot(parse_tree("path:3"), 2), "fdr")
    near, far, across = BrokerId("c", 0), BrokerId("a", 0), BrokerId("b", 1)

    def comes(now: float, *confirmations: Confirmation) -> list[Action]:
        return broker.handle(Received(near, Confirm(confirmations)), now)

    first, second = said(near, far, 3), said(BrokerId("c", 1), far, 5)
    assert comes(1.0, first) == []
    assert broker.due == 1.0 + PASS_ON_AFTER_S
    # what may not wait takes along what goes the same way, and nothing else
    assert comes(2.0, said(near, across, 4)) == []
    hurried = said(BrokerId("c", 1), far, 5, at_once=True)
    assert comes(3.0, hurried) == [Send(far, Confirm((first, hurried)))]
    assert broker.due == 2.0 + PASS_ON_AFTER_S
    assert comes(4.0, second) == []
    assert broker.tick(2.0 + PASS_ON_AFTER_S) == [Send(across, Confirm((said(near, across, 4),)))]
    assert broker.tick(4.0 + PASS_ON_AFTER_S) == [Send(far, Confirm((second,)))]
    assert broker.due is None


def test_a_confirmation_of_a_stranger_is_the_neighbours_fault() -> None:
    broker = Broker(BrokerId("b", 0), Scot(parse_tree("path:3"), 2), "fdr")
    near, stranger = BrokerId("c", 0), BrokerId("x", 0)
    for wrong in (said(stranger, near, 1), said(near, stranger, 1)):
        with pytest.raises(RemoteProtocolError, match="which is not in the overlay"):
            broker.handle(Received(near, Confirm((wrong,))), 0.0)


def test_past_the_bound_nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "LENT_MAX", 2)
    network = Network(PATH, "fdr")
    network.tell(B1, Advertised("p", "a", STOCK))
    (entry,) = network.brokers[B1].state.srt
    prt = network.brokers[B1].state.prt
    held = []
    for number in range(4):
        network.tell(A0, Subscribed("c", str(number), STOCK))
        network.run_until_quiet()
        held.append((len(prt.borrowed), entry.unknown, entry.civ))
    for number in range(4):
        network.tell(A0, Unsubscribed("c", str(number)))
        network.run_until_quiet()
        held.append((len(prt.borrowed), entry.unknown, entry.civ))
    assert held == [
        (1, 0b000, 0b011),
        (2, 0b000, 0b011),
        (0, 0b001, 0b011),
        (0, 0b001, 0b011),
        (0, 0b001, 0b011),
        (0, 0b001, 0b011),
        (1, 0b000, 0b011),
        (0, 0b000, 0b010),
    ]


class BoundedHarness(Harness):
    """As `Harness`; what is borrowed depends on the bound, so of the tables only those of SCOT routing are checked."""

    def check_tables(self) -> None:
        check_scot_tables(self)


class BoundedBreakingHarness(BreakingHarness):
    def check_tables(self) -> None:
        check_scot_tables(self)


@pytest.mark.parametrize("bound", [0, 1, 2])
@pytest.mark.parametrize(
    ("kind", "weights"),
    [(BoundedHarness, WEIGHTS), (BoundedBreakingHarness, BREAKING_WEIGHTS)],
    ids=["sound", "breaking"],
)
def test_exact_at_the_bounds_of_what_is_lent(
    kind: type[Harness], weights: dict[str, int], bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interest, "LENT_MAX", bound)
    monkeypatch.setattr(interest, "LENT_PER_MESSAGE_MAX", 1)
    play_histories(lambda draw: kind("fdr", draw), weights, range(cases(40)))
