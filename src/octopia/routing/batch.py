"""Many notifications at once: `Broker.handle_batch`, which decides the same as `Broker.handle` one after the other.

What a routing does with a notification depends on the notification only through the set of subscriptions it matches
and the advertisements it conforms to; both are few, and notifications are many. So a batch is matched in one go, the
routing is asked once for each set that it has not seen, and the answer is an `Orders`, which leaves the notification
out: all notifications of the same set share one, and the host can remember in it what it made of it.

Rules of this file: nothing here decides. Orders are what the policy's own functions say of the first notification of a
set. They are remembered by the identity of what the table found, which changes whenever an entry does, and only as long
as nothing else changed that a policy looks at: the bits of the advertisements, and the status of links where a routing
goes by it. What is remembered is bounded; at a bound all is forgotten and worked out anew.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from octopia.language import (
    ALWAYS,
    Alternatives,
    Notification,
    Value,
    all_hold,
    left_to_test,
    one_holds,
)
from octopia.routing.actions import Action, Deliver, Recipient, Refused, Send
from octopia.routing.clients import Registered, why_not_publish
from octopia.routing.events import Published
from octopia.routing.messages import Notify
from octopia.routing.policy import Policy
from octopia.routing.state import BrokerState
from octopia.topology import BrokerId

# Orders remembered, and recipients and copies in all of them, about 10 MB.
ORDERS_MAX = 32_768
ORDERED_MAX = 131_072
# Combinations of attribute names remembered, and names in one.
COMBINATIONS_MAX = 4096
COMBINED_NAMES_MAX = 64

Values = Mapping[str, Value]


class PublishedMany(NamedTuple):
    """A client published these, in this order. Their values were checked; `Notification.trusted` would take them."""

    client: str
    notifications: Sequence[dict[str, Value]]


class ReceivedMany(NamedTuple):
    """Plain copies (`Notify` without CIV) of these arrived from a neighbour, in this order."""

    sender: BrokerId
    notifications: Sequence[dict[str, Value]]


class Orders:
    """What to do with a notification, whichever it is: the actions without the notification.

    `copies` are the sends as they would be for one of them. `refusal` is the reason where it is not routed at all.
    `memo` is the host's, to remember what these orders mean for its queues; orders that changed are another object.
    """

    __slots__ = ("copies", "found", "memo", "recipients", "refusal")

    def __init__(
        self,
        recipients: tuple[Recipient, ...] = (),
        copies: tuple[Send, ...] = (),
        refusal: str = "",
        found: Any = None,
    ) -> None:
        self.recipients = recipients
        self.copies = copies
        self.refusal = refusal
        self.found = found  # kept, so that its identity stays its own
        self.memo: Any = None

    def actions(self, publisher: str, id: str, notification: Notification) -> list[Action]:
        """The actions for a notification, as `handle` would have given them."""
        if self.refusal:
            return [Refused(publisher, "publish", id, self.refusal)]
        out: list[Action] = []
        if self.recipients:
            out.append(Deliver(publisher, id, notification, self.recipients))
        last: Any = None
        for copy in self.copies:
            if copy.message is not last:
                last = copy.message
                message: Any = structs.replace(last, publisher=publisher, id=id, notification=notification)
            out.append(Send(copy.to, message))
        return out


# By the identity of what the table found.
Store = dict[int, Orders]
Decide = Callable[[Any, Any, Notification, list[Action]], None]


class _Combination:
    """What is known of a publisher's notifications with the same attribute names."""

    __slots__ = ("_left", "advertisements")

    def __init__(self, names: tuple[str, ...], advertisements: Sequence[Registered]) -> None:
        left = [(own, left_to_test(names, own.filter)) for own in advertisements]
        # The advertisements that may be conformed to, and what their values must satisfy.
        self._left: list[tuple[Registered, Alternatives]] = [(own, tests) for own, tests in left if tests]
        self.advertisements = [own for own, _ in self._left]

    def all_hold(self, batch: Sequence[Values]) -> bool:
        """Whether all of these are known to conform to all the advertisements."""
        for _, tests in self._left:
            if tests is not ALWAYS and (len(tests) > 1 or not all_hold(tests[0], batch)):
                return False
        return True

    def satisfied_by(self, values: Values) -> list[Registered]:
        return [own for own, tests in self._left if tests is ALWAYS or one_holds(tests, values)]


class _Publisher:
    """The advertisements of a client as they were, and what is known of its notifications by their names."""

    __slots__ = ("advertisements", "combinations")

    def __init__(self, advertisements: list[Registered]) -> None:
        self.advertisements = advertisements
        self.combinations: dict[tuple[str, ...], _Combination] = {}


class BatchRouting:
    """Routes batches for one broker, and remembers what it found out."""

    __slots__ = ("_combinations", "_ordered", "_orders", "_policy", "_publishers", "_state", "_status", "_stores")

    def __init__(self, state: BrokerState, policy: Policy[Any]) -> None:
        self._state: Any = state
        self._policy = policy
        self._publishers: dict[str, _Publisher] = {}
        self._combinations = 0
        self._stores: dict[Hashable, Store] = {}
        self._orders = 0
        self._ordered = 0
        self._status: list[Any] = []

    # -- the two kinds of batches

    def published(self, batch: PublishedMany) -> list[Orders]:
        """Orders for each notification of a client, in order."""
        client, notifications = batch
        self._look_at_links()
        if not notifications:
            return []
        publisher = self._publisher(client)
        names = list(map(tuple, notifications))
        first = self._combination(publisher, names[0])
        if names.count(names[0]) == len(names) and first.all_hold(notifications):
            # By far the most common: all are of the same kind and as advertised.
            return self._publish_alike(client, notifications, first.advertisements)
        groups: dict[Hashable, tuple[list[Registered], list[int]]] = {}
        for at, (values, named) in enumerate(zip(notifications, names, strict=True)):
            satisfied = self._combination(publisher, named).satisfied_by(values)
            groups.setdefault(tuple(map(id, satisfied)), (satisfied, []))[1].append(at)
        orders: list[Orders] = [_NONE] * len(notifications)
        for satisfied, places in groups.values():
            some = self._publish_alike(client, [notifications[at] for at in places], satisfied)
            for at, each in zip(places, some, strict=True):
                orders[at] = each
        return orders

    def received(self, batch: ReceivedMany) -> list[Orders]:
        """Orders for each plain copy that came from a neighbour, in order."""
        self._look_at_links()
        sender, notifications = batch
        return self._route(notifications, self._store(sender), self._decide_received, sender, None)

    def _decide_received(self, sender: BrokerId, _: None, seen: Notification, out: list[Action]) -> None:
        self._policy.receive[Notify](self._state, sender, Notify("", "", seen), out)

    def _decide_published(
        self, client: str, satisfied: list[Registered], seen: Notification, out: list[Action]
    ) -> None:
        self._policy.publish(self._state, Published(client, "", seen), satisfied, out)

    def _publish_alike(
        self, client: str, notifications: Sequence[dict[str, Value]], satisfied: list[Registered]
    ) -> list[Orders]:
        if not satisfied:
            advertisements = self._state.advertisements.of(client)
            return [
                Orders(refusal=why_not_publish(client, advertisements, Notification.trusted(values)))
                for values in notifications
            ]
        store = self._store(self._context(satisfied))
        return self._route(notifications, store, self._decide_published, client, satisfied)

    def _route(
        self, notifications: Sequence[dict[str, Value]], store: Store, decide: Decide, whose: Any, satisfied: Any
    ) -> list[Orders]:
        all_found = self._state.prt.match_many(notifications)
        try:
            return [store[id(found)] for found in all_found]
        except KeyError:
            pass
        orders: list[Orders] = []
        for values, found in zip(notifications, all_found, strict=True):
            known = store.get(id(found))
            if known is None:
                out: list[Action] = []
                decide(whose, satisfied, Notification.trusted(values), out)
                known = self._remember(store, found, out)
            orders.append(known)
        return orders

    # -- what is conformed to

    def _publisher(self, client: str) -> _Publisher:
        advertisements = list(self._state.advertisements.of(client).values())
        known = self._publishers.get(client)
        if known is None or known.advertisements != advertisements:
            if known is not None:
                self._combinations -= len(known.combinations) + 1
            known = self._publishers[client] = _Publisher(advertisements)
            self._count_combination()
            self._publishers[client] = known
        return known

    def _combination(self, publisher: _Publisher, names: tuple[str, ...]) -> _Combination:
        known = publisher.combinations.get(names)
        if known is None:
            known = _Combination(names, publisher.advertisements)
            if len(names) <= COMBINED_NAMES_MAX:
                self._count_combination()
                publisher.combinations[names] = known
        return known

    def _count_combination(self) -> None:
        if self._combinations >= COMBINATIONS_MAX:
            self._publishers.clear()
            self._combinations = 0
        self._combinations += 1

    # -- what is remembered

    def _context(self, satisfied: list[Registered]) -> Hashable:
        """What a routing looks at besides the subscriptions: bits in SCOT routing, trees in TID routing."""
        if not self._policy.uses_civ:
            return tuple(own.key for own in satisfied)
        bits = 0
        for own in satisfied:
            entry = self._state.srt.get(own.key)
            if entry is not None:
                bits |= entry.civ
        return bits

    def _store(self, context: Hashable) -> Store:
        store = self._stores.get(context)
        if store is None:
            store = self._stores[context] = {}
        return store

    def _remember(self, store: Store, found: Any, actions: list[Action]) -> Orders:
        recipients = actions[0].recipients if actions and isinstance(actions[0], Deliver) else ()
        copies = tuple(action for action in actions if isinstance(action, Send))
        orders = Orders(recipients, copies, found=found)
        self._orders += 1
        self._ordered += len(recipients) + len(copies)
        if self._orders > ORDERS_MAX or self._ordered > ORDERED_MAX:
            self._forget()
        else:
            store[id(found)] = orders
        return orders

    def _forget(self) -> None:
        for store in self._stores.values():
            store.clear()
        self._stores.clear()
        self._orders = self._ordered = 0

    def _look_at_links(self) -> None:
        """Forget everything where a routing that goes by the status of links would see another than last time."""
        state = self._state
        neighbours, lst = state.neighbours, state.lst
        if not neighbours or not self._policy.uses_lst:
            return
        status: list[Any] = []
        # IDR compares queues only when some link is overloaded (one that is down is).
        if not self._policy.uses_civ or any(map(lst.overloaded, neighbours)):
            status = [(lst.overloaded(each), lst.queue_length(each), each in state.up) for each in neighbours]
        if status != self._status:
            self._status = status
            self._forget()


_NONE = Orders()
