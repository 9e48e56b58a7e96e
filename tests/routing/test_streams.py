"""Streams by their parts, each against the plainest thing that does the same: log, gate, what is owed; and together."""

from random import Random
from typing import Any

import pytest

from octopia.language import Notification
from octopia.protocol import Confirmation, Confirmed, Stamp
from octopia.routing.fdr.streams import receiving
from octopia.routing.fdr.streams.confirming import WAITING_MAX, Owed, Together
from octopia.routing.fdr.streams.receiving import Gate, Stream
from octopia.routing.fdr.streams.sending import StreamLog, places
from octopia.routing.streams import Unconfirmed
from octopia.topology import BrokerId
from tests.effort import cases

SOMETHING = Notification.of({"x": 1})
SEEDS = range(cases(60))


# ---- the log


class NaiveLog:
    """All that was sent, in order, with the destinations that have not confirmed; numbers are searched for."""

    def __init__(self, first: int) -> None:
        self.sent: list[tuple[str, int, set[int]]] = []
        self.used: dict[str, int] = {}
        self.first = first

    def before(self, publisher: str, place: int, number: int) -> int:
        return max((n for p, n, pending in self.sent if p == publisher and place in pending and n < number), default=0)

    def confirm(self, publisher: str, place: int, upto: int) -> None:
        for p, n, pending in self.sent:
            if p == publisher and n <= upto:
                pending.discard(place)

    def pending(self) -> list[tuple[str, int, set[int]]]:
        return [each for each in self.sent if each[2]]


def bits(of: set[int]) -> int:
    return sum(1 << place for place in of)


def befores(stamp: Stamp) -> dict[int, int]:
    return {place: stamp.sequence - gap for place, gap in zip(places(stamp.dests), stamp.gaps, strict=True)}


def next_life(log: StreamLog, first: int) -> StreamLog:
    """The log of a broker that restarted."""
    following = StreamLog(3, first=first)
    for entry in log:
        kept = entry.publisher, entry.id, entry.notification, entry.sequence, entry.pending, entry.priority
        following.take_up(Unconfirmed(*kept), 0)
    return following


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_says_what_came_before_and_keeps_what_is_not_confirmed(seed: int) -> None:
    draw = Random(seed)
    log, naive = StreamLog(3, first=1_000), NaiveLog(1_000)
    for step in range(120):
        publisher, place = draw.choice("pq"), draw.randrange(5)
        action = draw.random()
        if action < 0.55:
            dests = set(draw.sample(range(5), draw.randint(1, 4)))
            stamp = log.add(publisher, str(step), SOMETHING, bits(dests), 0, False)
            assert (stamp.host, stamp.dests) == (3, bits(dests))
            assert stamp.sequence > max([1_000, *(n for p, n, _ in naive.sent if p == publisher)])
            naive.sent.append((publisher, stamp.sequence, dests))
            assert befores(stamp) == {d: naive.before(publisher, d, stamp.sequence) for d in dests}
        elif action < 0.9:
            upto = draw.choice([0, *(n for p, n, _ in naive.sent if p == publisher)])
            log.confirm(publisher, place, upto)
            naive.confirm(publisher, place, upto)
        elif action < 0.95:
            missed = log.missed.get(place, 0) + sum(place in pending for _, _, pending in naive.sent)
            log.drop(place, log.serial)
            assert log.missed.get(place, 0) == missed
            for _, _, pending in naive.sent:
                pending.discard(place)
        elif action > 0.97:
            log = next_life(log, first=1_000 + 10_000 * step)
        for entry in log:
            again = log.again(entry, entry.pending)
            assert befores(again) == {
                d: naive.before(entry.publisher, d, entry.sequence) for d in places(entry.pending)
            }
        assert [(e.publisher, e.sequence, set(places(e.pending))) for e in log] == naive.pending()
    for place in range(5):
        log.drop(place, log.serial)
    assert len(log) == 0
    assert log.given_up == 0


def test_at_its_bound_a_log_gives_up_the_oldest_and_what_follows_begins_anew() -> None:
    log = StreamLog(0, entries_max=3)
    stamps = [log.add("p", str(number), SOMETHING, 0b110, 0, False) for number in range(5)]
    assert [befores(stamp) for stamp in stamps] == [{1: n, 2: n} for n in range(5)]
    assert log.given_up == 2
    assert [entry.sequence for entry in log] == [3, 4, 5]
    assert [befores(log.again(entry, 0b100)) for entry in log] == [{2: 0}, {2: 3}, {2: 4}]


def test_bytes_bound_a_log_too_but_one_stays() -> None:
    log = StreamLog(0, bytes_max=100)
    for size in (60, 60, 500):
        log.add("p", "", SOMETHING, 0b10, 0, False, size)
    assert [entry.size for entry in log] == [500]
    assert log.given_up == 2


class NaiveBacklogs:
    """Who waits for what, and who of them has it in his backlog, for a log of so many; searched from the beginning."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent: list[tuple[str, int, set[int], set[int]]] = []
        self.away: set[int] = set()
        self.missed: dict[int, int] = {}
        self.given_up = 0

    def publish(self, publisher: str, number: int, dests: set[int]) -> None:
        self.sent.append((publisher, number, set(dests), dests & self.away))
        for _, _, pending, backlog in self.sent:
            for place in sorted(pending & self.away) if len(self.kept()) > self.most else ():
                pending.discard(place)
                backlog.discard(place)
                self.missed[place] = self.missed.get(place, 0) + 1
        for each in self.kept()[: max(0, len(self.kept()) - self.most)]:
            each[2].clear()
            self.given_up += 1

    def leave(self, place: int) -> None:
        self.away.add(place)
        for _, _, pending, backlog in self.sent:
            backlog |= pending & {place}

    def confirm(self, publisher: str, place: int, upto: int) -> None:
        for p, n, pending, backlog in self.sent:
            if p == publisher and n <= upto:
                pending.discard(place)
                backlog.discard(place)

    def kept(self) -> list[tuple[str, int, set[int], set[int]]]:
        return [each for each in self.sent if each[2]]


@pytest.mark.parametrize("seed", SEEDS)
def test_backlogs_make_nobody_pause_and_give_way_first(seed: int) -> None:
    draw = Random(seed)
    log, naive = StreamLog(3, entries_max=20), NaiveBacklogs(20)
    for step in range(300):
        publisher, place, action = draw.choice("pq"), draw.randrange(4), draw.random()
        if action < 0.6:
            dests = set(draw.sample(range(4), draw.randint(1, 3)))
            naive.publish(publisher, log.add(publisher, str(step), SOMETHING, bits(dests), 0, False).sequence, dests)
        elif action < 0.9:
            upto = draw.choice([0, *(n for p, n, _, _ in naive.sent if p == publisher)])
            log.confirm(publisher, place, upto)
            naive.confirm(publisher, place, upto)
        elif place in naive.away:
            log.catch_up(1 << place)
            naive.away.discard(place)
        else:
            log.leave_behind(1 << place)
            naive.leave(place)
        assert [(e.publisher, e.sequence, set(places(e.pending))) for e in log] == [each[:3] for each in naive.kept()]
        live = sum(bool(pending - backlog) for _, _, pending, backlog in naive.kept())
        assert (log.filled, log.missed, log.given_up) == (live / 20, naive.missed, naive.given_up)


# ---- the gate


class NaiveGate:
    """Whoever follows what was released goes, and all below with it; asked again until nobody goes."""

    def __init__(self) -> None:
        self.last = 0
        self.held: dict[int, int] = {}

    def take(self, number: int, before: int) -> list[int]:
        if number <= self.last:
            return []
        self.held[number] = min(before, self.held.get(number, before))
        released: list[int] = []
        while ready := [n for n, b in self.held.items() if b <= self.last]:
            for n in sorted(n for n in self.held if n <= min(ready)):
                del self.held[n]
                released.append(n)
                self.last = n
        return released


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gate_releases_in_order_what_follows(seed: int) -> None:
    """Copies in any order, repeats, and some that say that less comes before them, as after something was given up."""
    draw = Random(seed)
    gate: Gate[int] = Gate()
    naive, stream = NaiveGate(), gate.stream(0, "p")
    chain = sorted(draw.sample(range(1, 200), 40))
    copies = list(zip(chain, [0, *chain], strict=False))
    copies += [(n, draw.choice([0, *(m for m in chain if m < n)])) for n, _ in draw.sample(copies, draw.choice((0, 3)))]
    copies += draw.sample(copies, 10)
    draw.shuffle(copies)
    for number, before in copies:
        assert gate.take(stream, number, before, number) == naive.take(number, before)
        assert (stream.last, stream.order, gate.held) == (naive.last, sorted(naive.held), len(naive.held))
    assert gate.release_all(stream) == sorted(naive.held)
    assert gate.held == 0


def test_a_repeat_is_dropped() -> None:
    gate: Gate[str] = Gate()
    stream = gate.stream(0, "p")
    assert gate.take(stream, 5, 0, "a") == ["a"]
    assert gate.take(stream, 5, 0, "a") == []
    assert gate.take(stream, 9, 7, "c") == []
    assert gate.take(stream, 9, 7, "c") == []
    assert gate.take(stream, 7, 5, "b") == ["b", "c"]
    assert gate.repeats == 2


def test_at_its_bound_a_gate_refuses_the_youngest_and_asks_when_all_that_waits_is_gone() -> None:
    gate: Gate[int] = Gate(per_stream_max=2)
    stream = gate.stream(0, "p")
    for number in (2, 4, 3, 5):
        assert gate.take(stream, number, number - 1, number) == []
    # 4 had to go for 3, and 5 must not come in before it
    assert (stream.order, stream.refused, gate.refusals) == ([2, 3], 4, 2)
    assert gate.take(stream, 1, 0, 1) == [1, 2, 3]
    assert (stream.asks, stream.refused) == (True, 0)
    assert gate.take(stream, 5, 4, 5) == []
    assert gate.take(stream, 4, 3, 4) == [4, 5]


def test_the_bound_of_all_streams_holds_for_each() -> None:
    gate: Gate[int] = Gate(held_max=1, bytes_max=100)
    one, other = gate.stream(0, "p"), gate.stream(1, "p")
    gate.take(one, 2, 1, 2, 10)
    gate.take(other, 2, 1, 2, 10)
    assert (gate.held, gate.held_bytes, other.refused) == (1, 10, 2)
    assert gate.take(other, 1, 0, 1) == [1]
    assert other.asks


def test_the_stream_unused_for_longest_is_forgotten_unless_something_waits_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving, "MANY_STREAMS", 0)
    gate: Gate[int] = Gate(streams_max=2)
    gate.take(gate.stream(0, "waits"), 2, 1, 2)
    gate.take(gate.stream(0, "used"), 1, 0, 1)
    gate.stream(0, "third")
    assert list(gate.hosts[0]) == ["waits", "third"]
    gate.stream(0, "waits")
    assert gate.take(gate.stream(0, "waits"), 1, 0, 1) == [1, 2]
    gate.stream(0, "fourth")
    assert list(gate.hosts[0]) == ["waits", "fourth"]


# ---- what is owed, and what waits

BY, TO = BrokerId("a", 0), BrokerId("b", 1)


def test_a_confirmation_is_due_after_a_time_or_a_number() -> None:
    owed = Owed(every=3, after_s=10.0)
    owed.came(7, "p", 1.0)
    owed.came(8, "q", 2.0)
    assert owed.due == 11.0
    assert owed.take_due(10.9) == []
    owed.came(8, "r", 3.0)
    owed.came(8, "q", 4.0)
    assert owed.due == 4.0
    assert owed.take_due(4.0) == [(8, ["q", "r"], True)]
    assert owed.take_due(10.9) == []
    assert owed.take_due(11.0) == [(7, ["p"], False)]
    assert owed.take_due(1e9) == []
    assert len(owed) == 0


def test_what_is_wanted_sooner_is_due_sooner() -> None:
    owed = Owed(every=100, after_s=10.0)
    owed.came(7, "p", 0.0)
    owed.by(7, "q", 1.0)
    assert owed.take_due(0.9) == []
    assert owed.take_due(1.0) == [(7, ["p", "q"], False)]
    owed.came(7, "p", 2.0)
    owed.forget(7)
    assert owed.due is None


def test_what_has_waited_for_half_of_its_time_goes_along() -> None:
    owed = Owed(every=100, after_s=10.0)
    owed.came(6, "o", 0.0)
    owed.came(7, "p", 1.0)
    owed.came(8, "q", 2.0)
    assert owed.take_along(6.5, lambda host: host != 6) == [(7, ["p"], False)]
    assert owed.due == 10.0


def test_waiting_confirmations_of_the_same_stream_are_one() -> None:
    """A later one says more; a request to send again stays one, and whoever does not wait is not made to."""
    waiting = Together(after_s=2.0)
    waiting.pass_on(Confirmation(BY, TO, (Confirmed("p", 5, True), Confirmed("q", 2))), 2.0)
    waiting.pass_on(Confirmation(BY, BY, (Confirmed("p", 1),)), 3.0)
    waiting.pass_on(Confirmation(BY, TO, (Confirmed("p", 7),), at_once=True), 3.0)
    waiting.owe(Confirmation(BY, TO, (Confirmed("p", 6),)), 8.0)
    assert (len(waiting), waiting.due) == (3, 3.0)
    assert waiting.due_by(2.9) == []
    assert waiting.due_by(3.0) == [TO]
    assert waiting.take(lambda host: host == TO) == [
        Confirmation(BY, TO, (Confirmed("p", 7, True), Confirmed("q", 2)), at_once=True)
    ]
    assert (len(waiting), waiting.due) == (1, 5.0)
    waiting.hurry_all(4.0)
    assert waiting.due_by(4.0) == [BY]
    assert waiting.take(lambda host: True) == [Confirmation(BY, BY, (Confirmed("p", 1),), at_once=True)]
    assert (len(waiting), waiting.due) == (0, None)


def test_too_many_confirmations_do_not_wait() -> None:
    waiting = Together()
    waiting.pass_on(Confirmation(BY, TO, tuple(Confirmed(str(n), 1) for n in range(WAITING_MAX))), 0.0)
    assert waiting.due_by(0.0) == []
    waiting.pass_on(Confirmation(TO, BY, (Confirmed("p", 1),)), 0.0)
    assert waiting.due_by(0.0) == [TO, BY]


# ---- log and gate together


class Line:
    """A log, a gate for each of three destinations, and between them copies that come in any order or are lost.

    What is lost is sent again at some time, as after news; what a gate asks for, too. Judged at every release.
    """

    def __init__(self, draw: Random, gate_max: int) -> None:
        self.draw = draw
        self.log = StreamLog(9)
        self.gates: list[Gate[tuple[str, int]]] = [Gate(per_stream_max=gate_max, held_max=2 * gate_max) for _ in "abc"]
        self.copies: list[tuple[int, str, Stamp]] = []
        self.owed: dict[tuple[int, str], list[int]] = {}

    def publish(self) -> None:
        publisher, dests = self.draw.choice("pq"), self.draw.randint(1, 7)
        stamp = self.log.add(publisher, "", SOMETHING, dests, 0, False)
        for place in places(dests):
            self.owed.setdefault((place, publisher), []).append(stamp.sequence)
            self.copies.append((place, publisher, stamp))

    def lose(self) -> None:
        if self.copies:
            self.copies.pop(self.draw.randrange(len(self.copies)))

    def arrive(self) -> None:
        if not self.copies:
            return
        place, publisher, stamp = self.copies.pop(self.draw.randrange(len(self.copies)))
        gate = self.gates[place]
        stream = gate.stream(9, publisher)
        for released in gate.take(stream, stamp.sequence, befores(stamp)[place], (publisher, stamp.sequence)):
            assert released == (publisher, self.owed[place, publisher].pop(0)), "not the next, or twice"
        if stream.asks:
            stream.asks = False
            self.again([place])

    def confirm(self) -> None:
        place, publisher = self.draw.randrange(3), self.draw.choice("pq")
        self.log.confirm(publisher, place, self.gates[place].stream(9, publisher).last)

    def again(self, to: Any = (0, 1, 2)) -> None:
        dests = bits(set(to))
        for entry in list(self.log):
            if entry.pending & dests:
                stamp = self.log.again(entry, entry.pending & dests)
                self.copies += [(place, entry.publisher, stamp) for place in places(stamp.dests)]

    def restart(self) -> None:
        """A destination loses its state and everything in flight to it; all that is unconfirmed is owed to it again."""
        place = self.draw.randrange(3)
        self.copies = [copy for copy in self.copies if copy[0] != place]
        self.gates[place].hosts.clear()
        self.gates[place].held = 0
        for publisher in "pq":
            self.owed[place, publisher] = [e.sequence for e in self.log.pending_at(publisher, place)]

    def confirm_all(self) -> None:
        for place, gate in enumerate(self.gates):
            for publisher in "pq":
                self.log.confirm(publisher, place, gate.stream(9, publisher).last)

    def finish(self) -> None:
        for _ in range(50):
            self.confirm_all()
            self.again()
            while self.copies:
                self.arrive()
        self.confirm_all()
        assert not any(self.owed.values())
        assert len(self.log) == 0
        assert [gate.held for gate in self.gates] == [0, 0, 0]


@pytest.mark.parametrize("gate_max", [2, 5, 1_000])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_arrives_once_and_in_order_whatever_is_lost(seed: int, gate_max: int) -> None:
    line = Line(Random(seed), gate_max)
    does = [line.publish] * 6 + [line.arrive] * 8 + [line.lose, line.confirm, line.confirm, line.again, line.restart]
    for _ in range(150):
        line.draw.choice(does)()
    line.finish()


def test_types_of_what_streams_keep() -> None:
    """Nobody else's notification is kept: the object that was handed over comes back."""
    kept = Notification.of({"x": 2})
    log = StreamLog(0)
    log.add("p", "n1", kept, 0b10, 0, False)
    (entry,) = log
    assert entry.notification is kept
    gate: Gate[Notification] = Gate()
    stream: Stream[Notification] = gate.stream(0, "p")
    assert gate.take(stream, 1, 0, kept)[0] is kept
