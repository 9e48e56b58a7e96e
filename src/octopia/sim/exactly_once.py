"""Exactly once, and nobody unwanted: who got what, held against who wants what, cell by cell.

For every publication there is a row of cells, one per client. `octopia.workload.truth_batches` says by brute force
which filters a notification satisfies, and so which cells must be reached; the deliveries of the trace say which were.
Rules of this file: it shares no code with the index, the routing or the simulator. A cell is a byte, and at most
`CELLS_MAX` of each kind are looked at at once (or one row, if that has more), so that memory does not grow with them.
Publications are taken in the order of their notifications, since equal ones are wanted by the same clients.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Filter
from octopia.workload import Workload, truth_batches

CELLS_MAX = 1 << 24
Numbers = npt.NDArray[np.int64]
Cells = npt.NDArray[np.bool_]
_NONE: Numbers = np.empty(0, dtype=np.int64)


class Differences(NamedTuple):
    """Where deliveries differ from what is wanted, as codes `publication * clients + client`, ascending."""

    missing: Numbers
    twice: Numbers
    unwanted: Numbers


def compare(workload: Workload, clients: Mapping[str, int], publication: Numbers, client: Numbers) -> Differences:
    """Hold deliveries, pairs of a publication and a client by their numbers, against what the clients want."""
    width = len(clients)
    row = workload.publications.row.astype(np.int64)
    by_row = np.argsort(row, kind="stable")
    found: list[Differences] = [_of_nothing(len(row), publication * width + client, publication)]
    inside = (publication >= 0) & (publication < len(row))
    height = max(1, CELLS_MAX // max(1, width))
    deliveries = _by_block(by_row, height, publication[inside], client[inside], width)
    for block, codes in zip(range(0, len(row), height), deliveries, strict=True):
        publications = by_row[block : block + height]
        wanted = _wanted(workload, clients, row[publications])
        got = np.zeros(wanted.size, dtype=np.bool_)
        got[codes] = True
        again = _NONE
        if np.count_nonzero(got) < len(codes):
            often, times = np.unique(codes, return_counts=True)
            again = often[times > 1]
        cells = wanted.reshape(-1)
        wrong = (np.flatnonzero(cells & ~got), again, np.flatnonzero(got & ~cells))
        found.append(Differences(*(publications[code // width] * width + code % width for code in wrong)))
    return Differences(*(np.sort(np.concatenate(codes)) for codes in zip(*found, strict=True)))


def _of_nothing(count: int, codes: Numbers, publication: Numbers) -> Differences:
    """Deliveries of what nobody published: nobody can have wanted them."""
    strange, times = np.unique(codes[(publication < 0) | (publication >= count)], return_counts=True)
    return Differences(_NONE, strange[times > 1], strange)


def _by_block(by_row: Numbers, height: int, publication: Numbers, client: Numbers, width: int) -> Iterator[Numbers]:
    """For each `height` publications in this order the cells that were reached."""
    place = np.empty(len(by_row), dtype=np.int64)
    place[by_row] = np.arange(len(by_row))
    at = place[publication]
    blocks = -(-len(by_row) // height)
    block = (at // height).astype(np.int16 if blocks < 1 << 15 else np.int64)
    order = np.argsort(block, kind="stable")  # of small numbers it takes no comparisons
    codes = (at % height * width + client)[order]
    ends = np.cumsum(np.bincount(block, minlength=blocks)).tolist()
    start = 0
    for end in ends:
        yield codes[start:end]
        start = end


def _wanted(workload: Workload, clients: Mapping[str, int], row: Numbers) -> Cells:
    """A line per publication of these rows, a cell per client: whether one of its subscriptions wants it."""
    numbers: dict[Filter, int] = {}
    for subscription in workload.subscriptions:
        numbers.setdefault(subscription.filter, len(numbers))
    distinct, line = np.unique(row, return_inverse=True)
    satisfied = np.zeros((len(distinct), len(numbers)), dtype=np.bool_)
    for batch in truth_batches(list(numbers), [workload.notifications.take(pa.array(distinct))]):
        pair_row, pair_filter = (batch.column(name).to_numpy() for name in ("row", "filter"))
        satisfied[pair_row, pair_filter] = True
    wanted = np.zeros((len(distinct), len(clients)), dtype=np.bool_)
    for turn in _turns(workload, clients):
        wanted[:, list(turn)] |= satisfied[:, [numbers[filter] for filter in turn.values()]]
    return wanted[line]


def _turns(workload: Workload, clients: Mapping[str, int]) -> list[dict[int, Filter]]:
    """The first subscription of every client, the second of those that have one, and so on."""
    turns: list[dict[int, Filter]] = []
    count = [0] * len(clients)
    for subscription in workload.subscriptions:
        client = clients[subscription.client]
        if count[client] == len(turns):
            turns.append({})
        turns[count[client]][client] = subscription.filter
        count[client] += 1
    return turns
