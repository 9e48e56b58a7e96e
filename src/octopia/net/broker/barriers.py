"""Find out when a registration is in force everywhere, with questions that follow it on the same links.

A subscription is in force when every broker of its cluster has stored it and every CIB_SET it caused has arrived; an
advertisement, when the region has stored it and answered. Links keep order, so a question sent after these messages
arrives after them, and its answer after their answers. So the host broker asks its neighbours, they ask theirs, and the
client is told after the last answer. Requests of clients that arrive while a question is in flight share the next one.

No I/O; `send` queues a message towards a neighbour. Only links that are up are asked: the core resyncs a link that
comes up later before anything else is sent on it. An iLink that carried only notifications since the last answer need
not be asked. A neighbour that restarted is asked its unanswered questions again. A broker that has just started answers
for its cluster once its neighbours have connected or been given up: until then it cannot know what lies beyond them.

If the routing has detours, a link that is down does not affect what is in force once both its ends know of it
(`settle_s`, counted here from when this end knows): a broker that may have missed a registration then allows for it.
Until then, questions are not answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from octopia.topology import BrokerId
from octopia.wire import Barrier, BarrierDone

Done = Callable[[], None]
Send = Callable[[BrokerId, Barrier | BarrierDone], None]

REGION: Final = False
CLUSTER: Final = True


@dataclass(slots=True, eq=False)
class _Question:
    """A question in flight: the answers it waits for, and its callback."""

    done: Done
    missing: int = 1  # the asker itself, until all have been asked


class Barriers:
    """The questions of one broker."""

    def __init__(
        self,
        a_links: tuple[BrokerId, ...],
        i_links: tuple[BrokerId, ...],
        send: Send,
        *,
        settle_s: float = 0.0,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._a_links = a_links
        self._i_links = i_links
        self._send = send
        self._up: dict[BrokerId, None] = {}
        # Links that have neither come up nor been given up since this broker started: nothing is in force without them.
        self._expected: dict[BrokerId, None] = dict.fromkeys(a_links + i_links)
        self._number = 0
        # per neighbour: the questions it has not answered, in order, and whether there is anything to ask it about
        self._asked: dict[BrokerId, dict[int, _Question]] = {n: {} for n in a_links + i_links}
        self._control_since: dict[BrokerId, bool] = dict.fromkeys(a_links + i_links, False)
        self._again: dict[BrokerId, list[_Question]] = {n: [] for n in a_links + i_links}
        self._unanswered: list[tuple[BrokerId, Done]] = []  # asked by neighbours while others are expected
        self._waiting: dict[bool, list[Done]] = {REGION: [], CLUSTER: []}
        self._running = {REGION: False, CLUSTER: False}
        self._settle_s = settle_s
        self._now = now
        self._settled_at = now()  # when both ends know of every link that went down
        self._settling: list[_Question] = []  # answered then

    def link_up(self, neighbour: BrokerId) -> None:
        self._up[neighbour] = None
        again, self._again[neighbour] = self._again[neighbour], []
        for question in again:
            self._send_question(neighbour, question)
        self._came(neighbour)

    def link_given_up(self, neighbour: BrokerId) -> None:
        self._came(neighbour)

    def _came(self, neighbour: BrokerId) -> None:
        self._expected.pop(neighbour, None)
        if not self._expected:
            unanswered, self._unanswered = self._unanswered, []
            for sender, answer in unanswered:
                self._ask(CLUSTER, sender, answer)
            for cluster_wide in (REGION, CLUSTER):
                if self._waiting[cluster_wide] and not self._running[cluster_wide]:
                    self._start(cluster_wide)

    def link_down(self, neighbour: BrokerId, *, returns: bool = False) -> None:
        """No answers will come from there: its questions count as answered or, if it `returns`, are asked again.

        It returns if the next event on this link is that it comes up.
        """
        self._up.pop(neighbour, None)
        asked, self._asked[neighbour] = self._asked[neighbour], {}
        self._control_since[neighbour] = False
        self._unanswered = [(sender, answer) for sender, answer in self._unanswered if sender != neighbour]
        if returns:
            self._again[neighbour] = list(asked.values())
            return
        if self._settle_s:
            self._settled_at = self._now() + self._settle_s
            self._settling += asked.values()
            return
        for question in asked.values():
            self._answered(question)

    def check_time(self, now: float) -> None:
        """Answer questions that waited until both ends of a failed link knew of it."""
        if self._settling and now >= self._settled_at:
            settled, self._settling = self._settling, []
            for question in settled:
                self._answered(question)

    def control_sent(self, neighbour: BrokerId) -> None:
        """A message that changes tables was sent on this link."""
        self._control_since[neighbour] = True

    def when_in_force(self, cluster_wide: bool, done: Done) -> None:
        """Call `done` when everything sent so far has taken effect."""
        self._waiting[cluster_wide].append(done)
        if not self._running[cluster_wide] and not self._expected:
            self._start(cluster_wide)

    def received(self, sender: BrokerId, barrier: Barrier) -> None:
        """A neighbour asks."""
        number = barrier.number

        def answer() -> None:
            if sender in self._up:
                self._send(sender, BarrierDone(number))

        if not barrier.cluster_wide:
            answer()
        elif self._expected:
            self._unanswered.append((sender, answer))
        else:
            self._ask(CLUSTER, sender, answer)

    def answered(self, sender: BrokerId, done: BarrierDone) -> None:
        """A neighbour answers; an answer to an abandoned question is ignored."""
        question = self._asked[sender].pop(done.number, None)
        if question is not None:
            self._answered(question)

    def _start(self, cluster_wide: bool) -> None:
        waiting, self._waiting[cluster_wide] = self._waiting[cluster_wide], []
        self._running[cluster_wide] = True

        def finished() -> None:
            self._running[cluster_wide] = False
            for done in waiting:
                done()
            if self._waiting[cluster_wide] and not self._running[cluster_wide]:
                self._start(cluster_wide)

        self._ask(cluster_wide, None, finished)

    def _ask(self, cluster_wide: bool, but: BrokerId | None, done: Done) -> None:
        question = _Question(done)
        if cluster_wide:
            for neighbour in self._a_links:
                if neighbour != but and neighbour in self._up:
                    self._ask_one(neighbour, question)
        for neighbour in self._i_links:
            if neighbour in self._up and (self._control_since[neighbour] or self._asked[neighbour]):
                self._ask_one(neighbour, question)
        if self._settle_s and self._now() < self._settled_at:
            # stays one short of its answers
            self._settling.append(question)
        else:
            self._answered(question)

    def _ask_one(self, neighbour: BrokerId, question: _Question) -> None:
        question.missing += 1
        self._send_question(neighbour, question)

    def _send_question(self, neighbour: BrokerId, question: _Question) -> None:
        self._number += 1
        self._control_since[neighbour] = False
        self._asked[neighbour][self._number] = question
        # Of an aLink it is asked for all that lies beyond.
        self._send(neighbour, Barrier(self._number, neighbour in self._a_links))

    def _answered(self, question: _Question) -> None:
        question.missing -= 1
        if not question.missing:
            question.done()
