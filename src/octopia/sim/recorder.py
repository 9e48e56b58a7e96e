"""Writes the trace of a running simulation: rows are collected and written in batches.

The simulation loop appends raw values: for each handled message or request the arrival, the moment, and then, once its
orders have been carried out, its recipients. A few hundred at a time become numbers (`take_in`), while they are in the
processor's cache and so that their memory is reused at once; a batch at a time becomes columns and is written. At most
`rows_per_batch` hops and as many requests are held.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.protocol import (
    Advertise,
    AdvertisementsComplete,
    AskConfirm,
    CibClear,
    CibSet,
    Confirm,
    LinkNews,
    Notify,
    Subscribe,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    Unadvertise,
    Unsubscribe,
    Waits,
)
from octopia.routing import Advertised, Broker, ClientLeft, Published, Recipient, Subscribed, Unadvertised, Unsubscribed
from octopia.sim.links import ARRIVAL_FIELDS, NO_MESSAGE, Arrival, OutLink
from octopia.sim.model import Model
from octopia.topology import BrokerId, Scot, Sites, civ
from octopia.trace import FATES, NO_REQUEST, ROWS_PER_BATCH, TraceWriter

if TYPE_CHECKING:
    from octopia.sim.node import Node
    from octopia.sim.requests import Request

# The messages in a run by their codes, notifications last. For a copy of a notification, the number of
# the case in which the sender decided about it is added (`Decision.case`), so all codes from that of `Notify` on are
# notifications.
_MESSAGES: tuple[Any, ...] = (
    Advertise,
    Unadvertise,
    Subscribe,
    Unsubscribe,
    CibSet,
    CibClear,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    AdvertisementsComplete,
    LinkNews,
    Waits,
    Confirm,
    AskConfirm,
    Notify,
)
_KINDS = tuple(message.kind for message in _MESSAGES)
CODE_OF: Mapping[type, int] = {message: code for code, message in enumerate(_MESSAGES)}
FIRST_NOTIFICATION = CODE_OF[Notify]
_REQUESTS: Mapping[type, str] = {
    Advertised: "advertise",
    Unadvertised: "unadvertise",
    Subscribed: "subscribe",
    Unsubscribed: "unsubscribe",
    Published: "publish",
    ClientLeft: "leave",
}
_REQUEST_OF: Mapping[type, int] = {event: number for number, event in enumerate(_REQUESTS)}
_RECIPIENT_SETS_MAX = 50_000
_NO_CIV = -1
_ROWS_AT_ONCE = 1_024
# In place of Q_l if it follows from the other numbers and is computed for many at once.
FOLLOWS = -1
Numbers = npt.NDArray[np.int64]


class Recorder:
    """Collects the events of a run and writes them through a `TraceWriter`."""

    def __init__(
        self,
        writer: TraceWriter,
        overlay: Scot,
        clients: Mapping[str, tuple[int, BrokerId]],
        sites: Sites | None = None,
    ) -> None:
        # per row the fields of the arrival; when it was handled, or -1 - fate if it was lost; and its recipients, if
        # any
        self.arrivals: list[Any] = []
        self.handled: list[int] = []
        self.delivered_to: list[tuple[Recipient, ...] | None] = []
        self.rows_per_batch = ROWS_PER_BATCH
        # notifications released later than they arrived: as if by requests; request, hop, time, and recipients
        self._released: list[tuple[int, int, int, int]] = []
        self._released_to: list[tuple[Recipient, ...] | None] = []
        self._writer = writer
        self._clusters = overlay.clusters
        self._brokers = {id: index for index, id in enumerate(overlay.brokers)}
        self._clients = clients
        self._senders: Numbers = np.empty(0, dtype=np.int64)
        self._receivers: Numbers = np.empty(0, dtype=np.int64)
        self._cases: Sequence[str] = ()
        self._client_delay_ns = 0
        # by link, of one message
        self._sending_ns: Numbers = np.empty(0, dtype=np.int64)
        # collected but not written
        self._rows: list[_Rows] = []
        self._hops_held = 0
        self._hops_written = 0
        # the most hops of any message collected so far, and its request
        self.farthest = 0, NO_REQUEST
        # written rows whose recipients have not been written: link, request, hop, when it was handled
        self._open_rows: tuple[Numbers, ...] = (np.empty(0, dtype=np.int64),) * len(_OF_DELIVERIES)
        self._requests: list[list[Any]] = []
        self._samples: list[tuple[int, int, int, int, int]] = []
        self._expired: list[tuple[int, int, int, int, int]] = []
        self._recipients = _RecipientSets({client: number for client, (number, _) in clients.items()})
        # which request made an advertisement, for the bits at the end
        self._advertised: dict[tuple[str, str], int] = {}
        self._write_names(overlay, sites)

    @property
    def hops(self) -> int:
        return self._hops_written + self._hops_held + len(self.handled)

    def take_links(self, links: list[OutLink], model: Model, cases: Sequence[str]) -> None:
        """The links of the run, in the order of their index, the times of its model, and the cases of its routing."""
        self._cases = cases
        self._client_delay_ns = model.client.delay_ns
        self._sending_ns = np.array([max(1, link.sending_ns) for link in links], dtype=np.int64)
        self._senders = np.array([link.sender.index for link in links], dtype=np.int64)
        # an arrival by link -1 - n is a request at broker n, so these stand at the end
        receivers = [link.receiver.index for link in links]
        self._receivers = np.array([*receivers, *reversed(range(len(self._brokers)))], dtype=np.int64)

    def request(self, request: "Request", handled_ns: int | None, refused: str | None) -> int:
        """Record a request that was handled, or refused for a reason; returns the number of waiting rows."""
        event: Any = request.event
        kind = _REQUEST_OF[type(event)]
        if type(event) is Advertised:
            self._advertised[event.client, event.id] = request.number
        client, broker = self._clients[event.client][0], self._brokers[request.broker]
        self._requests.append([request.number, kind, client, broker, request.at_ns, handled_ns, request.row, refused])
        if len(self._requests) > self.rows_per_batch:
            self.take_in()
            self._write_all()
        return len(self.handled)

    def released(self, request: int, node: "Node", hop: int, at_ns: int, to: tuple[Recipient, ...]) -> None:
        """Record the delivery of a notification that arrived with this hop and waited for earlier ones."""
        self._released.append((-1 - node.index, request, hop, at_ns))
        self._released_to.append(to)
        if len(self._released) >= self.rows_per_batch:
            self._write_released()

    def expired(self, request: int, client: str, node: "Node", hop: int, at_ns: int) -> None:
        """Record a notification that was too old for a client."""
        self._expired.append((request, self._clients[client][0], node.index, hop, at_ns))
        if len(self._expired) >= self.rows_per_batch:
            self._write_expired()

    def lost(self, lost: list[tuple[Arrival, str]]) -> int:
        """Record messages that were lost, with their fates; returns the number of waiting rows."""
        for arrival, fate in lost:
            self.arrivals.extend(arrival)
            self.handled.append(-1 - FATES.index(fate))
            self.delivered_to.append(None)
        lost.clear()
        return len(self.handled)

    def sample(self, at_ns: int, link: OutLink, length: int) -> None:
        row = (at_ns, link.sender.index, link.receiver.index, length, link.entered)
        self._samples.append(row)
        if len(self._samples) >= self.rows_per_batch:
            self._write_samples()

    def table_sizes(self, phase: str, at_ns: int, brokers: Mapping[BrokerId, Broker]) -> None:
        """Sizes of all tables at the end of a phase."""
        states = [broker.state for broker in brokers.values()]
        columns = {
            "phase": [phase] * len(states),
            "at_ns": [at_ns] * len(states),
            "broker": [self._brokers[id] for id in brokers],
            "srt": [len(state.srt) for state in states],
            "prt": [len(state.prt) for state in states],
        }
        self._writer.write("table_sizes", columns)

    def civs(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """The bits of all advertisements as their host brokers have them now."""
        hosted = []
        for (client, id), request in self._advertised.items():
            broker = self._clients[client][1]
            state = brokers[broker].state
            registered = state.advertisements.of(client).get(id)
            entry = None if registered is None else state.srt.get(registered.key)
            if entry is not None and entry.civ:
                bits = civ.to_string(entry.civ, self._clusters)
                hosted.append((request, self._brokers[broker], bits, entry.interest))
        if hosted:
            columns = zip(*hosted, strict=True)
            self._writer.write("civs", dict(zip(("request", "broker", "civ", "interest"), columns, strict=True)))

    def take_in(self) -> int:
        """Convert the waiting rows to numbers, write a batch if it is full, and return how many rows may come next."""
        if self.arrivals:
            rows = _Rows(self.arrivals, self.handled)
            self._rows.append(rows)
            self._hops_held += rows.hops
            self._watch(rows)
            self.arrivals.clear()
            self.handled.clear()
        if self._hops_held >= self.rows_per_batch:
            self._write_all()
        return min(_ROWS_AT_ONCE, self.rows_per_batch - self._hops_held)

    def _watch(self, rows: "_Rows") -> None:
        hops = rows.numbers[_HOP]
        row = hops.argmax()
        if hops[row] > self.farthest[0]:
            self.farthest = int(hops[row]), int(rows.numbers[_REQUEST][row])

    def flush(self) -> None:
        """Write everything, including waiting rows."""
        self.take_in()
        self._write_all()

    def _write_all(self) -> None:
        """Write everything that was converted."""
        if self._rows:
            numbers = [np.concatenate(lines) for lines in zip(*(rows.numbers for rows in self._rows), strict=True)]
            civs = [bits for rows in self._rows for bits in rows.civs]
            self._rows.clear()
            self._hops_written += self._hops_held
            self._hops_held = 0
            self._write_hops(numbers, civs)
            self._open_rows = tuple(
                np.concatenate([earlier, lines])
                for earlier, lines in zip(self._open_rows, (numbers[field] for field in _OF_DELIVERIES), strict=True)
            )
        self._write_deliveries()
        self._write_released()
        self._write_requests()
        self._write_samples()
        self._write_expired()

    def _write_hops(self, numbers: list[Numbers], civs: list[int]) -> None:
        is_hop = numbers[_LINK] >= 0
        arrived, link, request, hop, queued, left, found, code, handled = (line[is_hop] for line in numbers)
        if not len(link):
            return
        # Q_l of a link whose messages all take the same time: one message for each such time until it left
        follows = np.maximum((left - queued - 1) // self._sending_ns[link], 0)
        lost = handled < 0
        columns = {
            "kind": _coded(np.minimum(code, FIRST_NOTIFICATION), _KINDS),
            "request": request,
            "sender": self._senders[link],
            "receiver": self._receivers[link],
            "hop": hop,
            "queued_ns": queued,
            "left_ns": left,
            "arrived_ns": arrived,
            "handled_ns": pa.array(handled, mask=lost),
            "queue": np.where(found == FOLLOWS, follows, found),
            "civ": self._civs(civs),
            "fate": _coded(np.where(lost, -1 - handled, 0), FATES),
            "routing_case": _coded(code - FIRST_NOTIFICATION - 1, self._cases, code <= FIRST_NOTIFICATION),
        }
        self._writer.write("hops", columns)

    def _civs(self, bits: list[int]) -> Any:
        distinct = [value for value in dict.fromkeys(bits) if value]
        code_of = {0: _NO_CIV, **{value: code for code, value in enumerate(distinct)}}
        codes = np.fromiter(map(code_of.__getitem__, bits), dtype=np.int32, count=len(bits))
        texts = [civ.to_string(value, self._clusters) for value in distinct]
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == _NO_CIV), pa.array(texts, type=pa.string()))

    def _write_deliveries(self) -> None:
        """All rows whose recipients are known: those of the last row may still come."""
        known = len(self.delivered_to)
        rows = [line[:known] for line in self._open_rows]
        self._open_rows = tuple(line[known:] for line in self._open_rows)
        self._deliver(*rows, to=self.delivered_to)

    def _write_released(self) -> None:
        if self._released:
            rows = [np.array(column) for column in zip(*self._released, strict=True)]
            self._released.clear()
            self._deliver(*rows, to=self._released_to)

    def _deliver(
        self, link: Numbers, request: Numbers, hop: Numbers, at_ns: Numbers, *, to: list[tuple[Recipient, ...] | None]
    ) -> None:
        """Write the deliveries of these rows to their recipients."""
        counts, clients, subscriptions = self._recipients.expand(to)
        to.clear()
        if not len(clients):
            return
        columns = {
            "request": np.repeat(request.astype(np.int32), counts),
            "client": clients,
            "broker": np.repeat(self._receivers[link].astype(np.int32), counts),
            "hop": np.repeat(hop.astype(np.int16), counts),
            "delivered_ns": np.repeat(at_ns + self._client_delay_ns, counts),
            "subscriptions": subscriptions,
        }
        self._writer.write("deliveries", columns)

    def _write_expired(self) -> None:
        if self._expired:
            columns = zip(
                ("request", "client", "broker", "hop", "at_ns"), zip(*self._expired, strict=True), strict=True
            )
            self._writer.write("expired", dict(columns))
            self._expired.clear()

    def _write_requests(self) -> None:
        rows, self._requests = self._requests, []
        if rows:
            number, kind, client, broker, issued, handled, row, refused = zip(*rows, strict=True)
            columns = {
                "request": number,
                "kind": _coded(kind, list(_REQUESTS.values())),
                "client": client,
                "broker": broker,
                "issued_ns": issued,
                "handled_ns": handled,
                "row": row,
                "refused": refused,
            }
            self._writer.write("requests", columns)

    def _write_samples(self) -> None:
        if self._samples:
            at, sender, receiver, length, entered = (np.array(c) for c in zip(*self._samples, strict=True))
            self._samples.clear()
            columns = {
                "at_ns": at,
                "sender": sender,
                "receiver": receiver,
                "queue": length,
                "entered": entered,
                "left": entered - length,
            }
            self._writer.write("queues", columns)

    def _write_names(self, overlay: Scot, sites: Sites | None) -> None:
        ids = overlay.brokers
        brokers = {
            "broker": range(len(ids)),
            "region": [id.region for id in ids],
            "cluster": [id.cluster for id in ids],
            "inner": [overlay.is_inner(id) for id in ids],
            "site": [None if sites is None else sites.site_of(id) for id in ids],
        }
        self._writer.write("brokers", brokers)
        clients = {
            "client": [number for number, _ in self._clients.values()],
            "name": list(self._clients),
            "broker": [self._brokers[broker] for _, broker in self._clients.values()],
        }
        self._writer.write("clients", clients)


# Fields of an arrival; as numbers they lack the message and have the moment when it was handled.
_MESSAGE = 2
_LINK, _REQUEST, _HOP, _CODE, _HANDLED = 1, 2, 3, 7, 8
_OF_DELIVERIES = (_LINK, _REQUEST, _HOP, _HANDLED)


class _Rows:
    """Some rows as numbers: an array for each field."""

    __slots__ = ("civs", "hops", "numbers")

    def __init__(self, arrivals: list[Any], handled: list[int]) -> None:
        fields = [arrivals[field::ARRIVAL_FIELDS] for field in range(ARRIVAL_FIELDS)]
        messages = fields.pop(_MESSAGE)
        fields.append(handled)
        self.numbers = [np.fromiter(field, dtype=np.int64, count=len(field)) for field in fields]
        codes = fields[_CODE]
        self.hops = len(codes) - codes.count(NO_MESSAGE)
        # of hops only; Python integers, since there may be more clusters than bits in a numpy number
        self.civs: Sequence[int] = (0,) * self.hops
        if max(codes) >= FIRST_NOTIFICATION:
            self.civs = [
                message.header.civ if type(message) is Notify else 0
                for message, code in zip(messages, codes, strict=True)
                if code >= 0
            ]


class _RecipientSets:
    """Sets of recipients as numbers. Brokers return one object for equal sets, so each is converted once.

    At most `_RECIPIENT_SETS_MAX` are kept from one batch to the next; beyond that, all are dropped.
    """

    def __init__(self, clients: Mapping[str, int]) -> None:
        self._number_of = clients
        self._forget()

    def _forget(self) -> None:
        # by address, in order; the objects are kept, so that an address is never reused
        self._kept: list[tuple[Recipient, ...] | None] = [None]
        self._addresses = np.array([id(None)], dtype=np.int64)
        self._codes = np.zeros(1, dtype=np.int64)
        # per code: the number of recipients, and the first of them in the arrays that follow
        self._sizes = np.zeros(1, dtype=np.int64)
        self._clients = np.zeros(0, dtype=np.int32)
        self._subscriptions = np.zeros(0, dtype=np.int16)

    def expand(self, orders: Sequence[tuple[Recipient, ...] | None]) -> tuple[Numbers, Any, Any]:
        """The number of recipients of each order (None: none), and, for all in order, the client and its
        subscriptions.
        """
        if len(self._kept) > _RECIPIENT_SETS_MAX:
            self._forget()
        addresses = np.fromiter(map(id, orders), dtype=np.int64, count=len(orders))
        place = self._places(addresses)
        unknown = np.flatnonzero(self._addresses[place] != addresses)
        if len(unknown):
            self._learn({id(orders[at]): orders[at] for at in unknown.tolist()})
            place = self._places(addresses)
        codes = self._codes[place]
        starts = np.cumsum(self._sizes) - self._sizes
        counts = self._sizes[codes]
        firsts = np.cumsum(counts) - counts
        picked = np.repeat(starts[codes] - firsts, counts) + np.arange(counts.sum())
        return counts, self._clients[picked], self._subscriptions[picked]

    def _places(self, addresses: Numbers) -> Numbers:
        place: Numbers = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        return place

    def _learn(self, orders: Mapping[int, tuple[Recipient, ...] | None]) -> None:
        codes = np.arange(len(self._kept), len(self._kept) + len(orders))
        self._kept += orders.values()
        order = np.argsort(addresses := np.concatenate([self._addresses, np.array(list(orders), dtype=np.int64)]))
        self._addresses, self._codes = addresses[order], np.concatenate([self._codes, codes])[order]
        recipients = [each for several in orders.values() for each in several or ()]
        self._sizes = np.concatenate([self._sizes, [len(several or ()) for several in orders.values()]])
        clients = np.array([self._number_of[client] for client, _ in recipients], dtype=np.int32)
        self._clients = np.concatenate([self._clients, clients])
        subscriptions = np.array([len(ids) for _, ids in recipients], dtype=np.int16)
        self._subscriptions = np.concatenate([self._subscriptions, subscriptions])


def _coded(codes: Any, names: Sequence[str], absent: Any = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int8(), mask=absent), pa.array(names, pa.string()))
