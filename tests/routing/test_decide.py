"""`publish` and `receive` against brute force: the same decisions at any moment of any history.

Neither changes a table, so both can be asked in the middle of a history. The broker answers from what it remembers of
earlier moments; the other side tests every entry of the table and asks the routing anew for each notification.
"""

from random import Random
from typing import Any

import pytest

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.language import Notification, conforms, matches, parse_filter
from octopia.matching import kernels_in_use
from octopia.protocol import PLAIN, CibSet, Civ, Dests, Header, Key, Notify, Route, Routes, Subscribe, TreeHeader
from octopia.routing import (
    POLICIES,
    Advertised,
    Broker,
    Decision,
    Deliver,
    LinkSampled,
    LinkWentDown,
    Published,
    Received,
    Recipient,
    Refusal,
    Refuse,
    Send,
    Subscribed,
)
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.breaking import BreakingHarness
from tests.routing.harness import Harness
from tests.routing.histories import BREAKING_WEIGHTS, ROUTINGS, WEIGHTS, play_histories
from tests.routing.model import ALL_SAMPLES

# Recipients and copies, or that it is refused.
Plain = Any
A0, B0, B1, C0 = BrokerId("a", 0), BrokerId("b", 0), BrokerId("b", 1), BrokerId("c", 0)


def drawn_batch(draw: Random) -> list[dict[str, Any]]:
    """Notifications of the small world; sometimes all of the same kind, sometimes with names in another order."""
    samples = [draw.choice(ALL_SAMPLES).as_dict() for _ in range(draw.choice((0, 1, 1, 2, 9, 25)))]
    if draw.random() < 0.3:
        samples = [dict(reversed(sample.items())) if draw.random() < 0.5 else sample for sample in samples]
    return samples


def decided(broker: Broker, values: dict[str, Any], header: Header, came_by: BrokerId | None) -> Plain:
    """By brute force: every entry of the table is tested, nothing is remembered, the routing is asked anew."""
    state, policy = broker.state, POLICIES[broker.routing]
    if policy.pass_on is not None and came_by is not None:
        return plain(policy.pass_on(state, header, came_by))
    matching = [entry for entry in state.prt.matched_with() if matches(entry.filter, Notification.of(values))]
    matched = state.prt._find_out(matching)
    return plain(policy.route(state, matched, header, came_by))


def published(broker: Broker, client: str, batch: list[dict[str, Any]]) -> list[Plain]:
    """Up to the first that is refused, or that one if it is the first of all."""
    own = broker.state.advertisements.of(client).values()
    all_satisfied = [[each for each in own if conforms(Notification.of(values), each.filter)] for values in batch]
    if [] in all_satisfied:
        all_satisfied = all_satisfied[: all_satisfied.index([])]
        if not all_satisfied:
            return ["refused"]
    all_keys = [tuple(each.key for each in satisfied) for satisfied in all_satisfied]
    headers: dict[tuple[Key, ...], Header] = {}
    for keys, satisfied in zip(all_keys, all_satisfied, strict=True):
        if keys not in headers:
            count = all_keys.count(keys)
            headers[keys] = POLICIES[broker.routing].first_header(broker.state, satisfied, 0.0, count)
    return [decided(broker, values, headers[keys], None) for values, keys in zip(batch, all_keys, strict=False)]


def plain(answer: Decision | Refusal) -> Plain:
    if isinstance(answer, Refusal):
        return "refused"
    return answer.recipients, answer.copies, answer.priorities, answer.here


def check_published(broker: Broker, client: str, batch: list[dict[str, Any]]) -> None:
    """What came together and satisfies the same advertisements takes the same tree, which counts what it was given."""
    trees = getattr(broker.state, "trees", None)
    if trees is None:
        assert list(map(plain, broker.publish(client, batch, 0.0))) == published(broker, client, batch)
        return
    trees.best(0.0)
    before = dict(trees.costs)
    answers = list(map(plain, broker.publish(client, batch, 0.0)))
    after, trees.costs = trees.costs, before
    assert answers == published(broker, client, batch)
    assert trees.costs == after


def check_received(broker: Broker, sender: BrokerId, header: Header, batch: list[dict[str, Any]]) -> None:
    assert list(map(plain, broker.receive(sender, header, batch))) == [
        decided(broker, each, header, sender) for each in batch
    ]


def drawn_header(broker: Broker, sender: BrokerId, draw: Random) -> Header:
    state = broker.state
    trees = [entry.key for entry in state.srt] or [Key(broker.id, 0)]
    if POLICIES[broker.routing].header is Civ:
        return Civ(draw.choice((0, 0, 0b01, 0b10, 0b11, 0b110)))
    if POLICIES[broker.routing].header is TreeHeader:
        return TreeHeader(draw.choice(trees))
    if POLICIES[broker.routing].header is Dests:
        return Dests(state.me | draw.getrandbits(len(state.places.brokers)) & may_send(broker, sender))
    hosts = [broker.id, *(entry.key.host for entry in state.prt)]
    return Routes(tuple(Route(host, draw.choice(trees), ()) for host in dict.fromkeys(draw.choices(hosts, k=2))))


def may_send(broker: Broker, sender: BrokerId) -> int:
    """Destinations, as bits, that pass: over an iLink all others, over an aLink this side and mates of the sender."""
    places = broker.state.places.brokers
    if sender.region == broker.id.region:
        return sum(bit for other, bit in places.items() if other != sender)
    behind = broker.state.places.beyond[sender.region]
    return sum(
        bit for other, bit in places.items() if other != sender and (not bit & behind or other.region == sender.region)
    )


def check_everywhere(harness: Harness, draw: Random) -> None:
    for name, home in harness.world.homes.items():
        check_published(harness.network.brokers[home], name, drawn_batch(draw))
    for id, broker in harness.network.brokers.items():
        for neighbour in broker.state.neighbours:
            if neighbour in broker.state.up and draw.random() < 0.5:
                check_received(broker, neighbour, drawn_header(broker, neighbour, draw), drawn_batch(draw))
        assert broker.id == id


def run_histories(kind: type[Harness], routing: str, weights: dict[str, int], seeds: range, steps: int) -> None:
    play_histories(lambda draw: kind(routing, draw), weights, seeds, steps, check_everywhere)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_equal_in_long_random_histories(routing: str) -> None:
    run_histories(Harness, routing, WEIGHTS, range(5000, 5000 + cases(12)), 50)


def test_equal_where_queues_decide_and_no_link_is_overloaded() -> None:
    """Dynamic TID routing compares queues of any length; of hundreds of histories this one shows it."""
    run_histories(Harness, "tid-dynamic", WEIGHTS, range(9007, 9008), 60)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_equal_where_every_match_goes_through_runs_and_kernels(routing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"octopia.matching.kernels_{kernels_in_use()}.RUN_COSTS_TESTS", 1)
    run_histories(Harness, routing, WEIGHTS, range(6000, 6000 + cases(4)), 50)


@pytest.mark.parametrize("routing", ["snr", "idr", "fdr"])
def test_equal_while_links_break_and_brokers_restart(routing: str) -> None:
    run_histories(BreakingHarness, routing, BREAKING_WEIGHTS, range(7000, 7000 + cases(10)), 50)


@pytest.mark.parametrize(
    "bound", ["tables.REMEMBERED_MAX", "conforming.COMBINATIONS_MAX", "conforming.COMBINED_NAMES_MAX"]
)
@pytest.mark.parametrize("routing", ["idr", "tid-dynamic"])
def test_equal_at_the_bounds_of_what_is_remembered(routing: str, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"octopia.routing.{bound}", 30 if "tables" in bound else 2)
    run_histories(Harness, routing, WEIGHTS, range(8000, 8000 + cases(6)), 40)


def test_at_the_bound_the_oldest_sets_go_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of what is there is the weight, and what goes is what came first."""
    monkeypatch.setattr("octopia.routing.tables.REMEMBERED_MAX", 200)
    broker = overlay_broker()
    broker.handle(Advertised("p", "1", parse_filter("x is not null")), 0.0)
    for x in range(40):
        broker.handle(Subscribed("s", str(x), parse_filter(f"x = {x}")), 0.0)
    table = broker.state.prt
    for x in range(40):
        first = broker.publish("p", [{"x": x}], 0.0)
        assert broker.publish("p", [{"x": x}], 0.0)[0] is first[0], "what came last is there"
        assert sum(found.weight for found in table.found.values()) == table._weight
        assert table._weight <= 200 + 10
    kept = [each[0].key.serial for each in (found.entries for found in table.found.values())]
    assert kept == list(range(kept[0], kept[-1] + 1))
    assert 15 <= len(kept) < 40


def overlay_broker(routing: str = "idr") -> Broker:
    return Broker(B0, Scot(parse_tree("path:3"), 2), routing)


def test_equal_sets_share_their_orders_until_an_entry_or_a_bit_or_a_link_changes() -> None:
    broker = overlay_broker()
    broker.handle(Advertised("p", "1", parse_filter("x is not null")), 0.0)
    broker.handle(Subscribed("s", "1", parse_filter("x > 0")), 0.0)
    values: list[dict[str, Any]] = [{"x": 1}, {"x": 2}, {"x": -1}]

    def orders() -> list[Decision | Refusal]:
        return broker.publish("p", values, 0.0)

    first = orders()
    assert first[0] is first[1]
    assert first[0] is not first[2]
    assert orders()[0] is first[0]
    broker.handle(Subscribed("s", "2", parse_filter("x > 1")), 0.0)
    second = orders()
    assert [r.subscriptions for each in second for r in each.recipients] == [("1",), ("1", "2")]
    broker.handle(LinkSampled(B1, 1000, 0, 0), 0.0)
    assert orders()[0] is second[0], "nothing goes to another cluster: the links have no say"
    broker.handle(Received(B1, CibSet((broker.state.advertisements.of("p")["1"].key,))), 0.0)
    third = orders()
    assert third[0] is not second[0]
    assert orders()[0] is third[0]
    broker.handle(LinkSampled(B1, 0, 0, 0), 0.0)
    fourth = orders()
    assert fourth[0] is not third[0]
    assert orders()[0] is fourth[0]


def test_a_link_that_is_overloaded_and_then_down_is_not_the_same() -> None:
    """Case iv of IDR: the least loaded iLink carries the rest, as long as it is up."""
    broker = Broker(BrokerId("a", 0), Scot(parse_tree("path:1"), 3), "idr")
    a1, a2 = BrokerId("a", 1), BrokerId("a", 2)
    broker.handle(Advertised("p", "1", parse_filter("x is not null")), 0.0)
    key = broker.state.advertisements.of("p")["1"].key
    for neighbour, queue in ((a1, 50), (a2, 60)):
        broker.handle(Received(neighbour, CibSet((key,))), 0.0)
        broker.handle(LinkSampled(neighbour, queue, 0, 0), 0.0)

    def carriers() -> list[tuple[BrokerId, int]]:
        (decision,) = broker.publish("p", [{"x": 1}], 0.0)
        return [(to, header.civ) for to, header in decision.copies]

    assert carriers() == [(a1, 0b100)]
    broker.handle(LinkWentDown(a1), 0.0)
    assert carriers() == [(a2, 0b010)]


def test_a_batch_is_refused_notification_by_notification() -> None:
    broker = overlay_broker()
    values: list[dict[str, Any]] = [{"x": 1}, {"y": 1}, {"x": 0}]
    reason = "p has no advertisement here; advertise before you publish"
    assert [each.reason for each in broker.publish("p", values, 0.0) if isinstance(each, Refusal)] == [reason]
    broker.handle(Advertised("p", "1", parse_filter("x > 0")), 0.0)
    assert [isinstance(each, Refusal) for each in broker.publish("p", values, 0.0)] == [False]
    assert [isinstance(each, Refusal) for each in broker.publish("p", values[2:], 0.0)] == [True]
    (answer,) = broker.publish("p", values[1:], 0.0)
    (refused,) = answer.actions("p", "7", Notification.of(values[1]))
    assert isinstance(refused, Refuse)
    assert (refused.client, refused.request, refused.id) == ("p", "publish", "7")
    assert broker.publish("p", [], 0.0) == []


def test_handle_tells_the_same_as_actions() -> None:
    broker = overlay_broker()
    broker.handle(Advertised("p", "1", parse_filter("x > 0")), 0.0)
    broker.handle(Subscribed("s", "1", parse_filter("x > 1")), 0.0)
    broker.handle(Received(C0, Subscribe(Key(C0, 1), parse_filter("x > 0"))), 0.0)
    seen = Notification.of({"x": 5})
    deliver, copy = Deliver("p", "n", seen, (Recipient("s", ("1",)),)), Notify("p", "n", seen)
    assert broker.handle(Published("p", "n", seen), 0.0) == [deliver, Send(C0, copy)]
    assert broker.handle(Received(A0, copy), 0.0) == [deliver, Send(C0, copy)]
    assert broker.handle(Received(C0, copy), 0.0) == [deliver]


def test_who_may_not_send_copies_is_told_so() -> None:
    far = BrokerId("x", 9)
    for sender, routing, reason in ((far, "idr", "is not a neighbour"), (A0, "tid", "tid routing has not")):
        broker = overlay_broker(routing)
        with pytest.raises(RemoteProtocolError, match=reason):
            broker.receive(sender, PLAIN, [{"x": 1}])
    apart = Broker(B0, Scot(parse_tree("path:3"), 2), links_up=False)
    with pytest.raises(LocalProtocolError):
        apart.receive(C0, PLAIN, [{"x": 1}])
