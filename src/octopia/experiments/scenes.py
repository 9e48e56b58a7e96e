"""The paper's scenes of Fig. 7 and 8, and ours, replayed under several routings: the figures of `octopia scenes`.

This module runs and counts; `scenes_report.py` makes the page. The paper's counts are listed beside ours and never
replace them.
"""

from dataclasses import dataclass

from octopia.drawing import DrawnClient, DrawnMessage, Scene
from octopia.embedded import (
    Hop,
    Replay,
    StepRecord,
    civ_string,
    dead_brokers,
    overloaded_links,
    parse_scenario,
    replay,
)
from octopia.routing import Advertised, Published, Subscribed
from octopia.scenes import FDR_NAMES, scene_text
from octopia.topology import BrokerId, Scot

SCENES = ("fig7a", "fig7b", "fig7c", "fig7d", "fig8", *FDR_NAMES)
ROUTINGS = ("snr", "idr", "tid", "fdr")
# More destinations than these are counted at an arrow, not named.
LABEL_BROKERS_MAX = 4

# Inter-broker messages per publish step, where the paper gives them.
PAPER_MESSAGES: dict[tuple[str, str], tuple[int, ...]] = {
    ("fig7a", "snr"): (6,),
    ("fig7a", "idr"): (6,),
    ("fig7b", "snr"): (5,),
    ("fig7b", "idr"): (4,),
    ("fig7c", "snr"): (6,),
    ("fig7c", "idr"): (5,),
    ("fig7d", "snr"): (5,),
    ("fig7d", "idr"): (5,),
    ("fig8", "snr"): (4, 6, 8),
}
PAPER_NOTES = {
    ("fig7b", "snr"): "The paper says 5, a slip: the clients are those of (a), and there it counts 6 itself.",
}


@dataclass(frozen=True)
class PublishFigures:
    """The cost of one notification under one routing."""

    scene: str
    routing: str
    notification: str
    publisher: str
    messages: int
    paper_messages: int | None
    deliveries: int
    hops_max: int
    civs: tuple[str, ...]
    overloaded_used: int
    record: StepRecord
    result: Replay


def run_scene(name: str, routing: str) -> list[PublishFigures]:
    """Replay one scene and count, for every notification in it."""
    result = replay(parse_scenario(scene_text(name)), routing)
    published = [(each, each.step.event) for each in result.steps if isinstance(each.step.event, Published)]
    paper = PAPER_MESSAGES.get((name, routing), (None,) * len(published))
    return [_figures(name, result, *step, messages) for step, messages in zip(published, paper, strict=True)]


def _figures(
    name: str, result: Replay, record: StepRecord, event: Published, paper_messages: int | None
) -> PublishFigures:
    clusters = result.scenario.scot.clusters
    carried = (civ_string(hop.message, clusters) for hop in record.messages)
    overloaded = overloaded_links(result, record.step.number)
    return PublishFigures(
        scene=name,
        routing=result.routing,
        notification=event.id,
        publisher=event.client,
        messages=len(record.messages),
        paper_messages=paper_messages,
        deliveries=len(record.deliveries),
        hops_max=max((len(delivery.path()) for delivery in record.deliveries), default=0),
        civs=tuple(bits for bits in carried if bits is not None),
        overloaded_used=sum((hop.sender, hop.receiver) in overloaded for hop in record.messages),
        record=record,
        result=result,
    )


def scene_of(result: Replay, record: StepRecord) -> Scene:
    """The layers to draw over the overlay for one step: clients, copies, overloaded links, dead brokers and links."""
    publishers = {r.step.event.client for r in result.steps if isinstance(r.step.event, Advertised)}
    subscribers = {r.step.event.client for r in result.steps if isinstance(r.step.event, Subscribed)}
    clients = tuple(
        DrawnClient(name, broker, "publisher" if name in publishers else "subscriber")
        for name, broker in _places(result, record.step.number).items()
        if name in publishers or name in subscribers
    )
    dead = dead_brokers(result, record.step.number)
    return Scene(
        clients=clients,
        messages=tuple(_message(result.scenario.scot, hop, record) for hop in record.messages),
        overloaded=tuple(overloaded_links(result, record.step.number)),
        dead=tuple(dead),
        down=tuple(link for link in result.scenario.scot.links if frozenset(link) in record.down),
    )


def _message(scot: Scot, hop: Hop, record: StepRecord) -> DrawnMessage:
    """An arrow: with the CIV that a copy carries, or with the destinations it names, in the colour of their tree."""
    if hop.message.kind != "notify":
        return DrawnMessage(hop.sender, hop.receiver, "", "control")
    way = record.way_of(scot, hop)
    if way is not None:
        # the last hop needs no label: it ends at the destination
        label = "" if way.destinations == (hop.receiver,) else _names(way.destinations)
        return DrawnMessage(hop.sender, hop.receiver, label, "detour" if way.is_detour else "plain", way.tree)
    carried = civ_string(hop.message, scot.clusters)
    return DrawnMessage(hop.sender, hop.receiver, carried or "", "civ" if carried else "plain")


def _names(brokers: tuple[BrokerId, ...]) -> str:
    if len(brokers) > LABEL_BROKERS_MAX:
        return f"{len(brokers)} brokers"
    return " ".join(f"{broker.region},{broker.cluster}" for broker in brokers)


def _places(result: Replay, number: int) -> dict[str, BrokerId]:
    """The location of each client at a step, or its first one if it comes later.

    A client that left may return elsewhere.
    """
    places: dict[str, BrokerId] = {}
    for record in result.steps:
        client = getattr(record.step.event, "client", None)
        if client is not None and (record.step.number <= number or client not in places):
            places[client] = record.step.broker
    return places
