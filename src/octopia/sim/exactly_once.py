"""Exactly-once delivery: compares actual deliveries with expected ones, cell by cell.

For every publication there is a row of cells, one per client. `octopia.workload.truth_batches` finds by brute force
which filters a notification satisfies, and so which cells must be reached; the deliveries of the trace show which were.
Around a change of a subscription, some cells may or may not be reached (`terms.py`). This file shares no code with the
index, the routing or the simulator. A cell is a byte, and at most `CELLS_MAX` of each kind are processed at once (or a
row, if that has more), so memory does not grow with them. Publications are processed in the order of their
notifications, since equal notifications have the same recipients.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Filter
from octopia.sim.terms import Terms
from octopia.workload import Registration, Workload, truth_batches

CELLS_MAX = 1 << 24
Numbers = npt.NDArray[np.int64]
Cells = npt.NDArray[np.bool_]
_NONE: Numbers = np.empty(0, dtype=np.int64)


class Differences(NamedTuple):
    """Deliveries that differ from the expected ones, as codes `publication * clients + client`, ascending."""

    missing: Numbers
    twice: Numbers
    unwanted: Numbers


def compare(
    workload: Workload, clients: Mapping[str, int], publication: Numbers, client: Numbers, terms: Terms | None = None
) -> Differences:
    """Compare deliveries, pairs of a publication and a client by number, with the clients' filters.

    `terms` are those of the trace if the workload has changes.
    """
    width = len(clients)
    row = workload.publications.row.astype(np.int64)
    by_row = np.argsort(row, kind="stable")
    found: list[Differences] = [_of_nothing(len(row), publication * width + client, publication)]
    inside = (publication >= 0) & (publication < len(row))
    height = max(1, CELLS_MAX // max(1, width))
    deliveries = _by_block(by_row, height, publication[inside], client[inside], width)
    for block, codes in zip(range(0, len(row), height), deliveries, strict=True):
        publications = by_row[block : block + height]
        wanted, allowed = _wanted(workload, clients, publications, terms)
        got = np.zeros(wanted.size, dtype=np.bool_)
        got[codes] = True
        again = _NONE
        if np.count_nonzero(got) < len(codes):
            often, times = np.unique(codes, return_counts=True)
            again = often[times > 1]
        missing, unwanted = wanted.reshape(-1) & ~got, got & ~allowed.reshape(-1)
        wrong = (np.flatnonzero(missing), again, np.flatnonzero(unwanted))
        found.append(Differences(*(publications[code // width] * width + code % width for code in wrong)))
    return Differences(*(np.sort(np.concatenate(codes)) for codes in zip(*found, strict=True)))


def _of_nothing(count: int, codes: Numbers, publication: Numbers) -> Differences:
    """Deliveries of notifications that were never published, so that none can be wanted."""
    strange, times = np.unique(codes[(publication < 0) | (publication >= count)], return_counts=True)
    return Differences(_NONE, strange[times > 1], strange)


def _by_block(by_row: Numbers, height: int, publication: Numbers, client: Numbers, width: int) -> Iterator[Numbers]:
    """For each `height` publications in this order, the cells that were reached."""
    place = np.empty(len(by_row), dtype=np.int64)
    place[by_row] = np.arange(len(by_row))
    at = place[publication]
    blocks = -(-len(by_row) // height)
    block = (at // height).astype(np.int16 if blocks < 1 << 15 else np.int64)
    order = np.argsort(block, kind="stable")  # small numbers are sorted without comparisons
    codes = (at % height * width + client)[order]
    ends = np.cumsum(np.bincount(block, minlength=blocks)).tolist()
    start = 0
    for end in ends:
        yield codes[start:end]
        start = end


def _wanted(
    workload: Workload, clients: Mapping[str, int], publications: Numbers, terms: Terms | None
) -> tuple[Cells, Cells]:
    """A line per publication, a cell per client: whether the client must get it, and whether it may."""
    steady = workload.subscriptions if terms is None else terms.steady
    changing = () if terms is None else terms.changing
    numbers: dict[Filter, int] = {}
    for registration in (*steady, *(term.registration for term in changing)):
        numbers.setdefault(registration.filter, len(numbers))
    distinct, line = np.unique(workload.publications.row[publications].astype(np.int64), return_inverse=True)
    satisfied = np.zeros((len(distinct), len(numbers)), dtype=np.bool_)
    for batch in truth_batches(list(numbers), [workload.notifications.take(pa.array(distinct))]):
        pair_row, pair_filter = (batch.column(name).to_numpy() for name in ("row", "filter"))
        satisfied[pair_row, pair_filter] = True
    by_row = np.zeros((len(distinct), len(clients)), dtype=np.bool_)
    for turn in _turns(steady, clients):
        by_row[:, list(turn)] |= satisfied[:, [numbers[filter] for filter in turn.values()]]
    wanted = by_row[line]
    if terms is None:
        return wanted, wanted
    allowed = wanted.copy()
    wanted[~terms.advertised[publications]] = False
    for term in changing:
        cell, fits = clients[term.registration.client], satisfied[line, numbers[term.registration.filter]]
        wanted[:, cell] |= fits & terms.must(term, publications)
        allowed[:, cell] |= fits & terms.may(term, publications)
    return wanted, allowed


def _turns(subscriptions: Sequence[Registration], clients: Mapping[str, int]) -> list[dict[int, Filter]]:
    """The first subscription of every client, the second of those that have one, and so on."""
    turns: list[dict[int, Filter]] = []
    count = [0] * len(clients)
    for subscription in subscriptions:
        client = clients[subscription.client]
        if count[client] == len(turns):
            turns.append({})
        turns[count[client]][client] = subscription.filter
        count[client] += 1
    return turns
