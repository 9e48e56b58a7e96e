"""The path of a notification as JSON for the page: arrows with contents and times, and a list by broker."""

from typing import Any, Final

from octopia.watch import Hop, LiveAnswer, Path

_DESTINATIONS_SHOWN: Final = 3


def path_json(path: Path) -> dict[str, Any]:
    """All hops, and who gets it."""
    came_from = {hop.receiver: hop.sender for hop in path.hops if hop.arrived_ns is not None}
    return {
        "publisher": path.publisher,
        "broker": path.broker,
        "refused": path.refused,
        "hops": [
            {
                "from": hop.sender,
                "to": hop.receiver,
                "label": burden(hop),
                "at_s": _seconds(hop.arrived_ns),
                "arrived": hop.arrived_ns is not None,
                "up": hop.up,
                "queue": hop.queue,
            }
            for hop in path.hops
        ],
        "would_deliver": [
            {"client": gets.client, "broker": gets.broker, "at_s": _seconds(gets.after_ns), "trouble": gets.trouble}
            for gets in path.gets
        ],
        "brokers": [
            {
                "broker": broker,
                "at_s": _seconds(after_ns),
                "came_from": came_from.get(broker, ""),
                "sent": [
                    {"to": hop.receiver, "label": burden(hop), "stuck": hop.arrived_ns is None}
                    for hop in path.hops
                    if hop.sender == broker
                ],
                "delivered": [gets.client for gets in path.gets if gets.broker == broker],
            }
            for broker, after_ns in path.visited
        ],
    }


def burden(hop: Hop) -> str:
    """What a copy carries: a CIV, or its destinations."""
    if hop.civ:
        return hop.civ
    if hop.destinations:
        more = len(hop.destinations) - _DESTINATIONS_SHOWN
        return " ".join(hop.destinations[:_DESTINATIONS_SHOWN]) + (f" +{more}" if more > 0 else "")
    return hop.tree


def answer_json(answer: LiveAnswer) -> dict[str, Any]:
    """An answer to Why, with the path if there is one."""
    return {**answer.to_jsonable(), "path": None if answer.path is None else path_json(answer.path)}


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e9, 9)
