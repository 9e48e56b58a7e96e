"""State of a broker in SCOT routing: the common part, one subscription table, and the state of resyncs.

The state of resyncs is empty until a link goes down. `stale` has, per neighbour whose link came up, the keys of entries
that came from it before and have not been sent again since. `unlearnt` has the brokers of this cluster whose
subscriptions this broker has not learnt in full since it started, and `branches` all other brokers of the cluster; both
with the primary neighbour that leads there. `scot/resync.py` explains their use. `tells` is how hosts of advertisements
learn of this cluster's interest (`interest.py`), `spread` how the cluster learns of subscriptions (`spread.py`); the
policy chooses both.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from octopia.protocol import Key
from octopia.routing.actions import Action
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.state import BrokerState, Setup
from octopia.routing.tables import Prt
from octopia.topology import BrokerId, civ


class Tells(NamedTuple):
    """The messages sent when an advertisement comes, when a subscription comes or goes, and in a resync.

    Each function takes the state of its routing and appends to `out`. Entries of advertisements are those of secondary
    neighbours.
    """

    # a new advertisement came; its interest is counted
    advertised: Callable[[Any, SrtEntry, list[Action]], None]
    # a subscription came that overlaps these advertisements; it is counted
    grew: Callable[[Any, PrtEntry, list[SrtEntry], list[Action]], None]
    # a subscription went that overlapped these advertisements; it is no longer counted
    fell: Callable[[Any, PrtEntry, list[SrtEntry], list[Action]], None]
    # the neighbour has sent all its advertisements on an iLink that came up
    answers: Callable[[Any, BrokerId, list[Action]], None]
    # all subscriptions of these brokers of this cluster are known; others may still be missing
    learnt: Callable[[Any, list[BrokerId], list[Action]], None]


class Spreading(Protocol):
    """How a broker updates its primary neighbours when its table of subscriptions changes.

    `names_hosts`: whether it can give its word for single hosts in a resync.
    """

    names_hosts: bool

    def changed(self, state: "ScotState", entry: PrtEntry, came: bool, out: list[Action]) -> None:
        """A subscription came, or went."""

    def all_for(self, state: "ScotState", neighbour: BrokerId) -> Iterator[PrtEntry]:
        """The subscriptions in force on the link to a neighbour."""


class ScotState(BrokerState):
    __slots__ = ("branches", "prt", "spread", "stale", "tells", "unlearnt")

    def __init__(self, setup: Setup, tells: Tells, spread: Spreading) -> None:
        super().__init__(setup)
        self.prt = Prt(setup.make_index, self.a_links)
        self.tells = tells
        self.spread = spread
        self.stale: dict[BrokerId, dict[Key, None]] = {}
        self.unlearnt: dict[BrokerId, BrokerId] = {}
        self.branches: dict[BrokerId, BrokerId] = {}

    def bit_across(self, neighbour: BrokerId) -> int:
        """The bit of the cluster that an iLink leads into; 0 for an aLink."""
        return 0 if neighbour.cluster == self.id.cluster else civ.bit(neighbour.cluster)

    def unlearnt_changed(self) -> None:
        self.prt.has_yet_to_learn_from(self.unlearnt)

    def not_stale(self, neighbour: BrokerId, key: Key) -> None:
        """Mark an entry as confirmed: the neighbour has sent it again since its link came up."""
        stale = self.stale.get(neighbour)
        if stale:
            stale.pop(key, None)
