"""From recordings to the tables of a trace: pairs both ends of every hop.

The n-th message that left over a connection is the n-th that arrived at its other end (`net/broker/recording.py`). If
fewer arrived than left, the rest was lost with the connection, and its fate is the fault that broke it. A message that
was resent on the next connection is one hop, from when it was first queued. A lost message still counts as an event,
without a broker, so that its cause is found in the same way.

The request behind a message: for a notification, its publisher and number identify it; for any other message, the chain
of events that caused it leads back to a client's request. A message without a request (news of links, confirmations
driven by the clock) has `NO_REQUEST`. Hops are counted along the same chain. Output queues follow from the times at
which messages entered and left.

Numbers in, columns out; a whole run is in memory, about 150 bytes per hop. Times are converted to the clock of the run
with the offset of each machine.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import OctopiaError
from octopia.net import EVENT_COLUMNS, EXPIRED_COLUMNS, SENT_COLUMNS
from octopia.topology import BrokerId, Scot, civ
from octopia.trace import FATES, NO_REQUEST

Numbers = npt.NDArray[np.int64]
NOTIFY: Final = "notify"
PUBLISH: Final = "publish"
_CLIENT: Final = -1
_NONE: Final = -1
_HANDLED, _LINK_DOWN, _BROKER_DOWN = (FATES.index(fate) for fate in ("handled", "link down", "broker down"))
_S = {name: at for at, name in enumerate(SENT_COLUMNS)}
_E = {name: at for at, name in enumerate(EVENT_COLUMNS)}
_X = {name: at for at, name in enumerate(EXPIRED_COLUMNS)}


class Outage(NamedTuple):
    """The time span in which one broker was dead, or the link between two was down."""

    brokers: tuple[BrokerId, ...]
    from_ns: int
    until_ns: int

    def breaks(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether it broke the link between these two."""
        return set(self.brokers) <= {one, other}


class BrokerRows:
    """The recording of one broker, with the offset of its clock: its rows, and the words that they refer to."""

    def __init__(self, sent: Numbers, events: Numbers, expired: Numbers, words: Sequence[str], zero_ns: int) -> None:
        self.sent = sent.copy()
        self.events = events.copy()
        self.expired = expired.copy()
        self.words = words
        for rows, columns, places in (
            (self.sent, ("queued_ns", "left_ns"), _S),
            (self.events, ("arrived_ns", "handled_ns"), _E),
            (self.expired, ("at_ns",), _X),
        ):
            for column in columns:
                rows[:, places[column]] -= zero_ns


class Requests:
    """Maps a client's event or a notification to its request."""

    def __init__(
        self,
        registered: Mapping[tuple[str, str, str], Sequence[int]],
        published: Mapping[str, Numbers],
        issued_ns: Sequence[int] | Numbers = (),
    ) -> None:
        self.registered = registered  # by kind, client and id, each time it was asked for
        self.published = published  # by client: the request of its n-th publication, from 1
        self.issued_ns = issued_ns  # by request

    def of_registration(self, asked: tuple[str, str, str], turn: int) -> int:
        """The request that a client makes this time."""
        numbers = self.registered.get(asked, ())
        return numbers[turn] if turn < len(numbers) else NO_REQUEST

    def made_by(self, asked: tuple[str, str, str], at_ns: int) -> int:
        """The last of these requests made by then: a later one is a different request."""
        return max((n for n in self.registered.get(asked, ()) if self.issued_ns[n] <= at_ns), default=NO_REQUEST)

    def of_publication(self, publisher: str, sequence: Numbers) -> Numbers:
        numbers = self.published.get(publisher)
        if numbers is None:
            return np.full(len(sequence), NO_REQUEST, dtype=np.int64)
        return np.where(
            (sequence > 0) & (sequence < len(numbers)), numbers[np.minimum(sequence, len(numbers) - 1)], NO_REQUEST
        )


class Joined:
    """All events of a run and the hops between them."""

    def __init__(
        self,
        overlay: Scot,
        rows: Mapping[BrokerId, BrokerRows],
        requests: Requests,
        cases: Sequence[str] = (),
        outages: Sequence[Outage] = (),
    ) -> None:
        self._cases = cases  # case of the routing decision, counted from 1
        self._overlay = overlay
        self._brokers = {id: number for number, id in enumerate(overlay.brokers)}
        self._rows = rows
        self._outages = outages
        self._kinds: dict[str, int] = {}
        self._civs: dict[str, int] = {}
        counts = [int(rows[id].events[:, _E["event"]].max(initial=-1)) + 1 for id in overlay.brokers]
        self._base = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # lost messages are numbered after all events
        self._total = int(self._base[-1])
        self._lost: list[tuple[int, str, int]] = []  # their kind, publisher and number
        self.hops = self._join_links()
        total = self._total + len(self._lost)
        # per event of all brokers: the request it belongs to, its broker, its batch, what it was
        self.request = np.full(total, NO_REQUEST, dtype=np.int64)
        self.batch = np.full(total, _NONE, dtype=np.int64)
        self.broker = np.zeros(total, dtype=np.int64)
        self.arrived = np.zeros(total, dtype=np.int64)
        self.handled = np.zeros(total, dtype=np.int64)
        self.case = np.zeros(total, dtype=np.int64)
        self.is_copy = np.zeros(total, dtype=np.bool_)  # of a notification, or the notification itself
        self.is_request = np.zeros(total, dtype=np.bool_)
        self._happened = np.arange(total) < self._total
        for id in overlay.brokers:
            self._take_events(id, requests)
        self._take_lost(requests)
        self.parent = self._parents()
        self.depth = self._depths()
        self._attribute()

    # -- events

    def _take_events(self, id: BrokerId, requests: Requests) -> None:
        number, rows = self._brokers[id], self._rows[id]
        events, words = rows.events, rows.words
        at = self._base[number] + events[:, _E["event"]]
        self.batch[at] = self._base[number] + events[:, _E["batch"]]
        self.broker[at] = number
        self.case[at] = events[:, _E["case"]]
        self.arrived[at] = events[:, _E["arrived_ns"]]
        self.handled[at] = events[:, _E["handled_ns"]]
        kinds, names = events[:, _E["kind"]], events[:, _E["name"]]
        copies = [word for word, text in enumerate(words) if text in (NOTIFY, PUBLISH)]
        is_copy = np.isin(kinds, copies)
        self.is_copy[at] = is_copy
        self.is_request[at] = events[:, _E["link"]] == _CLIENT
        for name in np.unique(names[is_copy]).tolist():
            mine = np.flatnonzero(is_copy & (names == name))
            self.request[at[mine]] = requests.of_publication(words[name], events[mine, _E["sequence"]])
        asked = np.flatnonzero((events[:, _E["link"]] == _CLIENT) & ~is_copy)
        self.request[at[asked]] = self._asked(id, events[asked], requests)

    def _asked(self, id: BrokerId, events: Numbers, requests: Requests) -> list[int]:
        """The requests of registrations, in order. Clients repeat them at a broker that was dead."""
        words, died = self._rows[id].words, any(outage.brokers == (id,) for outage in self._outages)
        often: dict[tuple[str, str, str], int] = {}
        done = {NO_REQUEST}
        found = []
        for row in events.tolist():
            asked = words[row[_E["kind"]]], words[row[_E["name"]]], words[row[_E["id"]]]
            turn = often[asked] = often.get(asked, -1) + 1
            number = requests.made_by(asked, row[_E["arrived_ns"]]) if died else requests.of_registration(asked, turn)
            found.append(NO_REQUEST if number in done else number)
            done.add(number)
        return found

    def _take_lost(self, requests: Requests) -> None:
        notify = self._kinds.get(NOTIFY, _NONE)
        for at, (kind, publisher, sequence) in enumerate(self._lost, self._total):
            if kind == notify:
                self.is_copy[at] = True
                self.request[at] = requests.of_publication(publisher, np.array([sequence]))[0]

    # -- hops

    def _join_links(self) -> dict[str, Numbers]:
        parts = []
        for sender in self._overlay.brokers:
            for place, receiver in enumerate(_neighbours(self._overlay, sender)):
                parts.append(self._join_link(sender, place, receiver))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}

    def _join_link(self, sender: BrokerId, place: int, receiver: BrokerId) -> dict[str, Numbers]:
        left, right = self._rows[sender], self._rows[receiver]
        sent = _last_of_each(left.sent[left.sent[:, _S["link"]] == place])
        back = _neighbours(self._overlay, receiver).index(sender)
        came = right.events[right.events[:, _E["link"]] == back]
        pairs = self._pairs(sender, receiver, sent, came)
        lost = np.flatnonzero(pairs == _NONE)
        first, own = self._base[self._brokers[sender]], self._base[self._brokers[receiver]]
        cause = sent[:, _S["cause"]]
        kind, civs = np.full(len(sent), _NONE), np.full(len(sent), _NONE)
        arrived, handled, event, fate = (np.zeros(len(sent), dtype=np.int64) for _ in range(4))
        there = pairs != _NONE
        met = came[pairs[there]]
        kind[there] = self._coded(met[:, _E["kind"]], right.words, self._kinds)
        civs[there] = self._coded(met[:, _E["civ"]], right.words, self._civs)
        arrived[there], handled[there] = met[:, _E["arrived_ns"]], met[:, _E["handled_ns"]]
        event[there] = own + met[:, _E["event"]]
        if len(lost):
            kind[lost] = self._coded(sent[lost, _S["kind"]], left.words, self._kinds)
            fate[lost], arrived[lost] = self._fates(sender, receiver, sent[lost])
            handled[lost] = _NONE
            event[lost] = self._total + len(self._lost) + np.arange(len(lost))
            names = [left.words[name] if name >= 0 else "" for name in sent[lost, _S["name"]].tolist()]
            self._lost += zip(kind[lost].tolist(), names, sent[lost, _S["sequence"]].tolist(), strict=True)
        return {
            "kind": kind,
            "civ": civs,
            "sender": np.full(len(sent), self._brokers[sender]),
            "receiver": np.full(len(sent), self._brokers[receiver]),
            "queued_ns": sent[:, _S["queued_ns"]],
            "left_ns": sent[:, _S["left_ns"]],
            "arrived_ns": arrived,
            "handled_ns": handled,
            "queue": sent[:, _S["queue"]],
            "cause": np.where(cause == _NONE, _NONE, first + cause),
            "event": event,
            "fate": fate,
        }

    def _pairs(self, sender: BrokerId, receiver: BrokerId, sent: Numbers, came: Numbers) -> Numbers:
        """For each message that left, the index of its arrival; -1 if it never arrived."""
        pairs = np.full(len(sent), _NONE, dtype=np.int64)
        codes: dict[str, int] = {}
        left = self._coded(sent[:, _S["connection"]], self._rows[sender].words, codes)
        right = self._coded(came[:, _E["connection"]], self._rows[receiver].words, codes)
        for code in np.unique(right).tolist():
            mine, theirs = np.flatnonzero(left == code), np.flatnonzero(right == code)
            if len(theirs) > len(mine) or code == _NONE:
                raise OctopiaError(
                    f"{len(mine):,} messages left {sender} for {receiver} by one connection and {len(theirs):,} "
                    "arrived: the recording is incomplete"
                )
            pairs[mine[: len(theirs)]] = theirs
        lost = int(np.count_nonzero(pairs == _NONE))
        if lost and not any(outage.breaks(sender, receiver) for outage in self._outages):
            raise OctopiaError(
                f"{len(sent):,} messages left {sender} for {receiver} and {len(came):,} arrived: their link broke "
                "during the run; run it again with less load or more processes"
            )
        return pairs

    def _fates(self, sender: BrokerId, receiver: BrokerId, lost: Numbers) -> tuple[Numbers, Numbers]:
        """The fault by which each was lost, and when: the one at that time, else the next, else the last before."""
        outages = [outage for outage in self._outages if outage.breaks(sender, receiver)]
        fates, moments = [], []
        for left_ns in lost[:, _S["left_ns"]].tolist():
            # of two at the same time, a dead broker
            outage = min(outages, key=lambda each: (*_distance(each, left_ns), len(each.brokers)))
            fates.append(_BROKER_DOWN if len(outage.brokers) == 1 else _LINK_DOWN)
            moments.append(max(left_ns, outage.from_ns))
        return np.array(fates, dtype=np.int64), np.array(moments, dtype=np.int64)

    def _coded(self, column: Numbers, words: Sequence[str], codes: dict[str, int]) -> Numbers:
        """Words of one broker as codes of the run."""
        known = np.array([codes.setdefault(words[word], len(codes)) for word in np.unique(column[column >= 0])] or [0])
        place = np.searchsorted(np.unique(column[column >= 0]), column)
        return np.where(column >= 0, known[np.minimum(place, len(known) - 1)], _NONE).astype(np.int64)

    # -- chains

    def _parents(self) -> Numbers:
        """For each event that is a message, the event that caused it; -1 if there is none."""
        parent = np.full(len(self.request), _NONE, dtype=np.int64)
        if not self.hops:
            return parent
        event, cause = self.hops["event"], self.hops["cause"]
        parent[event] = cause
        # of copies: the member of the batch with the same notification
        width = int(self.request.max(initial=0)) + 2
        known = np.flatnonzero(self.is_copy & self._happened & (self.request != NO_REQUEST))
        keys = self.batch[known] * width + self.request[known]
        order = np.argsort(keys, kind="stable")
        keys, known = keys[order], known[order]
        copy = self.is_copy[event]
        wanted = cause[copy] * width + self.request[event[copy]]
        parent[event[copy]] = _found(keys, known, wanted)
        return parent

    def _depths(self) -> Numbers:
        """The number of links that led to each event."""
        depth = np.where(self.is_request, 0, _NONE)
        todo = np.flatnonzero(depth == _NONE)
        while len(todo):
            known = (self.parent[todo] >= 0) & (depth[self.parent[todo]] >= 0)
            if not known.any():
                break
            depth[todo[known]] = depth[self.parent[todo[known]]] + 1
            todo = todo[~known]
        # resent copies, which were caused by time; and messages without a request
        depth[todo] = 1
        return depth

    def _attribute(self) -> None:
        """Assign messages other than notifications to the request at the start of their chain."""
        todo = np.flatnonzero(~self.is_copy & ~self.is_request & (self.parent >= 0))
        while len(todo):
            found = self.request[self.parent[todo]]
            known = found != NO_REQUEST
            if not known.any():
                break
            self.request[todo[known]] = found[known]
            todo = todo[~known]

    # -- tables

    def hop_columns(self) -> dict[str, Any]:
        """The table `hops`, in the order in which messages were handled."""
        hops = self.hops
        # lost messages come where they were lost
        order = np.argsort(np.maximum(hops["arrived_ns"], hops["handled_ns"]), kind="stable")
        event, handled = hops["event"][order], hops["handled_ns"][order]
        columns: dict[str, Any] = {
            name: hops[name][order] for name in ("sender", "receiver", "queued_ns", "left_ns", "arrived_ns", "queue")
        }
        bits = hops["civ"][order]
        texts = [civ.to_string(int(text, 16), self._overlay.clusters) for text in self._civs]
        columns |= {
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(hops["kind"][order], pa.int8()), pa.array(list(self._kinds))
            ),
            "request": self.request[event],
            "hop": self.depth[event],
            "civ": pa.DictionaryArray.from_arrays(
                pa.array(bits.astype(np.int32), mask=bits < 0), pa.array(texts, pa.string())
            ),
            "routing_case": self._case_names(event),
            "handled_ns": pa.array(handled, mask=hops["fate"][order] != _HANDLED),
            "fate": pa.DictionaryArray.from_arrays(pa.array(hops["fate"][order], pa.int8()), pa.array(FATES)),
        }
        return columns

    def _case_names(self, event: Numbers) -> Any:
        """For copies: the case of the sending broker's decision about the notification."""
        parent = self.parent[event]
        case = np.where(self.is_copy[event] & (parent >= 0), self.case[parent], 0)
        return pa.DictionaryArray.from_arrays(
            pa.array((case - 1).astype(np.int8), mask=case == 0), pa.array(list(self._cases), pa.string())
        )

    def at_host(self, moments: Numbers, count: int) -> Numbers:
        """For each request, a time at its host broker (`arrived`, `handled`); -1 if it never arrived there."""
        asked = np.flatnonzero(self.is_request & (self.request != NO_REQUEST))
        found = np.full(count, _NONE, dtype=np.int64)
        # the first time, if a client published it again
        found[self.request[asked[::-1]]] = moments[asked[::-1]]
        return found

    def depth_at(self, request: Numbers, broker: Numbers) -> Numbers:
        """The number of links that a notification took to a broker, for its first arrival there."""
        copies = np.flatnonzero(self.is_copy & self._happened & (self.request != NO_REQUEST))
        copies = copies[np.argsort(self.handled[copies], kind="stable")]
        keys = self.request[copies] * self._overlay.broker_count + self.broker[copies]
        order = np.argsort(keys, kind="stable")
        found = _found(keys[order], copies[order], request * self._overlay.broker_count + broker)
        return np.where(found >= 0, self.depth[found], 0)

    def expired(self, requests: Requests, clients: Mapping[str, int]) -> Numbers:
        """Deliveries dropped as too old: the request that published it, the client, the broker and the time."""
        found = [np.empty((0, 4), dtype=np.int64)]
        for id, number in self._brokers.items():
            rows, words = self._rows[id].expired, self._rows[id].words
            for name in np.unique(rows[:, _X["publisher"]]).tolist():
                mine = rows[rows[:, _X["publisher"]] == name]
                request = requests.of_publication(words[name], mine[:, _X["sequence"]])
                client = [clients[words[each]] for each in mine[:, _X["client"]].tolist()]
                found.append(np.stack([request, client, np.full(len(mine), number), mine[:, _X["at_ns"]]], axis=1))
        return np.concatenate(found)

    def queue_columns(self, every_ns: int, until_ns: int) -> dict[str, Numbers]:
        """The table `queues`: output queues that were not empty, at regular times."""
        moments = np.arange(0, until_ns + 1, every_ns, dtype=np.int64)
        parts = []
        brokers = self._overlay.broker_count
        link = self.hops["sender"] * brokers + self.hops["receiver"]
        for code in np.unique(link).tolist():
            mine = link == code
            entered = np.searchsorted(np.sort(self.hops["queued_ns"][mine]), moments, side="right")
            left = np.searchsorted(np.sort(self.hops["left_ns"][mine]), moments, side="right")
            busy = np.flatnonzero(entered > left)
            same = np.full(len(busy), code)
            parts.append(
                (moments[busy], same // brokers, same % brokers, (entered - left)[busy], entered[busy], left[busy])
            )
        names = ("at_ns", "sender", "receiver", "queue", "entered", "left")
        if not parts:
            return {name: np.empty(0, np.int64) for name in names}
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[2], columns[1], columns[0]))
        return {name: column[order] for name, column in zip(names, columns, strict=True)}


def _last_of_each(sent: Numbers) -> Numbers:
    """Of messages that were sent more than once, the last time; order is kept."""
    serials = sent[::-1, _S["serial"]]
    return sent[np.sort(len(sent) - 1 - np.unique(serials, return_index=True)[1])]


def _distance(outage: Outage, at_ns: int) -> tuple[int, int]:
    if outage.from_ns <= at_ns <= outage.until_ns:
        return 0, 0
    return (1, outage.from_ns - at_ns) if at_ns < outage.from_ns else (2, at_ns - outage.until_ns)


def _found(keys: Numbers, values: Numbers, wanted: Numbers) -> Numbers:
    """For each wanted key, the first value with it; -1 if there is none. The keys are sorted."""
    if not len(keys):
        return np.full(len(wanted), _NONE, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], _NONE)


def _neighbours(overlay: Scot, id: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(overlay.a_links(id)) + tuple(overlay.i_links(id))
