"""An overlay whose brokers die and whose links break, in one process: the stage of a trial.

Links keep order and delay arbitrarily: which link's oldest message arrives next is drawn. Time passes when none is
left. What is on a link when it breaks is lost, and so is what is sent there while it is broken, and what a broker finds
to be out of reach; `lost` has the notifications of which a copy was. The ends of a broken link notice it when they are
told to, one at a time.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from benchmarks.deadsets.ranges import RangeIndex
from octopia.protocol import Dests, Message, Notify
from octopia.routing import (
    Action,
    Broker,
    Deliver,
    Event,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Received,
    Send,
)
from octopia.topology import BrokerId, Scot

End = tuple[BrokerId, BrokerId]  # the end of a link at the first broker
OnDeliver = Callable[[BrokerId, Deliver], None]

# Above what any broker of a trial gives out in one life.
SERIALS_PER_LIFE = 1_000_000


class FailingOverlay:
    """`broken` has both ends of every link without a connection, `unnoticed` those whose broker does not know yet."""

    def __init__(self, scot: Scot, rng: Random, on_deliver: OnDeliver) -> None:
        self.scot = scot
        self.rng = rng
        self.brokers = {id: Broker(id, scot, "fdr", make_index=RangeIndex) for id in scot.brokers}
        self.broken: set[End] = set()
        self.dead: set[BrokerId] = set()
        self.unnoticed: list[End] = []
        self.lost: set[str] = set()
        self.now = 0.0
        self.copies = 0
        self.control = 0
        self._on_deliver = on_deliver
        self._lives = dict.fromkeys(scot.brokers, 0)
        self._on_way: dict[End, deque[Message]] = {(a, b): deque() for a in scot.brokers for b in scot.neighbours(a)}
        self._busy: list[End] = []

    def tell(self, broker: BrokerId, event: Event) -> None:
        self._carry_out(broker, self.brokers[broker].handle_whole(event, self.now))

    def load(self) -> None:
        """Any queues, so that every tree is chosen by some host broker; or none."""
        lengths = self.rng.choice(((0,), (0, 0, 2, 9, 60)))
        for broker, neighbour in self._on_way:
            if broker not in self.dead:
                self.tell(broker, LinkSampled(neighbour, self.rng.choice(lengths), 0, 0))

    def arrive(self, most: int) -> None:
        """Let up to this many messages arrive."""
        for _ in range(most):
            if not self._busy:
                return
            self._arrive_on(self.rng.randrange(len(self._busy)))

    def become_quiet(self) -> None:
        """Until nothing is on its way, and nothing due."""
        while self._busy or self._let_time_pass():
            if self._busy:
                self._arrive_on(self.rng.randrange(len(self._busy)))

    def _let_time_pass(self) -> bool:
        """Advance to the next timer, and run all that are due then; False if there is none."""
        dues = [
            (due, id) for id, broker in self.brokers.items() if id not in self.dead and (due := broker.due) is not None
        ]
        if not dues:
            return False
        self.now = max(self.now, min(dues)[0])
        for due, id in dues:
            if due <= self.now:
                self._carry_out(id, self.brokers[id].tick(self.now))
        return True

    def _arrive_on(self, place: int) -> None:
        busy, end = self._busy, self._busy[place]
        message = self._on_way[end].popleft()
        if not self._on_way[end]:
            busy[place] = busy[-1]
            busy.pop()
        actions = self.brokers[end[1]].handle(Received(end[0], message), self.now)
        if isinstance(message, Notify):
            self._check_whole(end[1], message, actions)
        self._carry_out(end[1], actions)

    def _check_whole(self, broker: BrokerId, message: Notify, actions: list[Action]) -> None:
        """A destination to which no way leads is left out on the way: it counts as lost."""
        left = _dests(message) & ~self.brokers[broker].state.me
        for action in actions:
            if isinstance(action, Send) and isinstance(action.message, Notify):
                left &= ~_dests(action.message)
        if left:
            self._lose(message)

    def _carry_out(self, broker: BrokerId, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._send((broker, action.to), action.message)
            elif isinstance(action, Deliver):
                self._on_deliver(broker, action)

    def _send(self, end: End, message: Message) -> None:
        if isinstance(message, Notify):
            self.copies += 1
        else:
            self.control += 1
        if end in self.broken:
            self._lose(message)
            return
        waiting = self._on_way[end]
        if not waiting:
            self._busy.append(end)
        waiting.append(message)

    def _lose(self, message: Message) -> None:
        if isinstance(message, Notify):
            self.lost.add(message.id)

    def break_link(self, a: BrokerId, b: BrokerId) -> None:
        """The connection ends, and messages on it are lost; living ends have yet to notice."""
        for end in ((a, b), (b, a)):
            if end not in self.broken:
                self.broken.add(end)
                for message in self._on_way[end]:
                    self._lose(message)
                if self._on_way[end]:
                    self._on_way[end].clear()
                    self._busy.remove(end)
                if end[0] not in self.dead:
                    self.unnoticed.append(end)

    def kill(self, broker: BrokerId) -> None:
        self.dead.add(broker)
        self.unnoticed = [end for end in self.unnoticed if end[0] != broker]
        for neighbour in self.scot.neighbours(broker):
            self.break_link(broker, neighbour)

    def notice_one(self) -> None:
        if self.unnoticed:
            broker, neighbour = self.unnoticed.pop(self.rng.randrange(len(self.unnoticed)))
            self.tell(broker, LinkWentDown(neighbour))

    def notice_all(self) -> None:
        while self.unnoticed:
            self.notice_one()

    def mend_link(self, a: BrokerId, b: BrokerId) -> None:
        """There is a fresh connection between two brokers that live; both ends are told."""
        ends = [(a, b), (b, a)]
        self.broken -= set(ends)
        self.unnoticed = [end for end in self.unnoticed if end not in ends]
        self.rng.shuffle(ends)
        for broker, neighbour in ends:
            self.tell(broker, LinkCameUp(neighbour))

    def revive(self, broker: BrokerId) -> None:
        """It is back, and knows nothing; its links are still broken, and it is told so."""
        self.dead.discard(broker)
        self._lives[broker] += 1
        serial = self._lives[broker] * SERIALS_PER_LIFE
        self.brokers[broker] = Broker(
            broker, self.scot, "fdr", make_index=RangeIndex, first_serial=serial, links_up=False
        )
        for neighbour in self.scot.neighbours(broker):
            self.tell(broker, LinkGivenUp(neighbour))

    def links_to_mend(self) -> list[End]:
        return [(a, b) for a, b in self.scot.links if (a, b) in self.broken and not self.dead & {a, b}]

    def reachable(self, start: BrokerId) -> set[BrokerId]:
        found, seen = [start], {start}
        for at in found:
            fresh = [near for near in self.scot.neighbours(at) if near not in seen and (at, near) not in self.broken]
            found += fresh
            seen.update(fresh)
        return seen


def _dests(message: Notify) -> int:
    assert isinstance(message.header, Dests)
    return message.header.dests
