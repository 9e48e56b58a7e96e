"""Why did this client get, or not get, this notification? Answers read off a replay.

Answers come from the client's subscriptions at that step and from the hops that the replay recorded; nothing is routed
again, and one walk over the steps gives all answers. A delivery is explained by its path, hop by hop, with the reason
for each hop. A missing delivery is explained by the nearest reason: refused because not advertised, nothing subscribed
at that time, the predicate that failed, or the broker or link that is down. "Interested, but nothing came" cannot
happen while all links are up; if it does, it is a bug, and the answer says so.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from octopia.embedded.network import Hop
from octopia.embedded.replay import DeliveryRecord, Replay, StepRecord, civ_string
from octopia.embedded.ways import first_of, named, named_links
from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.language import Filter, why_can_get_nothing, why_subscription_misses
from octopia.routing import (
    Advertised,
    ClientLeft,
    Event,
    Published,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId, Scot

ANSWERS_MAX = 1_000_000
_KNOWN_SHOWN_MAX = 12


class Answer(Struct, frozen=True):
    """One notification and one client: delivered or not, and the reasons as lines."""

    notification: str
    publisher: str
    client: str
    delivered: bool
    reasons: list[str]

    def to_jsonable(self) -> dict[str, Any]:
        return structs.asdict(self)


def explain(result: Replay, *, notification: str | None = None, client: str | None = None) -> list[Answer]:
    """Answers for every notification and every client that ever subscribes, or only for those named."""
    published = [r.step.event.id for r in result.steps if isinstance(r.step.event, Published)]
    if notification is not None:
        _check_known("notification", notification, published)
        published = [notification]
    askers = list(_subscription_steps(result)) if client is None else [client]
    if client is not None:
        _check_known("client", client, list(result.scenario.clients))
    if len(published) * len(askers) > ANSWERS_MAX:
        raise InputError(
            f"{len(published):,} notifications × {len(askers):,} clients: at most {ANSWERS_MAX:,} answers are given "
            "at once; name a notification or a client"
        )
    return list(_answers(result, dict.fromkeys(published), askers))


def _check_known(noun: str, name: str, known: list[str]) -> None:
    if name not in known:
        shown = first_of(known, _KNOWN_SHOWN_MAX) or "none"
        hint = maybe_meant(name, known) or f"; there {'is' if len(known) == 1 else 'are'} {shown}"
        raise InputError(f"no {noun} {name!r} in this scenario{hint}")


class _Standing:
    """A client's subscriptions in force at some step, and the last step that ended one."""

    def __init__(self) -> None:
        self.in_force: dict[str, Filter] = {}
        self.broker: BrokerId | None = None
        self.ended: StepRecord | None = None

    def take(self, record: StepRecord) -> None:
        match record.step.event:
            case Subscribed(id=id, filter=filter):
                self.in_force[id] = filter
                self.broker = record.step.broker
            case Unsubscribed(id=id):
                self.in_force.pop(id, None)
                self.ended = record
            case ClientLeft():
                self.in_force.clear()
                self.ended = record
            case _:
                pass


def _subscription_steps(result: Replay) -> dict[str, list[int]]:
    """The clients that ever subscribe, in order of their first subscription, and the steps in which they subscribe."""
    steps: dict[str, list[int]] = {}
    for record in result.steps:
        if isinstance(record.step.event, Subscribed):
            steps.setdefault(record.step.event.client, []).append(record.step.number)
    return steps


def _answers(result: Replay, wanted: dict[str, None], askers: list[str]) -> Iterator[Answer]:
    """One walk over the steps that tracks the standing of every client."""
    subscribed_in = _subscription_steps(result)
    standings = {name: _Standing() for name in askers}
    advertised: dict[tuple[str, str], Filter] = {}
    for record in result.steps:
        event = record.step.event
        _take_advertisement(advertised, event)
        if isinstance(event, Published) and event.id in wanted:
            delivered = {delivery.client: delivery for delivery in record.deliveries}
            for name, standing in standings.items():
                if name in delivered:
                    reasons = _why_delivered(result, record, delivered[name])
                else:
                    reasons = _why_not_delivered(result, record, name, standing, subscribed_in.get(name, []))
                    reasons += why_can_get_nothing(standing.in_force, advertised)
                yield Answer(event.id, event.client, name, name in delivered, reasons)
        elif isinstance(event, Subscribed | Unsubscribed | ClientLeft) and event.client in standings:
            standings[event.client].take(record)


def _take_advertisement(advertised: dict[tuple[str, str], Filter], event: Event | None) -> None:
    """Update the advertisements in force, by client and id."""
    match event:
        case Advertised(client=client, id=id, filter=filter):
            advertised[client, id] = filter
        case Unadvertised(client=client, id=id):
            advertised.pop((client, id), None)
        case ClientLeft(client=client):
            for which in [which for which in advertised if which[0] == client]:
                del advertised[which]
        case _:
            pass


def _why_delivered(result: Replay, record: StepRecord, delivery: DeliveryRecord) -> list[str]:
    subscriptions = delivery.subscriptions
    noun = "subscription" if len(subscriptions) == 1 else "subscriptions"
    lines = [f"matches {noun} {', '.join(subscriptions)}"]
    path = delivery.path()
    host = path[0].sender if path else delivery.broker
    lines.append(f"published at {host}, delivered at {delivery.broker}, {_hops(len(path))}")
    if record.why is not None and path:
        lines.append(f"takes {record.why}")
    lines.extend(_hop_line(result.scenario.scot, hop, record) for hop in path)
    return lines


def _hops(count: int) -> str:
    return "no hops: both are clients of one broker" if not count else "1 hop" if count == 1 else f"{count} hops"


def _hop_line(scot: Scot, hop: Hop, record: StepRecord) -> str:
    kind = "iLink" if hop.sender.region == hop.receiver.region else "aLink"
    return f"{hop.sender} → {hop.receiver} by {kind}{_burden(scot, hop, record)}"


def _burden(scot: Scot, hop: Hop, record: StepRecord) -> str:
    way = record.way_of(scot, hop)
    if way is not None:
        return f", for {named(way.destinations)}: {way.words}"
    carried = civ_string(hop.message, scot.clusters)
    return f", carrying CIV {carried} for the clusters behind overloaded iLinks" if carried else ""


def _why_not_delivered(
    result: Replay, record: StepRecord, client: str, standing: _Standing, subscribed_in: list[int]
) -> list[str]:
    if record.refusals:
        return [f"the notification was refused: {refusal.reason}" for refusal in record.refusals]
    if not standing.in_force:
        return [_why_none_in_force(record.step.number, client, standing, subscribed_in)]
    event = record.step.event
    if not isinstance(event, Published):
        raise TypeError(f"steps[{record.step.number}] publishes nothing")
    lines = []
    for id, filter in standing.in_force.items():
        missed = why_subscription_misses(id, filter, event.notification)
        lines.append(missed or f"subscription {id} matches, and nothing came: {_why_lost(result, record, standing)}")
    return lines


def _why_lost(result: Replay, record: StepRecord, standing: _Standing) -> str:
    broker = standing.broker
    if broker is not None and broker in dead_brokers(result, record.step.number):
        return f"its broker {broker} is dead"
    lost = [hop for hop in record.lost if _is_for(result.scenario.scot, hop, record, broker)]
    if lost:
        return f"copies could not go on where links are down: {', '.join(f'{h.sender} → {h.receiver}' for h in lost)}"
    if record.down:
        return f"no copy was sent towards it; links are down: {named_links(record.down)}"
    return "a notification was lost, please report this"


def _is_for(scot: Scot, hop: Hop, record: StepRecord, broker: BrokerId | None) -> bool:
    """Whether this copy was meant for the broker; a copy that does not name its destinations may have been."""
    way = record.way_of(scot, hop)
    return way is None or broker in way.destinations


def _why_none_in_force(number: int, client: str, standing: _Standing, subscribed_in: list[int]) -> str:
    if standing.ended is not None:
        ended = standing.ended.step
        did = "left" if isinstance(ended.event, ClientLeft) else "withdrawn its last subscription"
        return f"{client} had {did} before, in steps[{ended.number}]"
    later = [step for step in subscribed_in if step > number]
    if later:
        return f"{client} had not subscribed yet: its first subscription comes in steps[{later[0]}]"
    return f"{client} never subscribes"


def overloaded_links(result: Replay, number: int) -> list[tuple[BrokerId, BrokerId]]:
    """The directed links held over τ when a step ran, for drawings and tables."""
    queues: dict[tuple[BrokerId, BrokerId], int] = {}
    for record in result.steps[:number]:
        step = record.step
        if step.neighbour is not None and step.do in ("overload", "relieve"):
            queues[step.broker, step.neighbour] = step.queue
    return [link for link, queue in queues.items() if queue > result.scenario.congestion.tau]


def dead_brokers(result: Replay, number: int) -> list[BrokerId]:
    """The brokers that had died when a step ran, for drawings and tables."""
    return [record.step.broker for record in result.steps[:number] if record.step.do == "crash"]
