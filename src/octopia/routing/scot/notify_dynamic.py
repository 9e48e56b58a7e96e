"""Inter-cluster dynamic routing, IDR: around overloaded iLinks, by local knowledge only.

D is the set of clusters that this copy must still serve (at the host broker the secondary target clusters, elsewhere
the CIV the copy carries), aT the target aLinks, iT the iLinks into D; free is not overloaded.

    case  condition                        what is sent
    0     all of iT free                   plain copies on aT and iT
    i     some of iT free                  plain on aT and the free iT; the free iLink with the least Q_l carries the
                                           bits of the overloaded ones; nothing on an overloaded iLink
    ii    none of iT, some of aT free      plain on aT; the free aLink with the least Q_l carries all of D
    iv    none of iT, none of aT free      plain on aT; the least loaded iLink carries the rest of D

A link that is down is never free, and in case iv not chosen while another is up: if all of iT are down, then D rides on
the least loaded that is up of the target aLinks, or else of the other aLinks (never back), or else, at the host broker,
of the iLinks into clusters that nobody asked to be served. If nothing is up, each of iT gets its plain copy, which the
host keeps or drops. This is case `down`.

**Copies.** With α target aLinks, β target iLinks and θ free ones among them, a notification adds α + β copies to the
output queues in case 0 (as under SNR), α + θ in case i, α in case ii and α + 1 in case iv; in case `down` α where a
target aLink is up, α + 1 where another link is, and α + β where none is. A decision records its case (`CASES`) for
statistics; without target iLinks there is none.

Each bit of D rides on exactly one copy; an iLink hop serves a bit (or, from the host broker only,
enters a cluster that is in nobody's D) and an aLink hop leads away from the entry into the cluster, so routing ends and
every cluster is entered once. Case iii of the paper is these rules applied again at the next brokers. Equal Q_l are
decided by tree order and cluster index.
"""

from typing import Final

from octopia.protocol import PLAIN, Civ, Wanted
from octopia.routing.decision import Decision
from octopia.routing.priorities import or_none, priority_of
from octopia.routing.scot.notify_static import a_targets as targets_of
from octopia.routing.scot.notify_static import civ_header, urgent_header, urgent_of
from octopia.routing.scot.state import ScotState
from octopia.routing.tables import ScotMatched
from octopia.topology import BrokerId

# The names of the cases, in the paper's numbers; a decision counts them from 1.
CASES: Final = ("0", "i", "ii", "iv", "down")
_ALL_FREE, _SOME_FREE, _BY_A_LINK, _LEAST_LOADED, _DOWN = range(1, len(CASES) + 1)


def links_seen(state: ScotState) -> int:
    """Which links are overloaded or down, and, while any is, how long the queues are."""
    return state.lst.verdicts_changed


def route(state: ScotState, matched: ScotMatched, header: Civ | Wanted, came_by: BrokerId | None) -> Decision:
    to_serve = header.civ & ~state.own_bit
    a_targets = targets_of(matched, came_by)
    overloaded = state.lst.overloaded
    i_targets = [neighbour for neighbour in state.i_links if to_serve >> neighbour.cluster & 1]
    free = [neighbour for neighbour in i_targets if not overloaded(neighbour)]
    carrier: BrokerId | None = None
    carried = 0
    case = _ALL_FREE if i_targets else 0
    if len(free) < len(i_targets):
        if free:
            case, carrier, carried = _SOME_FREE, state.lst.least_loaded(free), to_serve & ~_bits(free)
        elif free_a := [neighbour for neighbour in a_targets if not overloaded(neighbour)]:
            case, carrier, carried = _BY_A_LINK, state.lst.least_loaded(free_a), to_serve
        else:
            carrier = _last_resort(state, i_targets, a_targets, came_by)
            case = _LEAST_LOADED if carrier in i_targets else _DOWN
            if carrier is None:
                free = i_targets
            elif carrier.cluster != state.id.cluster:
                free = [carrier]
            elif carrier not in a_targets:
                a_targets = tuple(
                    neighbour for neighbour in state.a_links if neighbour is carrier or neighbour in a_targets
                )
            carried = to_serve & ~_bits(free)
    if matched.urgent is not None or type(header) is Wanted or header.priority:
        return _urgent(state, matched, header, (*a_targets, *free), carrier, carried, case)
    carrying = civ_header(carried)
    copies = tuple((to, carrying if to is carrier else PLAIN) for to in (*a_targets, *free))
    return Decision(matched.recipients, copies, by_links=bool(case), case=case)


def _urgent(
    state: ScotState,
    matched: ScotMatched,
    header: Civ | Wanted,
    targets: tuple[BrokerId, ...],
    carrier: BrokerId | None,
    carried: int,
    case: int,
) -> Decision:
    """The same copies, each with the priority of its targets; the carrier's header has that of its clusters."""
    urgent, hops = urgent_of(header), matched.urgent or {}
    carrying = urgent_header(carried, priority_of(urgent, carried))
    priorities = []
    for to in targets:
        priority = max(hops.get(to, 0), priority_of(urgent, state.bit_across(to)))
        priorities.append(max(priority, carrying.priority) if to is carrier else priority)
    copies = tuple((to, carrying if to is carrier else PLAIN) for to in targets)
    return Decision(matched.recipients, copies, by_links=bool(case), case=case, priorities=or_none(priorities))


def _last_resort(
    state: ScotState, i_targets: list[BrokerId], a_targets: tuple[BrokerId, ...], came_by: BrokerId | None
) -> BrokerId | None:
    """The carrier if no target link is free; None if there is no way at all."""
    others = [neighbour for neighbour in state.a_links if neighbour != came_by]
    for way in (i_targets, a_targets, others, state.i_links if came_by is None else ()):
        up = [neighbour for neighbour in way if neighbour in state.up]
        if up:
            return state.lst.least_loaded(up)
    return None


def _bits(neighbours: list[BrokerId]) -> int:
    mask = 0
    for neighbour in neighbours:
        mask |= 1 << neighbour.cluster
    return mask
