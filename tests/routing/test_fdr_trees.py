"""The choice of the tree in full dynamic routing: waits here, and waits that neighbours tell of."""

from itertools import pairwise

import pytest

from octopia.errors import LocalProtocolError
from octopia.language import Notification, parse_filter
from octopia.protocol import Dests, Waits
from octopia.routing import Action, Advertised, Broker, LinkSampled, LinkWentDown, Received, Send, Subscribed
from octopia.routing.congestion import CongestionParameters
from octopia.routing.fdr.beyond import TELL_EVERY_S, WAIT_MAX_S
from octopia.routing.fdr.broker_sets import AROUND
from octopia.routing.fdr.flood import GATHER_S
from octopia.routing.fdr.waits import WaitingLst
from octopia.topology import BrokerId, Scot, parse_tree

OVERLAY = Scot(parse_tree("path:3"), 3)
A0, A1, A2, B0, B1, C0 = (BrokerId(name[0], int(name[1])) for name in ("a0", "a1", "a2", "b0", "b1", "c0"))


def table() -> WaitingLst:
    return WaitingLst((B0, A1), CongestionParameters())


def test_a_wait_is_q_l_times_the_pace_of_the_link() -> None:
    lst = table()
    for tick in range(21):
        now = tick * 0.05
        lst.sample(B0, 100, 100 + 10 * tick, 10 * tick, now)  # ten leave in a window
        lst.sample(A1, 100, 100 + tick, tick, now)  # one does
    assert lst.waits[B0] == pytest.approx(100 * 0.005)
    assert lst.waits[A1] == pytest.approx(100 * 0.05)
    lst.sample(A1, 0, 200, 200, 2.0)
    assert lst.waits[A1] == 0


def test_a_link_that_does_not_move_becomes_slower_with_each_sample() -> None:
    lst = table()
    waits = []
    for tick in range(1, 6):
        lst.sample(A1, 3, 3, 0, tick * 0.1)
        waits.append(lst.waits[A1])
    assert waits == pytest.approx([0.003, 0.3, 0.6, 0.9, 1.2])


def test_a_fresh_connection_is_measured_anew() -> None:
    lst = table()
    for tick in range(5):
        lst.sample(A1, 50, 50, 0, tick * 1.0)
    lst.came_up(A1)
    assert lst.waits[A1] == 0
    lst.sample(A1, 2, 2, 0, 9.0)
    assert lst.waits[A1] == pytest.approx(2 * lst.pace(B0))


def host() -> Broker:
    broker = Broker(A0, OVERLAY, "fdr")
    broker.handle(Advertised("P", "a", parse_filter("x > 0")), 0.0)
    return broker


def sample(broker: Broker, neighbour: BrokerId, length: int, now: float) -> list[tuple[BrokerId, int]]:
    """What it tells whom because of it."""
    return told(broker.handle(LinkSampled(neighbour, length, length, 0), now))


def told(actions: list[Action]) -> list[tuple[BrokerId, int]]:
    sends = [action for action in actions if isinstance(action, Send) and isinstance(action.message, Waits)]
    return [(send.to, send.message.wait_ms) for send in sends]  # type: ignore[union-attr]


def take(broker: Broker, times: int, now: float) -> list[int]:
    return [broker.state.trees.take(now, 1) for _ in range(times)]


def test_each_notification_counts_until_the_next_sample() -> None:
    broker = host()
    for neighbour, length in ((B0, 40), (A1, 10), (A2, 12)):
        sample(broker, neighbour, length, 0.0)
    assert take(broker, 8, 0.0) == [1, 1, 1, 2, 1, 2, 1, 2]
    sample(broker, A2, 0, 0.05)
    assert take(broker, 3, 0.05) == [2, 2, 2]


def test_to_look_at_the_choice_does_not_change_it() -> None:
    broker = host()
    for neighbour, length in ((B0, 40), (A1, 10), (A2, 10)):
        sample(broker, neighbour, length, 0.0)
    assert [broker.state.tree(0.0) for _ in range(3)] == [1, 1, 1]


def test_around_while_the_own_tree_has_much_shorter_queues() -> None:
    broker = host()
    for neighbour, length in ((B0, 2), (A1, 10), (A2, 10)):
        sample(broker, neighbour, length, 0.0)
    assert take(broker, 5, 0.0) == [AROUND] * 3 + [1, 2]


def test_a_slow_first_link_counts_as_long_as_it_is() -> None:
    broker = host()
    for tick in range(20):
        now = tick * 0.05
        for neighbour, length, left in ((B0, 50, 10), (A1, 5, 1), (A2, 20, 10)):
            broker.handle(LinkSampled(neighbour, length, length + left * tick, left * tick), now)
    # 5 messages of 50 ms each are more than 20 of 5 ms
    assert take(broker, 1, 1.0) == [2]


def test_a_long_queue_is_told_to_all_who_may_send_there_and_no_more_often_than_needed() -> None:
    b_mates = [BrokerId("b", 1), BrokerId("b", 2)]
    broker = Broker(B0, OVERLAY, "fdr")
    words = [sample_left(broker, C0, 1000, 10 * tick, 10 + tick * 0.05) for tick in range(60)]
    spoken = [(tick, word) for tick, word in enumerate(words) if word]
    # not back to C0, which does not send there by way of B0
    assert all([to for to, _ in word] == [A0, *b_mates] for _, word in spoken)
    moments = [10 + tick * 0.05 for tick, _ in spoken]
    assert all(later - earlier >= TELL_EVERY_S for earlier, later in pairwise(moments))
    assert spoken[-1][1][0][1] == pytest.approx(5000, rel=0.1)


def sample_left(broker: Broker, neighbour: BrokerId, length: int, left: int, now: float) -> list[tuple[BrokerId, int]]:
    return told(broker.handle(LinkSampled(neighbour, length, length + left, left), now))


def test_word_moves_along_the_tree_and_ends_at_region_mates() -> None:
    at_a = Broker(A0, OVERLAY, "fdr")
    assert told(at_a.handle(Received(B0, Waits(5000, 1000)), 1.0)) == [(A1, 5000), (A2, 5000)]
    assert told(at_a.handle(Received(B0, Waits(5000, 1000)), 1.0)) == [], "they know"
    mate = Broker(A1, OVERLAY, "fdr")
    assert told(mate.handle(Received(A0, Waits(5000, 1000)), 1.0)) == []
    in_between = Broker(B0, OVERLAY, "fdr")
    mates = [(BrokerId("b", 1), 700), (BrokerId("b", 2), 700)]
    assert told(in_between.handle(Received(C0, Waits(700, 1000)), 1.0)) == [(A0, 700), *mates]


def test_a_tree_with_a_long_wait_far_away_is_avoided_until_it_is_over() -> None:
    broker = host()
    assert take(broker, 1, 0.0) == [0]
    broker.handle(Received(B0, Waits(3000, 1000)), 1.0)
    assert take(broker, 1, 1.1) == [1], "the own tree has to wait"
    broker.handle(Received(A1, Waits(2500, 1000)), 1.1)
    assert take(broker, 2, 1.2) == [2, 2]
    broker.handle(Received(A2, Waits(9000, 1000)), 1.2)
    assert take(broker, 1, 1.3) == [1]
    assert take(broker, 1, 4.1) == [0], "nobody said that it goes on"


def test_in_a_burst_far_waits_count_where_they_are_longer_than_the_own() -> None:
    broker = host()
    for neighbour, length in ((B0, 900), (A1, 100), (A2, 300)):
        sample(broker, neighbour, length, 1.0)
    assert take(broker, 1, 1.0) == [1]
    broker.handle(Received(A1, Waits(200, 1000)), 1.0)
    assert take(broker, 1, 1.0) == [1], "0.2 s are less than the 0.3 s of the other tree"
    broker.handle(Received(A1, Waits(2000, 1000)), 1.0)
    assert take(broker, 1, 1.0) == [2]


def busy_host(*links: tuple[BrokerId, int, float]) -> Broker:
    """A host broker with queues of these lengths, after a second in which each link took its pace per message."""
    broker = host()
    for tick in range(21):
        now = tick * 0.05
        for neighbour, length, pace in links:
            left = round(now / pace)
            broker.handle(LinkSampled(neighbour, length, length + left, left), now)
    return broker


def through(waiting: int, pace: float, backlog: float, farther: float) -> float:
    """When the last of so many messages is through both links, one message after the other."""
    left, done = 0.0, backlog
    for _ in range(waiting):
        left += pace
        done = max(done, left) + farther
    return done


@pytest.mark.parametrize("farther", [0.01, 0.025, 0.1])
def test_what_waits_here_for_a_slow_link_far_away_counts_at_its_pace(farther: float) -> None:
    queue, pace, backlog = 40, 0.01, 0.3
    broker = busy_host((B0, 2000, pace), (A1, queue, pace), (A2, queue, pace))
    broker.handle(Received(A1, Waits(round(backlog * 1000), round(farther * 1e6))), 1.0)
    taken = take(broker, 600, 1.0)
    assert set(taken) == {1, 2}
    slow = through(queue + taken.count(1), pace, backlog, farther)
    fast = (queue + taken.count(2)) * pace
    # neither tree is done much before the other, but what is known of the slow one is a lower bound
    assert slow == pytest.approx(fast, rel=0.1, abs=backlog)


def test_what_waits_for_a_link_that_was_never_measured_is_not_counted_farther_on() -> None:
    broker = host()
    for neighbour, length in ((B0, 900), (A1, 100), (A2, 300)):
        sample(broker, neighbour, length, 1.0)
    broker.handle(Received(A1, Waits(200, 100_000)), 1.0)
    broker.state.trees.best(1.0)
    assert broker.state.trees.costs[1] == pytest.approx(0.2)


def test_a_wait_far_away_grows_with_what_leaves_for_it() -> None:
    pace, farther = 0.01, 0.1
    broker = busy_host((B0, 2000, pace), (A1, 100, pace), (A2, 100, pace))
    broker.handle(Received(A1, Waits(500, round(farther * 1e6))), 1.0)
    # in half a second 50 leave, and nothing more is reported
    for tick in range(1, 11):
        broker.handle(LinkSampled(A1, 100 - 5 * tick, 200, 100 + 5 * tick), 1.0 + tick * 0.05)
    broker.state.trees.best(1.5)
    assert broker.state.trees.costs[1] == pytest.approx(through(100, pace, 0.5, farther) - 0.5, rel=0.15)
    # once it is over, it does not grow again
    broker.handle(LinkSampled(A1, 0, 200, 200), 2.0)
    assert broker.state.beyond.wait(A1, 20.0) == 0.0
    broker.handle(LinkSampled(A1, 0, 900, 900), 20.0)
    assert broker.state.beyond.wait(A1, 20.0) == 0.0


def empty(broker: Broker, left: int, now: float) -> None:
    for neighbour in (B0, A1, A2):
        broker.handle(LinkSampled(neighbour, 0, left, left), now)


def test_what_is_published_before_the_next_sample_counts_on_slow_links() -> None:
    broker = busy_host((B0, 5, 0.03), (A1, 5, 0.01), (A2, 5, 0.01))
    empty(broker, 200, 10.0)
    assert not broker.state.trees.is_steady(10.1)
    # the fifth would wait for 0.12 s, and another tree takes one more hop but saves 0.1 s
    assert take(broker, 8, 10.1) == [0, 0, 0, 0, 1, 2, 1, 2]
    assert take(broker, 4, 10.2) == [0, 0, 0, 0], "queues are as empty as they were"


def test_a_link_that_stood_still_once_is_fast_again() -> None:
    broker = host()
    empty(broker, 0, 1.0)
    assert broker.state.trees.is_steady(1.0)
    for tick in range(4):
        broker.handle(LinkSampled(B0, 9, 9, 0), 1.05 + tick * 0.05)
    empty(broker, 9, 1.3)
    assert not broker.state.trees.is_steady(1.3)
    empty(broker, 209, 1.35)
    assert broker.state.trees.is_steady(1.35)
    assert take(broker, 50, 1.35) == [0] * 50


def test_the_pace_of_the_slowest_link_is_told() -> None:
    in_between = Broker(B0, OVERLAY, "fdr")
    for tick in range(21):
        now = tick * 0.05
        in_between.handle(LinkSampled(C0, 100, 100 + 10 * tick, 10 * tick), now)
    slower = in_between.handle(Received(C0, Waits(9000, 20_000)), 1.0)
    assert [send.message for send in slower if isinstance(send, Send)] == [Waits(11_000, 20_000)] * 3
    faster = in_between.handle(Received(C0, Waits(30_000, 1_000)), 1.0)
    assert [send.message for send in faster if isinstance(send, Send)] == [Waits(30_500, 5_000)] * 3


def test_a_wait_is_told_as_a_minute_at_most_and_goes_with_the_link() -> None:
    broker = host()
    broker.state.beyond.learn(B0, 1e9, 0.001, 0.0)
    assert broker.state.beyond.wait(B0, 0.0) == WAIT_MAX_S
    broker.state.link_went_down(B0)
    assert broker.state.beyond.wait(B0, 0.0) == 0


def test_copies_that_are_passed_on_need_no_match() -> None:
    """Their headers say all; what was decided is forgotten when news of a link is spread."""
    broker = Broker(B0, OVERLAY, "fdr")
    broker.handle(Subscribed("S", "s", parse_filter("x > 0")), 0.0)
    places = broker.state.places.brokers
    notification = Notification.of({"x": 1})
    for _ in range(2):
        (decision,) = broker.receive(A0, Dests(places[C0] | places[B1]), (notification,))
        assert not decision.here
        assert decision.copies == ((C0, Dests(places[C0])), (B1, Dests(places[B1])))
    (mine,) = broker.receive(A0, Dests(places[C0] | places[B0]), (notification,))
    assert mine.here
    assert mine.copies == ((C0, Dests(places[C0])),)
    broker.handle(LinkWentDown(B1), 0.0)
    broker.tick(GATHER_S)
    (around,) = broker.receive(A0, Dests(places[C0] | places[B1]), (notification,))
    assert B1 not in [to for to, _ in around.copies]
    with pytest.raises(LocalProtocolError, match="whose link is down"):
        broker.receive(B1, Dests(places[C0]), (notification,))
