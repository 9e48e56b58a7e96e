"""When a broker reports that it is overloaded, and which clients it asks to move. Time is moved by hand."""

from typing import Any

import pytest

from octopia.net import Client
from octopia.net.broker.load import CALM_SPANS, GAP_S_MAX, SHARE, LoadWatch
from octopia.net.client.nearest import measure
from tests.net.live import Live, overlay, take, until

TICK_S = 0.025
SPAN_S = 5.0


class Hand:
    """A watch whose time is moved by hand."""

    def __init__(self) -> None:
        self.watch = LoadWatch(TICK_S, SPAN_S)
        self.now = 100.0
        self.watch.check(self.now, 0, 0)

    def span(self, tick_s: float = TICK_S, memory: float = 0.0, places: float = 0.0) -> bool:
        """Ticks for one span, so far apart; whether it ended overloaded."""
        passed_s = 0.0
        while passed_s < SPAN_S:
            self.now += tick_s
            passed_s += min(tick_s, GAP_S_MAX)
            ended = self.watch.check(self.now, memory, places)
        return ended


@pytest.mark.parametrize(
    ("strain", "word"),
    [({"tick_s": 0.06}, "pace"), ({"memory": 0.8}, "memory"), ({"places": 0.8}, "connections")],
)
def test_overloaded_after_a_span_and_calm_after_two(strain: dict[str, float], word: str) -> None:
    hand = Hand()
    assert not hand.span()
    hand.span(**strain)
    assert word in hand.watch.reason
    assert [hand.span() for _ in range(CALM_SPANS + 1)][-1] is hand.watch.overloaded is False
    assert hand.watch.reason == ""


@pytest.mark.parametrize("between", [{"tick_s": 0.04}, {"memory": 0.6}, {"places": 0.75}])
def test_between_the_marks_it_stays_what_it_was(between: dict[str, float]) -> None:
    hand = Hand()
    for _ in range(5):
        hand.span(**between)
    assert not hand.watch.overloaded
    hand.span(memory=0.9)
    hand.span(memory=0.9)
    for _ in range(5):
        hand.span(**between)
    assert hand.watch.overloaded


def test_a_process_that_was_stopped_for_a_while_is_not_overloaded() -> None:
    hand = Hand()
    hand.now += 3600
    hand.watch.check(hand.now, 0, 0)
    hand.span()
    assert not hand.watch.overloaded


class _Guest:
    def say(self, message: object) -> None:
        raise AssertionError("the watch itself says nothing")


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_a_share_is_asked_at_a_time_and_everyone_before_anyone_twice(count: int) -> None:
    watch = LoadWatch(TICK_S, SPAN_S)
    guests = [_Guest() for _ in range(count)]
    share = -(-count // SHARE)
    rounds = -(-count // share) if count else 0
    asked: list[Any] = []
    for _ in range(rounds):
        chosen = watch.chosen(guests)
        assert len(chosen) == share
        asked += chosen
    assert {id(one) for one in asked} == {id(one) for one in guests}
    assert len(asked) - len(guests) < max(share, 1)


def test_those_who_left_are_forgotten() -> None:
    watch = LoadWatch(TICK_S, SPAN_S)
    guests = [_Guest() for _ in range(16)]
    gone = watch.chosen(guests)
    left = [one for one in guests if one not in gone]
    watch.chosen(left)
    assert len(watch._asked) == 2


@overlay(tree="path:2", clusters=2)
async def test_an_overloaded_broker_says_so_and_its_clients_move_without_loss(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live brokers: the old one pretends, the client measures, moves and gets everything once."""
    for name in ("a,0", "a,1", "b,0", "b,1"):
        # How busy this machine is has no say: only the one that pretends is overloaded, and it asks once.
        monkeypatch.setattr(live.host(name).load, "check", lambda *measured: False)
    urls = [live.url("a,0"), live.url("a,1")]
    client = Client(urls, name="mover", nearest=True)

    async def pretend(asked: Any, tls: Any) -> Any:
        found = dict(await measure(asked, tls))
        # (a,0) is the nearest, whatever this machine is doing.
        return {
            url: one._replace(round_trip_s=0.001 if str(url) == live.url("a,0") else 0.5) for url, one in found.items()
        }

    client._connecting.measure = pretend
    await client.open()
    live.clients.append(client)
    assert client.broker == "(a,0)"
    own = client.subscribe("n >= 0", inbox_max=10**6)
    await client.start_subscription(own)
    await client.advertise("m is not null")
    # On a quick machine more comes while the client moves than an inbox holds by default.
    far = await live.subscriber("b,1", "m >= 0", inbox_max=10**6)
    publisher = await live.publisher("b,0", "n is not null")
    host = live.host("a,0")
    host.load.overloaded, host.load.reason = True, "a test says so"
    assert (await measure([client.url], None))[client.url].overloaded
    assert b'"overloaded":"a test says so"' in _health(host)
    host._ask_to_move()
    count = 0
    while client._connecting._moving._task is not None or not client.moves:
        await publisher.publish_many({"n": count * 50 + k} for k in range(50))
        await client.publish_many({"m": count * 50 + k} for k in range(50))
        await publisher.flush()
        await client.flush()
        count += 1
        overlap: Any = client._session.overlap
        if overlap is not None and overlap._has_left:
            break
    assert (client.broker, client.moves, client.reconnects) == ("(a,1)", 1, 0)
    await until(lambda: "mover" not in host.sessions)
    assert [d.notification["n"] for d in await take(own, count * 50)] == list(range(count * 50))
    assert sorted(d.notification["m"] for d in await take(far, count * 50)) == list(range(count * 50))
    assert host.counters.clients_asked_to_move == 1


def _health(host: Any) -> bytes:
    from octopia.net.broker.operations.health import health

    return health(host.report())[1]
