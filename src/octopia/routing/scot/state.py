"""State of a broker in SCOT routing: the common part, one subscription table, and the state of resyncs.

The state of resyncs is empty until a link goes down. `stale` has, per neighbour whose link came up, the keys of entries
that came from it before and have not been sent again since. `unlearnt` has the brokers of this cluster whose
subscriptions this broker has not learnt in full since it started, and `branches` all other brokers of the cluster; both
with the primary neighbour that leads there. `scot/resync.py` explains their use. `tells` is how hosts of advertisements
learn of this cluster's interest, `spread` how the cluster learns of subscriptions.
"""

from octopia.protocol import Key
from octopia.routing.scot.interest import BITS, Tells
from octopia.routing.scot.spread import Spread
from octopia.routing.state import BrokerState, Setup
from octopia.routing.tables import Prt
from octopia.topology import BrokerId, civ


class ScotState(BrokerState):
    __slots__ = ("branches", "prt", "spread", "stale", "tells", "unlearnt")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.prt = Prt(setup.make_index, self.a_links)
        self.tells: Tells = BITS
        self.spread = Spread()
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
