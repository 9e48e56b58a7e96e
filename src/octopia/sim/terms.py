"""From when until when every registration exists and is in force, as the trace of a run with changes tells.

A notification may meet a change on its way, and then either outcome is right. So a judge needs two spans of time:

    exists    from the client's request to register until its withdrawal is settled
    in force  from the moment the registration is settled until the client's request to withdraw it

A request is settled when its host broker has handled it and all messages that it led to are handled, and all that other
registrations and withdrawals made by then led to: a subscription may rely on a CIB_SET that an earlier one caused, or
on an earlier one that covers it, and that may still be on its way. If a message of its was lost, a request never counts
as settled: what was lost is made good later, by messages that no request led to. Registrations made before publishing
began are in force from the start.

A notification lives from its publishing until the last of its copies is handled and the last client has it. A
subscription that is in force all that time must get it, and one that does not exist at any of it must not. No more is
promised for a notification whose advertisement was not in force all that time.
"""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octopia.errors import InputError
from octopia.sim.numbering import Registered, first_numbers, registrations
from octopia.workload import Registration, Workload, match_mask

NEVER: Final = np.iinfo(np.int64).max
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Term(NamedTuple):
    """When a registration exists and is in force, both ends included."""

    registration: Registration
    exists_from_ns: int
    in_force_from_ns: int
    in_force_until_ns: int
    exists_until_ns: int


class Terms(NamedTuple):
    """Facts about changes for a judge of deliveries.

    `steady` are the subscriptions that are in force all the time, `changing` the others. For each publication: when it
    was published, when it ended, and whether an advertisement for it was in force all that time.
    """

    steady: tuple[Registration, ...]
    changing: tuple[Term, ...]
    issued_ns: Numbers
    ended_ns: Numbers
    advertised: Flags

    def must(self, term: Term, publications: Numbers) -> Flags:
        """Which of these publications the subscription must get, if it wants them."""
        issued, ended = self.issued_ns[publications], self.ended_ns[publications]
        in_force = (term.in_force_from_ns <= issued) & (ended <= term.in_force_until_ns)
        return self.advertised[publications] & in_force

    def may(self, term: Term, publications: Numbers) -> Flags:
        """Which of these publications the subscription may get, if it wants them."""
        issued, ended = self.issued_ns[publications], self.ended_ns[publications]
        return (term.exists_from_ns <= ended) & (issued <= term.exists_until_ns)


def terms_of(workload: Workload, folder: Path) -> Terms | None:
    """The terms in the trace in a folder; None for a workload without changes, where everything is in force."""
    if not workload.changes:
        return None
    moments = _Moments(workload, folder)
    advertised, subscribed = registrations(workload)
    first = first_numbers(workload)
    published = slice(first.publication, first.change)
    issued, ended = moments.issued[published], moments.ended[published]
    changing = [each for each in subscribed if not _is_steady(each)]
    return Terms(
        tuple(each.registration for each in subscribed if _is_steady(each)),
        tuple(map(moments.term, changing)),
        issued,
        ended,
        _advertised(workload, _of_changing_clients(advertised, moments), issued, ended),
    )


def _is_steady(each: Registered) -> bool:
    return each.at_first and each.ended_by is None


def _of_changing_clients(advertised: list[Registered], moments: "_Moments") -> list[Term]:
    changing = {each.registration.client for each in advertised if not _is_steady(each)}
    return [moments.term(each) for each in advertised if each.registration.client in changing]


def _advertised(workload: Workload, changing: list[Term], issued: Numbers, ended: Numbers) -> Flags:
    """Whether each publication had an advertisement all its life; other publishers never changed theirs."""
    publications = workload.publications
    clients = [advertisement.client for advertisement in workload.advertisements]
    changed = {term.registration.client for term in changing}
    of = publications.publisher
    answer: Flags = ~np.isin(of, [number for number, client in enumerate(clients) if client in changed])
    for term in changing:
        own = np.flatnonzero(np.isin(of, [n for n, client in enumerate(clients) if client == term.registration.client]))
        in_force = (term.in_force_from_ns <= issued[own]) & (ended[own] <= term.in_force_until_ns)
        rows, place = np.unique(publications.row[own], return_inverse=True)
        conforming = match_mask(term.registration.filter, workload.notifications.take(pa.array(rows)))
        answer[own] |= in_force & conforming[place]
    return answer


class _Moments:
    """For every request, when it was issued, when its last effect happened, and when it was settled."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._requests = pq.read_table(folder / "requests.parquet").sort_by("request")
        hops = pq.read_table(folder / "hops.parquet", columns=["request", "handled_ns"])
        # messages without a request are not counted
        hops = hops.filter(pc.greater_equal(hops["request"], 0))
        deliveries = pq.read_table(folder / "deliveries.parquet", columns=["request", "delivered_ns"])
        self._check(workload, folder)
        self.issued: Numbers = self._requests["issued_ns"].to_numpy()
        handled, refused = self._requests["handled_ns"], self._requests["refused"]
        # these had no effect
        self._lost: Flags = np.array(pc.or_(handled.is_null(), refused.is_valid()).to_numpy())
        self.ended: Numbers = np.maximum(self.issued, pc.fill_null(handled, 0).to_numpy())
        request = hops["request"].to_numpy()
        np.maximum.at(self.ended, request, pc.fill_null(hops["handled_ns"], 0).to_numpy())
        np.maximum.at(self.ended, deliveries["request"].to_numpy(), deliveries["delivered_ns"].to_numpy())
        self._lost[request[hops["handled_ns"].is_null().to_numpy()]] = True
        changed = pc.not_equal(self._requests["kind"].cast(pa.string()), "publish").to_numpy()
        order = np.argsort(self.issued[changed], kind="stable")
        # all changes of registrations, in order: when each was requested, and when it and all before it had ended
        self._asked: Numbers = self.issued[changed][order]
        self._ended_by: Numbers = np.maximum.accumulate(self.ended[changed][order])

    def _check(self, workload: Workload, folder: Path) -> None:
        count = first_numbers(workload).change + len(workload.changes)
        if self._requests["request"].to_pylist() != list(range(count)):
            raise InputError(f"{folder} is not the trace of a whole run of this workload: it has {count:,} requests")

    def settled(self, request: int) -> int:
        if self._lost[request]:
            return NEVER
        # it is itself among those requested by then
        before = int(np.searchsorted(self._asked, self.ended[request], side="right"))
        return int(self._ended_by[before - 1])

    def term(self, each: Registered) -> Term:
        begin, end = each.begun_by, each.ended_by
        return Term(
            each.registration,
            0 if each.at_first else int(self.issued[begin]),
            0 if each.at_first else self.settled(begin),
            NEVER if end is None else int(self.issued[end]),
            NEVER if end is None else self.settled(end),
        )
