"""The broker: `publish` and `receive` for notifications, `handle` for everything else; only dispatch.

No I/O, no clock, no randomness; `now` is the host's time in seconds and only ever grows. The same events in the same
order give the same answers. The policy's functions (`scot/`, `tid/`) make the routing decisions, and `clients.py`
decides which requests a client may make. A peer's protocol violation raises `RemoteProtocolError` and changes nothing;
an error of the host raises `LocalProtocolError`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from octopia.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from octopia.language import Filter, Notification
from octopia.protocol import Header, Key, Notify
from octopia.routing.actions import Accept, Action, Deliver, Recipient, Refuse
from octopia.routing.by_ways import ByWays
from octopia.routing.clients import Limits, Registered, Registrations, why_not_publish
from octopia.routing.conforming import Conforming
from octopia.routing.congestion import CongestionParameters
from octopia.routing.decide import Decisions
from octopia.routing.decision import Decision, Refusal
from octopia.routing.events import (
    Advertised,
    ClientLeft,
    Event,
    LinkCameUp,
    LinkGivenUp,
    LinkSampled,
    LinkWentDown,
    Published,
    Received,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.routing.index import MakeIndex, MatcherIndex, Values
from octopia.routing.policy import DEFAULT_ROUTING, Recovery, check_covering, policy_named
from octopia.routing.priorities import why_not_priority
from octopia.routing.state import Passed, Setup
from octopia.routing.streams import Streams
from octopia.topology import BrokerId, Scot

_DEFAULT_CONGESTION = CongestionParameters()
_DEFAULT_LIMITS = Limits()

# Registrations of a departed client that one call of `handle` withdraws, at up to about 0.2 ms each. With covering, a
# withdrawal may send the subscriptions it covered, up to `covering.COVERED_MAX` on each link; after this many actions
# the call ends.
DEPARTURE_SLICE_MAX = 64
DEPARTURE_ORDERS_MAX = 1_000

# Events after which the copies of notifications are decided as before: a client's own subscriptions are matched here.
_LOCAL = frozenset({Subscribed, Unsubscribed})


class Broker:
    """One broker of an overlay under one routing.

    `make_index` makes the index of each table; a host that knows all matches in advance supplies its own.
    `first_serial` must exceed every serial that this broker used before a restart, for keys and in its streams, so that
    its keys stay unique in the overlay and nothing it sends is taken for a repeat. `links_up=False` is for a host whose
    links break and whose brokers restart: every link is down until `LinkCameUp`, and the broker knows that it has yet
    to learn its neighbours' tables. `covering` selects the subscriptions that need not be sent to neighbours
    (`covering.py`); brokers may use different settings. `streams` is None unless the routing has streams; `streams.py`
    describes the host's part.
    """

    __slots__ = (
        "_conforming",
        "_decide",
        "_decisions",
        "_handlers",
        "_header",
        "_leaving",
        "_neighbours",
        "_pass_on",
        "_passed",
        "_policy",
        "_receive",
        "_sample",
        "_sampled",
        "_state",
        "_up",
        "id",
        "routing",
        "streams",
    )

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        routing: str = DEFAULT_ROUTING,
        *,
        congestion: CongestionParameters = _DEFAULT_CONGESTION,
        limits: Limits = _DEFAULT_LIMITS,
        make_index: MakeIndex = MatcherIndex,
        first_serial: int = 0,
        links_up: bool = True,
        covering: str = "none",
    ) -> None:
        policy = policy_named(routing)
        check_covering(routing, covering)
        self.id = id
        self.routing = routing
        self._policy = policy
        self._receive = policy.receive
        self._state = policy.make_state(Setup(id, overlay, congestion, limits, make_index, first_serial))
        if covering != "none":
            policy.covering[covering](self._state)
        self._neighbours = frozenset(self._state.neighbours)
        self._up = self._state.up
        self._passed: Passed | None = self._state.passed
        self._header = policy.header
        self._sampled = policy.sampled
        self._sample = self._state.lst.sample
        decisions = self._decisions = Decisions(self._state, policy)
        self._decide = decisions.decide
        self._pass_on = None if policy.pass_on is None else decisions.pass_on
        self.streams: Streams | None = None if policy.streams is None else policy.streams(self._state, first_serial)
        self._conforming = Conforming(self._state.advertisements)
        # departed clients whose registrations are being withdrawn
        self._leaving: dict[str, None] = {}
        if not links_up:
            self._recovery().start_apart(self._state, overlay)
        self._handlers: dict[type[Event], Callable[[Any, float, list[Action]], None]] = {
            Received: self._received,
            LinkSampled: self._link_sampled,
            LinkWentDown: self._link_went_down,
            LinkCameUp: self._link_came_up,
            LinkGivenUp: self._link_given_up,
            Published: self._published,
            Advertised: self._advertised,
            Unadvertised: self._unadvertised,
            Subscribed: self._subscribed,
            Unsubscribed: self._unsubscribed,
            ClientLeft: self._client_left,
        }

    def publish(
        self, client: str, notifications: Sequence[Values], now: float, *, probe: bool = False
    ) -> list[Decision | Refusal]:
        """Route a local client's notifications, in this order; their values must be checked. One answer each.

        Only those before the first that is refused are answered, or that one, if it is the first of all. A `probe` is
        not delivered, and does not affect later decisions.
        """
        state, first_header = self._state, self._policy.first_header
        if len(notifications) == 1 and (one := self._conforming.satisfied_by(client, notifications[0])):
            # as below, without the groups: most notifications come alone
            return self._decide(notifications, first_header(state, one, now, 0 if probe else 1), None)  # type: ignore[return-value]
        groups = self._conforming.groups(client, notifications) if notifications else []
        if not groups:
            return [self._refusal(client, values) for values in notifications[:1]]
        answers: dict[int, Decision | Refusal] = {}
        for satisfied, places in groups:
            some = notifications if places is None else [notifications[at] for at in places]
            decided = self._decide(some, first_header(state, satisfied, now, 0 if probe else len(some)), None)
            if places is None:
                return list(decided)
            answers.update(zip(places, decided, strict=True))
        return [answers[at] for at in range(len(answers))]

    def check_copies(self, sender: BrokerId, header: Header) -> None:
        """Check that a neighbour may send copies with this header now; raises if not."""
        if sender not in self._up or type(header) is not self._header:
            raise self._why_not_receive(sender, Notify.kind)

    def receive(self, sender: BrokerId, header: Header, notifications: Sequence[Values]) -> list[Decision]:
        """Route copies from a neighbour, all with this header, in this order. One decision each."""
        if self._passed is not None and (known := self._passed.get(sender)) and (decision := known.get(header)):
            # most copies of a routing whose headers name destinations
            return [decision] * len(notifications)
        self.check_copies(sender, header)
        if self._pass_on is not None:
            # as above, on first use
            return [self._pass_on(header, sender)] * len(notifications)
        return self._decide(notifications, header, sender)

    def by_ways(self, encode_id: Callable[[str], bytes]) -> ByWays:
        """Decisions for hosts that match notifications themselves (`by_ways.py`).

        `encode_id` returns the wire form of a subscription's id.
        """
        rows = self._state.prt.watch(encode_id)
        return ByWays(self._state, self._policy, self._decisions, self._conforming, rows)

    def receive_one(self, sender: BrokerId, header: Header, notification: Values) -> Decision:
        """Like `receive`, for hosts that take one at a time."""
        passed = self._passed
        if passed is not None:
            try:
                decision = passed[sender][header]
            except KeyError:
                pass
            else:
                return decision
        return self.receive(sender, header, (notification,))[0]

    def recipients_of(self, notification: Values) -> tuple[Recipient, ...]:
        """The clients of this broker whose subscriptions a notification matches. Nothing is routed."""
        prt = self._state.prt
        key = prt.match_key(notification)
        recipients: tuple[Recipient, ...] = (prt.found.get(key) or prt.find(key)).recipients
        return recipients

    def handle(self, event: Event, now: float) -> list[Action]:
        """Process an event and return the resulting actions, in order.

        A notification is a batch of one, and its decision is returned as actions: for hosts that handle one at a time.
        """
        out: list[Action] = []
        kind = type(event)
        if kind not in _LOCAL:
            self._state.changes += 1
        self._handlers[kind](event, now, out)
        return out

    @property
    def due(self) -> float | None:
        """The time at which `tick` is due; None if no timer is set. It may change with every call."""
        return None if self.streams is None else self.streams.due

    def tick(self, now: float) -> list[Action]:
        """Run timers that are due and return the resulting actions, in order. More may be due immediately."""
        self._state.changes += 1
        return [] if self.streams is None else self.streams.tick(now)

    def handle_whole(self, event: Event, now: float) -> list[Action]:
        """Like `handle`, but withdraws everything of a departing client in one call, however long it takes."""
        out = self.handle(event, now)
        while type(event) is ClientLeft and self.is_leaving(event.client):
            out += self.handle(event, now)
        return out

    def is_leaving(self, client: str) -> bool:
        """Whether a departed client still has registrations to withdraw: handle `ClientLeft` again."""
        return client in self._leaving

    @property
    def state(self) -> Any:
        """The tables, read-only, for status displays and checkers. Its type depends on the routing."""
        return self._state

    def sampled(self, neighbour: BrokerId, queue_length: int, entered: int, left: int, now: float) -> list[Action]:
        """Like `handle` of `LinkSampled`, which is more frequent than any other event."""
        if neighbour not in self._neighbours:
            self._check_link(neighbour)
        out: list[Action] = []
        if self._sampled is not None:
            self._sampled(self._state, now, out)
        self._sample(neighbour, queue_length, entered, left, now)
        return out

    def _link_sampled(self, event: LinkSampled, now: float, out: list[Action]) -> None:
        out += self.sampled(event.neighbour, event.queue_length, event.entered, event.left, now)

    def _link_went_down(self, event: LinkWentDown, now: float, out: list[Action]) -> None:
        self._check_link(event.neighbour)
        if self._policy.recovery is None:
            self._state.link_went_down(event.neighbour)
        else:
            self._policy.recovery.link_went_down(self._state, event.neighbour, now, out)

    def _link_came_up(self, event: LinkCameUp, now: float, out: list[Action]) -> None:
        self._check_link(event.neighbour)
        self._recovery().link_came_up(self._state, event.neighbour, now, out)

    def _link_given_up(self, event: LinkGivenUp, now: float, out: list[Action]) -> None:
        self._check_link(event.neighbour)
        self._recovery().link_given_up(self._state, event.neighbour, now, out)

    def _recovery(self) -> Recovery[Any]:
        if self._policy.recovery is None:
            raise LocalProtocolError(
                f"{self.routing} routing cannot resynchronise its tables over a new connection; restart all brokers, "
                "or use snr or idr"
            )
        return self._policy.recovery

    def _check_link(self, neighbour: BrokerId) -> None:
        if neighbour not in self._neighbours:
            raise LocalProtocolError(f"{self.id} has no link to {neighbour}")

    def _why_not_receive(self, sender: BrokerId, kind: str) -> ProtocolError:
        if sender in self._up:
            return RemoteProtocolError(f"{sender} sent {kind}, which {self.routing} routing has not")
        if sender in self._neighbours:
            return LocalProtocolError(
                f"{self.id} was handed {kind} from {sender}, whose link is down; tell LinkCameUp first"
            )
        return RemoteProtocolError(f"{sender} sent {kind} to {self.id}, which is not a neighbour")

    def _received(self, event: Received, now: float, out: list[Action]) -> None:
        sender, message = event.sender, event.message
        if isinstance(message, Notify):
            (decision,) = self.receive(sender, message.header, (message.notification,))
            if decision.here:
                self._arrived(message, now, out)
            out += decision.actions_for(message)
            return
        receive = self._receive.get(type(message))
        if receive is None or sender not in self._up:
            raise self._why_not_receive(sender, message.kind)
        receive(self._state, sender, message, now, out)

    def _arrived(self, message: Notify, now: float, out: list[Action]) -> None:
        if self.streams is None or message.stamp is None:
            raise RemoteProtocolError(f"a copy of {message.publisher} came to {self.id} without a stamp")
        for publisher, notification, id, recipients in self.streams.arrived(
            message.publisher, message.stamp, message.notification, message.id, now
        ):
            out.append(Deliver(publisher, id, notification, recipients))

    def _published(self, event: Published, now: float, out: list[Action]) -> None:
        (answer,) = self.publish(event.client, (event.notification,), now)
        stamp = None
        if self.streams is not None and type(answer) is Decision:
            stamp = self.streams.sent(event.client, event.id, event.notification, answer)
        out += answer.actions(event.client, event.id, event.notification, stamp)

    def _refusal(self, client: str, values: Values) -> Refusal:
        notification = values if isinstance(values, Notification) else Notification.trusted(dict(values))
        return Refusal(why_not_publish(client, self._state.advertisements.of(client), notification))

    def _advertised(self, event: Advertised, now: float, out: list[Action]) -> None:
        key = self._register(self._state.advertisements, "advertise", event.client, event.id, event.filter, out)
        if key is not None:
            self._conforming.forget(event.client)
            self._policy.advertise(self._state, key, event.filter, out)

    def _subscribed(self, event: Subscribed, now: float, out: list[Action]) -> None:
        book, priority = self._state.subscriptions, event.priority
        if priority and (reason := why_not_priority(priority)):
            out.append(Refuse(event.client, "subscribe", event.id, reason))
            return
        key = self._register(book, "subscribe", event.client, event.id, event.filter, out, priority)
        if key is not None:
            self._policy.subscribe(self._state, key, event.filter, event.client, event.id, priority, out)
            if self.streams is not None and not event.ordered:
                self.streams.takes_any(key)

    def _unadvertised(self, event: Unadvertised, now: float, out: list[Action]) -> None:
        registered = self._state.advertisements.withdraw(event.client, event.id)
        out.append(Accept(event.client, "unadvertise", event.id))
        if registered is not None:
            self._conforming.forget(event.client)
            self._policy.unadvertise(self._state, registered.key, out)

    def _unsubscribed(self, event: Unsubscribed, now: float, out: list[Action]) -> None:
        if self.streams is not None and event.id in self._state.subscriptions.of(event.client):
            out += self.streams.withdrawn(event.client, event.id)
        self._unsubscribe(event.client, event.id, out)

    def _unsubscribe(self, client: str, id: str, out: list[Action]) -> None:
        registered = self._state.subscriptions.withdraw(client, id)
        out.append(Accept(client, "unsubscribe", id))
        if registered is not None:
            self._policy.unsubscribe(self._state, registered.key, out)

    def _client_left(self, event: ClientLeft, now: float, out: list[Action]) -> None:
        client = event.client
        some = self._state.subscriptions.some_of(client, DEPARTURE_SLICE_MAX)
        for id in some:
            self._unsubscribe(client, id, out)
            if len(out) >= DEPARTURE_ORDERS_MAX:
                break
        for id in self._state.advertisements.some_of(client, DEPARTURE_SLICE_MAX - len(some)):
            self._unadvertised(Unadvertised(client, id), now, out)
        if self._state.subscriptions.of(client) or self._state.advertisements.of(client):
            self._leaving[client] = None
        else:
            self._leaving.pop(client, None)
            if self.streams is not None:
                # it is not there to get what waited for it
                self.streams.withdrawn(client, None)

    def _register(
        self,
        book: Registrations,
        request: str,
        client: str,
        id: str,
        filter: Filter,
        out: list[Action],
        priority: int = 0,
    ) -> Key | None:
        """The key of a new registration; None if it was refused or exists already."""
        if client in self._leaving:
            reason: str | None = f"{client} is leaving; its earlier registrations are still being withdrawn"
        else:
            reason = book.why_not_add(client, id, filter, priority)
        if reason is not None:
            out.append(Refuse(client, request, id, reason))
            return None
        out.append(Accept(client, request, id))
        if id in book.of(client):
            return None
        key: Key = self._state.new_key()
        book.add(client, id, Registered(key, filter, priority))
        return key


_NO_ANSWER = Refusal("")
