"""State of a broker in SCOT routing: the common part, one subscription table, and what a resync has to remember.

Rules of this file: all that is here for resyncs is empty while no link ever went down. `stale` has, per neighbour
whose link came up, the keys of what came from it before and has not been told again since. `unlearnt` has the brokers
of this cluster whose subscriptions this broker, in this life, has not been told in full, and `branches` all other
brokers of the cluster; both with the primary neighbour that leads there. `scot/resync.py` says what they are for.
`tells` is how hosts of advertisements learn of this cluster's interest.
"""

from octopia.routing.clients import Limits
from octopia.routing.congestion import CongestionParameters
from octopia.routing.index import MakeIndex
from octopia.routing.messages import Key
from octopia.routing.scot.interest import BITS, Tells
from octopia.routing.state import BrokerState
from octopia.routing.tables import Prt
from octopia.topology import BrokerId, Scot


class ScotState(BrokerState):
    __slots__ = ("branches", "prt", "stale", "tells", "unlearnt")

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        congestion: CongestionParameters,
        limits: Limits,
        make_index: MakeIndex,
        first_serial: int,
    ) -> None:
        super().__init__(id, overlay, congestion, limits, make_index, first_serial)
        self.prt = Prt(make_index, self.a_links)
        self.tells: Tells = BITS
        self.stale: dict[BrokerId, dict[Key, None]] = {}
        self.unlearnt: dict[BrokerId, BrokerId] = {}
        self.branches: dict[BrokerId, BrokerId] = {}

    def unlearnt_changed(self) -> None:
        self.prt.has_yet_to_learn_from(self.unlearnt)

    def not_stale(self, neighbour: BrokerId, key: Key) -> None:
        """The neighbour told about this entry since its link came up, so it is no longer in doubt."""
        stale = self.stale.get(neighbour)
        if stale:
            stale.pop(key, None)
