"""The output of the compiled reader: notifications of one read, checked but not made into Python objects.

A `Haul` is a batch like `Parcels`. `notification` returns one as an object, and `parcels` returns `Parcels` for code
that needs them; both decode with the ordinary reader, so the bytes have one meaning. The arrays behind a haul are lent
by its `Scanner` and returned with `done` once the haul is processed; a haul that is dropped instead takes them with it.
"""

from typing import TYPE_CHECKING, Any, Final

from octopia.routing import PLAIN, Header
from octopia.wire.dests import split_stamp
from octopia.wire.parcel import ParcelReader, Parcels, WireNotification

if TYPE_CHECKING:
    from octopia.matching import Tokens
    from octopia.wire.scanner import Room, Scanner

# Below this many notifications in a read the ordinary path is faster.
HAUL_MIN: Final = 4


class Haul:
    """Consecutive plain notifications. `header` and `carried` are those of `Parcels`."""

    __slots__ = ("_decoded", "_reader", "_room", "_scanner", "carried", "header", "tokens")

    def __init__(self, room: "Room", reader: ParcelReader, scanner: "Scanner") -> None:
        self._reader = reader
        self._scanner = scanner
        self._room: Room | None = room
        self._decoded: dict[int, WireNotification] | None = None
        self.tokens: Tokens = room
        self.header: Any = None
        self.carried: Header = PLAIN

    def __len__(self) -> int:
        return self.tokens.counts.notes

    @property
    def publishers(self) -> list[str]:
        """The publishers, each once."""
        return [self.tokens.publisher(number) for number in range(self.tokens.counts.publishers)]

    def follows(self, sequence: int) -> bool:
        """Whether they are numbered consecutively, all above this number."""
        return not self.tokens.counts.breaks and self.tokens.counts.first > sequence

    @property
    def is_timed(self) -> bool:
        return bool(self.tokens.counts.timed)

    def sequence(self, at: int) -> int:
        return int(self.tokens.notes[at, 3])

    def notification(self, at: int) -> WireNotification:
        """One notification."""
        if self._decoded is None:
            self._decoded = {}
        known = self._decoded.get(at)
        if known is None:
            _, start, stop, *_ = self.tokens.notes[at].tolist()
            known = self._decoded[at] = self._reader.read(self.tokens.raw[start:stop], self.header)
        return known

    def stamps(self) -> list[tuple[bytes, str]]:
        """The stamp and publisher of each, for stamped notifications."""
        data, names = self.tokens.raw, self.publishers
        notes = self.tokens.notes[: len(self)].tolist()
        return [(split_stamp(data[tail:stop])[0], names[of]) for tail, _, stop, _, _, _, _, of in notes]

    def parcels(self, start: int = 0, stop: int | None = None) -> Parcels:
        """The notifications in this range, for the ordinary path."""
        batch = Parcels()
        batch.header, batch.carried = self.header, self.carried
        places = self.tokens.notes[start : len(self) if stop is None else stop, :3].tolist()
        if places:
            data = self.tokens.raw
            self._reader.read_many([data[parcel:end] for _, parcel, end in places], batch)
            if places[0][0] != places[0][1]:
                batch.stamped = [data[tail:end] for tail, _, end in places]
        return batch

    def done(self) -> None:
        """Return the arrays: the haul will not be used any more."""
        if self._room is not None:
            self._scanner.give_back(self._room)
            self._room = None
