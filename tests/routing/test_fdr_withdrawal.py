"""Subscriptions that come and go at a broker while notifications wait there for an earlier one, under `fdr`.

What arrived is delivered as if it had not waited: to those subscribed then. A withdrawal delivers it before the answer.
"""

from collections.abc import Callable

import pytest

from octopia.language import parse_filter, parse_notification
from octopia.routing import (
    Accept,
    Action,
    Advertised,
    Broker,
    ClientLeft,
    Deliver,
    Published,
    Received,
    Send,
    Subscribed,
    Unsubscribed,
)
from octopia.routing.fdr.streams.receiving import Gate
from octopia.topology import BrokerId, Scot, parse_tree

HOST, HOME = BrokerId("a", 0), BrokerId("b", 0)
OVERLAY = Scot(parse_tree("path:2"), 1)


class Scene:
    """A publisher P at one broker, and subscribers at another, which gets P's notifications in any order."""

    def __init__(self, *subscribed: tuple[str, str, str]) -> None:
        self.host, self.home = (Broker(id, OVERLAY, "fdr") for id in (HOST, HOME))
        self.host.handle(Advertised("P", "a", parse_filter("x >= 0")), 0.0)
        # so that everything comes here
        self.subscribe("everything", "1", "x >= 0")
        for each in subscribed:
            self.subscribe(*each)
        self.copies: dict[int, Received] = {}

    def subscribe(self, client: str, id: str, filter: str, ordered: bool = True) -> None:
        for action in self.home.handle(Subscribed(client, id, parse_filter(filter), ordered), 0.0):
            if isinstance(action, Send):
                self.host.handle(Received(HOME, action.message), 0.0)

    def publish(self, *values: int) -> None:
        """Numbers are values."""
        for x in values:
            for action in self.host.handle(Published("P", f"n{x}", parse_notification({"x": x})), 0.0):
                assert isinstance(action, Send)
                self.copies[x] = Received(HOST, action.message)

    def arrive(self, x: int) -> list[tuple[str, str, tuple[str, ...]]]:
        return self.told(self.home.handle(self.copies[x], 1.0))

    def unsubscribe(self, client: str, id: str) -> list[tuple[str, str, tuple[str, ...]]]:
        actions = self.home.handle(Unsubscribed(client, id), 1.0)
        answer = actions.index(Accept(client, "unsubscribe", id))
        assert all(isinstance(action, Deliver) for action in actions[:answer])
        assert not any(isinstance(action, Deliver) for action in actions[answer:])
        return self.told(actions)

    @staticmethod
    def told(actions: list[Action]) -> list[tuple[str, str, tuple[str, ...]]]:
        """Deliveries to all but the one who gets everything: id, client, subscriptions."""
        found = [(each.id, to) for each in actions if isinstance(each, Deliver) for to in each.recipients]
        return [(id, *to) for id, to in found if to.client != "everything"]


def test_a_withdrawal_delivers_what_has_arrived_before_the_answer() -> None:
    scene = Scene(("S", "s", "x < 10"), ("T", "t", "x < 10"))
    scene.publish(0, 1, 2, 3, 11)
    assert scene.arrive(0) == [("n0", "S", ("s",)), ("n0", "T", ("t",))]
    assert [scene.arrive(x) for x in (11, 3, 2)] == [[], [], []]
    # in order, and not what it does not want
    assert scene.unsubscribe("S", "s") == [("n2", "S", ("s",)), ("n3", "S", ("s",))]
    # what comes later is not for it, and the others wait for their turn
    assert scene.arrive(1) == [("n1", "T", ("t",)), ("n2", "T", ("t",)), ("n3", "T", ("t",))]


def test_a_withdrawal_again_or_of_another_delivers_nothing() -> None:
    scene = Scene(("S", "s", "x < 10"), ("T", "t", "x > 10"))
    scene.publish(1, 2)
    scene.arrive(2)
    assert scene.unsubscribe("T", "t") == scene.unsubscribe("T", "s") == []
    assert scene.unsubscribe("S", "s") == [("n2", "S", ("s",))]
    assert scene.unsubscribe("S", "s") == []
    assert scene.arrive(1) == []


def test_another_subscription_of_the_client_keeps_the_turn() -> None:
    scene = Scene(("S", "low", "x < 10"), ("S", "all", "x < 100"))
    scene.publish(1, 2, 30)
    scene.arrive(30)
    scene.arrive(2)
    assert scene.unsubscribe("S", "low") == []
    assert scene.arrive(1) == [("n1", "S", ("all",)), ("n2", "S", ("all",)), ("n30", "S", ("all",))]


def test_the_last_of_several_that_go_gets_it() -> None:
    scene = Scene(("S", "low", "x < 10"), ("S", "all", "x < 100"))
    scene.publish(1, 2)
    scene.arrive(2)
    assert scene.unsubscribe("S", "all") == []
    assert scene.unsubscribe("S", "low") == [("n2", "S", ("low",))]
    assert scene.arrive(1) == []


def test_what_arrived_before_a_subscription_is_not_for_it() -> None:
    scene = Scene(("S", "s", "x < 10"))
    scene.publish(1, 2, 3)
    scene.arrive(2)
    scene.subscribe("T", "t", "x < 10")
    scene.subscribe("S", "again", "x < 10")
    scene.arrive(3)
    both = [("S", ("s", "again")), ("T", ("t",))]
    assert scene.arrive(1) == [("n1", *to) for to in both] + [("n2", "S", ("s",))] + sorted(("n3", *to) for to in both)


def test_an_id_that_comes_again_does_not_get_what_waited_for_the_first() -> None:
    scene = Scene(("S", "s", "x < 10"))
    scene.publish(1, 2)
    scene.arrive(2)
    assert scene.unsubscribe("S", "s") == [("n2", "S", ("s",))]
    scene.subscribe("S", "s", "x > 0")
    assert scene.arrive(1) == [("n1", "S", ("s",))]


def test_a_client_that_left_gets_nothing_also_under_the_same_name() -> None:
    scene = Scene(("S", "s", "x < 10"), ("S", "s2", "x < 9"), ("T", "t", "x < 10"))
    scene.publish(1, 2)
    scene.arrive(2)
    assert scene.told(scene.home.handle_whole(ClientLeft("S"), 1.0)) == []
    scene.subscribe("S", "s", "x < 10")
    assert scene.arrive(1) == [("n1", "T", ("t",)), ("n1", "S", ("s",)), ("n2", "T", ("t",))]


def test_a_subscription_in_any_order_had_it_already() -> None:
    scene = Scene(("T", "t", "x < 10"))
    scene.subscribe("S", "s", "x < 10", ordered=False)
    scene.publish(1, 2)
    assert scene.arrive(2) == [("n2", "S", ("s",))]
    assert scene.unsubscribe("S", "s") == []
    assert scene.arrive(1) == [("n1", "T", ("t",)), ("n2", "T", ("t",))]


def test_one_that_was_refused_at_the_bound_is_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not taken, and comes again later: to those who are subscribed then."""
    make: Callable[..., None] = Gate.__init__
    monkeypatch.setattr(Gate, "__init__", lambda gate: make(gate, per_stream_max=1))
    scene = Scene(("S", "s", "x < 10"))
    scene.publish(1, 2, 3)
    scene.arrive(2)
    scene.arrive(3)
    assert scene.unsubscribe("S", "s") == [("n2", "S", ("s",))]
    assert scene.arrive(1) == scene.arrive(3) == []
