"""A plan as plain values, written as JSON: findings, proposals, and results of the replays."""

from collections.abc import Sequence

from msgspec import Struct

from octopia.planning.filters import Pair, Relations
from octopia.planning.proposal import Proposal
from octopia.planning.replay import Measured

BEFORE = "before"
# A replay with more messages or a longer mean delay than before, by more than this share, rejects a proposal.
WORSE_MAX = 0.02
_WORSE_IN = (("copies", "messages"), ("delay_mean_s", "mean delay"))


class Costs(Struct, frozen=True):
    """What a publisher's notifications, or a subscriber's deliveries, cost in the trace; times are means per delivery.

    `messages` are copies of notifications on links: all of a publisher's; of a subscriber its share, each copy divided
    by the deliveries of its notification. `queue_s` is time in output queues beyond the sending itself, `links_s`
    sending and travelling, `brokers_s` matching and the wait for a processor. `setup_messages` were sent to register.
    """

    client: str
    broker: str
    notifications: int
    deliveries: int
    messages: float
    hops_mean: float
    delay_mean_s: float
    queue_s: float
    links_s: float
    brokers_s: float
    setup_messages: int = 0


class Tried(Struct, frozen=True):
    """A number of clusters that was considered: its cost by the model, or the reason for excluding it."""

    clusters: int
    regions: int
    links: int
    messages: int | None = None
    hops: int | None = None
    left_out: str = ""


def rejected_of(measured: Sequence[Measured]) -> dict[str, str]:
    """The reasons to reject proposals, by name; the first replay is of the current overlay."""
    now = measured[0]
    found = {}
    for each in measured[1:]:
        changes = [(words, relative(getattr(now, what), getattr(each, what))) for what, words in _WORSE_IN]
        worse = [f"{words} +{change:.0%}" for words, change in changes if change is not None and change > WORSE_MAX]
        if worse:
            found[each.name] = ", ".join(worse)
    return found


def relative(now: float | None, then: float | None) -> float | None:
    """The relative difference of two values."""
    return None if not now or then is None else float(then / now - 1)


class Plan(Struct, frozen=True):
    """All of it.

    `measured` has the replays of proposals under `routing`, the first of them of the current overlay. `recommended` is
    the name of a proposal, or "" if the replays reject all of them.
    """

    source: str
    routing: str
    seed: int
    plan_share: float
    brokers: int
    clients_max: int
    notifications_planned: int
    notifications_proved: int
    flows: int
    flows_kept: float
    model_messages: int
    trace_messages: int
    publishers: tuple[Costs, ...]
    subscribers: tuple[Costs, ...]
    relations: Relations
    pairs: tuple[Pair, ...]
    likeness_min: float
    tried: tuple[Tried, ...]
    before: Proposal
    proposals: tuple[Proposal, ...]
    recommended: str
    measured: tuple[Measured, ...]
    controls: tuple[Measured, ...]
    other_routings: tuple[Measured, ...]

    def measured_of(self, name: str) -> Measured:
        return next(each for each in self.measured if each.name == name)

    def change(self, name: str, what: str) -> float | None:
        """The relative difference between a value of a replay and that of the current overlay."""
        now, then = (getattr(self.measured_of(each), what) for each in (BEFORE, name))
        return relative(now, then)

    @property
    def rejected(self) -> dict[str, str]:
        """The proposals that the replays reject, and why."""
        return rejected_of(self.measured)

    @property
    def broken(self) -> list[str]:
        """The checks that failed in the replays."""
        every = (*self.measured, *self.controls, *self.other_routings)
        return [f"{each.name} under {each.routing.upper()}: {rule}" for each in every for rule in each.broken]
