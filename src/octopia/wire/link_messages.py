"""Core messages between brokers as frames, and back.

The wire form is defined here, field by field, rather than derived from the core's classes, so a change there cannot
silently change the protocol. Brokers and keys are arrays. A list too long for one message is split: CIB_SET and
CIB_CLEAR name advertisements and subscriptions one by one, confirmations publishers, and news links, so two halves mean
the same as the whole. A notification's header is empty for a plain copy, which is by far the most common. Full dynamic
routing has a form of its own (`dests.py`).

A reader that knows the overlay refuses unknown brokers and links, and duplicates. The core checks what a neighbour may
send on its link.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct, defstruct, field
from msgspec.msgpack import Decoder

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.protocol import (
    PACE_US_MAX,
    PRIORITY_MAX,
    WAIT_MS_MAX,
    Advertise,
    AdvertisementsComplete,
    AskConfirm,
    Asked,
    CibClear,
    CibSet,
    Civ,
    Confirm,
    Confirmation,
    Confirmed,
    Dests,
    Header,
    Key,
    Lent,
    LinkNews,
    LinkReport,
    Message,
    Notify,
    Route,
    Routes,
    Subscribe,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    TreeHeader,
    Unadvertise,
    Unsubscribe,
    Waits,
)
from octopia.protocol import (
    PLAIN as PLAIN_COPY,
)
from octopia.topology import BrokerId, Scot
from octopia.wire.dests import DestsReader, header_bytes, stamp_block
from octopia.wire.encode import Heads
from octopia.wire.frames import frame, notification_frame
from octopia.wire.kinds import Kind
from octopia.wire.limits import (
    BROKERS_MAX,
    CIV_BYTES_MAX,
    CONFIRMED_PER_FRAME_MAX,
    KEYS_MAX,
    LENT_BYTES_MAX,
    LENT_PER_FRAME_MAX,
    NAME_CHARS_MAX,
    ROUTES_MAX,
    SEQUENCE_MAX,
    WireLimits,
)
from octopia.wire.parcel import WireNotification
from octopia.wire.values import ENCODER, array_decoder, filter_in, filter_out, filter_type

_ARRAY_OF_4: Final = b"\x94"
_Region: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
_Broker: TypeAlias = tuple[_Region, _Number]
_Key: TypeAlias = tuple[_Region, _Number, _Number]
_Keys: TypeAlias = Annotated[list[_Key], Meta(max_length=KEYS_MAX)]
_Brokers: TypeAlias = Annotated[list[_Broker], Meta(max_length=BROKERS_MAX)]
_Route: TypeAlias = tuple[_Broker, _Key, _Keys]
_Publisher: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Confirmed: TypeAlias = tuple[_Publisher, _Number, bool]
_Asked: TypeAlias = tuple[_Publisher, _Number]
# Reporter, neighbour, version, whether it is up. Both ends of a link report: no overlay has more than twice its links.
_Report: TypeAlias = tuple[_Broker, _Broker, _Number, bool]
_REPORTS_PER_FRAME_MAX: Final = KEYS_MAX
_Priority: TypeAlias = Annotated[int, Meta(ge=0, le=PRIORITY_MAX)]
_Bodies: TypeAlias = list[tuple[Any, ...]]
Item = TypeVar("Item")
Streams = TypeVar("Streams", Confirmed, Asked)
_Priorities: TypeAlias = Annotated[list[_Priority], Meta(max_length=KEYS_MAX)]


class CopyHeader(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The header of a copy; a plain copy does not have one.

    `civ`: the clusters it must still serve, most significant byte first. `traced`: brokers note that it passed.
    `earlier` and `hold_ms`: this copy may have overtaken the publisher's notification of that sequence number, which
    took another path; a subscriber's broker that keeps order waits this long for it. `priority`: the highest priority
    in these clusters. `probe`: not delivered; brokers record who would receive it; a probe is traced. The last two are
    omitted at their defaults.
    """

    civ: Annotated[bytes, Meta(max_length=CIV_BYTES_MAX)] = b""
    traced: bool = False
    earlier: _Number = 0
    hold_ms: _Number = 0
    priority: _Priority = 0
    probe: bool = False


PLAIN: Final = CopyHeader()
TRACED: Final = CopyHeader(traced=True)
PROBE: Final = CopyHeader(traced=True, probe=True)


class Head(NamedTuple):
    """The header of frames that carry notifications: what the core routes by, and what travels with the parcel.

    The latter is None unless the notification is traced, a probe, or may have overtaken another.
    """

    carried: Header
    said: CopyHeader | None = None


_PLAIN_HEAD: Final = Head(PLAIN_COPY)


def is_probe(header: CopyHeader | None) -> bool:
    """Whether the bytes before a parcel mark it as a probe."""
    return header is not None and header.probe


def _key_out(key: Key) -> tuple[str, int, int]:
    return (key.host.region, key.host.cluster, key.serial)


def _key_in(given: tuple[str, int, int]) -> Key:
    return Key(BrokerId(given[0], given[1]), given[2])


def _keys_out(keys: tuple[Key, ...]) -> list[tuple[str, int, int]]:
    return [_key_out(key) for key in keys]


def _keys_in(given: list[tuple[str, int, int]]) -> tuple[Key, ...]:
    return tuple(map(_key_in, given))


def _cut(items: tuple[Item, ...], most: int) -> list[tuple[Item, ...]]:
    return [items[at : at + most] for at in range(0, len(items), most)]


def civ_bytes(civ: int) -> bytes:
    return civ.to_bytes((civ.bit_length() + 7) // 8, "big")


# ---- out


def link_frames(message: Message, header: CopyHeader = PLAIN) -> list[bytes]:
    """The frames of a core message; more than one only for long lists."""
    if isinstance(message, Notify):
        return [_copy_frame(message, header)]
    kind, bodies = _BODIES[type(message)]
    return [frame(kind, ENCODER.encode(body)) for body in bodies(message)]


def _subscribe_out(message: Subscribe) -> _Bodies:
    body = (_key_out(message.key), filter_out(message.filter), _keys_out(message.tids))
    return [(*body, message.priority) if message.priority else body]


def _cib_set_out(message: CibSet) -> _Bodies:
    lents = _lent_pieces(message.subscriptions)
    pieces = _cut(message.advertisements, KEYS_MAX)
    said = _cut(message.priorities, KEYS_MAX) or [()] * len(pieces)
    return [
        _cib_set_body(_keys_out(piece), lent, priorities)
        for piece, priorities in zip(pieces, said, strict=True)
        for lent in lents
    ]


def _cib_set_body(keys: list[Any], lent: list[Any], priorities: tuple[int, ...]) -> tuple[Any, ...]:
    """Drop empty lists at the end."""
    if any(priorities):
        return keys, lent, priorities
    return (keys, lent) if lent else (keys,)


def _lent_pieces(lents: tuple[Lent, ...]) -> list[list[Any]]:
    """Subscriptions in pieces that fit into a frame; an empty list is one empty piece."""
    pieces: list[list[Any]] = [[]]
    size = 0
    for lent in lents:
        made: tuple[Any, ...] = (_key_out(lent.key), Raw(ENCODER.encode(filter_out(lent.filter))))
        if lent.priority:
            made = (*made, lent.priority)
        size += len(made[1])
        if pieces[-1] and (size > LENT_BYTES_MAX or len(pieces[-1]) >= LENT_PER_FRAME_MAX):
            pieces.append([])
            size = len(made[1])
        pieces[-1].append(made)
    return pieces


def _cib_clear_out(message: CibClear) -> _Bodies:
    gone: list[tuple[Any, ...]] = [([], _keys_out(piece)) for piece in _cut(message.subscriptions, KEYS_MAX)]
    return gone + [(_keys_out(piece),) for piece in _cut(message.advertisements, KEYS_MAX)]


def _broker_out(broker: BrokerId) -> tuple[str, int]:
    return (broker.region, broker.cluster)


def _hosts_out(message: SubscriptionsComplete | SubscriptionsIncomplete) -> _Bodies:
    return [([_broker_out(host) for host in message.hosts],)]


def _link_news_out(message: LinkNews) -> _Bodies:
    gather = (True,) if message.gather else ()
    return [
        ([(_broker_out(r.reporter), _broker_out(r.neighbour), r.version, r.is_up) for r in piece], *gather)
        for piece in _cut(message.reports, _REPORTS_PER_FRAME_MAX)
    ]


def _confirm_out(message: Confirm) -> _Bodies:
    """One frame for all, unless they are too many."""
    bodies: _Bodies = []
    piece: list[Any] = []
    count = 0
    for by, to, streams, at_once, life in message.confirmations:
        for some in _cut(streams, CONFIRMED_PER_FRAME_MAX):
            if count + len(some) > CONFIRMED_PER_FRAME_MAX:
                bodies.append((piece,))
                piece, count = [], 0
            piece.append((_broker_out(by), _broker_out(to), some, at_once, life))
            count += len(some)
    return [*bodies, (piece,)]


def _ask_confirm_out(message: AskConfirm) -> _Bodies:
    host, to = _broker_out(message.host), _broker_out(message.to)
    return [(host, to, piece) for piece in _cut(message.streams, CONFIRMED_PER_FRAME_MAX)]


def parcel_of(message: Notify) -> bytes:
    notification = message.notification
    if not isinstance(notification, WireNotification):
        raise LocalProtocolError(f"notification {message.id} of {message.publisher} has no parcel: it was not received")
    return notification.parcel


def _copy_frame(message: Notify, header: CopyHeader) -> bytes:
    kind, head = _head_of(message.header, header)
    stamp = stamp_block(message.stamp) if kind is Kind.NOTIFY_DESTS else b""
    return notification_frame(kind, head, stamp + parcel_of(message))


def copy_heads(carried: Header, header: CopyHeader | None = None) -> Heads:
    """The bytes before the parcels, or stamps, of copies with this header."""
    return Heads(*_head_of(carried, header or PLAIN))


def _head_of(carried: Header, header: CopyHeader) -> tuple[Kind, bytes]:
    """The kind of frame and the encoded header of a copy, by the type of its header."""
    if isinstance(carried, Civ):
        if carried.civ:
            return Kind.NOTIFY, ENCODER.encode(_said(header, civ_bytes(carried.civ), carried.priority))
        return Kind.NOTIFY, b"" if header == PLAIN else ENCODER.encode(_said(header))
    if isinstance(carried, Dests):
        return Kind.NOTIFY_DESTS, header_bytes(carried, header.traced, header.probe)
    if isinstance(carried, TreeHeader):
        return Kind.NOTIFY_TREE, ENCODER.encode((_key_out(carried.tid), _said(header)))
    if isinstance(carried, Routes):
        routes = [(_broker_out(r.destination), _key_out(r.tid), _keys_out(r.left)) for r in carried.routes]
        return Kind.NOTIFY_ROUTES, ENCODER.encode((routes, _said(header)))
    raise LocalProtocolError(f"a header of type {type(carried).__name__} has no wire form")


def _said(header: CopyHeader, civ: bytes | None = None, priority: int | None = None) -> tuple[Any, ...]:
    """The header of a copy, with another CIV and priority if given."""
    civ = header.civ if civ is None else civ
    priority = header.priority if priority is None else priority
    said = (civ, header.traced, header.earlier, header.hold_ms)
    if header.probe:
        return (*said, priority, True)
    return (*said, priority) if priority else said


_BODIES: Final[dict[type[Message], tuple[Kind, Callable[[Any], _Bodies]]]] = {
    Advertise: (Kind.LINK_ADVERTISE, lambda message: [(_key_out(message.key), filter_out(message.filter))]),
    Unadvertise: (Kind.LINK_UNADVERTISE, lambda message: [(_key_out(message.key),)]),
    Subscribe: (Kind.LINK_SUBSCRIBE, _subscribe_out),
    Unsubscribe: (Kind.LINK_UNSUBSCRIBE, lambda message: [(_key_out(message.key), _keys_out(message.tids))]),
    CibSet: (Kind.LINK_CIB_SET, _cib_set_out),
    CibClear: (Kind.LINK_CIB_CLEAR, _cib_clear_out),
    SubscriptionsComplete: (Kind.LINK_SUBSCRIPTIONS_COMPLETE, _hosts_out),
    SubscriptionsIncomplete: (Kind.LINK_SUBSCRIPTIONS_INCOMPLETE, _hosts_out),
    AdvertisementsComplete: (Kind.LINK_ADVERTISEMENTS_COMPLETE, lambda message: [()]),
    LinkNews: (Kind.LINK_NEWS, _link_news_out),
    Confirm: (Kind.CONFIRM, _confirm_out),
    AskConfirm: (Kind.ASK_CONFIRM, _ask_confirm_out),
    Waits: (Kind.WAITS, lambda message: [(message.wait_ms, message.pace_us)]),
}


# ---- in


class LinkReader:
    """Decodes the bodies of frames between brokers. The caller converts `LanguageError` and decoding errors."""

    def __init__(self, limits: WireLimits, overlay: Scot | None = None) -> None:
        filter = filter_type(limits)
        lent: Any = defstruct(
            "LentIn",
            [("key", _Key), ("filter", filter), ("priority", _Priority, 0)],
            array_like=True,
            forbid_unknown_fields=True,
        )
        self._overlay = overlay
        self._brokers_max = BROKERS_MAX if overlay is None else overlay.broker_count
        self.dests = DestsReader(0 if overlay is None else overlay.broker_count)
        self._cib_set = Decoder(
            _some_of(_Keys, Annotated[list.__class_getitem__(lent), Meta(max_length=LENT_PER_FRAME_MAX)], _Priorities)
        ).decode
        self._cib_clear = Decoder(_some_of(_Keys, _Keys)).decode
        news: Any = defstruct(
            "LinkNewsIn",
            [("reports", Annotated[list[_Report], Meta(max_length=_REPORTS_PER_FRAME_MAX)]), ("gather", bool, False)],
            array_like=True,
            forbid_unknown_fields=True,
        )
        self._news = Decoder(news).decode
        confirmations = Annotated[
            list[tuple[_Broker, _Broker, Annotated[list[_Confirmed], Meta(min_length=1)], bool, _Number]],
            Meta(min_length=1, max_length=CONFIRMED_PER_FRAME_MAX),
        ]
        self._confirm = Decoder(tuple.__class_getitem__(confirmations)).decode
        asked = Annotated[list[_Asked], Meta(min_length=1, max_length=CONFIRMED_PER_FRAME_MAX)]
        self._ask_confirm = Decoder(tuple.__class_getitem__((_Broker, _Broker, asked))).decode
        self._limits = limits
        self._key_and_filter = array_decoder(_Key, filter)
        self._key_filter_tids = array_decoder(_Key, filter, _Keys)
        self._key_filter_tids_priority = array_decoder(_Key, filter, _Keys, _Priority)
        self._key = Decoder(tuple[_Key]).decode
        self._key_and_tids = Decoder(tuple[_Key, _Keys]).decode
        self._brokers = Decoder(tuple[_Brokers]).decode
        self._nothing = Decoder(tuple[()]).decode
        self._waits = Decoder(
            tuple[Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)], Annotated[int, Meta(ge=0, le=PACE_US_MAX)]]
        ).decode
        self._copy_header = Decoder(CopyHeader).decode
        self._tree_header = Decoder(tuple[_Key, CopyHeader]).decode
        self._routes_header = Decoder(tuple[Annotated[list[_Route], Meta(max_length=ROUTES_MAX)], CopyHeader]).decode

    def advertise(self, body: bytes) -> Advertise:
        key, filter = self._key_and_filter(body)
        return Advertise(_key_in(key), filter_in(filter, self._limits))

    def unadvertise(self, body: bytes) -> Unadvertise:
        return Unadvertise(_key_in(self._key(body)[0]))

    def subscribe(self, body: bytes) -> Subscribe:
        priority = 0
        if body[:1] == _ARRAY_OF_4:
            key, filter, tids, priority = self._key_filter_tids_priority(body)
        else:
            key, filter, tids = self._key_filter_tids(body)
        return Subscribe(_key_in(key), filter_in(filter, self._limits), _keys_in(tids), priority)

    def unsubscribe(self, body: bytes) -> Unsubscribe:
        key, tids = self._key_and_tids(body)
        return Unsubscribe(_key_in(key), _keys_in(tids))

    def cib_set(self, body: bytes) -> CibSet:
        given = self._cib_set(body)
        lent = tuple(
            Lent(_key_in(each.key), filter_in(each.filter, self._limits), each.priority) for each in given.second
        )
        keys, priorities = _keys_in(given.first), tuple(given.third)
        if priorities and len(priorities) != len(keys):
            raise RemoteProtocolError(f"{len(priorities)} priorities for {len(keys)} advertisements")
        return CibSet(keys, lent, priorities)

    def cib_clear(self, body: bytes) -> CibClear:
        given = self._cib_clear(body)
        return CibClear(_keys_in(given.first), _keys_in(given.second))

    def subscriptions_complete(self, body: bytes) -> SubscriptionsComplete:
        return SubscriptionsComplete(self._hosts(body))

    def subscriptions_incomplete(self, body: bytes) -> SubscriptionsIncomplete:
        return SubscriptionsIncomplete(self._hosts(body))

    def _hosts(self, body: bytes) -> tuple[BrokerId, ...]:
        hosts = tuple(BrokerId(*host) for host in self._brokers(body)[0])
        if len(hosts) > self._brokers_max:
            raise RemoteProtocolError(f"{len(hosts):,} brokers are named; the overlay has {self._brokers_max:,}")
        for host in hosts:
            self._check_known(host)
        if len(dict.fromkeys(hosts)) < len(hosts):
            raise RemoteProtocolError("a broker is named twice")
        return hosts

    def _check_known(self, broker: BrokerId) -> None:
        if self._overlay is not None and broker not in self._overlay:
            raise RemoteProtocolError(f"{broker} is named, which the overlay has not")

    def link_news(self, body: bytes) -> LinkNews:
        """Reports of links that the overlay has, each once; so there are at most twice as many as links."""
        reports: dict[tuple[BrokerId, BrokerId], LinkReport] = {}
        news = self._news(body)
        for reporter_given, neighbour_given, version, is_up in news.reports:
            reporter, neighbour = BrokerId(*reporter_given), BrokerId(*neighbour_given)
            self._check_known(reporter)
            if self._overlay is not None and neighbour not in self._overlay.neighbours(reporter):
                raise RemoteProtocolError(f"news of a link from {reporter} to {neighbour}, which the overlay has not")
            if (reporter, neighbour) in reports:
                raise RemoteProtocolError(f"{reporter} reports twice about its link to {neighbour}")
            reports[reporter, neighbour] = LinkReport(reporter, neighbour, version, is_up)
        return LinkNews(tuple(reports.values()), news.gather)

    def confirm(self, body: bytes) -> Confirm:
        """Each destination confirms to a host broker once, and each of its publishers once."""
        confirmations: dict[tuple[BrokerId, BrokerId], Confirmation] = {}
        count = 0
        for by_given, to_given, streams, at_once, life in self._confirm(body)[0]:
            by, to = BrokerId(*by_given), BrokerId(*to_given)
            self._check_known(by)
            self._check_known(to)
            if (by, to) in confirmations:
                raise RemoteProtocolError(f"{by} confirms to {to} twice")
            if len({publisher for publisher, _, _ in streams}) < len(streams):
                raise RemoteProtocolError("a confirmation names a publisher twice")
            count += len(streams)
            confirmations[by, to] = Confirmation(by, to, tuple(Confirmed(*each) for each in streams), at_once, life)
        if count > CONFIRMED_PER_FRAME_MAX:
            raise RemoteProtocolError(f"{count} confirmed streams in one frame; at most {CONFIRMED_PER_FRAME_MAX}")
        return Confirm(tuple(confirmations.values()))

    def ask_confirm(self, body: bytes) -> AskConfirm:
        host_given, to_given, streams = self._ask_confirm(body)
        host, to = BrokerId(*host_given), BrokerId(*to_given)
        self._check_known(host)
        self._check_known(to)
        if len({publisher for publisher, _ in streams}) < len(streams):
            raise RemoteProtocolError("a request to confirm names a publisher twice")
        return AskConfirm(host, to, tuple(Asked(*each) for each in streams))

    def waits(self, body: bytes) -> Waits:
        return Waits(*self._waits(body))

    def advertisements_complete(self, body: bytes) -> AdvertisementsComplete:
        self._nothing(body)
        return AdvertisementsComplete()

    # -- headers of copies

    def notify_header(self, head: bytes) -> Head:
        if not head:
            return _PLAIN_HEAD
        header = self._copy_header(head)
        civ = int.from_bytes(header.civ, "big")
        if header.priority and not civ:
            raise RemoteProtocolError("a copy that is urgent for no cluster")
        return Head(Civ(civ, header.priority), _beside(header))

    def tree_header(self, head: bytes) -> Head:
        tid, header = self._tree_header(head)
        return Head(TreeHeader(_key_in(tid)), _beside(header))

    def routes_header(self, head: bytes) -> Head:
        given, header = self._routes_header(head)
        routes = tuple(Route(BrokerId(*to), _key_in(tid), _keys_in(left)) for to, tid, left in given)
        return Head(Routes(routes), _beside(header))

    def dests_header(self, head: bytes) -> Head:
        carried, traced, probe = self.dests.header(head)
        return Head(carried, PROBE if probe else TRACED if traced else None)


def _beside(header: CopyHeader) -> CopyHeader | None:
    """The fields of a header that the core does not see, and that copies repeat; None if all have their defaults."""
    if not (header.traced or header.earlier or header.hold_ms or header.probe):
        return None
    return CopyHeader(b"", header.traced, header.earlier, header.hold_ms, probe=header.probe)


def _some_of(first: Any, *others: Any) -> Any:
    """An array of lists; all but the first may be omitted."""
    names = ("second", "third")
    more: list[Any] = [(name, kind, field(default_factory=list)) for name, kind in zip(names, others, strict=False)]
    return defstruct("SomeOf", [("first", first), *more], array_like=True, forbid_unknown_fields=True)
