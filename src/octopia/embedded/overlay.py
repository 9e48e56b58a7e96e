"""`octopia.Overlay`: a whole overlay in one process, for experiments, tests, and programs that need no network.

Every call runs until the overlay is quiet, so its effect is complete when it returns. A refused request raises
`RefusedError` with the broker's reason. Inboxes are bounded: a full one drops its oldest delivery and counts it, since
nothing in a single process could wait for the reader.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from octopia.embedded.network import Hop, Network
from octopia.errors import InputError, RefusedError, TopologyError
from octopia.language import Filter, Notification, Value, parse_filter, parse_notification
from octopia.protocol import AskConfirm, Confirm
from octopia.routing import (
    DEFAULT_ROUTING,
    Action,
    Advertised,
    ClientLeft,
    CongestionParameters,
    Deliver,
    Event,
    Limits,
    Published,
    Refuse,
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
    """A notification as delivered: its publisher, its id, and the subscriptions that it matched."""

    notification: Notification
    publisher: str
    id: str
    subscriptions: tuple[str, ...]


class Overlay:
    """All brokers of a SCOT overlay in one process.

    `tree` is a name (`"path:3"`, `"h"`, `"evaluation"`, …), a `Tree`, edges like `[("a", "b"), ("b", "c")]`, or a
    `Scot`. `at`, wherever a client is placed, is a broker: `("b", 2)` or `"b,2"`. `covering` selects which
    subscriptions brokers need not send: `"none"`, or those that others cover, per `"host"` or per `"link"`. With
    `anonymous`, subscribers see aliases (`~1`, `~2`, …) in place of publishers' names.

    Examples:
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
        routing: str = DEFAULT_ROUTING,
        congestion: CongestionParameters | None = None,
        limits: Limits | None = None,
        covering: str = "none",
        inbox_max: int = INBOX_MAX,
        anonymous: bool = False,
    ) -> None:
        if inbox_max < 1:
            raise InputError(f"inbox_max is {inbox_max}: an inbox holds at least 1 delivery")
        self.scot = _scot(tree, clusters)
        self.messages = 0
        self._network = Network(
            self.scot,
            routing,
            congestion=congestion,
            limits=limits,
            covering=covering,
            on_hop=self._count,
            on_action=self._on_action,
        )
        self._inbox_max = inbox_max
        self._clients: dict[str, Publisher | Subscriber] = {}
        self._refusal: str | None = None
        self._names = 0
        # the alias that subscribers see, by publisher's name; None if they see the name
        self._aliases: dict[str, str] | None = {} if anonymous else None

    def subscriber(self, at: At, filter: str | Filter | None = None, *, name: str | None = None) -> "Subscriber":
        """A subscriber connected to a broker; with `filter`, already subscribed."""
        subscriber = Subscriber(self, self._new_name(name, "subscriber"), self.broker(at))
        self._connect(subscriber, None if filter is None else lambda: subscriber.subscribe(filter))
        return subscriber

    def publisher(self, at: At, filter: str | Filter | None = None, *, name: str | None = None) -> "Publisher":
        """A publisher connected to a broker; with `filter`, already advertised."""
        publisher = Publisher(self, self._new_name(name, "publisher"), self.broker(at))
        self._connect(publisher, None if filter is None else lambda: publisher.advertise(filter))
        return publisher

    def broker(self, at: At) -> BrokerId:
        """The broker that `at` names; an `InputError` if it does not exist."""
        broker = BrokerId.parse(at) if isinstance(at, str) else _pair(at)
        self.scot.a_links(broker)
        return broker

    def overload(self, sender: At, receiver: At, queue_length: int) -> None:
        """Hold the queue of one direction of a link at a length; over τ it is overloaded and IDR goes around it."""
        one, other = self.broker(sender), self.broker(receiver)
        if other not in self.scot.neighbours(one):
            raise InputError(f"there is no link from {one} to {other}")
        self._network.hold_queue(one, other, queue_length)

    def relieve(self, sender: At, receiver: At) -> None:
        """Undo `overload`: the queue is empty."""
        self.overload(sender, receiver, 0)

    def request(self, broker: BrokerId, event: Event) -> None:
        """Hand a client's request to its broker and wait until the overlay is quiet."""
        self._refusal = None
        self._network.tell(broker, event)
        self._network.run_until_quiet()
        if self._refusal is not None:
            raise RefusedError(self._refusal)

    def forget(self, name: str) -> None:
        """Release the name of a client that left."""
        self._clients.pop(name, None)

    def _new_name(self, name: str | None, kind: str) -> str:
        if name is not None:
            if name in self._clients:
                raise InputError(f"a client named {name!r} is connected already; names are unique")
            return name
        while name is None or name in self._clients:
            self._names += 1
            name = f"{kind}{self._names}"
        return name

    def _connect(self, client: "Publisher | Subscriber", first_request: Callable[[], str] | None) -> None:
        self._clients[client.name] = client
        if first_request is None:
            return
        try:
            first_request()
        except Exception:
            # The caller never got the object and cannot close it, so the name must be released here.
            client.close()
            raise

    def _count(self, hop: Hop) -> None:
        # confirmations are bookkeeping between requests
        self.messages += type(hop.message) not in (Confirm, AskConfirm)

    def _on_action(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        match action:
            case Deliver():
                self._deliver(action)
            case Refuse():
                self._refusal = action.reason
            case _:
                pass

    def _shown(self, publisher: str) -> str:
        if self._aliases is None:
            return publisher
        return self._aliases.setdefault(publisher, f"~{len(self._aliases) + 1}")

    def _deliver(self, order: Deliver) -> None:
        for client, subscriptions in order.recipients:
            subscriber = self._clients[client]
            if isinstance(subscriber, Subscriber):
                delivery = Delivery(order.notification, self._shown(order.publisher), order.id, subscriptions)
                subscriber.take_in(delivery, self._inbox_max)


class OverlayClient:
    """The common base of publishers and subscribers: a name, a host broker, `close`."""

    def __init__(self, overlay: Overlay, name: str, broker: BrokerId) -> None:
        self.name = name
        self.broker = broker
        self.closed = False
        self._overlay = overlay
        self._in_force: set[str] = set()
        self._ids = {"a": 0, "s": 0, "n": 0}

    def close(self) -> None:
        """Leave the overlay: everything this client registered is withdrawn. Closing again does nothing."""
        if not self.closed:
            self._request(ClientLeft(self.name))
            self._overlay.forget(self.name)
            self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.broker}{', closed' if self.closed else ''}>"

    def _request(self, event: Event) -> None:
        if self.closed:
            raise InputError(f"{self.name} has left the overlay; connect a new client")
        self._overlay.request(self.broker, event)

    def _register(self, kind: type[Advertised | Subscribed], letter: str, filter: str | Filter, id: str | None) -> str:
        id = self._new_id(letter) if id is None else id
        self._request(kind(self.name, id, parse_filter(filter)))
        self._in_force.add(id)
        return id

    def _new_id(self, letter: str) -> str:
        """The next number, skipping ids that the caller chose and that are still in force."""
        id = ""
        while not id or id in self._in_force:
            self._ids[letter] += 1
            id = f"{letter}{self._ids[letter]}"
        return id


class Publisher(OverlayClient):
    """Advertises, then publishes."""

    def advertise(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Announce what will be published; returns the id to withdraw it by."""
        return self._register(Advertised, "a", filter, id)

    def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement; nothing happens if it is not in force."""
        self._request(Unadvertised(self.name, id))
        self._in_force.discard(id)

    def publish(self, notification: str | Mapping[str, Value] | Notification, *, id: str | None = None) -> str:
        """Publish; every interested subscriber has it when this returns. `RefusedError` if it was not advertised."""
        id = self._new_id("n") if id is None else id
        self._request(Published(self.name, id, parse_notification(notification)))
        return id


class Subscriber(OverlayClient):
    """Subscribes, then reads deliveries."""

    def __init__(self, overlay: Overlay, name: str, broker: BrokerId) -> None:
        super().__init__(overlay, name, broker)
        self.dropped = 0
        self._inbox: deque[Delivery] = deque()

    def subscribe(self, filter: str | Filter, *, id: str | None = None) -> str:
        """Subscribe to all notifications that match; returns the id to withdraw it by."""
        return self._register(Subscribed, "s", filter, id)

    def unsubscribe(self, id: str) -> None:
        """Withdraw a subscription; nothing happens if it is not in force."""
        self._request(Unsubscribed(self.name, id))
        self._in_force.discard(id)

    def received(self) -> list[Notification]:
        """Take the notifications delivered since the last call, oldest first."""
        return [delivery.notification for delivery in self.deliveries()]

    def deliveries(self) -> list[Delivery]:
        """Like `received`, with the publisher, id and matching subscriptions of each."""
        taken = list(self._inbox)
        self._inbox.clear()
        return taken

    def take_in(self, delivery: Delivery, inbox_max: int) -> None:
        if len(self._inbox) >= inbox_max:
            self._inbox.popleft()
            self.dropped += 1
        self._inbox.append(delivery)


def _pair(at: object) -> BrokerId:
    # A pair that is not a tuple, as from JSON, is fine; a cluster that is not a number would match nothing.
    if isinstance(at, Sequence) and len(at) == 2 and isinstance(at[0], str) and type(at[1]) is int:
        return BrokerId(at[0], at[1])
    raise TopologyError(f"{at!r} is not a broker: write ('b', 2) or 'b,2'")


def _scot(tree: str | Tree | Scot | Iterable[tuple[str, str]], clusters: int | None) -> Scot:
    if isinstance(tree, Scot):
        if clusters is not None and clusters != tree.clusters:
            raise InputError(f"the overlay has {tree.clusters} clusters; leave out clusters={clusters}")
        return tree
    if isinstance(tree, str):
        clusters = default_clusters(tree) if clusters is None else clusters
        tree = parse_tree(tree)
    elif not isinstance(tree, Tree):
        if not isinstance(tree, Iterable):
            raise TopologyError(f"{tree!r} is not a tree: give a name such as 'path:3', a Tree, edges, or a Scot")
        tree = Tree.from_edges(tree)
    return Scot(tree, CLUSTERS_DEFAULT if clusters is None else clusters)
