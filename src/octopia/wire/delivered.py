"""Consecutive deliveries of one read, as a client takes them in: decoded, or as bytes that become columns.

    `DecodedDeliveries`   read in Python; an object for a notification is made when a program asks for it
    `JoinedDeliveries`    cut and checked by compiled code (`Connection.join_deliveries`), for programs that want
                          columns; the reader in Python would accept every parcel here

Both are values with the same methods: they can be split and sorted by subscription, but never change. numpy is loaded
on first use; a client that reads notifications does not need it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from octopia.errors import RemoteProtocolError
from octopia.language import Value
from octopia.wire.kinds import Kind
from octopia.wire.limits import HEADERS_REMEMBERED_MAX, PLAIN_OVERHEAD_BYTES, PREFIX_BYTES
from octopia.wire.messages import Delivery
from octopia.wire.parcel import WireNotification, read_parcel, trusted_notification

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Places: TypeAlias = npt.NDArray[np.int64]

# Frames, and different headers, in one `JoinedDeliveries`; a read that brings more makes several.
FRAMES_MAX: Final = 4096
HEADERS_MAX: Final = 64
# Deliveries that are decoded together. Of objects that are alive at the same time some outlive two collections of
# garbage, and enough of these make Python look through the whole heap, which costs more than decoding.
DECODED_MAX: Final = 200
# Reads shorter than this take the ordinary path, which is faster for one or two deliveries.
BYTES_MIN: Final = 1024
_LENGTH: Final = Struct(">I")


class Deliveries(ABC):
    """One or more consecutive deliveries, in order."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def by_subscription(self) -> "dict[str, Deliveries]":
        """The deliveries for each subscription."""

    @abstractmethod
    def cut(self, count: int) -> "tuple[Deliveries, Deliveries]":
        """Split into the first `count` and the rest."""

    @abstractmethod
    def subscriptions_each(self) -> Sequence[tuple[str, ...]]:
        """The subscriptions of each delivery."""

    @abstractmethod
    def notifications(self) -> Iterator[WireNotification]:
        """The notifications alone, each made when it is asked for."""

    def decoded(self) -> list[Delivery]:
        """The deliveries one by one."""
        both = zip(self.notifications(), self.subscriptions_each(), strict=True)
        return [Delivery(seen, seen.publisher, str(seen.sequence), ids) for seen, ids in both]

    @abstractmethod
    def joined(self) -> "JoinedDeliveries":
        """The same as bytes."""


class DecodedDeliveries(Deliveries):
    """Deliveries whose attributes are decoded: a list for each part.

    Lists rather than an object each, since deliveries that wait would occupy the collector of garbage.
    """

    __slots__ = ("_parcels", "_publishers", "_sequences", "_subscriptions", "_values")

    def __init__(
        self,
        values: Sequence[dict[str, Value]],
        parcels: Sequence[bytes],
        publishers: Sequence[str],
        sequences: Sequence[int],
        subscriptions: Sequence[tuple[str, ...]],
    ) -> None:
        self._values = values
        self._parcels = parcels
        self._publishers = publishers
        self._sequences = sequences
        self._subscriptions = subscriptions

    @classmethod
    def of(cls, delivery: Delivery) -> "DecodedDeliveries":
        seen = delivery.notification
        return cls([seen.to_dict()], [seen.parcel], [seen.publisher], [seen.sequence], [delivery.subscriptions])

    def __len__(self) -> int:
        return len(self._values)

    @property
    def _columns(self) -> tuple[Sequence[Any], ...]:
        return self._values, self._parcels, self._publishers, self._sequences, self._subscriptions

    def by_subscription(self) -> dict[str, Deliveries]:
        all_ids = self._subscriptions
        first = all_ids[0]
        if all_ids.count(first) == len(all_ids):
            return dict.fromkeys(first, self)
        parts: dict[str, list[tuple[Any, ...]]] = {}
        for row in zip(*self._columns, strict=True):
            for id in row[-1]:
                parts.setdefault(id, []).append(row)
        return {id: DecodedDeliveries(*zip(*rows, strict=True)) for id, rows in parts.items()}

    def cut(self, count: int) -> tuple[Deliveries, Deliveries]:
        first, rest = ([column[part] for column in self._columns] for part in (slice(count), slice(count, None)))
        return DecodedDeliveries(*first), DecodedDeliveries(*rest)

    def subscriptions_each(self) -> Sequence[tuple[str, ...]]:
        return self._subscriptions

    def notifications(self) -> Iterator[WireNotification]:
        return map(trusted_notification, self._values, self._parcels, self._publishers, self._sequences)

    def joined(self) -> "JoinedDeliveries":
        import numpy as np

        stops = np.cumsum(np.fromiter(map(len, self._parcels), dtype=np.int64, count=len(self)))
        starts = np.concatenate(([0], stops[:-1]))
        headers = np.arange(len(self), dtype=np.int32)
        return JoinedDeliveries(b"".join(self._parcels), starts, stops, headers, self._subscriptions)


class JoinedDeliveries(Deliveries):
    """Deliveries as bytes: the position of each parcel in `data`, and its subscriptions."""

    __slots__ = ("data", "headers", "starts", "stops", "subscriptions")

    def __init__(
        self,
        data: bytes,
        starts: "Places",
        stops: "Places",
        headers: "npt.NDArray[np.int32]",
        subscriptions: Sequence[tuple[str, ...]],
    ) -> None:
        """`headers`: for each, the place of its subscriptions in `subscriptions`."""
        self.data = data
        self.starts = starts
        self.stops = stops
        self.headers = headers
        self.subscriptions = subscriptions

    def __len__(self) -> int:
        return len(self.starts)

    def by_subscription(self) -> dict[str, Deliveries]:
        ids = dict.fromkeys(id for ids in self.subscriptions for id in ids)
        return {id: self._for_subscription(id) for id in ids}

    def _for_subscription(self, id: str) -> "JoinedDeliveries":
        """The deliveries for one subscription. A small part of a large read is copied, to free the rest."""
        import numpy as np

        wanted = [id in ids for ids in self.subscriptions]
        if all(wanted):
            chosen = self
        else:
            mask = np.array(wanted, dtype=np.bool_)[self.headers]
            chosen = JoinedDeliveries(
                self.data, self.starts[mask], self.stops[mask], self.headers[mask], self.subscriptions
            )
        size = int((chosen.stops - chosen.starts).sum())
        if 2 * size >= len(self.data):
            return chosen
        data = b"".join([self.data[a:b] for a, b in zip(chosen.starts.tolist(), chosen.stops.tolist(), strict=True)])
        stops = np.cumsum(chosen.stops - chosen.starts)
        starts = stops - (chosen.stops - chosen.starts)
        return JoinedDeliveries(data, starts, stops, chosen.headers, chosen.subscriptions)

    def cut(self, count: int) -> tuple[Deliveries, Deliveries]:
        return self._part(slice(0, count)), self._part(slice(count, None))

    def _part(self, rows: slice) -> "JoinedDeliveries":
        return JoinedDeliveries(self.data, self.starts[rows], self.stops[rows], self.headers[rows], self.subscriptions)

    def subscriptions_each(self) -> Sequence[tuple[str, ...]]:
        return [self.subscriptions[header] for header in self.headers.tolist()]

    def notifications(self) -> Iterator[WireNotification]:
        places = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return (read_parcel(self.data[start:stop]) for start, stop in places)

    def joined(self) -> "JoinedDeliveries":
        return self


# Consecutive frames with deliveries: the parcel and the subscriptions of each, and where its frame ends.
Cut: TypeAlias = tuple[list[bytes], list[tuple[str, ...]], list[int]]


class DeliveryCutter:
    """Cuts frames with deliveries apart. Headers are decoded once: the same few come over and over."""

    __slots__ = ("_headers", "_read_header")

    def __init__(self, read_header: Callable[[bytes], tuple[str, ...]]) -> None:
        self._read_header = read_header
        self._headers: dict[bytes, tuple[str, ...]] = {}

    def cut(self, data: bytes, at: int, frame_bytes_max: int) -> Cut:
        """The deliveries from `at` on, where there is a whole one within the bound, up to one that is wrong."""
        stop, end = at + PREFIX_BYTES + _LENGTH.unpack_from(data, at)[0], len(data)
        before, ids = self._header(data, at, stop)
        same = data[at + PREFIX_BYTES : at + before]
        parcels, subscriptions, stops = [data[at + before : stop]], [ids], [stop]
        at = stop
        while at + PREFIX_BYTES < end and len(parcels) < DECODED_MAX:
            length = _LENGTH.unpack_from(data, at)[0]
            stop = at + PREFIX_BYTES + length
            if stop > end or length > frame_bytes_max:
                break
            # Most begin like the one before.
            if at + before >= stop or not data.startswith(same, at + PREFIX_BYTES):
                if data[at + PREFIX_BYTES] != Kind.DELIVER:
                    break
                try:
                    before, ids = self._header(data, at, stop)
                except (RemoteProtocolError, msgspec.DecodeError, ValueError, RecursionError):
                    break
                same = data[at + PREFIX_BYTES : at + before]
            parcels.append(data[at + before : stop])
            subscriptions.append(ids)
            stops.append(stop)
            at = stop
        return parcels, subscriptions, stops

    def _header(self, data: bytes, at: int, stop: int) -> tuple[int, tuple[str, ...]]:
        """The number of bytes before the parcel, and the subscriptions."""
        start = at + PLAIN_OVERHEAD_BYTES
        if start > stop:
            raise RemoteProtocolError(f"a frame DELIVER of {stop - at - PREFIX_BYTES} bytes has no room for its header")
        parcel = start + _LENGTH.unpack_from(data, start - 4)[0]
        if parcel >= stop:
            raise RemoteProtocolError("a frame DELIVER whose header leaves no room for a notification")
        header = data[start:parcel]
        ids = self._headers.get(header)
        if ids is None:
            ids = self._read_header(header)
            if len(self._headers) >= HEADERS_REMEMBERED_MAX:
                self._headers.clear()
            self._headers[header] = ids
        return parcel - at, ids


def split_deliveries(
    kernels: Any, data: bytes, at: int, limits: tuple[int, int], read_header: Callable[[bytes], tuple[str, ...]]
) -> tuple[JoinedDeliveries | None, int]:
    """The plain deliveries from `at` on, and where the next frame begins. `limits`: bytes of a frame, attributes."""
    import numpy as np

    array = np.frombuffer(data, dtype=np.uint8)
    room = min((len(data) - at) // 16 + 1, FRAMES_MAX)
    starts, stops = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    headers, header_at = np.empty(room, dtype=np.int32), np.empty((HEADERS_MAX, 2), dtype=np.int64)
    count, known, after = kernels.split_deliveries(array, at, *limits, starts, stops, headers, header_at)
    if not count:
        return None, at
    subscriptions: list[tuple[str, ...]] = []
    for begin, stop in header_at[:known].tolist():
        try:
            subscriptions.append(read_header(data[begin:stop]))
        except Exception:  # noqa: BLE001  whatever is wrong with a header, the ordinary way says it when its turn comes
            count = int(np.argmax(headers[:count] == len(subscriptions)))
            after = int(stops[count - 1]) if count else at
            break
    if not count:
        return None, at
    return JoinedDeliveries(data, starts[:count], stops[:count], headers[:count], subscriptions), after
