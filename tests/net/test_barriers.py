"""Questions whether a registration is in force, across the restart of a broker in the middle: no answer too early."""

from octopia.net.broker.barriers import CLUSTER, Barriers
from octopia.topology import BrokerId
from octopia.wire import Barrier, BarrierDone

A, B, C = (BrokerId(region, 0) for region in "abc")
NEIGHBOURS = {A: (B,), B: (A, C), C: (B,)}


class Path:
    """a - b - c, each link a queue per direction that the test empties when it likes."""

    def __init__(self) -> None:
        self.under_way: list[tuple[BrokerId, BrokerId, Barrier | BarrierDone]] = []
        self.brokers = {id: self._fresh(id) for id in (A, B, C)}

    def _fresh(self, id: BrokerId) -> Barriers:
        return Barriers(NEIGHBOURS[id], (), lambda to, message: self.under_way.append((id, to, message)))

    def connect(self, one: BrokerId, other: BrokerId) -> None:
        for here, there in ((one, other), (other, one)):
            self.brokers[here].link_up(there)

    def restart(self, id: BrokerId) -> None:
        """What was under way to and from it is lost; nobody else has noticed yet."""
        self.under_way = [step for step in self.under_way if id not in step[:2]]
        self.brokers[id] = self._fresh(id)

    def move(self) -> None:
        """Until nothing is under way."""
        while self.under_way:
            sender, to, message = self.under_way.pop(0)
            if isinstance(message, Barrier):
                self.brokers[to].received(sender, message)
            else:
                self.brokers[to].answered(sender, message)


def path() -> Path:
    made = Path()
    made.connect(A, B)
    made.connect(B, C)
    return made


def test_the_whole_cluster_is_asked() -> None:
    all_up = path()
    done: list[str] = []
    all_up.brokers[A].when_in_force(CLUSTER, lambda: done.append("a"))
    assert [(sender, to) for sender, to, _ in all_up.under_way] == [(A, B)]
    all_up.move()
    assert done == ["a"]


def test_a_neighbour_that_restarted_is_asked_again_and_answers_when_its_own_neighbours_have_come() -> None:
    scene = path()
    done: list[str] = []
    scene.brokers[A].when_in_force(CLUSTER, lambda: done.append("a"))
    scene.restart(B)
    scene.brokers[A].link_down(B, returns=True)
    scene.connect(A, B)
    scene.move()
    # What lies beyond cannot know of it.
    assert done == []
    scene.brokers[C].link_down(B, returns=True)
    scene.connect(B, C)
    scene.move()
    assert done == ["a"]


def test_what_is_given_up_is_not_waited_for() -> None:
    scene = path()
    done: list[str] = []
    scene.brokers[A].when_in_force(CLUSTER, lambda: done.append("a"))
    scene.restart(B)
    scene.brokers[A].link_down(B, returns=True)
    scene.connect(A, B)
    scene.move()
    scene.brokers[B].link_given_up(C)
    scene.move()
    assert done == ["a"]


def test_a_neighbour_that_does_not_return_counts_as_having_answered() -> None:
    scene = path()
    done: list[str] = []
    scene.brokers[A].when_in_force(CLUSTER, lambda: done.append("a"))
    scene.brokers[A].link_down(B)
    assert done == ["a"]


def test_an_answer_that_waits_is_not_given_to_an_asker_that_went_down_meanwhile() -> None:
    scene = path()
    scene.restart(B)
    scene.connect(A, B)
    scene.brokers[A].when_in_force(CLUSTER, lambda: None)
    scene.move()
    scene.brokers[B].link_down(A)
    scene.connect(B, C)
    assert scene.under_way == []


def test_where_there_are_ways_around_a_question_waits_until_both_ends_know_that_a_link_is_down() -> None:
    now, sent, done = [10.0], list[tuple[BrokerId, Barrier | BarrierDone]](), list[str]()
    barriers = Barriers((A, C), (), lambda to, message: sent.append((to, message)), settle_s=2.0, now=lambda: now[0])
    barriers.link_up(A)
    barriers.link_up(C)
    barriers.when_in_force(CLUSTER, lambda: done.append("asked before"))
    barriers.link_down(C)
    barriers.answered(A, BarrierDone(1))
    barriers.check_time(11.9)
    assert done == []
    now[0] = 12.0
    barriers.check_time(12.0)
    assert done == ["asked before"]
    now[0] = 12.5
    barriers.link_down(A)
    barriers.when_in_force(CLUSTER, lambda: done.append("nobody to ask"))
    barriers.check_time(14.4)
    assert done == ["asked before"]
    barriers.check_time(14.5)
    assert done == ["asked before", "nobody to ask"]
