"""`octopia.Overlay`: a whole overlay in one process, to try things, to test, and where no network is needed.

Rules of this file: every call is carried through until the overlay is quiet, so what it promises holds when it
returns. A refused request raises `RefusedError` with the broker's reason. Inboxes are bounded: a full one drops its
oldest delivery and counts it, as nobody here could wait for the reader.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from octopia.embedded.network import Hop, Network
from octopia.errors import InputError, RefusedError
from octopia.language import Filter, Notification, Value, parse_filter, parse_notification
from octopia.routing import (
    Action,
    Advertised,
    ClientLeft,
    CongestionParameters,
    Deliver,
    Event,
    Limits,
    Published,
    Refused,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId, Scot, Tree, default_clusters, parse_tree

INBOX_MAX = 100_000
CLUSTERS_DEFAULT = 3

At = BrokerId | tuple[str, int] | str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification as a subscriber got it: from whom, under which id, and for which of its subscriptions."""

    notification: Notification
    publisher: str
    id: str
    subscriptions: tuple[str, ...]


class Overlay:
    """All brokers of a SCOT overlay in one process.

    `tree` is a name (`"path:3"`, `"h"`, `"evaluation"`, …), a `Tree`, edges like `[("a", "b"), ("b", "c")]`, or a
    `Scot`. `at`, wherever a client is placed, is a broker: `("b", 2)` or `"b,2"`.

    >>> overlay = Overlay("path:3", clusters=3)
    >>> subscriber = overlay.subscriber(("c", 0), "symbol = 'AAPL' and price > 100")
    >>> publisher = overlay.publisher(("b", 2), "symbol is not null and price > 0")
    >>> publisher.publish({"symbol": "AAPL", "price": 120})
    'n1'
    >>> [notification["price"] for notification in subscriber.received()]
    [120]
    """

    def __init__(
        self,
        tree: str | Tree | Scot | Iterable[tuple[str, str]] = "path:3",
        clusters: int | None = None,
        *,
        routing: str = "idr",
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        self.scot = _scot(tree, clusters)
        self.messages = 0
        self._network = Network(
            self.scot,
            routing,
            congestion=congestion,
            limits=limits,
            on_hop=self._count,
            on_action=self._on_action,
        )
        self._inbox_max = inbox_max
        self._clients: dict[str, Publisher | Subscriber] = {}
        self._refusal: str | None = None
        self._names = 0

    def subscriber(self, at: At, filter: str | Filter | None = None, *, name: str | None = None) -> "Subscriber":
        """A subscriber connected to a broker; with `filter`, subscribed to it already."""
        subscriber = Subscriber(self, self._new_name(name, "subscriber"), self.broker(at))
        self._clients[subscriber.name] = subscriber
        if filter is not None:
            subscriber.subscribe(filter)
        return subscriber

    def publisher(self, at: At, filter: str | Filter | None = None, *, name: str | None = None) -> "Publisher":
        """A publisher connected to a broker; with `filter`, it has advertised it already."""
        publisher = Publisher(self, self._new_name(name, "publisher"), self.broker(at))
        self._clients[publisher.name] = publisher
        if filter is not None:
            publisher.advertise(filter)
        return publisher

    def broker(self, at: At) -> BrokerId:
        """The broker that is meant; an `InputError` where there is none such."""
        broker = BrokerId.parse(at) if isinstance(at, str) else BrokerId(*at)
        self.scot.a_links(broker)
        return broker

    def overload(self, sender: At, receiver: At, queue_length: int) -> None:
        """Hold the queue of one direction of a link at a length; over τ it is overloaded and IDR goes around it."""
        one, other = self.broker(sender), self.broker(receiver)
        if other not in self.scot.neighbours(one):
            raise InputError(f"there is no link from {one} to {other}")
        self._network.hold_queue(one, other, queue_length)

    def relieve(self, sender: At, receiver: At) -> None:
        self.overload(sender, receiver, 0)

    def request(self, broker: BrokerId, event: Event) -> None:
        """Hand a client's request to its broker and wait until the overlay is quiet."""
        self._refusal = None
        self._network.tell(broker, event)
        self._network.run_until_quiet()
        if self._refusal is not None:
            raise RefusedError(self._refusal)

    def forget(self, name: str) -> None:
        """A client has left: its name is free again."""
        self._clients.pop(name, None)

    def _new_name(self, name: str | None, kind: str) -> str:
        if name is None:
            self._names += 1
            name = f"{kind}{self._names}"
        if name in self._clients:
            raise InputError(f"a client named {name!r} is connected already")
        return name

    def _count(self, hop: Hop) -> None:
        self.messages += 1

    def _on_action(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        match action:
            case Deliver():
                self._deliver(action)
            case Refused():
                self._refusal = action.reason
            case _:
                pass

    def _deliver(self, order: Deliver) -> None:
        subscriber = self._clients[order.client]
        if isinstance(subscriber, Subscriber):
            delivery = Delivery(order.notification, order.publisher, order.id, order.subscriptions)
            subscriber.take_in(delivery, self._inbox_max)


class Client:
    """What publishers and subscribers have in common: a name, a host broker, an end."""

    def __init__(self, overlay: Overlay, name: str, broker: BrokerId) -> None:
        self.name = name
        self.broker = broker
        self._overlay = overlay
        self._ids = 0

    def close(self) -> None:
        """Leave the overlay: everything this client registered is withdrawn."""
        self._overlay.request(self.broker, ClientLeft(self.name))
        self._overlay.forget(self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.broker}>"

    def _id(self, id: str | None, letter: str) -> str:
        self._ids += 1
        return f"{letter}{self._ids}" if id is None else id


class Publisher(Client):
    """Advertises, then publishes."""

    def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Announce what will be published; returns the id to withdraw it by."""
        id = self._id(id, "a")
        self._overlay.request(self.broker, Advertised(self.name, id, parse_filter(filter)))
        return id

    def unadvertise(self, id: str) -> None:
        self._overlay.request(self.broker, Unadvertised(self.name, id))

    def publish(self, notification: str | Mapping[str, Value] | Notification, *, id: str | None = None) -> str:
        """Publish; everyone interested has it when this returns. `RefusedError` where it was not advertised."""
        id = self._id(id, "n")
        self._overlay.request(self.broker, Published(self.name, id, parse_notification(notification)))
        return id


class Subscriber(Client):
    """Subscribes, then reads what came."""

    def __init__(self, overlay: Overlay, name: str, broker: BrokerId) -> None:
        super().__init__(overlay, name, broker)
        self.dropped = 0
        self._inbox: deque[Delivery] = deque()

    def subscribe(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Ask for all notifications that match; returns the id to withdraw it by."""
        id = self._id(id, "s")
        self._overlay.request(self.broker, Subscribed(self.name, id, parse_filter(filter)))
        return id

    def unsubscribe(self, id: str) -> None:
        self._overlay.request(self.broker, Unsubscribed(self.name, id))

    def received(self) -> list[Notification]:
        """Take what has come since the last call, oldest first."""
        return [delivery.notification for delivery in self.deliveries()]

    def deliveries(self) -> list[Delivery]:
        """As `received`, with publisher, id and matching subscriptions of each."""
        taken = list(self._inbox)
        self._inbox.clear()
        return taken

    def take_in(self, delivery: Delivery, inbox_max: int) -> None:
        if len(self._inbox) >= inbox_max:
            self._inbox.popleft()
            self.dropped += 1
        self._inbox.append(delivery)


def _scot(tree: str | Tree | Scot | Iterable[tuple[str, str]], clusters: int | None) -> Scot:
    if isinstance(tree, Scot):
        if clusters is not None and clusters != tree.clusters:
            raise InputError(f"the overlay has {tree.clusters} clusters; leave out clusters={clusters}")
        return tree
    if isinstance(tree, str):
        clusters = default_clusters(tree) if clusters is None else clusters
        tree = parse_tree(tree)
    elif not isinstance(tree, Tree):
        tree = Tree.from_edges(tree)
    return Scot(tree, CLUSTERS_DEFAULT if clusters is None else clusters)
