"""Races by name: messages that cross on the way, on links that keep order but take any time.

The property tests find such histories by chance; here each stands alone, so that a reader sees what must hold and why.
"""

from octopia.embedded import Hop
from octopia.language import Filter, parse_filter, parse_notification
from octopia.protocol import CibClear, CibSet
from octopia.routing import Advertised, Published, Subscribed, Unadvertised, Unsubscribed
from octopia.topology import BrokerId
from tests.routing.recovery_scene import BOND, QUOTE, STOCK, Scene

ANY = parse_filter("class = 'STOCK' or class = 'BOND'")
X0, X1, X2 = (BrokerId("a", cluster) for cluster in range(3))


class Race(Scene):
    """A scene in which messages arrive on demand."""

    def arrive(self, sender: BrokerId, receiver: BrokerId) -> str:
        """The oldest message of one link arrives; its kind."""
        (hop,) = [h for h in self.oldest_of_each_link() if (h.sender, h.receiver) == (sender, receiver)]
        self.receive(hop)
        return hop.message.kind


def two_clusters() -> Race:
    return Race("path:1", 2)


def test_an_advertisement_and_a_subscription_cross() -> None:
    race = two_clusters()
    race.tell(X0, Advertised("P", "a", STOCK))
    race.do(X1, Subscribed("S", "s", STOCK))
    assert race.civ(X0, "P") == 0b11


def test_an_unsubscription_follows_its_cib_set_in_order() -> None:
    race = two_clusters()
    race.do(X0, Advertised("P", "a", STOCK))
    race.tell(X1, Subscribed("S", "s", STOCK))
    race.tell(X1, Unsubscribed("S", "s"))
    assert [race.arrive(X1, X0), race.civ(X0, "P")] == ["cib_set", 0b11]
    assert [race.arrive(X1, X0), race.civ(X0, "P")] == ["cib_clear", 0b01]


def test_a_cib_set_for_one_advertisement_leaves_a_newer_one_alone_that_its_sender_does_not_know() -> None:
    """Searching for overlaps at the receiver, as the paper does, would turn a bit ON here that is never turned OFF."""
    race = two_clusters()
    race.do(X0, Advertised("P", "a", STOCK))
    race.tell(X0, Advertised("P", "b", STOCK))  # on its way to (a,1) ...
    race.tell(X1, Subscribed("S", "s", STOCK))  # ... while a subscription comes ...
    race.tell(X1, Unsubscribed("S", "s"))  # ... and goes
    assert [race.arrive(X1, X0), race.arrive(X1, X0)] == ["cib_set", "cib_clear"]
    race.run_until_quiet()
    assert (race.civ(X0, "P", "a"), race.civ(X0, "P", "b")) == (0b01, 0b01)


def test_a_cib_set_for_a_withdrawn_advertisement_does_not_touch_its_successor_of_the_same_id() -> None:
    race = two_clusters()
    race.do(X0, Advertised("P", "a", STOCK))
    race.tell(X1, Subscribed("S", "s", STOCK))  # the CIB_SET is on its way
    race.tell(X0, Unadvertised("P", "a"))
    race.tell(X0, Advertised("P", "a", BOND))  # same id, and S does not want it
    race.run_until_quiet()
    assert race.civ(X0, "P") == 0b01


def test_readvertising_after_unadvertise_is_a_new_advertisement_with_all_its_bits() -> None:
    race = two_clusters()
    race.tell(X1, Subscribed("S", "s", STOCK))
    race.tell(X0, Advertised("P", "a", STOCK))
    race.tell(X0, Unadvertised("P", "a"))
    race.do(X0, Advertised("P", "a", STOCK))
    assert race.civ(X0, "P") == 0b11
    race.do(X0, Published("P", "n", QUOTE))
    assert race.deliveries == [("S", "n")]


def test_two_publishers_with_the_same_advertisement_are_told_apart() -> None:
    race = two_clusters()
    race.tell(X0, Advertised("P", "a", STOCK))
    race.tell(X0, Advertised("Q", "a", STOCK))
    race.do(X1, Subscribed("S", "s", STOCK))
    race.do(X0, Unadvertised("P", "a"))
    assert race.civ(X0, "Q") == 0b11
    race.do(X1, Unsubscribed("S", "s"))
    assert race.civ(X0, "Q") == 0b01


def test_the_bit_stays_on_while_any_overlapping_subscription_is_left() -> None:
    race = Race("path:2", 2)
    a0, a1, b1 = BrokerId("a", 0), BrokerId("a", 1), BrokerId("b", 1)
    race.tell(a0, Advertised("P", "a", ANY))
    race.tell(a1, Subscribed("S", "s", STOCK))
    race.do(b1, Subscribed("T", "t", BOND))
    race.do(a1, Unsubscribed("S", "s"))
    assert race.civ(a0, "P") == 0b11
    race.do(b1, Unsubscribed("T", "t"))
    assert race.civ(a0, "P") == 0b01


def test_cib_messages_for_unknown_keys_are_ignored() -> None:
    """They belong to what was withdrawn while they were under way."""
    race = two_clusters()
    race.do(X0, Advertised("P", "a", STOCK))
    key = race.brokers[X0].state.advertisements.of("P")["a"].key
    other = key._replace(serial=99)
    for message in (CibSet((other,)), CibClear((other,))):
        race.in_flight.append(Hop(0, X1, X0, message, None))
    race.run_until_quiet()
    assert race.civ(X0, "P") == 0b01


# -- TID routing: three brokers in a triangle, so that floods meet


def triangle(routing: str = "tid") -> Race:
    return Race("path:1", 3, routing)


def tree(race: Race, root: BrokerId, client: str) -> dict[BrokerId, BrokerId | None]:
    key = race.brokers[root].state.advertisements.of(client)["a"].key
    return {id: broker.state.srt.get(key).last_hop for id, broker in race.brokers.items()}


def grow_long_tree(
    race: Race, client: str, root: BrokerId, second: BrokerId, third: BrokerId, filter: Filter = STOCK
) -> None:
    """Flood so that the tree is root → second → third: the direct copy to the third broker comes too late."""
    race.tell(root, Advertised(client, "a", filter))
    race.arrive(root, second)
    race.arrive(second, third)
    race.run_until_quiet()
    assert tree(race, root, client) == {root: None, second: root, third: second}


def test_the_tree_of_a_flood_depends_on_delays() -> None:
    short = triangle()
    short.do(X0, Advertised("P", "a", STOCK))
    assert tree(short, X0, "P") == {X0: None, X1: X0, X2: X0}
    grow_long_tree(triangle(), "P", X0, X1, X2)


def test_a_late_copy_of_a_withdrawn_flood_does_not_plant_the_tree_again() -> None:
    race = triangle()
    race.tell(X0, Advertised("P", "a", STOCK))
    race.arrive(X0, X1)
    race.arrive(X1, X2)  # (a,2) has it from (a,1) and sends a copy to (a,0); the direct copy is still on X0 → X2
    race.tell(X0, Unadvertised("P", "a"))
    race.arrive(X0, X1)
    race.arrive(X1, X2)  # withdrawn at (a,2) while a copy of the flood is under way to it
    assert len(race.brokers[X2].state.srt) == 0
    assert race.arrive(X0, X2) == "advertise"
    assert len(race.brokers[X2].state.srt) == 0
    race.run_until_quiet()
    assert [(len(b.state.srt), b.state.fading) for b in race.brokers.values()] == [(0, {})] * 3


def test_a_withdrawal_does_not_overtake_a_notification_on_its_tree() -> None:
    race = triangle()
    grow_long_tree(race, "P", X0, X1, X2)
    race.do(X2, Subscribed("S", "s", STOCK))
    race.tell(X0, Published("P", "n", QUOTE))
    race.tell(X0, Unadvertised("P", "a"))
    race.arrive(X0, X2)  # the withdrawal comes first, by the short way that is not the tree's
    race.run_until_quiet()
    assert race.deliveries == [("S", "n")]
    assert [len(b.state.prt) for b in race.brokers.values()] == [0, 0, 1]


def two_trees(of_p: Filter = STOCK) -> Race:
    """P's tree is (a,0) → (a,1) → (a,2), Q's is (a,1) → (a,0) → (a,2): at (a,0) two ways lead to (a,2)."""
    race = triangle("tid-dynamic")
    grow_long_tree(race, "P", X0, X1, X2, of_p)
    grow_long_tree(race, "Q", X1, X0, X2)
    return race


def notify_hops(race: Race) -> list[tuple[BrokerId, BrokerId]]:
    hops = [(sender, receiver) for sender, receiver, kind in race.hops if kind == "notify"]
    race.hops.clear()
    return hops


def test_dynamic_tid_takes_the_less_loaded_of_two_trees_and_delivers_once() -> None:
    race = two_trees()
    race.do(X2, Subscribed("S", "s", STOCK))
    race.do(X0, Published("P", "n1", QUOTE))
    assert notify_hops(race) == [(X0, X1), (X1, X2)], "equal queues: P's own tree"
    race.hold_queue(X0, X1, 5)
    race.do(X0, Published("P", "n2", QUOTE))
    assert notify_hops(race) == [(X0, X2)], "Q's tree, whose next hop has the shorter queue"
    assert race.deliveries == [("S", "n1"), ("S", "n2")]


def test_dynamic_tid_keeps_to_the_tree_that_all_subscriptions_of_a_destination_share() -> None:
    """On Q's tree the copy, with T's notification, would be stranded if S's subscription were withdrawn on its way."""
    race = two_trees(parse_filter("class = 'STOCK' and p > 0"))
    race.tell(X2, Subscribed("S", "s", STOCK))
    race.tell(X2, Subscribed("T", "t", parse_filter("class = 'STOCK' and p > 0")))  # Q names no p: not on its tree
    race.run_until_quiet()
    race.hops.clear()
    race.hold_queue(X0, X1, 5)
    race.tell(X0, Published("P", "n", parse_notification({"class": "STOCK", "p": 1})))
    race.tell(X2, Unsubscribed("S", "s"))
    race.arrive(X2, X0)  # S's withdrawal reaches (a,0) by Q's tree while the copy is on its way by P's
    race.run_until_quiet()
    assert notify_hops(race) == [(X0, X1), (X1, X2)]
    assert race.deliveries == [("T", "n")]
