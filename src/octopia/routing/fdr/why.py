"""Why a notification published here now would take its tree, as text for users.

This module explains the choice made by `FdrState.tree` with the numbers behind it; it does not choose.
"""

from octopia.routing.fdr.broker_sets import AROUND
from octopia.routing.fdr.state import FdrState
from octopia.routing.fdr.trees import AROUND_SHARE, OWN_QUEUE_MAX


def why(state: FdrState, now: float) -> tuple[int, str]:
    """The cluster whose tree it is, and a line: the tree, and the queues of this broker behind the choice."""
    tree = state.tree(now)
    return state.id.cluster if tree == AROUND else tree, _words(state, tree, now)


def _words(state: FdrState, tree: int, now: float) -> str:
    lengths, me = state.lst.queue_lengths, state.id
    if tree == AROUND:
        a_link = max(lengths[neighbour] for neighbour in state.a_links)
        i_link = min(lengths[neighbour] for neighbour in state.up_i_links)
        return (
            f"its own cluster's tree, around the iLinks of {me}: the longest queue of its aLinks has {a_link}, "
            f"the shortest of its iLinks {i_link}, more than {AROUND_SHARE} times as many"
        )
    elsewhere = "" if state.beyond.is_quiet(now) else ", including waits farther on"
    if tree != me.cluster:
        queue = lengths[state.i_link_to[tree]]
        first = f"of the iLinks of {me} the one to cluster {tree} has the least Q_l, {queue}"
        return f"cluster {tree}'s tree: {first}{elsewhere}"
    if not state.up_i_links and max(lengths.values(), default=0) > OWN_QUEUE_MAX:
        return f"its own cluster's tree: no iLink of {me} is up"
    return f"its own cluster's tree: no queue of {me} is longer than {OWN_QUEUE_MAX}{elsewhere}"
