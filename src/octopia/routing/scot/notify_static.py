"""Static notification routing, SNR: plain copies, decided once at the publisher's host broker.

At the host broker a notification goes along the reverse path of the matching subscriptions of its own cluster and over
the iLink into every cluster whose bit is ON; at any other broker only along the reverse path inside that broker's
cluster. So it takes at most diam(G_af) + 1 hops, enters every target cluster once and reaches no broker twice.
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.protocol import PLAIN, Civ, Wanted
from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.priorities import or_none, priority_of, union
from octopia.routing.scot.state import ScotState
from octopia.routing.tables import ScotMatched
from octopia.topology import BrokerId


def first_header(state: ScotState, satisfied: Sequence[Registered], now: float = 0.0, counts: int = 1) -> Civ | Wanted:
    """The secondary target clusters: the bits of all advertisements that a notification satisfies, without our own bit.

    An unknown bit counts as ON: that of a cluster whose iLink is down, or that has not answered since.
    """
    wanted, urgent = state.cut_off, False
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            wanted |= entry.civ | entry.unknown
            urgent = urgent or entry.urgent is not None
    if urgent:
        return _wanted(state, satisfied, wanted & ~state.own_bit)
    return civ_header(wanted & ~state.own_bit)


def _wanted(state: ScotState, satisfied: Sequence[Registered], bits: int) -> Wanted:
    """As above, if one of these clusters has an urgent subscription."""
    entries = (state.srt.get(registered.key) for registered in satisfied)
    return wanted_header(bits, union(None if entry is None else entry.urgent for entry in entries))


def route(state: ScotState, matched: ScotMatched, header: Civ | Wanted, came_by: BrokerId | None) -> Decision:
    """At the host broker (`came_by` is None) the header has the clusters to serve; elsewhere it is empty."""
    copies = [(neighbour, PLAIN) for neighbour in a_targets(matched, came_by)]
    if came_by is None:
        copies += [(neighbour, PLAIN) for neighbour in state.i_links if header.civ >> neighbour.cluster & 1]
    priorities = None
    if matched.urgent is not None or type(header) is Wanted:
        hops, urgent = matched.urgent or {}, urgent_of(header)
        priorities = or_none(hops.get(to) or priority_of(urgent, state.bit_across(to)) for to, _ in copies)
    return Decision(matched.recipients, tuple(copies), priorities=priorities)


def urgent_of(header: Civ | Wanted) -> tuple[int, ...]:
    """The clusters of a copy with this header, by priority. A received copy has one priority for all of them."""
    return header.urgent if type(header) is Wanted else (header.civ,) * header.priority


def a_targets(matched: ScotMatched, came_by: BrokerId | None) -> tuple[BrokerId, ...]:
    """The target aLinks, never the one that the copy came by."""
    return tuple(neighbour for neighbour in matched.hops if neighbour != came_by)


@lru_cache(maxsize=1024)
def civ_header(bits: int) -> Civ:
    # The same few combinations come over and over.
    return Civ(bits) if bits else PLAIN


@lru_cache(maxsize=1024)
def wanted_header(bits: int, urgent: tuple[int, ...]) -> Wanted:
    return Wanted(bits, urgent)


@lru_cache(maxsize=1024)
def urgent_header(bits: int, priority: int) -> Civ:
    return Civ(bits, priority) if bits else PLAIN
