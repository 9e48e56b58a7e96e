"""Batches of deliveries kept as bytes, for clients that turn them into columns rather than objects.

A connection cuts and checks them with compiled code (`Connection.join_deliveries`), so the ordinary reader would accept
every parcel here. `Deliveries` is a value: it can be split and filtered, but never changes.

numpy is loaded on first use; a client that reads its deliveries one by one does not need it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from octopia.wire.messages import Delivery
from octopia.wire.parcel import read_parcel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Places: TypeAlias = npt.NDArray[np.int64]

# Frames, and different headers, in one `Deliveries`; a read that brings more makes several.
FRAMES_MAX: Final = 4096
HEADERS_MAX: Final = 64
# Reads shorter than this take the ordinary path, which is faster for one or two deliveries.
BYTES_MIN: Final = 1024


class Deliveries:
    """Consecutive deliveries: the position of each parcel in `data`, and its subscriptions."""

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

    @classmethod
    def of(cls, delivery: Delivery) -> "Deliveries":
        """A batch of one decoded delivery."""
        import numpy as np

        parcel: bytes = delivery.notification.parcel
        place = np.zeros(1, dtype=np.int64)
        return cls(parcel, place, place + len(parcel), np.zeros(1, dtype=np.int32), [delivery.subscriptions])

    def ids(self) -> list[str]:
        """The subscriptions of these deliveries, each once."""
        return list(dict.fromkeys(id for ids in self.subscriptions for id in ids))

    def for_subscription(self, id: str) -> "Deliveries":
        """The deliveries for one subscription. A small part of a large read is copied, to free the rest."""
        import numpy as np

        wanted = [id in ids for ids in self.subscriptions]
        if all(wanted):
            chosen = self
        else:
            mask = np.array(wanted, dtype=np.bool_)[self.headers]
            chosen = Deliveries(self.data, self.starts[mask], self.stops[mask], self.headers[mask], self.subscriptions)
        size = int((chosen.stops - chosen.starts).sum())
        if 2 * size >= len(self.data):
            return chosen
        data = b"".join([self.data[a:b] for a, b in zip(chosen.starts.tolist(), chosen.stops.tolist(), strict=True)])
        stops = np.cumsum(chosen.stops - chosen.starts)
        starts = stops - (chosen.stops - chosen.starts)
        return Deliveries(data, starts, stops, chosen.headers, chosen.subscriptions)

    def cut(self, count: int) -> tuple["Deliveries", "Deliveries"]:
        """Split into the first `count` and the rest."""
        return self._part(slice(0, count)), self._part(slice(count, None))

    def _part(self, rows: slice) -> "Deliveries":
        return Deliveries(self.data, self.starts[rows], self.stops[rows], self.headers[rows], self.subscriptions)

    def decoded(self) -> list[Delivery]:
        """The same one by one, as a connection returns them otherwise."""
        made = []
        places = zip(self.starts.tolist(), self.stops.tolist(), self.headers.tolist(), strict=True)
        for start, stop, header in places:
            seen = read_parcel(self.data[start:stop])
            made.append(Delivery(seen, seen.publisher, str(seen.sequence), self.subscriptions[header]))
        return made


def split_deliveries(
    kernels: Any, data: bytes, at: int, limits: tuple[int, int], read_header: Callable[[bytes], tuple[str, ...]]
) -> tuple[Deliveries | None, int]:
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
    return Deliveries(data, starts[:count], stops[:count], headers[:count], subscriptions), after
