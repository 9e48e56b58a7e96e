"""Streams: the host interface of a routing that numbers notifications.

A routing that has streams (`Policy.streams`) guarantees more than a path: order, no loss, no repeats. Its decisions do
not contain numbers, so they can be cached; data of a single notification is in its `Stamp`. A host does four things for
it, and nothing if `Broker.streams` is None:

    published   `Broker.publish`; for each decision `sent`, which returns the stamp for all its copies
    received    `Broker.receive`; copies are forwarded at once, with their stamp; if `Decision.here` says that this
                broker is a destination, `arrived` returns the notifications to deliver now, in order; calling
                `at_once` first is faster
    time        `Broker.tick` at `Broker.due`; its actions are carried out like those of `Broker.handle`
    events      `Broker.handle`, as always

`Broker.handle` does all of this by itself for a notification (`Published`, `Received` of a `Notify`), for hosts that
carry out one at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from octopia.language import Notification
from octopia.protocol import Key, Stamp
from octopia.routing.actions import Action, Deliver, Recipient
from octopia.routing.decision import Decision
from octopia.topology import BrokerId


class Released(NamedTuple):
    """A notification to deliver to these clients now, and the object that the host wanted kept with it."""

    publisher: str
    notification: Notification
    kept: Any
    recipients: tuple[Recipient, ...]


class Unconfirmed(NamedTuple):
    """A notification that was sent from here, with its number, and the destinations (as bits) that have not confirmed
    it. `priority` is that of its most urgent copy."""

    publisher: str
    id: str
    notification: Notification
    number: int
    dests: int
    priority: int


class Unproved(NamedTuple):
    """Brokers with subscribers of which it is not known that a publisher's notifications have arrived there.

    `is_final`: none of them could be reached for a long time, so waiting does not help.
    """

    brokers: tuple[BrokerId, ...]
    is_final: bool


class SentLog(Protocol):
    """Notifications that were sent and are not confirmed by all destinations."""

    lost: dict[str, int]

    @property
    def unconfirmed_bytes(self) -> int:
        """The memory of these, as far as the host said how much each takes."""

    def __len__(self) -> int:
        """At least as many as are not confirmed."""

    @property
    def filled(self) -> float:
        """The share of its bounds that is used for destinations which can be reached, from 0 to 1."""

    def unconfirmed(self) -> dict[int, dict[str, int]]:
        """By destination (place) and publisher, the last notification that is not confirmed."""

    def sent_upto(self, publisher: str) -> int:
        """The number of a publisher's last notification; 0 if all are confirmed."""

    def begin(self, publisher: str, dests: int) -> tuple[int, dict[int, int]]:
        """For a host that stamps many notifications itself: the last number used, and for each of these destinations
        the youngest unconfirmed notification."""


class Items(Protocol):
    """Notifications that were sent together, as the host keeps them."""

    def id(self, at: int) -> str: ...
    def notification(self, at: int) -> Notification: ...


class OpenStream(Protocol):
    """A stream in which the next copy is expected: the place of its host, and the number of the last notification."""

    host: int
    last: int


class Streams(Protocol):
    """The streams of one broker: those that begin or end at its clients.

    `due`: when `tick` has something to do; None: not at present. Check it after every call. `log` has what is not
    confirmed yet. `place` is the place of this broker among all.
    """

    place: int

    @property
    def log(self) -> "SentLog": ...

    @property
    def due(self) -> float | None: ...

    @property
    def held_bytes(self) -> int:
        """The memory of notifications that wait here for earlier ones, if the host says how much each takes."""

    def sent(
        self, publisher: str, id: str, notification: Notification, decision: Decision, size: int = 0
    ) -> Stamp | None:
        """The stamp of a notification that is being sent from here; None if it goes nowhere.

        It is kept until all destinations have confirmed it. Call this in the order of publishing. `size` is its memory
        in bytes, if the host wants that bounded.
        """

    def sent_together(
        self,
        publisher: str,
        first: int,
        items: Items,
        decisions: Sequence[Decision],
        which: Sequence[int],
        before: dict[int, int],
        last: dict[int, int],
        size: int,
    ) -> None:
        """Notifications of one publisher were stamped by the host, from number `first` on, by what `log.begin` said.

        `which` has for each the number of the decision about it. `before` is what `begin` said of the destinations,
        `last` the last number that was sent to each. All of `decisions` have destinations, and none has missed one.
        """

    def at_once(self, publisher: str, stamp: Stamp, notification: Notification) -> tuple[Recipient, ...] | None:
        """The recipients of an incoming copy, if it is simply the next in order; nothing becomes due then.

        None in all other cases: then nothing was recorded, and the caller uses `arrived`, which handles all copies but
        takes longer.
        """

    def in_order(self, publisher: str) -> "OpenStream | None":
        """For a host that passes many copies at once: the stream of a publisher, if nothing of it waits or is missing.

        A copy of it made by `host`, whose predecessor here is not above `last`, is the next in order. The host tells
        how many there were (`passed`), and uses `arrived` for the first that is not, and for all after that.
        """

    def passed(self, stream: "OpenStream", last: int, count: int, now: float) -> None:
        """So many copies of a stream were the next in order, up to this number."""

    def arrived(
        self, publisher: str, stamp: Stamp, notification: Notification, kept: Any, now: float, size: int = 0
    ) -> Sequence[Released]:
        """The deliveries due after an incoming copy: none, the copy itself, or many that waited for it.

        Each has the recipients it had when it arrived, without subscriptions that were withdrawn since. `kept` is
        returned with the delivery, here or later as the id of a `Deliver`. Notifications without local recipients are
        left out.
        """

    def withdrawn(self, client: str, subscription: str | None) -> list[Deliver]:
        """A client withdraws a subscription, or all of them (None): the deliveries that wait for nothing else of it.

        Carry them out before answering. A look at every waiting notification, and nothing if none waits.
        """

    def tick(self, now: float) -> list[Action]:
        """Run timers that are due."""

    def taken(self) -> dict[int, dict[str, int]]:
        """For the next life of this broker: by the place of its host and its publisher, the number of the last
        notification of each stream that ends here."""

    def unconfirmed(self) -> Iterator[Unconfirmed]:
        """For the next life of this broker: what it would send again, in order."""

    def take_up(self, taken: Mapping[int, Mapping[str, int]], unconfirmed: Iterable[tuple[Unconfirmed, int]]) -> None:
        """Continue the streams of the previous life, before anything arrives or is sent.

        `unconfirmed` is sent again when links come up; each with its memory in bytes.
        """

    def ask(self, publisher: str | None, now: float) -> int:
        """Ask for the confirmation of everything that this publisher sent, or that all did (None), and was not yet.

        Returns the destinations that have not confirmed something and can be reached, as bits.
        """

    def unproved(self, publisher: str, upto: int) -> Unproved:
        """Destinations that have not confirmed all of a publisher up to a number that was its last once (`log`).

        Those are included for which something of the publisher was dropped or given up since `log.lost` was cleared.
        """

    def leaves(self, now: float) -> bool:
        """Prepare to stop: everything received is confirmed with the next tick.

        Returns whether nothing is left to confirm.
        """

    def takes_any(self, subscription: Key) -> None:
        """Deliver a local client's subscription as notifications come, in any order."""
