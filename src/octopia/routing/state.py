"""The state of one broker: its place in the overlay, its tables, its clients.

Plain state and a few small helpers. The functions in `scot/` and `tid/` read and change it and append actions to `out`;
only `broker.py` passes them events. Neighbour tables are computed once, here, so no routing step ever searches the
overlay. Links are up by default.
"""

from typing import NamedTuple

from octopia.language import DISJUNCTS_MAX
from octopia.protocol import Header, Key
from octopia.routing.clients import Limits, Registrations
from octopia.routing.congestion import CongestionParameters, Lst
from octopia.routing.decision import Decision
from octopia.routing.index import MakeIndex
from octopia.routing.tables import Srt
from octopia.topology import BrokerId, Scot, civ

# Decisions about copies that are forwarded without a match, by neighbour whose link is up and by header.
Passed = dict[BrokerId, dict[Header, Decision]]
# Cached headers per neighbour; a full cache is cleared.
PASSED_MAX = 4_096


def remember_passed(known: dict[Header, Decision], header: Header, decision: Decision) -> None:
    """For one neighbour, the decision about copies with a header."""
    if len(known) >= PASSED_MAX:
        known.clear()
    known[header] = decision


class Setup(NamedTuple):
    """What the state of a broker is made from; see `Broker`."""

    id: BrokerId
    overlay: Scot
    congestion: CongestionParameters
    limits: Limits
    make_index: MakeIndex
    first_serial: int


class BrokerState:
    """State shared by all routings. SCOT and TID routing each add a subscription table of their own kind.

    `passed` is None if every copy is matched (`decide.py`).
    """

    __slots__ = (
        "_serial",
        "a_links",
        "advertisements",
        "changes",
        "cut_off",
        "i_link_to",
        "i_links",
        "id",
        "lst",
        "neighbours",
        "own_bit",
        "passed",
        "srt",
        "subscriptions",
        "up",
        "up_a_links",
        "up_i_links",
    )

    def __init__(self, setup: Setup) -> None:
        id, overlay, congestion, limits, make_index, first_serial = setup
        self.id = id
        self.own_bit = civ.bit(id.cluster)
        self.a_links = overlay.a_links(id)
        self.i_links = overlay.i_links(id)
        self.i_link_to = {neighbour.cluster: neighbour for neighbour in self.i_links}
        self.neighbours = self.a_links + self.i_links
        self.up = set(self.neighbours)
        self.up_a_links = self.a_links
        self.up_i_links = self.i_links
        self.cut_off = 0  # bits of the clusters whose iLink is down
        self.srt = Srt(make_index)
        self.lst = Lst(self.neighbours, congestion)
        clients_max = limits.clients_max
        patterns_max, advertised_max = limits.patterns_per_client_max, limits.advertised_conjunctions_per_client_max
        self.advertisements = Registrations(
            "advertisement", limits.advertisements_per_client_max, clients_max, (advertised_max, patterns_max)
        )
        subscribed_max = limits.subscriptions_per_client_max
        # subscriptions are not tested against each other: the limit per filter is enough
        self.subscriptions = Registrations(
            "subscription", subscribed_max, clients_max, (subscribed_max * DISJUNCTS_MAX, patterns_max)
        )
        self._serial = first_serial
        self.passed: Passed | None = None
        self.changes = 0  # events handled that may change a decision about copies

    def link_went_down(self, neighbour: BrokerId) -> None:
        self.up.discard(neighbour)
        self.lst.went_down(neighbour)
        self._renew_up_links()

    def link_came_up(self, neighbour: BrokerId) -> None:
        self.up.add(neighbour)
        self.lst.came_up(neighbour)
        self._renew_up_links()

    def all_links_down(self) -> None:
        self.up.clear()
        for neighbour in self.neighbours:
            self.lst.went_down(neighbour)
        self._renew_up_links()

    def _renew_up_links(self) -> None:
        self.up_a_links = tuple(neighbour for neighbour in self.a_links if neighbour in self.up)
        self.up_i_links = tuple(neighbour for neighbour in self.i_links if neighbour in self.up)
        self.cut_off = sum(civ.bit(neighbour.cluster) for neighbour in self.i_links if neighbour not in self.up)

    def new_key(self) -> Key:
        """A key that this broker has never used. A restarted broker must start above its earlier serials."""
        key = Key(self.id, self._serial)
        self._serial += 1
        return key
