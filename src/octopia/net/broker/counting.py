"""Count the advertisements that overlap a filter, so that a subscriber learns whether anybody publishes for it.

Every advertisement is stored once in each cluster, by the broker of its region there. So a broker counts its own table
and asks its neighbours in the cluster, which ask theirs; the answers are added on the way back. A routing that stores
every advertisement everywhere needs no neighbours.

No I/O; `send` writes a frame to a neighbour and returns whether it could. Questions and answers travel beside the
numbered frames and are lost with the connection. What could not be asked makes the answer incomplete: at least that
many. The same goes for a broker with `QUESTIONS_MAX` questions in flight, which counts its own table only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from octopia.errors import RefusedError
from octopia.language import Filter
from octopia.topology import BrokerId
from octopia.wire import Counted, CountRequest, count_frame, message_frame

QUESTIONS_MAX: Final = 256

Done = Callable[[int, bool], None]
Send = Callable[[BrokerId, bytes], bool]


@dataclass(slots=True, eq=False)
class _Question:
    """A question in flight: the answers so far."""

    count: int
    done: Done
    complete: bool = True
    missing: int = 1  # the asker itself, until all have been asked

    def answered(self, count: int, complete: bool) -> None:
        self.count += count
        self.complete = self.complete and complete
        self.missing -= 1
        if not self.missing:
            self.done(self.count, self.complete)


class Counting:
    """The questions of one broker."""

    def __init__(self, neighbours: tuple[BrokerId, ...], count: Callable[[Filter], int], send: Send) -> None:
        """`neighbours`: those in the cluster. `count`: how many advertisements of this broker overlap a filter."""
        self._count = count
        self._send = send
        self._number = 0
        self._asked: dict[BrokerId, dict[int, _Question]] = {neighbour: {} for neighbour in neighbours}

    def ask(self, filter: Filter, done: Done, *, but: BrokerId | None = None) -> None:
        """Call `done` with the number in the cluster and whether it is complete; do not ask `but`."""
        question = _Question(self._count(filter), done)
        if sum(map(len, self._asked.values())) >= QUESTIONS_MAX:
            question.answered(0, False)
            return
        for neighbour, asked in self._asked.items():
            if neighbour == but:
                continue
            self._number += 1
            if self._send(neighbour, count_frame(self._number, filter)):
                question.missing += 1
                asked[self._number] = question
            else:
                question.complete = False
        question.answered(0, True)

    def received(self, sender: BrokerId, request: CountRequest) -> None:
        """A neighbour asks."""

        def answer(count: int, complete: bool) -> None:
            self._send(sender, message_frame(Counted(request.number, count, complete)))

        if request.filter is None:
            answer(0, False)
        else:
            self.ask(request.filter, answer, but=sender)

    def answered(self, sender: BrokerId, counted: Counted) -> None:
        """A neighbour answers; an answer that nobody waits for is ignored."""
        question = self._asked.get(sender, {}).pop(counted.number, None)
        if question is not None:
            question.answered(counted.count, counted.complete)

    def gone(self, neighbour: BrokerId) -> None:
        """The connection to a neighbour is gone, and with it its answers."""
        asked = self._asked.get(neighbour, {})
        questions = list(asked.values())
        asked.clear()
        for question in questions:
            question.answered(0, False)


def count_for(
    request: CountRequest,
    say: Callable[[Counted], None],
    check: Callable[[Filter], None],
    ask: Callable[[Filter, Done], None],
) -> None:
    """Answer a client's question; if it may not subscribe to the filter (`check` raises), it learns nothing."""
    try:
        if request.filter is None:
            raise RefusedError("the filter is invalid")
        check(request.filter)
    except RefusedError:
        say(Counted(request.number, 0, False))
    else:
        ask(request.filter, lambda count, complete: say(Counted(request.number, count, complete)))
