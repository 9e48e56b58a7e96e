"""The parcel: a notification as it travels, made once by its publisher's client and never again.

    parcel = [attributes, publisher, sequence]        a MessagePack array of three

Rules of this file: every frame that carries a notification ends with its parcel, so a broker passes on the bytes that
came in and puts only a new, small header before them. `WireNotification` holds both, the attributes for matching and
the bytes for sending. A parcel is decoded in one call whose type checks the kinds, the number of attributes and NaN;
what that call turns away goes the slower way, which lets through what is rare (long integers, infinities) and says of
the rest what is wrong with it. The number of attributes is compared with the number in the map's head, so that a
repeated name cannot pass unseen.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder

from octopia.errors import LanguageError, RemoteProtocolError
from octopia.language import Notification, Value
from octopia.routing import PLAIN, Header
from octopia.wire.limits import NAME_CHARS_MAX, SEQUENCE_MAX, WireLimits
from octopia.wire.values import ENCODER, AnyValue, PlainValue, value_in, value_out

# From so many on it is quicker to read them together.
MANY_MIN: Final = 4
_FIXMAP: Final = 0x80
_FIXMAP_END: Final = 0x8F
_MAP16: Final = 0xDE
_NAME = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_SEQUENCE = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]

# A notification is frozen for everyone else; these two fill a new one without checking its values a second time.
_set_values: Final = Notification._values.__set__  # type: ignore[attr-defined]  # noqa: SLF001
_get_values: Final = Notification._values.__get__  # type: ignore[attr-defined]  # noqa: SLF001
_set_hash: Final = Notification._hash.__set__  # type: ignore[union-attr]  # noqa: SLF001


class WireNotification(Notification):
    """A notification with the bytes it came in. Equal to any notification of the same content."""

    __slots__ = ("header", "parcel", "publisher", "sequence")
    parcel: bytes
    publisher: str
    sequence: int
    header: Any  # what came before the parcel and must go on with it; None for a plain copy


_new: Final = object.__new__
_set_parcel: Final = WireNotification.parcel.__set__  # type: ignore[attr-defined]
_set_publisher: Final = WireNotification.publisher.__set__  # type: ignore[attr-defined]
_set_sequence: Final = WireNotification.sequence.__set__  # type: ignore[attr-defined]
_set_header: Final = WireNotification.header.__set__


def _trusted(values: dict[str, Value], parcel: bytes, publisher: str, sequence: int, header: Any) -> WireNotification:
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


def wire_notification(notification: Notification, publisher: str, sequence: int) -> WireNotification:
    """A notification made on this side, ready to travel."""
    parcel = encode_parcel(notification, publisher, sequence)
    return _trusted(notification.to_dict(), parcel, publisher, sequence, None)


class Parcels:
    """Notifications that came one after the other, decoded: a list for each part, and the header that all came with.

    Cheaper than so many `WireNotification`s, which most of them need never become: `notification` makes one. Where the
    routing has streams, `stamped` has for each what comes after the header of a copy: its stamp and its parcel.
    """

    __slots__ = ("carried", "header", "parcels", "publishers", "sequences", "stamped", "values")

    def __init__(self) -> None:
        self.header: Any = None  # as in `WireNotification`: None for plain ones
        self.carried: Header = PLAIN  # what the core routes these copies by
        self.stamped: list[bytes] = []
        self.parcels: list[bytes] = []
        self.values: list[dict[str, Value]] = []
        self.publishers: list[str] = []
        self.sequences: list[int] = []

    @classmethod
    def of(cls, seen: WireNotification) -> "Parcels":
        """One notification, with its header."""
        made = cls()
        made.header = seen.header
        made.parcels.append(seen.parcel)
        made.values.append(_get_values(seen))
        made.publishers.append(seen.publisher)
        made.sequences.append(seen.sequence)
        return made

    def __len__(self) -> int:
        return len(self.values)

    def notification(self, at: int) -> WireNotification:
        return _trusted(self.values[at], self.parcels[at], self.publishers[at], self.sequences[at], self.header)

    def chosen(self, places: Sequence[int]) -> "Parcels":
        """Those at these places alone."""
        made = Parcels()
        made.header, made.carried = self.header, self.carried
        if self.stamped:
            made.stamped = [self.stamped[at] for at in places]
        for at in places:
            made.parcels.append(self.parcels[at])
            made.values.append(self.values[at])
            made.publishers.append(self.publishers[at])
            made.sequences.append(self.sequences[at])
        return made


class ParcelReader:
    """Decodes parcels within given limits."""

    __slots__ = ("_decode", "_decode_any")

    def __init__(self, limits: WireLimits) -> None:
        size = Meta(min_length=1, max_length=limits.attributes_max)
        plain = Annotated[dict[str, PlainValue], size]
        rare = Annotated[dict[str, AnyValue], size]
        self._decode = Decoder(tuple[plain, _NAME, _SEQUENCE]).decode
        self._decode_any = Decoder(tuple[rare, _NAME, _SEQUENCE]).decode

    def read(self, parcel: bytes, header: Any = None) -> WireNotification:
        """The notification of a parcel, or `RemoteProtocolError`."""
        values, publisher, sequence = self._read(parcel)
        return _trusted(values, parcel, publisher, sequence, header)

    def _read(self, parcel: bytes) -> tuple[dict[str, Value], str, int]:
        try:
            values, publisher, sequence = self._decode(parcel)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # UnicodeDecodeError is a ValueError
            values, publisher, sequence = self._read_rare(parcel)
        if parcel[1] - _FIXMAP != len(values) or "" in values:
            _check_names(parcel, values)
        return values, publisher, sequence

    def read_many(self, parcels: list[bytes], into: Parcels) -> None:
        """Decode parcels one after the other; at a wrong one `RemoteProtocolError`, with those before it decoded."""
        if len(parcels) == 1:
            values, publisher, sequence = self._read(parcels[0])
            into.parcels, into.values, into.publishers, into.sequences = parcels, [values], [publisher], [sequence]
            return
        if len(parcels) < MANY_MIN:
            self._read_slowly(parcels, into)
            return
        try:
            decoded = list(map(self._decode, parcels))
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._read_slowly(parcels, into)
            return
        all_values, publishers, sequences = map(list, zip(*decoded, strict=True))
        said = [parcel[1] - _FIXMAP for parcel in parcels]
        if said == list(map(len, all_values)) and not any("" in of for of in all_values):
            into.parcels, into.values, into.publishers, into.sequences = parcels, all_values, publishers, sequences
        else:
            self._read_slowly(parcels, into)

    def _read_slowly(self, parcels: list[bytes], into: Parcels) -> None:
        """As `read_many`, where one is rare or wrong, or they are few."""
        for parcel in parcels:
            values, publisher, sequence = self._read(parcel)
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


def check_parcel(attributes: dict[str, Any], publisher: str, sequence: int) -> tuple[bytes, Notification]:
    """The parcel of a plain dict, and the notification: checked by decoding what was encoded, which is quicker.

    Whatever that does not like is checked value by value, and the error is the language's own.
    """
    try:
        parcel = ENCODER.encode((attributes, publisher, sequence))
        seen = _READER.read(parcel)
        # The encoder makes strings of decimals, dates and the like, which are not in the language.
        if _get_values(seen) == attributes:
            return parcel, seen
    except (TypeError, ValueError, OverflowError, RecursionError, RemoteProtocolError):
        pass
    checked = Notification.of(attributes)
    return encode_parcel(checked, publisher, sequence), checked
