"""From a running simulation to its trace: rows are kept as they come and written in batches.

Rules of this file: the loop of the simulation appends what it has at hand, and all turning into numbers, texts and
columns happens here, a batch at a time. At most `rows_per_batch` hops and as many delivery orders are held.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.routing import (
    Advertise,
    Advertised,
    Broker,
    CibClear,
    CibSet,
    ClientLeft,
    Deliver,
    Message,
    Notify,
    NotifyRoutes,
    NotifyTree,
    Published,
    Recipient,
    Refused,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
)
from octopia.sim.links import OutLink
from octopia.topology import BrokerId, Scot, civ
from octopia.trace import FATES, ROWS_PER_BATCH, TraceWriter

if TYPE_CHECKING:
    from octopia.sim.simulation import Request

_KINDS = ("advertise", "unadvertise", "subscribe", "unsubscribe", "cib_set", "cib_clear", "notify")
_KIND_OF: Mapping[type, int] = {
    Advertise: 0,
    Unadvertise: 1,
    Subscribe: 2,
    Unsubscribe: 3,
    CibSet: 4,
    CibClear: 5,
    Notify: 6,
    NotifyTree: 6,
    NotifyRoutes: 6,
}
_REQUESTS = ("advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "leave")
_REQUEST_OF: Mapping[type, int] = {
    Advertised: 0,
    Unadvertised: 1,
    Subscribed: 2,
    Unsubscribed: 3,
    Published: 4,
    ClientLeft: 5,
}
_FATE_CODES = {fate: code for code, fate in enumerate(FATES)}
_RECIPIENT_SETS_MAX = 50_000
_NUMBERS_PER_HOP = 8
Numbers = npt.NDArray[np.int64]


class Recorder:
    """Takes in what happens in a run and writes it through a `TraceWriter`."""

    def __init__(self, writer: TraceWriter, overlay: Scot, clients: Mapping[str, tuple[int, BrokerId]]) -> None:
        # per hop: link, request, hop, queued, left, arrived, handled, Q_l; handled is -1 - fate where it was lost
        self.hop_numbers = array("q")
        self.hop_messages: list[Message] = []
        # broker, request, order, moment of receipt, hops; there are at most as many as hops and requests together
        self.delivery_rows: list[tuple[int, int, Deliver, int, int]] = []
        self.rows_per_batch = ROWS_PER_BATCH
        self._writer = writer
        self._clusters = overlay.clusters
        self._brokers = {id: index for index, id in enumerate(overlay.brokers)}
        self._clients = clients
        self._senders = self._receivers = np.empty(0, dtype=np.int32)
        self._requests: list[list[Any]] = []
        self._samples: list[tuple[int, int, int, int, int]] = []
        self._recipients = _RecipientSets({client: number for client, (number, _) in clients.items()})
        # which request made an advertisement, for the bits at the end
        self._advertised: dict[tuple[str, str], int] = {}
        self._write_names(overlay)

    def take_links(self, links: list[OutLink]) -> None:
        """The links of the run, in the order of their index."""
        self._senders = np.array([link.sender.index for link in links], dtype=np.int32)
        self._receivers = np.array([link.receiver.index for link in links], dtype=np.int32)

    def request(self, request: "Request", handled_ns: int | None) -> None:
        event: Any = request.event
        kind = _REQUEST_OF[type(event)]
        if type(event) is Advertised:
            self._advertised[event.client, event.id] = request.number
        client, broker = self._clients[event.client][0], self._brokers[request.broker]
        self._requests.append([request.number, kind, client, broker, request.at_ns, handled_ns, request.row, None])
        if len(self._requests) > self.rows_per_batch:
            self.flush(keep_requests=1)

    def refusal(self, action: Refused) -> None:
        """The last request was refused."""
        self._requests[-1][-1] = action.reason

    def sample(self, at_ns: int, link: OutLink, length: int) -> None:
        row = (at_ns, link.sender.index, link.receiver.index, length, link.entered)
        self._samples.append(row)
        if len(self._samples) >= self.rows_per_batch:
            self._flush_samples()

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
        """The bits of all advertisements as they are now at their host brokers."""
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

    def flush(self, keep_requests: int = 0) -> None:
        """Write all that is held; the last request may be kept, since a refusal of it is still to come."""
        self._flush_hops()
        self._flush_deliveries()
        self._flush_requests(keep_requests)
        self._flush_samples()

    def _flush_hops(self) -> None:
        if not self.hop_messages:
            return
        numbers = np.frombuffer(self.hop_numbers, dtype=np.int64).reshape(-1, _NUMBERS_PER_HOP)
        link, request, hop, queued, left, arrived, handled, found = (column.copy() for column in numbers.T)
        del numbers
        messages = self.hop_messages
        lost = handled < 0
        columns = {
            "kind": _coded([_KIND_OF[type(message)] for message in messages], _KINDS),
            "request": request,
            "sender": self._senders[link],
            "receiver": self._receivers[link],
            "hop": hop,
            "queued_ns": queued,
            "left_ns": left,
            "arrived_ns": arrived,
            "handled_ns": pa.array(handled, mask=lost),
            "queue": found,
            "civ": self._civs_of(messages),
            "fate": _coded(np.where(lost, -1 - handled, 0), FATES),
        }
        self._writer.write("hops", columns)
        self.hop_messages.clear()
        del self.hop_numbers[:]

    def _civs_of(self, messages: Sequence[Any]) -> Any:
        bits = [message.civ if type(message) is Notify else 0 for message in messages]
        distinct = [value for value in dict.fromkeys(bits) if value]
        code_of = {value: code for code, value in enumerate(distinct)}
        codes = pa.array(map(code_of.get, bits), type=pa.int32())
        texts = [civ.to_string(value, self._clusters) for value in distinct]
        return pa.DictionaryArray.from_arrays(codes, pa.array(texts, type=pa.string()))

    def _flush_deliveries(self) -> None:
        if not self.delivery_rows:
            return
        brokers, requests, orders, at_ns, hops = zip(*self.delivery_rows, strict=True)
        self.delivery_rows.clear()
        counts, clients, subscriptions = self._recipients.expand(orders)
        columns = {
            "request": np.repeat(requests, counts),
            "client": clients,
            "broker": np.repeat(brokers, counts),
            "hop": np.repeat(hops, counts),
            "delivered_ns": np.repeat(at_ns, counts),
            "subscriptions": subscriptions,
        }
        self._writer.write("deliveries", columns)

    def _flush_requests(self, keep: int) -> None:
        rows = self._requests[: len(self._requests) - keep]
        del self._requests[: len(rows)]
        if rows:
            number, kind, client, broker, issued, handled, row, refused = zip(*rows, strict=True)
            columns = {
                "request": number,
                "kind": _coded(kind, _REQUESTS),
                "client": client,
                "broker": broker,
                "issued_ns": issued,
                "handled_ns": handled,
                "row": row,
                "refused": refused,
            }
            self._writer.write("requests", columns)

    def _flush_samples(self) -> None:
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

    def _write_names(self, overlay: Scot) -> None:
        ids = overlay.brokers
        brokers = {
            "broker": range(len(ids)),
            "region": [id.region for id in ids],
            "cluster": [id.cluster for id in ids],
            "inner": [overlay.is_inner(id) for id in ids],
        }
        self._writer.write("brokers", brokers)
        clients = {
            "client": [number for number, _ in self._clients.values()],
            "name": list(self._clients),
            "broker": [self._brokers[broker] for _, broker in self._clients.values()],
        }
        self._writer.write("clients", clients)


class _RecipientSets:
    """Sets of recipients as numbers. Brokers give one object for equal sets, so each is turned into numbers once.

    At most `_RECIPIENT_SETS_MAX` are kept from one batch to the next; past that all are forgotten.
    """

    def __init__(self, clients: Mapping[str, int]) -> None:
        self._clients = clients
        self._codes: dict[int, int] = {}
        # also keeps the objects alive, so that an address stands for one set only
        self._sets: list[tuple[Recipient, ...]] = []

    def expand(self, orders: Sequence[Deliver]) -> tuple[Numbers, Numbers, Numbers]:
        """How many recipients each order has, and for all of them in order the client and its subscriptions."""
        codes = self._codes
        found = [codes.get(id(order.recipients), -1) for order in orders]
        for position, code in enumerate(found):
            if code < 0:
                found[position] = self._code_of(orders[position].recipients)
        sizes = np.array([len(recipients) for recipients in self._sets])
        clients = np.array([self._clients[client] for recipients in self._sets for client, _ in recipients])
        subscriptions = np.array([len(ids) for recipients in self._sets for _, ids in recipients])
        starts = np.cumsum(sizes) - sizes
        counts = sizes[found]
        firsts = np.cumsum(counts) - counts
        picked = np.repeat(starts[found] - firsts, counts) + np.arange(counts.sum())
        if len(self._sets) > _RECIPIENT_SETS_MAX:
            self._codes.clear()
            self._sets.clear()
        return counts, clients[picked], subscriptions[picked]

    def _code_of(self, recipients: tuple[Recipient, ...]) -> int:
        code = self._codes.setdefault(id(recipients), len(self._sets))
        if code == len(self._sets):
            self._sets.append(recipients)
        return code


def _coded(codes: Any, names: Sequence[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int8()), pa.array(names))
