"""Replay of a scenario: step by step, each until nothing moves, with every message kept.

The brokers are the real ones, hosted by `Network`; this module only sends requests, records and counts. Each message
keeps the message that caused it, so that the path of a delivery can be explained (`explain.py`) and drawn afterwards.
The record is bounded: a scenario with too many messages ends with an error.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from octopia.embedded.network import Hop, Network
from octopia.embedded.scenario import Scenario, Step
from octopia.embedded.ways import DownLinks, Way, way_of
from octopia.errors import ScenarioError
from octopia.protocol import AskConfirm, Confirm, Message, Notify
from octopia.routing import Action, Deliver, Refuse, policy_named
from octopia.topology import BrokerId, Scot, civ

MESSAGES_KEPT_MAX = 2_000_000


class DeliveryRecord(Struct, frozen=True):
    """One client's delivery: the broker that made it, and the hop that brought it there (None: published there)."""

    client: str
    id: str
    subscriptions: tuple[str, ...]
    broker: BrokerId
    cause: Hop | None

    def path(self) -> list[Hop]:
        """The hops from the publisher's host broker to the subscriber's, in order."""
        hops: list[Hop] = []
        hop = self.cause
        while hop is not None:
            hops.append(hop)
            hop = hop.cause
        return hops[::-1]


class StepRecord(Struct, frozen=True):
    """Everything that one step set in motion.

    `tree` and `why` are set for a step that publishes, under a routing that chooses a cluster's tree at the publisher's
    broker. `lost` holds messages sent over a link that was down. `down` holds the links that are down after the step,
    each as its two ends.
    """

    step: Step
    messages: list[Hop]
    deliveries: list[DeliveryRecord]
    refusals: list[Refuse]
    lost: list[Hop]
    down: DownLinks
    tree: int | None = None
    why: str | None = None

    def way_of(self, scot: Scot, hop: Hop) -> Way | None:
        """What a copy of this step is doing on a link; None if it does not name its destinations."""
        return way_of(scot, hop, self.down, self.tree)


class AdvertisementState(Struct, frozen=True):
    """An advertisement in force at the end. In TID routing there is no CIV, and both fields are None."""

    id: str
    client: str
    broker: BrokerId
    civ: str | None
    target_clusters: list[int] | None


class TableSizes(Struct, frozen=True):
    broker: BrokerId
    srt: int
    prt: int


class Replay(Struct, frozen=True):
    """The whole record of a scenario under one routing."""

    scenario: Scenario
    routing: str
    steps: list[StepRecord]
    tables: list[TableSizes]
    advertisements: list[AdvertisementState]


def civ_string(message: Message, clusters: int) -> str | None:
    """The CIV a copy of a notification carries, as bits; None for a plain copy and for any other message."""
    return civ.to_string(message.civ, clusters) if isinstance(message, Notify) and message.civ else None


def replay(scenario: Scenario, routing: str | None = None) -> Replay:
    """Run a scenario, under its own routing or another."""
    routing = scenario.routing if routing is None else routing
    policy_named(routing)
    recorder = _Recorder()
    network = Network(
        scenario.scot,
        routing,
        congestion=scenario.congestion,
        covering=scenario.covering_under(routing),
        on_hop=recorder.on_hop,
        on_lost=recorder.on_lost,
        on_action=recorder.on_action,
    )
    records = []
    down: DownLinks = frozenset()
    for step in scenario.steps:
        down = _down_after(scenario, step, down)
        record = recorder.begin(step, down, *_choice(network, routing, step))
        _run_step(network, routing, step)
        network.run_until_quiet()
        records.append(record)
    tables = [TableSizes(id, len(b.state.srt), len(b.state.prt)) for id, b in network.brokers.items()]
    return Replay(scenario, routing, records, tables, list(_advertisements(scenario, network)))


def _run_step(network: Network, routing: str, step: Step) -> None:
    if step.event is not None:
        network.tell(step.broker, step.event)
    elif step.neighbour is None:
        network.crash(step.broker)
    elif step.do == "cut":
        network.take_link_down(step.broker, step.neighbour)
    elif step.do == "mend":
        if policy_named(routing).recovery is None:
            raise ScenarioError(
                f"steps[{step.number}].do", f"{routing} cannot mend links: it does not resynchronise its tables"
            )
        network.bring_link_up(step.broker, step.neighbour)
    else:
        network.hold_queue(step.broker, step.neighbour, step.queue)
        network.delay_link(step.broker, step.neighbour, step.delay)


def _choice(network: Network, routing: str, step: Step) -> tuple[int | None, str | None]:
    why = policy_named(routing).why
    return (None, None) if why is None or step.do != "publish" else why(network.brokers[step.broker].state, network.now)


def _down_after(scenario: Scenario, step: Step, down: DownLinks) -> DownLinks:
    if step.do == "crash":
        return down | {frozenset((step.broker, neighbour)) for neighbour in scenario.scot.neighbours(step.broker)}
    link = frozenset((step.broker, step.neighbour or step.broker))
    return down | {link} if step.do == "cut" else down - {link} if step.do == "mend" else down


class _Recorder:
    """Files every hop, delivery and refusal under the step that is running."""

    def __init__(self) -> None:
        self._record: StepRecord | None = None
        self._kept = 0

    def begin(self, step: Step, down: DownLinks, tree: int | None, why: str | None) -> StepRecord:
        self._record = record = StepRecord(step, [], [], [], [], down, tree, why)
        return record

    def on_hop(self, hop: Hop) -> None:
        # confirmations are bookkeeping between steps
        if self._record is not None and hop.message.kind not in (Confirm.kind, AskConfirm.kind):
            self._keep(self._record.messages, hop)

    def on_lost(self, hop: Hop) -> None:
        if self._record is not None:
            self._keep(self._record.lost, hop)

    def on_action(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if self._record is None:
            return
        if isinstance(action, Deliver):
            for client, subscriptions in action.recipients:
                self._keep(self._record.deliveries, DeliveryRecord(client, action.id, subscriptions, broker, cause))
        elif isinstance(action, Refuse):
            self._keep(self._record.refusals, action)

    def _keep(self, into: list[Any], what: object) -> None:
        if self._kept >= MESSAGES_KEPT_MAX:
            raise ScenarioError(
                "steps", f"they make more than {MESSAGES_KEPT_MAX:,} messages, which a replay cannot keep"
            )
        self._kept += 1
        into.append(what)


def _advertisements(scenario: Scenario, network: Network) -> Iterator[AdvertisementState]:
    """Advertisements in force, client by client as the clients first came."""
    for client, id in scenario.clients.items():
        state = network.brokers[id].state
        for name, registered in state.advertisements.of(client).items():
            entry = state.srt.get(registered.key)
            if not policy_named(network.brokers[id].routing).keeps_civ:
                yield AdvertisementState(name, client, id, None, None)
                continue
            secondary = civ.bits(entry.civ & ~state.own_bit)
            own = [id.cluster] if entry.interest else []
            yield AdvertisementState(
                name, client, id, civ.to_string(entry.civ, scenario.scot.clusters), sorted([*secondary, *own])
            )


def to_jsonable(result: Replay) -> dict[str, Any]:
    """The record as `octopia replay --json` prints it. Other programs read it: announce every change of keys."""
    return {
        "steps": [_step_jsonable(record, result.scenario) for record in result.steps],
        "tables": [{"broker": list(t.broker), "srt": t.srt, "prt": t.prt} for t in result.tables],
        "advertisements": [
            {"id": a.id, "civ": a.civ, "target_clusters": a.target_clusters} for a in result.advertisements
        ],
    }


def _step_jsonable(record: StepRecord, scenario: Scenario) -> dict[str, Any]:
    told: dict[str, Any] = {
        "step": record.step.number,
        "messages": [_hop_jsonable(hop, record, scenario) for hop in record.messages],
        "deliveries": [
            {"client": d.client, "notification": d.id, "subscriptions": list(d.subscriptions)}
            for d in record.deliveries
        ],
    }
    if record.why is not None:
        told["why"] = record.why
    if record.lost:
        told["lost"] = [_hop_jsonable(hop, record, scenario) for hop in record.lost]
    if record.refusals:
        told["refused"] = [
            {"client": r.client, "request": r.request, "id": r.id, "reason": r.reason} for r in record.refusals
        ]
    return told


def _hop_jsonable(hop: Hop, record: StepRecord, scenario: Scenario) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": hop.message.kind,
        "from": list(hop.sender),
        "to": list(hop.receiver),
        "civ": civ_string(hop.message, scenario.scot.clusters),
    }
    way = record.way_of(scenario.scot, hop)
    if way is not None:
        told |= {"destinations": [list(broker) for broker in way.destinations], "tree": way.tree, "way": way.words}
    return told
