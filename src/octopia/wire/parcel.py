"""The parcel: a notification as it travels, made once by its publisher's client and never again.

    parcel = [attributes, publisher, sequence]                   a MessagePack array of three
    timed  = [attributes, publisher, sequence, accepted_ms]      where the overlay has deadlines

A timed parcel says when the publisher's host broker accepted the notification, in ms since 1970 by that broker's clock.
That broker adds it to the client's parcel. The time is always the last 9 bytes, a full 64-bit number, so it can be read
without decoding the parcel.

Every frame that carries a notification ends with its parcel, so a broker forwards the bytes it received behind a new,
small header. `WireNotification` holds both, the attributes for matching and the bytes for sending. A parcel is decoded
in one call whose type checks the kinds, the number of attributes and NaN; anything it rejects takes the slow path,
which accepts rare values (long integers, infinities) and reports what is wrong with the rest. The number of attributes
is compared with the count in the map's head, so a repeated name is detected.
"""

from struct import Struct
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder

from octopia.errors import LanguageError, RemoteProtocolError
from octopia.language import Notification, Value
from octopia.protocol import PLAIN, Header
from octopia.wire.limits import NAME_CHARS_MAX, SEQUENCE_MAX, WireLimits
from octopia.wire.values import ENCODER, AnyValue, PlainValue, value_in, value_out

# From this many on, reading them together is faster.
MANY_MIN: Final = 4
# The first byte of a parcel with a time, and of one without; how many bytes a time takes at the end of the former.
TIMED: Final = 0x94
UNTIMED: Final = 0x93
_TIME: Final = Struct(">BQ")
_UINT64: Final = 0xCF
_FIXMAP: Final = 0x80
_FIXMAP_END: Final = 0x8F
_MAP16: Final = 0xDE
_SIGN: Final = 0x80
_TIMED_BYTE: Final = bytes([TIMED])
_UNTIMED_BYTE: Final = bytes([UNTIMED])
_BAD_TIME: Final = "no notification: the time at its end is not a number of 64 bits"
_NAME = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_SEQUENCE = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]

# Notifications are frozen; these two fill a new one without checking its values a second time.
_set_values: Final = Notification._values.__set__  # type: ignore[attr-defined]  # noqa: SLF001
_get_values: Final = Notification._values.__get__  # type: ignore[attr-defined]  # noqa: SLF001
_set_hash: Final = Notification._hash.__set__  # type: ignore[union-attr]  # noqa: SLF001


class WireNotification(Notification):
    """A notification with the bytes it came in. Equal to any notification of the same content."""

    __slots__ = ("header", "parcel", "publisher", "sequence")
    parcel: bytes
    publisher: str
    sequence: int
    header: Any  # the `CopyHeader` that must travel with the parcel; None for a plain copy


_new: Final = object.__new__
_set_parcel: Final = WireNotification.parcel.__set__  # type: ignore[attr-defined]
_set_publisher: Final = WireNotification.publisher.__set__  # type: ignore[attr-defined]
_set_sequence: Final = WireNotification.sequence.__set__  # type: ignore[attr-defined]
_set_header: Final = WireNotification.header.__set__


def trusted_notification(
    values: dict[str, Value], parcel: bytes, publisher: str, sequence: int, header: Any = None
) -> WireNotification:
    """A notification of values that were decoded from this parcel, and so checked; takes ownership of the dict."""
    made: WireNotification = _new(WireNotification)
    _set_values(made, values)
    _set_hash(made, None)
    _set_parcel(made, parcel)
    _set_publisher(made, publisher)
    _set_sequence(made, sequence)
    _set_header(made, header)
    return made


def encode_parcel(notification: Notification, publisher: str, sequence: int) -> bytes:
    """The parcel of a (checked) notification."""
    values = notification.to_dict()
    try:
        return ENCODER.encode((values, publisher, sequence))
    except OverflowError:
        return ENCODER.encode(({name: value_out(v) for name, v in values.items()}, publisher, sequence))


def timed(parcel: bytes, at_ms: int) -> bytes:
    """A client's parcel with the time at which its host broker accepted it."""
    return _TIMED_BYTE + parcel[1:] + _TIME.pack(_UINT64, at_ms)


def accepted_ms(frame: bytes, at: int = 0) -> int | None:
    """The time of the parcel that begins there and ends with these bytes; None if it is not timed."""
    return int.from_bytes(frame[-8:], "big") if frame[at] == TIMED else None


def wire_notification(notification: Notification, publisher: str, sequence: int) -> WireNotification:
    """A local notification with its parcel, ready to send."""
    parcel = encode_parcel(notification, publisher, sequence)
    return trusted_notification(notification.to_dict(), parcel, publisher, sequence)


class Batch:
    """Consecutive notifications, decoded: a list for each part, and their common header.

    Cheaper than a `WireNotification` for each, which most never need; `notification` makes one. If the routing has
    streams, `stamped` has for each the bytes after the header of a copy: its stamp and its parcel. `stops` has where
    the frame of each ends in the bytes that it was read from.
    """

    __slots__ = ("carried", "header", "is_timed", "parcels", "publishers", "sequences", "stamped", "stops", "values")

    def __init__(self, carried: Header = PLAIN, header: Any = None) -> None:
        """`carried` is the header by which the core routes copies, `header` that of `WireNotification`."""
        self.header = header
        self.carried = carried
        self.is_timed = False  # whether one of them has a time
        self.stamped: list[bytes] = []
        self.stops: list[int] = []
        self.parcels: list[bytes] = []
        self.values: list[dict[str, Value]] = []
        self.publishers: list[str] = []
        self.sequences: list[int] = []

    def __len__(self) -> int:
        return len(self.values)

    def accept(self, at_ms: int) -> None:
        """Add the time at which their host broker accepted them."""
        self.parcels = [timed(parcel, at_ms) for parcel in self.parcels]
        self.is_timed = True

    def notification(self, at: int) -> WireNotification:
        return trusted_notification(
            self.values[at], self.parcels[at], self.publishers[at], self.sequences[at], self.header
        )

    def first(self, count: int) -> "Batch":
        """Only the first notifications."""
        if count == len(self):
            return self
        made = Batch(self.carried, self.header)
        made.is_timed = self.is_timed
        made.stamped, made.stops, made.parcels = self.stamped[:count], self.stops[:count], self.parcels[:count]
        made.values, made.publishers = self.values[:count], self.publishers[:count]
        made.sequences = self.sequences[:count]
        return made


class ParcelReader:
    """Decodes parcels within given limits."""

    __slots__ = ("_decode", "_decode_any", "_decode_timed")

    def __init__(self, limits: WireLimits) -> None:
        size = Meta(min_length=1, max_length=limits.attributes_max)
        plain = Annotated[dict[str, PlainValue], size]
        rare = Annotated[dict[str, AnyValue], size]
        self._decode = Decoder(tuple[plain, _NAME, _SEQUENCE]).decode
        self._decode_timed = Decoder(tuple[plain, _NAME, _SEQUENCE, _SEQUENCE]).decode
        self._decode_any = Decoder(tuple[rare, _NAME, _SEQUENCE]).decode

    def read(self, parcel: bytes, header: Any = None) -> WireNotification:
        """The notification of a parcel, or `RemoteProtocolError`."""
        values, publisher, sequence = self.read_one(parcel)
        return trusted_notification(values, parcel, publisher, sequence, header)

    def read_one(self, parcel: bytes) -> tuple[dict[str, Value], str, int]:
        """The values, the publisher and the number of a parcel, or `RemoteProtocolError`."""
        if parcel[0] == TIMED:
            parcel = _without_time(parcel)
        try:
            values, publisher, sequence = self._decode(parcel)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # UnicodeDecodeError is a ValueError
            values, publisher, sequence = self._read_rare(parcel)
        if parcel[1] - _FIXMAP != len(values) or "" in values:
            _check_names(parcel, values)
        return values, publisher, sequence

    def read_many(self, parcels: list[bytes], into: Batch) -> None:
        """Decode consecutive parcels; an invalid one raises `RemoteProtocolError` after those before it."""
        if len(parcels) == 1:
            values, publisher, sequence = self.read_one(parcels[0])
            into.is_timed = parcels[0][0] == TIMED
            into.parcels, into.values, into.publishers, into.sequences = parcels, [values], [publisher], [sequence]
            return
        if len(parcels) < MANY_MIN:
            self._read_slowly(parcels, into)
            return
        into.is_timed = parcels[0][0] == TIMED
        decode: Any = self._decode_timed if into.is_timed else self._decode
        try:
            decoded = list(map(decode, parcels))
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._read_slowly(parcels, into)
            return
        if into.is_timed and any(parcel[-9] != _UINT64 for parcel in parcels):
            self._read_slowly(parcels, into)
            return
        all_values, publishers, sequences, *_ = map(list, zip(*decoded, strict=True))
        said = [parcel[1] - _FIXMAP for parcel in parcels]
        if said == list(map(len, all_values)) and not any("" in of for of in all_values):
            into.parcels, into.values, into.publishers, into.sequences = parcels, all_values, publishers, sequences
        else:
            self._read_slowly(parcels, into)

    def _read_slowly(self, parcels: list[bytes], into: Batch) -> None:
        """Like `read_many`, if one is rare or invalid, or there are few."""
        for parcel in parcels:
            values, publisher, sequence = self.read_one(parcel)
            into.is_timed = into.is_timed or parcel[0] == TIMED
            into.parcels.append(parcel)
            into.values.append(values)
            into.publishers.append(publisher)
            into.sequences.append(sequence)

    def _read_rare(self, parcel: bytes) -> tuple[dict[str, Value], str, int]:
        try:
            given, publisher, sequence = self._decode_any(parcel)
            checked = Notification.of({name: value_in(value) for name, value in given.items()})
        except (LanguageError, msgspec.DecodeError, ValueError, RecursionError) as error:
            raise RemoteProtocolError(f"no notification: {error}") from None
        return checked.to_dict(), publisher, sequence


def _without_time(parcel: bytes) -> bytes:
    if len(parcel) <= _TIME.size or parcel[-9] != _UINT64 or parcel[-8] >= _SIGN:
        raise RemoteProtocolError(_BAD_TIME)
    return _UNTIMED_BYTE + parcel[1:-9]


def _check_names(parcel: bytes, values: dict[str, Value]) -> None:
    if _attributes_said(parcel) != len(values):
        raise RemoteProtocolError("a notification names an attribute twice")
    if "" in values:
        raise RemoteProtocolError("a notification has an attribute without a name")


def _attributes_said(parcel: bytes) -> int:
    """The number in the head of the attributes' map, which starts at the parcel's second byte."""
    first = parcel[1]
    if _FIXMAP <= first <= _FIXMAP_END:
        return first - _FIXMAP
    return int.from_bytes(parcel[2:4] if first == _MAP16 else parcel[2:6], "big")


_READER: Final = ParcelReader(WireLimits())
_decode_accepted: Final = Decoder(tuple[Any, ...]).decode


def attributes_in(parcel: bytes) -> dict[str, Value]:
    """The attributes of a parcel that a broker accepted, whatever its limits."""
    return {name: value_in(value) for name, value in _decode_accepted(parcel)[0].items()}


def read_parcel(parcel: bytes) -> WireNotification:
    """The notification of a parcel, within the usual limits."""
    return _READER.read(parcel)


def check_parcel(attributes: dict[str, Any], publisher: str, sequence: int) -> tuple[bytes, Notification]:
    """The parcel of a plain dict, and the notification; checked by decoding the encoded form, which is faster.

    If that fails, values are checked one by one, and the error is the language's own.
    """
    try:
        parcel = ENCODER.encode((attributes, publisher, sequence))
        seen = _READER.read(parcel)
        # The encoder turns decimals, dates and the like into strings, but they are not in the language.
        if _get_values(seen) == attributes:
            return parcel, seen
    except (TypeError, ValueError, OverflowError, RecursionError, RemoteProtocolError):
        pass
    checked = Notification.of(attributes)
    return encode_parcel(checked, publisher, sequence), checked
