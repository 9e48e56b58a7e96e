"""Messages between brokers: one frozen struct per kind. `routing` decides about them, `wire` writes them as bytes.

A message is a value and never changes on its way; a broker that forwards a notification puts the same `notification`
object (later: the same bytes) behind a new, small header. A message names an advertisement or a subscription by its
`Key`, which its host broker makes once and never again, so a message about an earlier use of the same client-chosen id
is never mistaken for one about the current use.
"""

from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct

from octopia.language import Filter, Notification
from octopia.topology import BrokerId

# How urgent a subscription is: 0 (ordinary) up to this; see `priorities.py`.
PRIORITY_MAX = 3


class Key(NamedTuple):
    """Names one advertisement or subscription in the whole overlay: its host broker and a serial number there."""

    host: BrokerId
    serial: int


class Advertise(Struct, frozen=True, tag="advertise"):
    """Store this advertisement. In TID routing the key is also the tree id."""

    kind: ClassVar[str] = "advertise"
    key: Key
    filter: Filter


class Unadvertise(Struct, frozen=True, tag="unadvertise"):
    kind: ClassVar[str] = "unadvertise"
    key: Key


class Subscribe(Struct, frozen=True, tag="subscribe"):
    """Store this subscription. `tids` are the trees it is bound to on this link: empty in SCOT routing."""

    kind: ClassVar[str] = "subscribe"
    key: Key
    filter: Filter
    tids: tuple[Key, ...] = ()
    priority: int = 0


class Unsubscribe(Struct, frozen=True, tag="unsubscribe"):
    kind: ClassVar[str] = "unsubscribe"
    key: Key
    tids: tuple[Key, ...] = ()


class Lent(NamedTuple):
    """A subscription that a host broker holds for another cluster."""

    key: Key
    filter: Filter
    priority: int = 0


class CibSet(Struct, frozen=True, tag="cib_set"):
    """The sender's cluster now has subscribers for these advertisements of the receiver.

    In full dynamic routing it carries subscriptions as well, and means what `fdr/interest.py` says. `priorities` has
    for each advertisement the priority of the most urgent subscription that overlaps it; empty where all are 0.

    The paper lets this message carry the subscription and the receiver search for what overlaps. Naming the
    advertisements saves that search and closes a race: a subscription that came and went while a new advertisement was
    still on its way to the sender would turn a bit ON that is never turned OFF again.
    """

    kind: ClassVar[str] = "cib_set"
    advertisements: tuple[Key, ...]
    subscriptions: tuple[Lent, ...] = ()
    priorities: tuple[int, ...] = ()


class CibClear(Struct, frozen=True, tag="cib_clear"):
    """No subscriber for these advertisements of the receiver is left in the sender's cluster.

    In full dynamic routing: none that it did not name. `subscriptions` are gone; see `fdr/interest.py`.
    """

    kind: ClassVar[str] = "cib_clear"
    advertisements: tuple[Key, ...]
    subscriptions: tuple[Key, ...] = ()


class SubscriptionsComplete(Struct, frozen=True, tag="subscriptions_complete"):
    """All subscriptions that these brokers host have been sent on this aLink since it came up.

    No host named: all that the sender hosts, or that came to it by its other aLinks. See `scot/resync.py`.
    """

    kind: ClassVar[str] = "subscriptions_complete"
    hosts: tuple[BrokerId, ...] = ()


class SubscriptionsIncomplete(Struct, frozen=True, tag="subscriptions_incomplete"):
    """The receiver may not know all subscriptions of these brokers any more: a link in between is down.

    Full dynamic routing. `SubscriptionsComplete` takes it back. On an iLink the hosts are of the sender's cluster.
    """

    kind: ClassVar[str] = "subscriptions_incomplete"
    hosts: tuple[BrokerId, ...]


class LinkReport(NamedTuple):
    """One end of a link says that it is down or up. Of two by the same end, the one with the higher version counts."""

    reporter: BrokerId
    neighbour: BrokerId
    version: int
    is_up: bool


class LinkNews(Struct, frozen=True, tag="link_news"):
    """Links that went down or came up anywhere in the overlay; each report is forwarded once to other neighbours.

    `gather`: not yet. The receiver waits a moment for other reports about the same broker, or passes these on to the
    broker that does.
    """

    kind: ClassVar[str] = "link_news"
    reports: tuple[LinkReport, ...]
    gather: bool = False


# The longest wait that can be reported: a minute is as good as never.
WAIT_MS_MAX = 60_000
PACE_US_MAX = 60_000_000


class Waits(Struct, frozen=True, tag="waits", gc=False):
    """Full dynamic routing: how long a message given to the sender now, for its cluster's tree, waits beyond it.

    `pace_us` is the time that the link where it waits takes per message: each message more waits so much longer.
    """

    kind: ClassVar[str] = "waits"
    wait_ms: int
    pace_us: int


class AdvertisementsComplete(Struct, frozen=True, tag="advertisements_complete"):
    """All advertisements of the sender's clients have been sent on this iLink since it came up."""

    kind: ClassVar[str] = "advertisements_complete"


class Header(Protocol):
    """The header of a copy: a frozen, hashable value that only its routing interprets.

    Hosts forward it and display two fields: `civ`, the clusters the copy must still serve (0: none, or the routing does
    not use clusters), and `entries`, the number of entries of routing information it takes on a link.
    """

    @property
    def civ(self) -> int: ...
    @property
    def entries(self) -> int: ...
    def __hash__(self) -> int: ...


class Civ(Struct, frozen=True, cache_hash=True, gc=False):
    """SCOT routing: the clusters that this copy must still serve; none is a plain copy.

    `priority` is that of the most urgent subscription in these clusters, as far as the host broker knew: brokers on the
    way cannot look it up. A copy that serves no other cluster does not have one, since it is matched wherever it goes.
    """

    civ: int = 0
    priority: int = 0

    @property
    def entries(self) -> int:
        return 1 if self.civ else 0


PLAIN = Civ()


class Wanted(Struct, frozen=True, cache_hash=True, gc=False):
    """SCOT routing, for a publication: the clusters to serve, and those with urgent subscriptions.

    `urgent` has a set of clusters for each priority from 1 on: those with a subscription of at least that priority.
    """

    civ: int
    urgent: tuple[int, ...]
    priority: ClassVar[int] = 0
    entries: ClassVar[int] = 0


class TreeHeader(Struct, frozen=True, cache_hash=True, gc=False):
    """Static TID routing: the advertisement tree that this copy follows."""

    tid: Key
    civ: ClassVar[int] = 0
    entries: ClassVar[int] = 1


class Route(NamedTuple):
    """One destination of a copy in dynamic TID routing: the tree it follows now, and the trees it has left for good."""

    destination: BrokerId
    tid: Key
    left: tuple[Key, ...]


class Routes(Struct, frozen=True, cache_hash=True, gc=False):
    """Dynamic TID routing: this copy is for exactly these destination brokers."""

    routes: tuple[Route, ...]
    civ: ClassVar[int] = 0

    @property
    def entries(self) -> int:
        return len(self.routes)


class Chosen(Struct, frozen=True, cache_hash=True, gc=False):
    """Full dynamic routing, for a publication: the cluster whose tree it takes, and destinations beyond the matches.

    `in_doubt` are brokers, as bits, that may host a match without the host broker knowing. `urgent` has for each
    priority from 1 on those of them that may host one of at least that priority; empty where there are none.
    """

    in_doubt: int
    tree: int
    urgent: tuple[int, ...] = ()
    civ: ClassVar[int] = 0
    entries: ClassVar[int] = 0


class Dests(Struct, frozen=True, cache_hash=True, gc=False):
    """Full dynamic routing: this copy is for exactly these brokers.

    `dests` is a set of brokers as bits (`fdr/broker_sets.py`). `priority` is that of the most urgent subscription
    there, as the host broker knew it: brokers on the way match nothing.
    """

    dests: int
    priority: int = 0
    # not a property, since it is read for every hop of a trace
    civ: ClassVar[int] = 0

    @property
    def entries(self) -> int:
        """An entry for each broker, or for each 64 bits of the set, whichever are fewer."""
        return min(self.dests.bit_count(), -(-self.dests.bit_length() // 64))


class Stamp(Struct, frozen=True, gc=False):
    """Full dynamic routing: a notification's position in the streams from its publisher to each destination.

    The publisher's host broker makes it once, and every copy carries it unchanged. `host` is the place of that broker
    (`fdr/broker_sets.py`), `sequence` the number of the notification among those of its publisher there. `dests` are
    the destinations it was made for; `gaps` has for each, in the order of their bits, the distance to the sequence of
    the previous one sent there. A gap as large as the sequence means that there was none.
    """

    host: int
    sequence: int
    dests: int
    gaps: tuple[int, ...]


class Confirmed(NamedTuple):
    """All of this publisher's notifications for the sender up to this sequence have arrived.

    `again`: notifications after that must be sent again.
    """

    publisher: str
    upto: int
    again: bool = False


class Confirmation(NamedTuple):
    """A destination (`by`) confirms arrivals to the host broker of their publishers (`to`).

    `at_once`: brokers on the path do not wait until other confirmations go the same way.
    `life`: a number at or below all serial numbers that the destination has used since it started, and above all before
    that.
    """

    by: BrokerId
    to: BrokerId
    streams: tuple[Confirmed, ...]
    at_once: bool = False
    life: int = 0


class Confirm(Struct, frozen=True, tag="confirm"):
    """Full dynamic routing: confirmations that go to the same neighbour, each on its path to a host broker."""

    kind: ClassVar[str] = "confirm"
    confirmations: tuple[Confirmation, ...]


class Asked(NamedTuple):
    """A confirmation is wanted as soon as this publisher's notifications up to this sequence have arrived; 0: now."""

    publisher: str
    upto: int


class AskConfirm(Struct, frozen=True, tag="ask_confirm"):
    """Full dynamic routing: the host broker of publishers asks a destination (`to`) to confirm soon."""

    kind: ClassVar[str] = "ask_confirm"
    host: BrokerId
    to: BrokerId
    streams: tuple[Asked, ...]


class Notify(Struct, frozen=True, tag="notify", gc=False):
    """A copy of a notification. Its header is of the type that the routing declares (`Policy.header`).

    `stamp` is None if the routing does not use streams.
    """

    kind: ClassVar[str] = "notify"
    publisher: str
    id: str
    notification: Notification
    header: Header = PLAIN
    stamp: Stamp | None = None

    @property
    def civ(self) -> int:
        return self.header.civ


Message = (
    Advertise
    | Unadvertise
    | Subscribe
    | Unsubscribe
    | CibSet
    | CibClear
    | SubscriptionsComplete
    | SubscriptionsIncomplete
    | AdvertisementsComplete
    | LinkNews
    | Waits
    | Confirm
    | AskConfirm
    | Notify
)
