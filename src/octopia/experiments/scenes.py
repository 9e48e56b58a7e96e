"""The paper's scenes of Fig. 7 and 8, replayed under several routings: the figures of `octopia scenes`.

Rules of this file: it runs and counts; `scenes_report.py` shows. The paper's own counts stand here beside ours and are
never used in place of them.
"""

from dataclasses import dataclass

from octopia.drawing import Client, Message, MessageStyle, Scene
from octopia.embedded import Replay, StepRecord, civ_string, overloaded_links, parse_scenario, replay
from octopia.routing import Advertised, Published, Subscribed
from octopia.scenes import scene_text
from octopia.topology import BrokerId

SCENES = ("fig7a", "fig7b", "fig7c", "fig7d", "fig8")
ROUTINGS = ("snr", "idr", "tid")

# Inter-broker messages per publish step as the paper gives them; None where it gives none.
PAPER_MESSAGES: dict[str, dict[str, tuple[int | None, ...]]] = {
    "fig7a": {"snr": (6,), "idr": (6,), "tid": (None,)},
    "fig7b": {"snr": (5,), "idr": (4,), "tid": (None,)},
    "fig7c": {"snr": (6,), "idr": (5,), "tid": (None,)},
    "fig7d": {"snr": (5,), "idr": (5,), "tid": (None,)},
    "fig8": {"snr": (4, 6, 8), "idr": (None, None, None), "tid": (None, None, None)},
}
PAPER_NOTES = {
    ("fig7b", "snr"): "The paper says 5, a slip: the clients are those of (a), and there it counts 6 itself.",
}


@dataclass(frozen=True)
class PublishFigures:
    """What one notification cost under one routing."""

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
    published = [record for record in result.steps if isinstance(record.step.event, Published)]
    counted = zip(published, PAPER_MESSAGES[name][routing], strict=True)
    return [_figures(name, result, record, paper) for record, paper in counted]


def _figures(name: str, result: Replay, record: StepRecord, paper_messages: int | None) -> PublishFigures:
    event = record.step.event
    if not isinstance(event, Published):
        raise TypeError(f"steps[{record.step.number}] publishes nothing")
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
    """What to draw over the overlay for one step: clients, copies, overloaded links."""
    clusters = result.scenario.scot.clusters
    publishers = {r.step.event.client for r in result.steps if isinstance(r.step.event, Advertised)}
    subscribers = {r.step.event.client for r in result.steps if isinstance(r.step.event, Subscribed)}
    clients = tuple(
        Client(name, broker, "publisher" if name in publishers else "subscriber")
        for name, broker in _places(result, record.step.number).items()
        if name in publishers or name in subscribers
    )
    messages = []
    for hop in record.messages:
        carried = civ_string(hop.message, clusters)
        style: MessageStyle = "control" if hop.message.kind != "notify" else "civ" if carried else "plain"
        messages.append(Message(hop.sender, hop.receiver, carried or "", style))
    overloaded = tuple(overloaded_links(result, record.step.number))
    return Scene(clients=clients, messages=tuple(messages), overloaded=overloaded)


def _places(result: Replay, number: int) -> dict[str, BrokerId]:
    """Where each client is at a step; one that comes later, where it first comes. A client that left may come back
    elsewhere."""
    places: dict[str, BrokerId] = {}
    for record in result.steps:
        client = getattr(record.step.event, "client", None)
        if client is not None and (record.step.number <= number or client not in places):
            places[client] = record.step.broker
    return places
