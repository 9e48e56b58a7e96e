"""Problems over a range of time: slow subscribers, full queues, refusals, flapping links, and the event log."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from octopia.watch import OverlayView

EVENTS_SHOWN_MAX: Final = 200
LIST_MAX: Final = 20
# A link that came up this often in the given time is flapping.
FLAP_UPS: Final = 2
_UPS_AND_DOWNS: Final = ("link up", "link down", "link broken", "link flaps")


def select(
    events: Iterable[dict[str, Any]], *, since_s: float = 0.0, q: str = "", broker: str = "", level: str = ""
) -> list[dict[str, Any]]:
    """Events since this time that contain all these words, the newest first."""
    words = q.lower().split()
    found = []
    for event in reversed(list(events)):
        if event["time_s"] < since_s:
            # brokers' clocks differ, so an earlier one may still follow
            continue
        if (broker and event["broker"] != broker) or (level and event["level"] != level):
            continue
        text = " ".join(str(value) for value in event.values()).lower()
        if all(word in text for word in words):
            found.append(event)
    return found


def summary(events: list[dict[str, Any]], view: OverlayView | None) -> dict[str, Any]:
    """The lists of the Trouble page, except tables that brokers sort themselves."""
    refused: Counter[tuple[str, str, str, str]] = Counter()
    changes: Counter[tuple[str, str]] = Counter()
    ups: Counter[tuple[str, str]] = Counter()
    for event in events:
        text = event["text"]
        if text.endswith("refused") and "neighbour" not in event:
            who = str(event.get("client", event.get("peer", "")))
            refused[event["broker"], who, text, str(event.get("reason", ""))] += int(event.get("count", 1))
        elif text in _UPS_AND_DOWNS:
            link = event["broker"], str(event.get("neighbour", ""))
            changes[link] += 1
            ups[link] += text == "link up"
    queues = [] if view is None else sorted(view.links(), key=lambda link: -link.load)
    return {
        "refused": [
            {"broker": broker, "client": who, "what": what, "reason": reason, "count": count}
            for (broker, who, what, reason), count in refused.most_common(LIST_MAX)
        ],
        "flapping": [
            {"broker": broker, "neighbour": neighbour, "changes": count}
            for (broker, neighbour), count in changes.most_common(LIST_MAX)
            # Coming up once is not flapping, nor is going down.
            if ups[broker, neighbour] >= FLAP_UPS
        ],
        "queues": [
            {
                "broker": str(link.sender),
                "neighbour": str(link.receiver),
                "queue": link.queue,
                "load": round(link.load, 3),
                "overloaded": link.overloaded,
                "up": link.up,
            }
            for link in queues[:LIST_MAX]
            if link.queue or link.overloaded
        ],
        "brokers_down": [
            {"broker": str(broker.broker), "status": broker.status, "reason": broker.reason}
            for broker in (view.brokers.values() if view else ())
            if broker.status != "ok"
        ],
    }
