"""`handle_batch` against `handle`: the same actions for every notification, at any moment of any history.

Neither changes a table, so both can be asked in the middle of a history: the batch first, so that it answers from what
it remembers of earlier moments, and then one by one, which remembers nothing of its own.
"""

from random import Random
from typing import Any

import pytest

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.language import Notification, parse_filter
from octopia.matching import matcher
from octopia.routing import (
    POLICIES,
    Action,
    Advertised,
    Broker,
    CibSet,
    LinkSampled,
    LinkWentDown,
    Notify,
    Orders,
    Published,
    PublishedMany,
    Received,
    ReceivedMany,
    Refused,
    Subscribed,
    batch,
)
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.breaking import BreakingHarness
from tests.routing.harness import Harness
from tests.routing.model import ALL_SAMPLES
from tests.routing.test_overlay_properties import ROUTINGS, WEIGHTS
from tests.routing.test_recovery_properties import WEIGHTS as BREAKING_WEIGHTS

A0, B0, B1, C0 = BrokerId("a", 0), BrokerId("b", 0), BrokerId("b", 1), BrokerId("c", 0)


def drawn_batch(draw: Random) -> list[dict[str, Any]]:
    """Notifications of the small world; sometimes all of the same kind, sometimes with names in another order."""
    samples = [draw.choice(ALL_SAMPLES).as_dict() for _ in range(draw.choice((0, 1, 1, 2, 9, 25)))]
    if draw.random() < 0.3:
        samples = [dict(reversed(sample.items())) if draw.random() < 0.5 else sample for sample in samples]
    return samples


def check_published(broker: Broker, client: str, values: list[dict[str, Any]]) -> None:
    orders = broker.handle_batch(PublishedMany(client, values), 0.0)
    assert as_actions(orders, client, values) == [
        broker.handle(Published(client, str(at), Notification.of(each)), 0.0) for at, each in enumerate(values)
    ]


def check_received(broker: Broker, sender: BrokerId, values: list[dict[str, Any]]) -> None:
    orders = broker.handle_batch(ReceivedMany(sender, values), 0.0)
    assert as_actions(orders, "p", values) == [
        broker.handle(Received(sender, Notify("p", str(at), Notification.of(each))), 0.0)
        for at, each in enumerate(values)
    ]


def as_actions(orders: list[Orders], publisher: str, values: list[dict[str, Any]]) -> list[list[Action]]:
    return [each.actions(publisher, str(at), Notification.of(values[at])) for at, each in enumerate(orders)]


def check_everywhere(harness: Harness, draw: Random) -> None:
    for name, home in harness.world.homes.items():
        check_published(harness.network.brokers[home], name, drawn_batch(draw))
    if POLICIES[harness.routing].uses_civ:
        for id, broker in harness.network.brokers.items():
            for neighbour in broker.state.neighbours:
                if neighbour in broker.state.up and draw.random() < 0.5:
                    check_received(broker, neighbour, drawn_batch(draw))
            assert broker.id == id


def run_histories(kind: type[Harness], routing: str, weights: dict[str, int], seeds: range, steps: int) -> None:
    operations = [name for name, weight in weights.items() for _ in range(weight)]
    for seed in seeds:
        draw = Random(seed)
        harness = kind(routing, draw)
        try:
            for _ in range(steps):
                getattr(harness, draw.choice(operations))(draw)
                check_everywhere(harness, draw)
        except Exception as error:
            error.add_note(f"routing {routing}, seed {seed}")
            raise


@pytest.mark.parametrize("routing", ROUTINGS)
def test_equal_in_long_random_histories(routing: str) -> None:
    run_histories(Harness, routing, WEIGHTS, range(5000, 5012), 50)


def test_equal_where_queues_decide_and_no_link_is_overloaded() -> None:
    """Dynamic TID routing compares queues of any length; of hundreds of histories this one shows it."""
    run_histories(Harness, "tid-dynamic", WEIGHTS, range(9007, 9008), 60)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_equal_where_every_match_goes_through_runs_and_kernels(routing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "WAITING_TESTS_MAX", 0)
    run_histories(Harness, routing, WEIGHTS, range(6000, 6004), 50)


@pytest.mark.parametrize("routing", ["snr", "idr"])
def test_equal_while_links_break_and_brokers_restart(routing: str) -> None:
    run_histories(BreakingHarness, routing, BREAKING_WEIGHTS, range(7000, 7010), 50)


@pytest.mark.parametrize("bound", ["ORDERS_MAX", "ORDERED_MAX", "COMBINATIONS_MAX", "COMBINED_NAMES_MAX"])
def test_equal_at_the_bounds_of_what_is_remembered(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, bound, 2)
    run_histories(Harness, "idr", WEIGHTS, range(8000, 8006), 40)


def overlay_broker(routing: str = "idr") -> Broker:
    return Broker(B0, Scot(parse_tree("path:3"), 2), routing)


def test_equal_sets_share_their_orders_until_an_entry_or_a_bit_or_a_link_changes() -> None:
    broker = overlay_broker()
    broker.handle(Advertised("p", "1", parse_filter("x is not null")), 0.0)
    broker.handle(Subscribed("s", "1", parse_filter("x > 0")), 0.0)
    values: list[dict[str, Any]] = [{"x": 1}, {"x": 2}, {"x": -1}]

    def orders() -> list[Orders]:
        return broker.handle_batch(PublishedMany("p", values), 0.0)

    first = orders()
    assert first[0] is first[1]
    assert first[0] is not first[2]
    assert orders()[0] is first[0]
    broker.handle(Subscribed("s", "2", parse_filter("x > 1")), 0.0)
    second = orders()
    assert [r.subscriptions for each in second for r in each.recipients] == [("1",), ("1", "2")]
    broker.handle(LinkSampled(B1, 1000, 0, 0), 0.0)
    third = orders()
    assert third[0] is not second[0]
    assert orders()[0] is third[0]


def test_a_link_that_is_overloaded_and_then_down_is_not_the_same() -> None:
    """Case iv of IDR: the least loaded iLink carries the rest, as long as it is up."""
    broker = Broker(BrokerId("a", 0), Scot(parse_tree("path:1"), 3))
    a1, a2 = BrokerId("a", 1), BrokerId("a", 2)
    broker.handle(Advertised("p", "1", parse_filter("x is not null")), 0.0)
    key = broker.state.advertisements.of("p")["1"].key
    for neighbour, queue in ((a1, 50), (a2, 60)):
        broker.handle(Received(neighbour, CibSet((key,))), 0.0)
        broker.handle(LinkSampled(neighbour, queue, 0, 0), 0.0)

    def carriers() -> list[tuple[BrokerId, int]]:
        (orders,) = broker.handle_batch(PublishedMany("p", [{"x": 1}]), 0.0)
        return [(copy.to, copy.message.civ) for copy in orders.copies if isinstance(copy.message, Notify)]

    assert carriers() == [(a1, 0b100)]
    broker.handle(LinkWentDown(a1), 0.0)
    assert carriers() == [(a2, 0b010)]


def test_a_batch_is_refused_notification_by_notification() -> None:
    broker = overlay_broker()
    values: list[dict[str, Any]] = [{"x": 1}, {"y": 1}, {"x": 0}]
    nothing = broker.handle_batch(PublishedMany("p", values), 0.0)
    reason = "p has no advertisement here; advertise before you publish"
    assert [each.refusal for each in nothing] == [reason] * 3
    broker.handle(Advertised("p", "1", parse_filter("x > 0")), 0.0)
    orders = broker.handle_batch(PublishedMany("p", values), 0.0)
    assert [bool(each.refusal) for each in orders] == [False, True, True]
    (refused,) = orders[1].actions("p", "7", Notification.of(values[1]))
    assert isinstance(refused, Refused)
    assert (refused.client, refused.request, refused.id) == ("p", "publish", "7")


def test_who_may_not_send_copies_is_told_the_same() -> None:
    for sender, routing, error in ((BrokerId("x", 9), "idr", RemoteProtocolError), (A0, "tid", RemoteProtocolError)):
        broker = overlay_broker(routing)
        with pytest.raises(error) as one:
            broker.handle(Received(sender, Notify("p", "1", Notification.of({"x": 1}))), 0.0)
        with pytest.raises(error) as many:
            broker.handle_batch(ReceivedMany(sender, [{"x": 1}]), 0.0)
        assert str(many.value) == str(one.value)
    apart = Broker(B0, Scot(parse_tree("path:3"), 2), links_up=False)
    with pytest.raises(LocalProtocolError):
        apart.handle_batch(ReceivedMany(C0, [{"x": 1}]), 0.0)
