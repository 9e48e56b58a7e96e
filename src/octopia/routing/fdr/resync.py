"""Links that go down and come up under full dynamic routing: as in SCOT routing (`scot/resync.py`).

What differs is what an iLink that came up does to borrowed subscriptions. The host broker gives all of that cluster
back, since its bits are unknown and all its brokers count as destinations until all is told anew; the lender notes
that the host holds nothing of it any more.
"""

from octopia.routing.actions import Action
from octopia.routing.fdr import flood
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot import resync as scot
from octopia.topology import BrokerId

start_apart = scot.start_apart


def link_went_down(state: FdrState, neighbour: BrokerId, out: list[Action]) -> None:
    scot.link_went_down(state, neighbour, out)
    flood.link_is_down(state, neighbour, out)


def link_given_up(state: FdrState, neighbour: BrokerId, out: list[Action]) -> None:
    if neighbour not in state.up:
        flood.link_is_down(state, neighbour, out)
    scot.link_given_up(state, neighbour, out)


def link_came_up(state: FdrState, neighbour: BrokerId, out: list[Action]) -> None:
    if neighbour in state.i_links:
        for entry in state.srt:
            if entry.last_hop is None:
                state.prt.gives_back_all(entry.key, neighbour.cluster)
            elif entry.last_hop == neighbour:
                entry.unknown = state.own_bit
    scot.link_came_up(state, neighbour, out)
    flood.link_is_up(state, neighbour, out)
