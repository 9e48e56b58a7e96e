"""State of a broker in SCOT routing: the common part and one subscription table."""

from octopia.routing.clients import Limits
from octopia.routing.congestion import CongestionParameters
from octopia.routing.index import MakeIndex
from octopia.routing.state import BrokerState
from octopia.routing.tables import Prt
from octopia.topology import BrokerId, Scot


class ScotState(BrokerState):
    __slots__ = ("prt",)

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
