"""Core messages between brokers as frames, and back.

Rules of this file: the wire form is written out here, field by field, and does not follow the core's classes by itself,
so that a change there cannot silently change the protocol. Brokers and keys are arrays. A list of keys too long for one
message is cut: CIB_SET and CIB_CLEAR name advertisements and subscriptions one by one, a confirmation publishers, news
links, so two halves mean the same as the whole. A notification's header is empty for a plain copy, which is by far the
most common. Full dynamic routing has a form of its own (`dests.py`).

A reader that knows the overlay refuses brokers and links that it has not, and those named twice. What a neighbour may
say on its link, the core knows.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Raw, Struct, defstruct, field
from msgspec.msgpack import Decoder

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.routing import (
    WAIT_MS_MAX,
    Advertise,
    AdvertisementsComplete,
    CibClear,
    CibSet,
    Civ,
    Confirm,
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
    Tree,
    Unadvertise,
    Unsubscribe,
    Waits,
)
from octopia.topology import BrokerId, Scot
from octopia.wire.dests import DestsReader, header_bytes, split_stamp, stamp_block
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
from octopia.wire.parcel import ParcelReader, WireNotification
from octopia.wire.values import ENCODER, array_decoder, filter_in, filter_out, filter_type

_Region: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
_Broker: TypeAlias = tuple[_Region, _Number]
_Key: TypeAlias = tuple[_Region, _Number, _Number]
_Keys: TypeAlias = Annotated[list[_Key], Meta(max_length=KEYS_MAX)]
_Brokers: TypeAlias = Annotated[list[_Broker], Meta(max_length=BROKERS_MAX)]
_Route: TypeAlias = tuple[_Broker, _Key, _Keys]
_Publisher: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Confirmed: TypeAlias = tuple[_Publisher, _Number, bool]
# Reporter, neighbour, version, whether it is up. Both ends of a link report: no overlay has more than twice its links.
_Report: TypeAlias = tuple[_Broker, _Broker, _Number, bool]
_REPORTS_PER_FRAME_MAX: Final = KEYS_MAX


class CopyHeader(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a copy carries besides its parcel; a plain copy has no header at all.

    `civ`: the clusters it must still serve, most significant byte first. `traced`: brokers note that it passed.
    `earlier` and `hold_ms`: this copy may have overtaken the publisher's notification of that sequence number, which
    went another way; a subscriber's broker that keeps order waits so long for it.
    """

    civ: Annotated[bytes, Meta(max_length=CIV_BYTES_MAX)] = b""
    traced: bool = False
    earlier: _Number = 0
    hold_ms: _Number = 0


PLAIN: Final = CopyHeader()


def _key_out(key: Key) -> tuple[str, int, int]:
    return (key.host.region, key.host.cluster, key.serial)


def _key_in(given: tuple[str, int, int]) -> Key:
    return Key(BrokerId(given[0], given[1]), given[2])


def _pieces(keys: tuple[Key, ...]) -> list[list[tuple[str, int, int]]]:
    return [[_key_out(key) for key in keys[at : at + KEYS_MAX]] for at in range(0, len(keys), KEYS_MAX)]


def civ_bytes(civ: int) -> bytes:
    return civ.to_bytes((civ.bit_length() + 7) // 8, "big")


# ---- out


def link_frames(message: Message, header: CopyHeader = PLAIN) -> list[bytes]:
    """The frames of a core message; one but for lists that are too long."""
    return _ENCODE[type(message)](message, header)


def _advertise_out(message: Advertise, _: CopyHeader) -> list[bytes]:
    return [frame(Kind.LINK_ADVERTISE, ENCODER.encode((_key_out(message.key), filter_out(message.filter))))]


def _unadvertise_out(message: Unadvertise, _: CopyHeader) -> list[bytes]:
    return [frame(Kind.LINK_UNADVERTISE, ENCODER.encode((_key_out(message.key),)))]


def _subscribe_out(message: Subscribe, _: CopyHeader) -> list[bytes]:
    tids = [_key_out(tid) for tid in message.tids]
    body = (_key_out(message.key), filter_out(message.filter), tids)
    return [frame(Kind.LINK_SUBSCRIBE, ENCODER.encode(body))]


def _unsubscribe_out(message: Unsubscribe, _: CopyHeader) -> list[bytes]:
    tids = [_key_out(tid) for tid in message.tids]
    return [frame(Kind.LINK_UNSUBSCRIBE, ENCODER.encode((_key_out(message.key), tids)))]


def _cib_set_out(message: CibSet, _: CopyHeader) -> list[bytes]:
    lents = _lent_pieces(message.subscriptions)
    return [
        frame(Kind.LINK_CIB_SET, ENCODER.encode((piece, lent) if lent else (piece,)))
        for piece in _pieces(message.advertisements)
        for lent in lents
    ]


def _lent_pieces(lents: tuple[Lent, ...]) -> list[list[Any]]:
    """Subscriptions in pieces that fit into a frame; none is one piece without any."""
    pieces: list[list[Any]] = [[]]
    size = 0
    for lent in lents:
        made = (_key_out(lent.key), Raw(ENCODER.encode(filter_out(lent.filter))))
        size += len(made[1])
        if pieces[-1] and (size > LENT_BYTES_MAX or len(pieces[-1]) >= LENT_PER_FRAME_MAX):
            pieces.append([])
            size = len(made[1])
        pieces[-1].append(made)
    return pieces


def _cib_clear_out(message: CibClear, _: CopyHeader) -> list[bytes]:
    gone: list[tuple[Any, ...]] = [([], piece) for piece in _pieces(message.subscriptions)]
    held = [(piece,) for piece in _pieces(message.advertisements)]
    return [frame(Kind.LINK_CIB_CLEAR, ENCODER.encode(each)) for each in (*gone, *held)]


def _brokers_out(hosts: tuple[BrokerId, ...]) -> list[tuple[str, int]]:
    return [(host.region, host.cluster) for host in hosts]


def _subscriptions_complete_out(message: SubscriptionsComplete, _: CopyHeader) -> list[bytes]:
    return [frame(Kind.LINK_SUBSCRIPTIONS_COMPLETE, ENCODER.encode((_brokers_out(message.hosts),)))]


def _subscriptions_incomplete_out(message: SubscriptionsIncomplete, _: CopyHeader) -> list[bytes]:
    return [frame(Kind.LINK_SUBSCRIPTIONS_INCOMPLETE, ENCODER.encode((_brokers_out(message.hosts),)))]


def _link_news_out(message: LinkNews, _: CopyHeader) -> list[bytes]:
    reports = [
        ((r.reporter.region, r.reporter.cluster), (r.neighbour.region, r.neighbour.cluster), r.version, r.is_up)
        for r in message.reports
    ]
    pieces = [reports[at : at + _REPORTS_PER_FRAME_MAX] for at in range(0, len(reports), _REPORTS_PER_FRAME_MAX)]
    return [frame(Kind.LINK_NEWS, ENCODER.encode((piece,))) for piece in pieces]


def _confirm_out(message: Confirm, _: CopyHeader) -> list[bytes]:
    header, by = header_bytes(message.header), (message.by.region, message.by.cluster)
    streams, most = message.streams, CONFIRMED_PER_FRAME_MAX
    pieces = [streams[at : at + most] for at in range(0, len(streams), most)]
    return [frame(Kind.CONFIRM, ENCODER.encode((header, by, piece))) for piece in pieces]


def _waits_out(message: Waits, _: CopyHeader) -> list[bytes]:
    return [frame(Kind.WAITS, ENCODER.encode((message.wait_ms,)))]


def _advertisements_complete_out(_: AdvertisementsComplete, __: CopyHeader) -> list[bytes]:
    return [frame(Kind.LINK_ADVERTISEMENTS_COMPLETE, ENCODER.encode(()))]


def parcel_of(message: Notify) -> bytes:
    notification = message.notification
    if not isinstance(notification, WireNotification):
        raise LocalProtocolError(f"notification {message.id} of {message.publisher} has no parcel: it came by no wire")
    return notification.parcel


def _notify_out(message: Notify, header: CopyHeader) -> list[bytes]:
    kind, head = _head_of(message.header, header)
    stamp = stamp_block(message.stamp) if kind is Kind.NOTIFY_DESTS else b""
    return [notification_frame(kind, head, stamp + parcel_of(message))]


def copy_heads(carried: Header, header: CopyHeader | None = None) -> Heads:
    """What comes before the parcels of copies that carry this, or before their stamps."""
    return Heads(*_head_of(carried, header or PLAIN))


def _head_of(carried: Header, header: CopyHeader) -> tuple[Kind, bytes]:
    """The kind of frame and the encoded header of a copy that carries this, by the type of what it carries."""
    if isinstance(carried, Civ):
        if carried.civ:
            header = CopyHeader(civ_bytes(carried.civ), header.traced, header.earlier, header.hold_ms)
        return Kind.NOTIFY, b"" if header == PLAIN else ENCODER.encode(header)
    if isinstance(carried, Dests):
        return Kind.NOTIFY_DESTS, header_bytes(carried, header.traced)
    if isinstance(carried, Tree):
        return Kind.NOTIFY_TREE, ENCODER.encode((_key_out(carried.tid), header))
    if isinstance(carried, Routes):
        routes = [
            ((r.destination.region, r.destination.cluster), _key_out(r.tid), [_key_out(tid) for tid in r.left])
            for r in carried.routes
        ]
        return Kind.NOTIFY_ROUTES, ENCODER.encode((routes, header))
    raise LocalProtocolError(f"a header of type {type(carried).__name__} has no form on the wire")


_ENCODE: Final[dict[type[Message], Callable[[Any, CopyHeader], list[bytes]]]] = {
    Advertise: _advertise_out,
    Unadvertise: _unadvertise_out,
    Subscribe: _subscribe_out,
    Unsubscribe: _unsubscribe_out,
    CibSet: _cib_set_out,
    CibClear: _cib_clear_out,
    SubscriptionsComplete: _subscriptions_complete_out,
    SubscriptionsIncomplete: _subscriptions_incomplete_out,
    AdvertisementsComplete: _advertisements_complete_out,
    LinkNews: _link_news_out,
    Confirm: _confirm_out,
    Waits: _waits_out,
    Notify: _notify_out,
}


# ---- in


class LinkReader:
    """Decodes the bodies of frames between brokers. `LanguageError` and decoding errors are the caller's to turn."""

    def __init__(self, limits: WireLimits, parcels: ParcelReader, overlay: Scot | None = None) -> None:
        filter = filter_type(limits)
        lent: Any = tuple.__class_getitem__((_Key, filter))
        self._overlay = overlay
        self._brokers_max = BROKERS_MAX if overlay is None else overlay.broker_count
        self.dests = DestsReader(0 if overlay is None else overlay.broker_count)
        self._cib_set = Decoder(
            _one_or_two(_Keys, Annotated[list.__class_getitem__(lent), Meta(max_length=LENT_PER_FRAME_MAX)])
        ).decode
        self._cib_clear = Decoder(_one_or_two(_Keys, _Keys)).decode
        self._news = Decoder(tuple[Annotated[list[_Report], Meta(max_length=_REPORTS_PER_FRAME_MAX)]]).decode
        self._confirm = Decoder(
            tuple[
                Annotated[bytes, Meta(max_length=limits.frame_bytes_max)],
                _Broker,
                Annotated[list[_Confirmed], Meta(min_length=1, max_length=CONFIRMED_PER_FRAME_MAX)],
            ]
        ).decode
        self._limits = limits
        self._parcels = parcels
        self._key_and_filter = array_decoder(_Key, filter)
        self._key_filter_tids = array_decoder(_Key, filter, _Keys)
        self._key = Decoder(tuple[_Key]).decode
        self._key_and_tids = Decoder(tuple[_Key, _Keys]).decode
        self._brokers = Decoder(tuple[_Brokers]).decode
        self._nothing = Decoder(tuple[()]).decode
        self._waits = Decoder(tuple[Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]]).decode
        self._copy_header = Decoder(CopyHeader).decode
        self._tree_header = Decoder(tuple[_Key, CopyHeader]).decode
        self._routes_header = Decoder(tuple[Annotated[list[_Route], Meta(max_length=ROUTES_MAX)], CopyHeader]).decode

    def advertise(self, body: bytes) -> Advertise:
        key, filter = self._key_and_filter(body)
        return Advertise(_key_in(key), filter_in(filter, self._limits))

    def unadvertise(self, body: bytes) -> Unadvertise:
        return Unadvertise(_key_in(self._key(body)[0]))

    def subscribe(self, body: bytes) -> Subscribe:
        key, filter, tids = self._key_filter_tids(body)
        return Subscribe(_key_in(key), filter_in(filter, self._limits), tuple(map(_key_in, tids)))

    def unsubscribe(self, body: bytes) -> Unsubscribe:
        key, tids = self._key_and_tids(body)
        return Unsubscribe(_key_in(key), tuple(map(_key_in, tids)))

    def cib_set(self, body: bytes) -> CibSet:
        given = self._cib_set(body)
        lent = tuple(Lent(_key_in(key), filter_in(filter, self._limits)) for key, filter in given.second)
        return CibSet(tuple(map(_key_in, given.first)), lent)

    def cib_clear(self, body: bytes) -> CibClear:
        given = self._cib_clear(body)
        return CibClear(tuple(map(_key_in, given.first)), tuple(map(_key_in, given.second)))

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
        for reporter_given, neighbour_given, version, is_up in self._news(body)[0]:
            reporter, neighbour = BrokerId(*reporter_given), BrokerId(*neighbour_given)
            self._check_known(reporter)
            if self._overlay is not None and neighbour not in self._overlay.neighbours(reporter):
                raise RemoteProtocolError(f"news of a link from {reporter} to {neighbour}, which the overlay has not")
            if (reporter, neighbour) in reports:
                raise RemoteProtocolError(f"{reporter} reports twice about its link to {neighbour}")
            reports[reporter, neighbour] = LinkReport(reporter, neighbour, version, is_up)
        return LinkNews(tuple(reports.values()))

    def confirm(self, body: bytes) -> Confirm:
        head, by_given, streams = self._confirm(body)
        by, (header, _) = BrokerId(*by_given), self.dests.header(head)
        self._check_known(by)
        if header.dests & header.dests - 1:
            raise RemoteProtocolError(f"a confirmation for {header.dests.bit_count()} brokers; it is for one")
        if len({publisher for publisher, _, _ in streams}) < len(streams):
            raise RemoteProtocolError("a confirmation names a publisher twice")
        return Confirm(by, tuple(Confirmed(*each) for each in streams), header)

    def waits(self, body: bytes) -> Waits:
        return Waits(*self._waits(body))

    def advertisements_complete(self, body: bytes) -> AdvertisementsComplete:
        self._nothing(body)
        return AdvertisementsComplete()

    def notify(self, head: bytes, parcel: bytes) -> Notify:
        if not head:
            seen = self._parcels.read(parcel)
            return Notify(seen.publisher, str(seen.sequence), seen)
        header = self._copy_header(head)
        seen = self._parcels.read(parcel, header)
        return Notify(seen.publisher, str(seen.sequence), seen, Civ(int.from_bytes(header.civ, "big")))

    def notify_tree(self, head: bytes, parcel: bytes) -> Notify:
        tid, header = self._tree_header(head)
        seen = self._parcels.read(parcel, header)
        return Notify(seen.publisher, str(seen.sequence), seen, Tree(_key_in(tid)))

    def notify_routes(self, head: bytes, parcel: bytes) -> Notify:
        given, header = self._routes_header(head)
        routes = tuple(Route(BrokerId(*to), _key_in(tid), tuple(map(_key_in, left))) for to, tid, left in given)
        seen = self._parcels.read(parcel, header)
        return Notify(seen.publisher, str(seen.sequence), seen, Routes(routes))

    def notify_dests(self, head: bytes, stamped: bytes) -> Notify:
        carried, traced = self.dests.header(head)
        stamp, parcel = split_stamp(stamped)
        seen = self._parcels.read(parcel, CopyHeader(traced=True) if traced else None)
        given = self.dests.stamp(stamp) if stamp else None
        return Notify(seen.publisher, str(seen.sequence), seen, carried, given)


def _one_or_two(first: Any, second: Any) -> Any:
    """An array of one or two lists, of which the second may be left out."""
    fields: list[Any] = [("first", first), ("second", second, field(default_factory=list))]
    return defstruct("OneOrTwo", fields, array_like=True, forbid_unknown_fields=True)
