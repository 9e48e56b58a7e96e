"""What the tables of a broker hold: one advertisement or one subscription each.

Rules of this file: plain records, changed by the routing functions only. A last hop of None means that a client of
this very broker registered the entry.
"""

from octopia.language import Filter
from octopia.routing.messages import Key
from octopia.topology import BrokerId


class SrtEntry:
    """An advertisement. `civ` and `interest` are used in SCOT routing only.

    `civ`: at the host broker its own bit (the context bit) and the bits of clusters that want it; at a secondary
    neighbour the host cluster's bit and this cluster's own, ON while `interest` is not 0. `interest` counts the
    subscriptions in this broker's PRT that overlap it. `unknown`, at the host broker: the bits of clusters that have
    not answered since their iLink came up; they count as ON, whatever `civ` says. In full dynamic routing: of clusters
    whose subscriptions it does not hold in full; and at a secondary neighbour the own bit, if the host does not.
    """

    __slots__ = ("civ", "filter", "interest", "key", "last_hop", "unknown")

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, civ: int = 0) -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.civ = civ
        self.interest = 0
        self.unknown = 0


class PrtEntry:
    """A subscription. `client` and `id` are set where `last_hop` is None: at its host broker."""

    __slots__ = ("client", "filter", "id", "key", "last_hop")

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, client: str = "", id: str = "") -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.client = client
        self.id = id
