"""Rates, totals and history: worked out of two answers, without I/O."""

import random
from typing import Any

import pytest

from octopia.cli.watch_options import sparkline
from octopia.errors import UnreachableError
from octopia.topology import BrokerId
from octopia.watch import History, WrongBrokerError, broker_view, overlay_view, series_of

A, B = BrokerId("a", 0), BrokerId("b", 0)


def state(broker: BrokerId, time_s: float, published: int, *, started_s: float = 1.0, **more: Any) -> dict[str, Any]:
    link = {
        "neighbour": str(B if broker == A else A), "up": True, "connected": True, "queue": 4, "element": 5.0,
        "overloaded": True, "avoided": True, "sent": 2 * published, "lost": 0,
    }  # fmt: skip
    return {
        "broker": str(broker), "status": "ok", "overloaded": "", "clients": 2, "subscriptions": 3, "advertisements": 1,
        "client_queue_by_priority": [1, 0, 2, 0], "published": published, "deliveries": 3 * published, "dropped": 0,
        "cases": {"0": {"notifications": 5, "copies": 5}, "iv": {"notifications": 7, "copies": 9}},
        "links": [link], "counters": {"refusals": 1}, "tau": 10.0, "time_s": time_s, "started_s": started_s,
        "events_last": 0,
        "process": {"pid": 7, "version": "1", "cpu_s": time_s / 4, "resident_bytes": 1000, "brokers": 1},
        **more,
    }  # fmt: skip


def test_rates_are_differences_over_the_brokers_own_time() -> None:
    before, now = state(A, 10.0, 100), state(A, 12.0, 300)
    view = broker_view(A, now, before)
    assert (view.published_rate, view.delivered_rate, view.sent_rate, view.cpu) == (100.0, 300.0, 200.0, 0.25)
    assert (view.queue, view.client_queue, view.around, view.uptime_s) == (4, 3, 7, 11.0)
    (link,) = view.links
    assert (link.load, link.rate, link.overloaded, link.avoided) == (2.0, 200.0, True, True)


@pytest.mark.parametrize("before", [None, state(A, 10.0, 500, started_s=0.5), state(A, 12.0, 100)])
def test_there_is_no_rate_without_an_earlier_answer_of_the_same_life(before: Any) -> None:
    view = broker_view(A, state(A, 12.0, 300), before)
    assert (view.published_rate, view.sent_rate, view.cpu, view.links[0].rate) == (None, None, None, None)


def test_totals_leave_out_who_does_not_answer() -> None:
    before = {A: state(A, 10.0, 0), B: state(B, 10.0, 0)}
    answers = {A: state(A, 11.0, 10), B: UnreachableError("gone")}
    view = overlay_view(5.0, answers, before)
    assert (view.brokers[B].status, view.brokers[B].reason) == ("down", "gone")
    totals = view.totals
    assert (totals.brokers, totals.up, totals.published_rate, totals.links, totals.links_up) == (2, 1, 10.0, 1, 1)
    assert overlay_view(5.0, {A: WrongBrokerError("other")}, {}).brokers[A].status == "wrong"
    assert overlay_view(5.0, {A: WrongBrokerError("other")}, {}).totals.published_rate is None
    assert {name for name in series_of(view) if name.startswith("(b,0)")} == set()
    assert series_of(view)["(a,0)-(b,0) queue"] == 4


def test_history_keeps_at_least_its_span_and_no_more_than_twice_that() -> None:
    draw = random.Random(5)
    history = History(every_s=1.0, series=2, span_s=300.0)
    told: dict[float, float] = {}
    for second in range(1500):
        value = draw.random()
        told[float(second)] = value
        values = {"x": value, "y": 1.0} if second > 1200 or second < 100 else {"x": value}
        history.add(float(second), values)
        assert len(history) <= 600
    kept = history.series("x")
    assert kept[-1] == (1499.0, told[1499.0])
    assert all(told[time_s] == pytest.approx(value) for time_s, value in kept)
    assert [time_s for time_s, _ in kept] == [float(n) for n in range(1500 - len(kept), 1500)]
    assert len(kept) >= 300
    assert history.values("y", 3) == [1.0, 1.0, 1.0]
    assert history.series("nothing") == []


def test_many_series_have_longer_steps_and_keep_the_largest() -> None:
    history = History(every_s=1.0, series=8_000, span_s=3600.0)
    assert history.step_s == pytest.approx(3.6)
    for second in range(40):
        history.add(float(second), {"x": float(second % 7)})
    largest = [value for _, value in history.series("x")]
    assert all(value is not None and value >= 3 for value in largest[:-1])
    assert len(largest) == 10


def test_sparklines_show_the_newest_values_and_gaps() -> None:
    assert sparkline([0.0, 1.0, 2.0, None, 4.0], 5) == "▁▃▅ █"
    assert sparkline([5.0, 0.0, 0.0], 2) == "▁▁"
    assert sparkline([], 3) == "   "
