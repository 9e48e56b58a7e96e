"""Static notification routing, SNR: plain copies, decided once at the publisher's host broker.

At the host broker a notification goes along the reverse path of the matching subscriptions of its own cluster and over
the iLink into every cluster whose bit is ON; at any other broker only along the reverse path inside that broker's
cluster. So it takes at most diam(G_af) + 1 hops, enters every target cluster once and reaches nobody twice.
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.messages import PLAIN, Civ
from octopia.routing.scot.state import ScotState
from octopia.routing.tables import ScotMatched
from octopia.topology import BrokerId


def first_header(state: ScotState, satisfied: Sequence[Registered]) -> Civ:
    """The secondary target clusters: the bits of all advertisements that a notification satisfies, less the own bit.

    A bit that cannot be known counts as ON: of a cluster whose iLink is down, or that has not answered since.
    """
    wanted = state.cut_off
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            wanted |= entry.civ | entry.unknown
    return civ_header(wanted & ~state.own_bit)


def route(state: ScotState, matched: ScotMatched, header: Civ, came_by: BrokerId | None) -> Decision:
    """At the host broker (`came_by` is None) the header has the clusters to be served; elsewhere it serves nobody."""
    copies = [(neighbour, PLAIN) for neighbour in a_targets(matched, came_by)]
    if came_by is None:
        copies += [(neighbour, PLAIN) for neighbour in state.i_links if header.civ >> neighbour.cluster & 1]
    return Decision(matched.recipients, tuple(copies))


def a_targets(matched: ScotMatched, came_by: BrokerId | None) -> tuple[BrokerId, ...]:
    """The target aLinks, never the one that the copy came by."""
    return tuple(neighbour for neighbour in matched.hops if neighbour != came_by)


@lru_cache(maxsize=1024)
def civ_header(bits: int) -> Civ:
    # Few combinations come again and again.
    return Civ(bits) if bits else PLAIN
