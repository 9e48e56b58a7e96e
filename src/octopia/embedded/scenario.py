"""Scenario files: an overlay, a routing and steps, checked whole before the first step runs.

Rules of this file: a scenario that loads can be replayed. What is wrong gives one line with the place in the file
(`steps[3].filter`) and the fix where there is one; nothing is guessed, nothing is skipped. The file's shape is declared
once, as structs, and msgspec checks it; the rest, names and order, is checked by walking the steps once. File size and
the number of steps are bounded.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from octopia.embedded.overlay import CLUSTERS_DEFAULT
from octopia.errors import InputError, LanguageError, ScenarioError, TopologyError
from octopia.hints import maybe_meant
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
    policy_named,
)
from octopia.topology import BrokerId, Scot, Tree, default_clusters, parse_tree

FILE_BYTES_MAX = 8 * 1024 * 1024
STEPS_MAX = 100_000

Name = Annotated[str, Meta(min_length=1, max_length=200)]
At = str | tuple[str, int]


class _StepForm(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    pass


class AdvertiseForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="advertise"):
    client: Name
    id: Name
    filter: str
    at: At | None = None


class SubscribeForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="subscribe"):
    client: Name
    id: Name
    filter: str
    at: At | None = None


class UnadvertiseForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="unadvertise"):
    client: Name
    id: Name


class UnsubscribeForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="unsubscribe"):
    client: Name
    id: Name


class PublishForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="publish"):
    client: Name
    id: Name
    notification: str | dict[str, Any]


class LeaveForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="leave"):
    client: Name


class OverloadForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="overload"):
    link: tuple[At, At]
    queue: Annotated[int, Meta(ge=0)]


class RelieveForm(_StepForm, frozen=True, forbid_unknown_fields=True, tag="relieve"):
    link: tuple[At, At]


StepForm = (
    AdvertiseForm
    | SubscribeForm
    | UnadvertiseForm
    | UnsubscribeForm
    | PublishForm
    | LeaveForm
    | OverloadForm
    | RelieveForm
)
STEP_NAMES = ("advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "overload", "relieve", "leave")


class ScenarioForm(Struct, frozen=True, forbid_unknown_fields=True):
    tree: str | list[tuple[str, str]]
    steps: Annotated[list[StepForm], Meta(max_length=STEPS_MAX)]
    clusters: int | None = None
    routing: str = "idr"
    title: str = ""
    tau: Annotated[float, Meta(gt=0)] = CongestionParameters().tau


class Step(Struct, frozen=True):
    """A checked step: an event at a broker, or a queue to hold at a length."""

    number: int
    do: str
    broker: BrokerId
    event: Event | None = None
    neighbour: BrokerId | None = None
    queue: int = 0


class Scenario(Struct, frozen=True):
    """What a scenario file says, checked. `clients` is where each client is connected."""

    scot: Scot
    routing: str
    congestion: CongestionParameters
    steps: tuple[Step, ...]
    clients: dict[str, BrokerId]
    title: str


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a JSON or TOML file; a `ScenarioError` names the place of what is wrong."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise ScenarioError(str(path), f"the file has {size:,} bytes; a scenario has at most {FILE_BYTES_MAX:,}")
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(str(path), f"cannot be read: {error.strerror or error}") from None
    try:
        return check_scenario(_decode(data, toml=path.suffix == ".toml"))
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error.place}" if error.place else str(path), error.problem) from None


def parse_scenario(text: str | bytes) -> Scenario:
    """A scenario from JSON text."""
    return check_scenario(_decode(text.encode() if isinstance(text, str) else text, toml=False))


def _decode(data: bytes, *, toml: bool) -> ScenarioForm:
    try:
        if toml:
            return msgspec.convert(tomllib.loads(data.decode()), ScenarioForm)
        return msgspec.json.decode(data, type=ScenarioForm)
    except msgspec.ValidationError as error:
        raise _shape_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise ScenarioError(_line_of(data, str(error)), f"is not JSON: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError("", f"is not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"byte {error.start}", "is not UTF-8 text") from None
    except RecursionError:
        raise ScenarioError("", "is nested too deeply to be a scenario") from None


def _shape_error(text: str) -> ScenarioError:
    """msgspec's `… - at `$.steps[0].do`` as a place and a problem, with a hint for a misspelt step."""
    problem, _, place = text.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    if place.endswith(".do") and problem.startswith("Invalid value"):
        wrong = problem.removeprefix("Invalid value ").strip("'")
        problem = f"unknown step {wrong!r}{maybe_meant(wrong, STEP_NAMES)}; steps are {', '.join(STEP_NAMES)}"
    return ScenarioError(place, problem[:1].lower() + problem[1:])


def _line_of(data: bytes, problem: str) -> str:
    """The line and column of msgspec's `(byte N)`."""
    _, found, rest = problem.rpartition("(byte ")
    if not found:
        return ""
    before = data[: int(rest.rstrip(")"))]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"line {line}, column {column}"


def check_scenario(form: ScenarioForm) -> Scenario:
    """Check names and order: brokers, clients, ids, filters, what is in force at each step."""
    try:
        policy_named(form.routing)
    except InputError as error:
        raise ScenarioError("routing", str(error)) from None
    scot = _build_overlay(form)
    checker = _Checker(scot)
    steps = tuple(checker.check(number, step) for number, step in enumerate(form.steps))
    return Scenario(scot, form.routing, CongestionParameters(tau=form.tau), steps, checker.clients, form.title)


def _build_overlay(form: ScenarioForm) -> Scot:
    try:
        tree = parse_tree(form.tree) if isinstance(form.tree, str) else Tree.from_edges(form.tree)
    except TopologyError as error:
        raise ScenarioError("tree", str(error)) from None
    clusters = form.clusters
    if clusters is None and isinstance(form.tree, str):
        clusters = default_clusters(form.tree)
    try:
        return Scot(tree, CLUSTERS_DEFAULT if clusters is None else clusters)
    except TopologyError as error:
        raise ScenarioError("clusters", str(error)) from None


class _Checker:
    """Walks the steps in order and knows what is in force at each."""

    def __init__(self, scot: Scot) -> None:
        self.clients: dict[str, BrokerId] = {}
        self._scot = scot
        self._advertisements: dict[str, str] = {}
        self._subscriptions: dict[str, str] = {}
        self._notifications: dict[str, int] = {}

    def check(self, number: int, form: StepForm) -> Step:
        place = f"steps[{number}]"
        match form:
            case OverloadForm():
                return self._hold(place, number, "overload", form.link, form.queue)
            case RelieveForm():
                return self._hold(place, number, "relieve", form.link, 0)
            case AdvertiseForm():
                broker = self._client_at(place, form.client, form.at)
                self._new_id(place, "advertisement", self._advertisements, form.client, form.id)
                event: Event = Advertised(form.client, form.id, self._filter(place, form.filter))
                return Step(number, "advertise", broker, event)
            case SubscribeForm():
                broker = self._client_at(place, form.client, form.at)
                self._new_id(place, "subscription", self._subscriptions, form.client, form.id)
                event = Subscribed(form.client, form.id, self._filter(place, form.filter))
                return Step(number, "subscribe", broker, event)
            case _:
                return self._check_known(place, number, form)

    def _check_known(
        self, place: str, number: int, form: UnadvertiseForm | UnsubscribeForm | PublishForm | LeaveForm
    ) -> Step:
        broker = self._known_client(place, form.client)
        match form:
            case UnadvertiseForm():
                self._withdraw(place, "advertisement", self._advertisements, form.client, form.id)
                return Step(number, "unadvertise", broker, Unadvertised(form.client, form.id))
            case UnsubscribeForm():
                self._withdraw(place, "subscription", self._subscriptions, form.client, form.id)
                return Step(number, "unsubscribe", broker, Unsubscribed(form.client, form.id))
            case LeaveForm():
                for ids in (self._advertisements, self._subscriptions):
                    for id in [id for id, owner in ids.items() if owner == form.client]:
                        del ids[id]
                return Step(number, "leave", broker, ClientLeft(form.client))
            case PublishForm():
                return self._publish(place, number, broker, form)

    def _publish(self, place: str, number: int, broker: BrokerId, form: PublishForm) -> Step:
        if form.id in self._notifications:
            earlier = self._notifications[form.id]
            raise ScenarioError(f"{place}.id", f"notification id {form.id!r} is taken by steps[{earlier}]")
        if form.client not in self._advertisements.values():
            raise ScenarioError(
                f"{place}.client", f"{form.client} publishes but has no advertisement in force here; advertise first"
            )
        self._notifications[form.id] = number
        return Step(number, "publish", broker, Published(form.client, form.id, self._notification(place, form)))

    def _client_at(self, place: str, client: str, at: At | None) -> BrokerId:
        known = self.clients.get(client)
        if at is None:
            if known is None:
                raise ScenarioError(f"{place}.at", f"say where {client} is connected, for example ['a', 0]")
            return known
        broker = self._broker(f"{place}.at", at)
        if known is not None and known != broker:
            raise ScenarioError(
                f"{place}.at", f"{client} is connected to {known} already; a client has one host broker"
            )
        self.clients[client] = broker
        return broker

    def _known_client(self, place: str, client: str) -> BrokerId:
        if client not in self.clients:
            hint = maybe_meant(client, self.clients) or "; a client is known from its first advertise or subscribe on"
            raise ScenarioError(f"{place}.client", f"unknown client {client!r}{hint}")
        return self.clients[client]

    def _broker(self, place: str, at: At) -> BrokerId:
        try:
            broker = BrokerId.parse(at) if isinstance(at, str) else BrokerId(*at)
            self._scot.a_links(broker)
        except TopologyError as error:
            raise ScenarioError(place, str(error)) from None
        return broker

    def _hold(self, place: str, number: int, do: str, link: tuple[At, At], queue: int) -> Step:
        sender = self._broker(f"{place}.link[0]", link[0])
        receiver = self._broker(f"{place}.link[1]", link[1])
        if receiver not in self._scot.neighbours(sender):
            raise ScenarioError(f"{place}.link", f"there is no link from {sender} to {receiver}")
        return Step(number, do, sender, None, receiver, queue)

    def _new_id(self, place: str, noun: str, ids: dict[str, str], client: str, id: str) -> None:
        if id in ids:
            raise ScenarioError(f"{place}.id", f"{noun} id {id!r} is in force already, from {ids[id]}; ids are unique")
        ids[id] = client

    def _withdraw(self, place: str, noun: str, ids: dict[str, str], client: str, id: str) -> None:
        if ids.get(id) != client:
            whose = f"belongs to {ids[id]}" if id in ids else "is not in force here"
            raise ScenarioError(f"{place}.id", f"{noun} {id!r} of {client} {whose}{maybe_meant(id, ids)}")
        del ids[id]

    def _filter(self, place: str, text: str) -> Filter:
        try:
            return parse_filter(text)
        except LanguageError as error:
            raise ScenarioError(f"{place}.filter", str(error)) from None

    def _notification(self, place: str, form: PublishForm) -> Notification:
        try:
            return parse_notification(form.notification)
        except LanguageError as error:
            raise ScenarioError(f"{place}.notification", str(error)) from None
