"""Output queues and links of a simulated broker.

A queue sends one message after the other, so the moment a message leaves it is known when it enters: the later of now
and the moment the one before has left, plus its own sending time. Everything here is computed at that moment, in whole
nanoseconds, and a message is one event of the simulation, its arrival. Q_l counts messages that have entered and not
left, including the one being sent.

Most links are `plain`: every message takes the same time to send, without faults. Such a queue is busy without a gap
until it is free, so Q_l follows from that moment alone and no message needs to be remembered.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from octopia.sim.chance import Chance
from octopia.sim.faults import LinkFault
from octopia.sim.model import LinkModel
from octopia.topology import BrokerId

if TYPE_CHECKING:
    from octopia.sim.node import Node


class Passage(NamedTuple):
    """The fate of one message on a link: when it leaves the queue and arrives, and its code (see trace.FATES)."""

    left_ns: int
    arrived_ns: int
    fate: str
    twice: bool


# Moment, number of the link, message, request, hop, entered the queue, left it, Q_l found, code of the message
# (`recorder.CODE_OF`). A request of a client, at the broker with the number n, has the link -1 - n.
Arrival = tuple[int, int, Any, int, int, int, int, int, int]
ARRIVAL_FIELDS = 9
QUEUED = 5
# In place of the code of a message for a request, which has none.
NO_MESSAGE = -1


class OutLink:
    """The output queue of one broker towards one neighbour, and the wire behind it."""

    __slots__ = (
        "chance",
        "delays_ns",
        "drops",
        "entered",
        "entered_at_tick",
        "faults",
        "free_ns",
        "index",
        "last_arrival_ns",
        "leaving",
        "model",
        "plain",
        "receiver",
        "receiver_id",
        "renewed_ns",
        "sender",
        "sender_id",
        "sending_ns",
        "told_length",
        "told_ns",
    )

    def __init__(
        self,
        index: int,
        sender: "Node",
        receiver: "Node",
        seed: int,
        model: LinkModel,
        delays_ns: list[int],
        plain: bool,
    ) -> None:
        self.index = index
        self.model = model
        # draws for the wire: which one a message takes depends on its number
        self.delays_ns = delays_ns
        # of every message, if the link is plain
        self.sending_ns = model.per_message_ns
        self.plain = plain
        self.sender = sender
        self.receiver = receiver
        self.sender_id: BrokerId = sender.id
        self.receiver_id: BrokerId = receiver.id
        self.free_ns = 0
        self.last_arrival_ns = 0
        # when each message that has not left the queue will leave it; not kept for plain links
        self.leaving: deque[int] = deque()
        self.entered = 0
        self.entered_at_tick = 0
        # its last sample reported to the broker, and its time
        self.told_length = 0
        self.told_ns = -1
        # start of the present connection; older messages in the queue are void, except notifications
        self.renewed_ns = -1
        self.faults: list[LinkFault] = []
        # messages that would wait while the link is down are dropped: the routing sends them again another way
        self.drops = False
        self.chance = Chance(seed, f"link {self.sender_id} {self.receiver_id}")

    def length_at(self, at_ns: int) -> int:
        """Q_l at a moment that is not earlier than any previous question or entry."""
        if self.plain:
            busy_ns = self.free_ns - at_ns
            return -(-busy_ns // self.sending_ns) if busy_ns > 0 else 0
        leaving = self.leaving
        while leaving and leaving[0] <= at_ns:
            leaving.popleft()
        return len(leaving)

    def down_at(self, at_ns: int) -> LinkFault | None:
        for fault in self.faults:
            if fault.kind == "down" and fault.from_ns <= at_ns < fault.until_ns:
                return fault
        return None

    def pass_with_faults(self, ready_ns: int, sending_ns: int, delay_ns: int) -> Passage:
        """Send one message over a link that has faults; here their times are those of the run."""
        begin = max(ready_ns, self.free_ns)
        while down := self.down_at(begin):
            if self.drops:
                left = max(ready_ns, down.from_ns)
                return Passage(left, max(left, self.last_arrival_ns), "link down", False)
            begin = down.until_ns
        weather = self.weather(begin, self.entered)
        left = begin + sending_ns * weather.factor
        arrived = max(left + delay_ns + weather.extra_ns, self.last_arrival_ns)
        fate = "link down" if self.cut(begin, arrived) else weather.fate
        return Passage(left, arrived, fate, weather.twice)

    def weather(self, at_ns: int, serial: int) -> "Weather":
        """The effect of faults on the message with this serial number, if it is sent at a moment."""
        fate, twice, extra_ns, factor = "handled", False, 0, 1
        for fault in self.faults:
            if not fault.from_ns <= at_ns < fault.until_ns:
                continue
            if fault.kind == "slow":
                factor *= fault.factor
            elif fault.kind == "delay":
                extra_ns += fault.delay_ns
            elif fault.kind == "loss" and self.chance.happens(2 * serial, fault.probability):
                fate = "lost"
            elif fault.kind == "duplicate" and self.chance.happens(2 * serial + 1, fault.probability):
                twice = True
        return Weather(fate, twice, extra_ns, factor)

    def cut(self, begin_ns: int, arrived_ns: int) -> bool:
        """Whether the link goes down while a message is on it."""
        return any(fault.kind == "down" and begin_ns < fault.from_ns <= arrived_ns for fault in self.faults)


class Weather(NamedTuple):
    """The effect of faults on a message: its fate, whether it arrives twice, and its additional delay."""

    fate: str
    twice: bool
    extra_ns: int
    factor: int


FAIR = Weather("handled", False, 0, 1)
