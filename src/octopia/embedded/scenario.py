"""Scenario files: an overlay, a routing and steps, checked whole before the first step runs.

A scenario that loads can be replayed. Each error is one line with the place in the file (`steps[3].filter`) and, where
possible, the fix; nothing is guessed or skipped. `scenario_text.py` turns text into values and `scenario_form.py`
checks their shape. This module checks names and order: it walks the steps once and tracks the registrations in force at
each. Ids are unique among all clients, since the record of a replay refers to everything by id.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from octopia.embedded.network import check_size
from octopia.embedded.overlay import CLUSTERS_DEFAULT
from octopia.embedded.scenario_form import MOST_COVERING, At, ScenarioForm, StepForm, scenario_form, shown
from octopia.embedded.scenario_text import parse_text, read_file
from octopia.errors import InputError, LanguageError, ScenarioError, TopologyError
from octopia.hints import maybe_meant, shortened
from octopia.language import Filter, Notification, parse_filter, parse_notification
from octopia.routing import (
    Advertised,
    ClientLeft,
    CongestionParameters,
    Event,
    Published,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    check_covering,
    check_routings,
    policy_named,
)
from octopia.topology import BrokerId, Scot, Tree, default_clusters, parse_tree


class Step(Struct, frozen=True):
    """A checked step: an event at a broker, a queue to hold at a length, a link that goes or comes, a broker that dies.

    `neighbour` is the other end if a step is about a link; `delay` is the extra time of messages there, in units of a
    link's usual time.
    """

    number: int
    do: str
    broker: BrokerId
    event: Event | None = None
    neighbour: BrokerId | None = None
    queue: int = 0
    delay: int = 0


class Scenario(Struct, frozen=True):
    """The content of a scenario file, checked. `clients` is where each client is connected at the end.

    `covering` is a kind of covering, or all that the routing can do; `covering_under` says which that is.
    """

    scot: Scot
    routing: str
    congestion: CongestionParameters
    steps: tuple[Step, ...]
    clients: dict[str, BrokerId]
    title: str
    covering: str = "none"

    def covering_under(self, routing: str) -> str:
        """The kind of covering under this routing, which need not be the scenario's own."""
        if self.covering == MOST_COVERING:
            return ("none", *policy_named(routing).covering)[-1]
        check_covering(routing, self.covering)
        return self.covering


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a JSON file, or TOML by its suffix; a `ScenarioError` names the place of the fault."""
    try:
        return check_scenario(parse_text(read_file(path), toml=path.suffix.lower() == ".toml"))
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error.place}" if error.place else str(path), error.problem) from None


def parse_scenario(text: str | bytes, *, toml: bool = False) -> Scenario:
    """A scenario from JSON text, or from TOML text."""
    return check_scenario(parse_text(text.encode() if isinstance(text, str) else text, toml=toml))


def check_scenario(document: Any) -> Scenario:
    """A scenario from plain values: a dict with `tree`, `steps` and so on, as JSON or TOML would give it."""
    form = scenario_form(document)
    try:
        check_routings((form.routing,), own=False)
    except InputError as error:
        raise ScenarioError("routing", str(error)) from None
    scot = _build_overlay(form)
    checker = _Checker(scot)
    steps = tuple(checker.check(number, step) for number, step in enumerate(form.steps))
    congestion = CongestionParameters(tau=form.tau)
    scenario = Scenario(scot, form.routing, congestion, steps, checker.clients, form.title, form.covering)
    try:
        scenario.covering_under(form.routing)
    except InputError as error:
        raise ScenarioError("covering", str(error)) from None
    return scenario


def _build_overlay(form: ScenarioForm) -> Scot:
    try:
        tree = parse_tree(form.tree) if isinstance(form.tree, str) else Tree.from_edges(form.tree)
    except TopologyError as error:
        raise ScenarioError("tree", str(error)) from None
    clusters = form.clusters
    if clusters is None and isinstance(form.tree, str):
        clusters = default_clusters(form.tree)
    try:
        return check_size(Scot(tree, CLUSTERS_DEFAULT if clusters is None else clusters))
    except TopologyError as error:
        raise ScenarioError("clusters", str(error)) from None


class _Checker:
    """Walks the steps in order and tracks the registrations in force at each."""

    def __init__(self, scot: Scot) -> None:
        self.clients: dict[str, BrokerId] = {}
        self._scot = scot
        self._left: set[str] = set()
        self._advertisements = _Ids("advertisement")
        self._subscriptions = _Ids("subscription")
        self._notifications: dict[str, int] = {}
        # links that were cut, and brokers that died, with the step
        self._cut: dict[frozenset[BrokerId], int] = {}
        self._dead: dict[BrokerId, int] = {}

    def check(self, number: int, form: StepForm) -> Step:
        place = f"steps[{number}]"
        if form.link is not None:
            return self._link_step(place, number, form, form.link)
        if form.broker is not None:
            return self._crash(place, number, self._broker(f"{place}.broker", form.broker))
        if form.do in ("advertise", "subscribe"):
            broker = self._client_at(place, form.client, form.at)
        else:
            broker = self._known_client(place, form.client, form.at)
        if broker in self._dead:
            raise ScenarioError(
                f"{place}.client", f"{form.client} is at {broker}, dead since steps[{self._dead[broker]}]"
            )
        return Step(number, form.do, broker, self._event(place, number, form))

    def _event(self, place: str, number: int, form: StepForm) -> Event:
        match form.do:
            case "advertise":
                self._advertisements.take(place, form.client, form.id)
                return Advertised(form.client, form.id, self._filter(place, form.filter))
            case "subscribe":
                self._subscriptions.take(place, form.client, form.id)
                return Subscribed(form.client, form.id, self._filter(place, form.filter))
            case "unadvertise":
                self._advertisements.give_back(place, form.client, form.id)
                return Unadvertised(form.client, form.id)
            case "unsubscribe":
                self._subscriptions.give_back(place, form.client, form.id)
                return Unsubscribed(form.client, form.id)
            case "publish":
                self._check_publish(place, number, form)
                return Published(form.client, form.id, self._notification(place, form.notification))
            case _:
                self._advertisements.give_all_back(form.client)
                self._subscriptions.give_all_back(form.client)
                self._left.add(form.client)
                return ClientLeft(form.client)

    def _check_publish(self, place: str, number: int, form: StepForm) -> None:
        if form.id in self._notifications:
            earlier = self._notifications[form.id]
            raise ScenarioError(f"{place}.id", f"notification id {form.id!r} is taken by steps[{earlier}]")
        if not self._advertisements.of(form.client):
            raise ScenarioError(
                f"{place}.client", f"{form.client} publishes but has no advertisement in force here; advertise first"
            )
        self._notifications[form.id] = number

    def _client_at(self, place: str, client: str, at: At | None) -> BrokerId:
        """Where a client that may be new is connected. One that left may come back elsewhere."""
        known = self.clients.get(client)
        if at is None:
            if known is None:
                raise ScenarioError(f"{place}.at", f'missing: say where {client} is connected, for example ["a", 0]')
            broker = known
        else:
            broker = self._broker(f"{place}.at", at)
            if known is not None and known != broker and client not in self._left:
                raise self._moved(place, client, known)
        self._left.discard(client)
        self.clients[client] = broker
        return broker

    def _known_client(self, place: str, client: str, at: At | None) -> BrokerId:
        known = self.clients.get(client)
        if known is None:
            hint = maybe_meant(client, self.clients) or "; a client is known from its first advertise or subscribe on"
            raise ScenarioError(f"{place}.client", f"unknown client {client!r}{hint}")
        if at is not None and self._broker(f"{place}.at", at) != known:
            raise self._moved(place, client, known)
        return known

    def _moved(self, place: str, client: str, known: BrokerId) -> ScenarioError:
        return ScenarioError(f"{place}.at", f"{client} is connected to {known} already; it has to leave first")

    def _broker(self, place: str, at: At) -> BrokerId:
        try:
            broker = BrokerId.parse(at) if isinstance(at, str) else BrokerId(*at)
            self._scot.a_links(broker)
        except TopologyError as error:
            raise ScenarioError(place, str(error)) from None
        return broker

    def _link_step(self, place: str, number: int, form: StepForm, link: tuple[At, At]) -> Step:
        sender = self._broker(f"{place}.link[0]", link[0])
        receiver = self._broker(f"{place}.link[1]", link[1])
        if receiver not in self._scot.neighbours(sender):
            raise ScenarioError(f"{place}.link", f"there is no link from {sender} to {receiver}")
        for end in (sender, receiver):
            if end in self._dead:
                raise ScenarioError(f"{place}.link", f"{end} is dead since steps[{self._dead[end]}]")
        ends = frozenset((sender, receiver))
        if form.do == "mend":
            if ends not in self._cut:
                raise ScenarioError(f"{place}.link", f"the link between {sender} and {receiver} is up; cut it first")
            del self._cut[ends]
        elif ends in self._cut:
            since = f"the link between {sender} and {receiver} is down since steps[{self._cut[ends]}]"
            raise ScenarioError(f"{place}.link", f"{since}; mend it first")
        elif form.do == "cut":
            self._cut[ends] = number
        return Step(number, form.do, sender, None, receiver, form.queue, form.delay)

    def _crash(self, place: str, number: int, broker: BrokerId) -> Step:
        if broker in self._dead:
            raise ScenarioError(f"{place}.broker", f"{broker} is dead since steps[{self._dead[broker]}]")
        self._dead[broker] = number
        return Step(number, "crash", broker)

    def _filter(self, place: str, text: str) -> Filter:
        try:
            return parse_filter(text)
        except LanguageError as error:
            raise ScenarioError(f"{place}.filter", str(error)) from None

    def _notification(self, place: str, given: str | dict[str, Any]) -> Notification:
        place = f"{place}.notification"
        for name, value in given.items() if isinstance(given, dict) else ():
            # In the language this is a programming error, a `TypeError`; here it is an error in the file.
            if not isinstance(value, str | int | float | bool):
                raise ScenarioError(
                    f"{place}.{shortened(name)}", f"must be text, a number, true or false, not {shown(value)}"
                )
        try:
            return parse_notification(given)
        except LanguageError as error:
            raise ScenarioError(place, str(error)) from None


class _Ids:
    """The advertisements, or the subscriptions, in force at a step: by id, and by client."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._owner: dict[str, str] = {}
        self._by_client: dict[str, dict[str, None]] = {}

    def of(self, client: str) -> dict[str, None]:
        return self._by_client.get(client, {})

    def take(self, place: str, client: str, id: str) -> None:
        if id in self._owner:
            raise ScenarioError(
                f"{place}.id", f"{self._noun} id {id!r} is in force already, from {self._owner[id]}; ids are unique"
            )
        self._owner[id] = client
        self._by_client.setdefault(client, {})[id] = None

    def give_back(self, place: str, client: str, id: str) -> None:
        owner = self._owner.get(id)
        if owner is None:
            hint = maybe_meant(id, self.of(client))
            raise ScenarioError(f"{place}.id", f"{client} has no {self._noun} {id!r} in force here{hint}")
        if owner != client:
            raise ScenarioError(f"{place}.id", f"{self._noun} {id!r} is {owner}'s, and only {owner} can withdraw it")
        del self._owner[id], self._by_client[client][id]

    def give_all_back(self, client: str) -> None:
        for id in self._by_client.pop(client, {}):
            del self._owner[id]
