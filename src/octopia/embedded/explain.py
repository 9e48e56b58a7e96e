"""Why did this client get, or not get, this notification? Answers read off a replay.

Rules of this file: an answer is found by looking at what the client had asked for at that step and at the hops that the
replay kept; nothing is routed again. A delivery is answered with its path, hop by hop, and why each hop was taken; a
missing one with the nearest reason: refused because not advertised, nothing subscribed at that time, or the predicate
that failed. "Interested, but nothing came" cannot happen and is said in so many words if it does: it is a bug.
"""

from typing import Any

from msgspec import Struct

from octopia.embedded.network import Hop
from octopia.embedded.replay import DeliveryRecord, Replay, StepRecord, civ_string
from octopia.errors import InputError
from octopia.hints import maybe_meant
from octopia.language import Filter, matches, why_not_matches
from octopia.routing import ClientLeft, Published, Subscribed, Unsubscribed
from octopia.topology import BrokerId


class Answer(Struct, frozen=True):
    """One notification and one client: delivered or not, and the reasons as lines."""

    notification: str
    publisher: str
    client: str
    delivered: bool
    reasons: list[str]

    def to_jsonable(self) -> dict[str, Any]:
        return {
            "notification": self.notification,
            "publisher": self.publisher,
            "client": self.client,
            "delivered": self.delivered,
            "reasons": self.reasons,
        }


def explain(result: Replay, *, notification: str | None = None, client: str | None = None) -> list[Answer]:
    """Answers for every notification and every client that ever subscribes, or for the ones named."""
    published = [r for r in result.steps if isinstance(r.step.event, Published)]
    subscribers = _subscribers(result)
    if notification is not None:
        known = [r.step.event.id for r in published if isinstance(r.step.event, Published)]
        _check_known("notification", notification, known)
        published = [r for r in published if isinstance(r.step.event, Published) and r.step.event.id == notification]
    if client is not None:
        _check_known("client", client, list(result.scenario.clients))
        subscribers = [client]
    return [_answer(result, record, name) for record in published for name in subscribers]


def _check_known(noun: str, name: str, known: list[str]) -> None:
    if name not in known:
        hint = maybe_meant(name, known) or f"; there are {', '.join(known) or 'none'}"
        raise InputError(f"no {noun} {name!r} in this scenario{hint}")


def _subscribers(result: Replay) -> list[str]:
    names = (r.step.event.client for r in result.steps if isinstance(r.step.event, Subscribed))
    return list(dict.fromkeys(names))


def _answer(result: Replay, record: StepRecord, client: str) -> Answer:
    event = record.step.event
    assert isinstance(event, Published)  # noqa: S101  chosen by `explain`
    for delivery in record.deliveries:
        if delivery.order.client == client:
            return Answer(event.id, event.client, client, True, _why_delivered(result, delivery))
    return Answer(event.id, event.client, client, False, _why_not_delivered(result, record, event, client))


def _why_delivered(result: Replay, delivery: DeliveryRecord) -> list[str]:
    scenario = result.scenario
    subscriptions = delivery.order.subscriptions
    noun = "subscription" if len(subscriptions) == 1 else "subscriptions"
    lines = [f"matches {noun} {', '.join(subscriptions)}"]
    path = delivery.path()
    host = path[0].sender if path else delivery.broker
    lines.append(f"published at {host}, delivered at {delivery.broker}, {_hops(len(path))}")
    lines.extend(_hop_line(hop, scenario.scot.clusters) for hop in path)
    return lines


def _hops(count: int) -> str:
    return "no hop: both are clients of one broker" if not count else "1 hop" if count == 1 else f"{count} hops"


def _hop_line(hop: Hop, clusters: int) -> str:
    kind = "iLink" if hop.sender.region == hop.receiver.region else "aLink"
    carried = civ_string(hop.message, clusters)
    burden = f", carrying CIV {carried} for the clusters behind overloaded iLinks" if carried else ""
    return f"{hop.sender} → {hop.receiver} by {kind}{burden}"


def _why_not_delivered(result: Replay, record: StepRecord, event: Published, client: str) -> list[str]:
    if record.refusals:
        return [f"the notification was refused: {refusal.reason}" for refusal in record.refusals]
    in_force = _subscriptions_at(result, record.step.number, client)
    if not in_force:
        return [_why_none_in_force(result, record.step.number, client)]
    lines = []
    for id, filter in in_force.items():
        reason = why_not_matches(filter, event.notification)
        if reason is not None:
            lines.append(f"subscription {id} does not match: {reason}")
        elif matches(filter, event.notification):
            lines.append(f"subscription {id} matches, and nothing came: a notification was lost, please report this")
    return lines


def _subscriptions_at(result: Replay, number: int, client: str) -> dict[str, Filter]:
    """What the client had subscribed to when that step ran."""
    in_force: dict[str, Filter] = {}
    for record in result.steps[:number]:
        match record.step.event:
            case Subscribed(client=name, id=id, filter=filter) if name == client:
                in_force[id] = filter
            case Unsubscribed(client=name, id=id) if name == client:
                in_force.pop(id, None)
            case ClientLeft(client=name) if name == client:
                in_force.clear()
            case _:
                pass
    return in_force


def _why_none_in_force(result: Replay, number: int, client: str) -> str:
    before, after = None, None
    for record in result.steps:
        event = record.step.event
        if record.step.number < number and isinstance(event, Unsubscribed | ClientLeft) and event.client == client:
            before = record.step.number
        if record.step.number > number and isinstance(event, Subscribed) and event.client == client and after is None:
            after = record.step.number
    if before is not None:
        return f"{client} had withdrawn its last subscription before, in steps[{before}]"
    if after is not None:
        return f"{client} had not subscribed yet: its first subscription comes in steps[{after}]"
    return f"{client} never subscribes"


def overloaded_links(result: Replay, number: int) -> list[tuple[BrokerId, BrokerId]]:
    """The directed links held over τ when a step ran, for drawings and tables."""
    queues: dict[tuple[BrokerId, BrokerId], int] = {}
    for record in result.steps[:number]:
        step = record.step
        if step.neighbour is not None:
            queues[step.broker, step.neighbour] = step.queue
    return [link for link, queue in queues.items() if queue > result.scenario.congestion.tau]
