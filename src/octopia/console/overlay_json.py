"""The overlay and its state as JSON for the page: the plan once, rows of numbers every second.

A row is a list, so that 700 brokers with thousands of links stay small, and only rows that changed are sent. The
columns are named in `page/store.js`. Rates are rounded to three digits: nobody sees more, and fewer rows change.
"""

import math
from typing import Any, Final

from octopia.drawing import overlay_map
from octopia.topology import BrokerId, Scot
from octopia.watch import BrokerView, LinkView, OverlayView, Totals, Watched

STATUSES: Final = ("ok", "down", "stopping", "wrong", "unknown")
UP, CONNECTED, OVERLOADED, AVOIDED = 1, 2, 4, 8

Row = list[Any]
_UNKNOWN: Final[Row] = [STATUSES.index("unknown"), 0, 0, 0, 0, 0, 0, 0, 0, "", 0, 0]
_NO_LINK: Final[Row] = [0, 0, 0, 0]


def plan_json(watched: Watched, **more: Any) -> dict[str, Any]:
    """Where everything is, and what does not change."""
    plan = overlay_map(watched.scot)
    return {
        "name": watched.name,
        "routing": watched.routing,
        "clusters": watched.scot.clusters,
        "width": plan.width,
        "height": plan.height,
        "brokers": [
            {"id": str(broker), "region": broker.region, "cluster": broker.cluster, "x": x, "y": y}
            for broker, (x, y) in plan.brokers
        ],
        "bands": [
            {"cluster": band.cluster, "top": band.top, "bottom": band.bottom, "colour": band.colour}
            for band in plan.bands
        ],
        "columns": [{"region": region, "x": x} for region, x in plan.columns],
        "links": [[link.source, link.target, link.kind, link.line] for link in plan.links],
        **more,
    }


class StateRows:
    """From views to rows, and to what changed since the last."""

    def __init__(self, scot: Scot) -> None:
        self._brokers = {broker: place for place, broker in enumerate(scot.brokers)}
        self._links: dict[tuple[BrokerId, BrokerId], int] = {}
        for place, (one, other) in enumerate(scot.links):
            # the direction of the plan's line, then the other
            self._links[one, other] = 2 * place
            self._links[other, one] = 2 * place + 1
        self.brokers: list[Row] = [_UNKNOWN] * len(self._brokers)
        self.links: list[Row] = [_NO_LINK] * len(self._links)
        self.totals: dict[str, Any] = {}
        self.time_s = 0.0

    def take(self, view: OverlayView, **more: Any) -> dict[str, Any]:
        """Take in a view; what changed."""
        brokers, links = {}, {}
        for broker, seen in view.brokers.items():
            place, row = self._brokers[broker], _broker_row(seen)
            if self.brokers[place] != row:
                self.brokers[place] = brokers[place] = row
        rows = {(link.sender, link.receiver): _link_row(link) for link in view.links()}
        for ends, place in self._links.items():
            row = rows.get(ends, _NO_LINK)
            if self.links[place] != row:
                self.links[place] = links[place] = row
        self.totals = _totals_json(view.totals) | more
        self.time_s = round(view.time_s, 3)
        return {"time": self.time_s, "totals": self.totals, "brokers": brokers, "links": links}

    def whole(self) -> dict[str, Any]:
        """Everything, for a page that has nothing yet."""
        return {"time": self.time_s, "totals": self.totals, "brokers": self.brokers, "links": self.links}


def _broker_row(broker: BrokerView) -> Row:
    return [
        STATUSES.index(broker.status) if broker.status in STATUSES else STATUSES.index("unknown"),
        rounded(broker.published_rate),
        rounded(broker.delivered_rate),
        broker.clients,
        broker.subscriptions,
        broker.advertisements,
        broker.queue,
        None if broker.cpu is None else round(broker.cpu, 2),
        # in MiB, so that it does not change with every look
        round(broker.memory_bytes / 2**20),
        broker.reason or broker.overloaded,
        rounded(broker.dropped_rate),
        broker.client_queue,
    ]


def _link_row(link: LinkView) -> Row:
    flags = UP * link.up | CONNECTED * link.connected | OVERLOADED * link.overloaded | AVOIDED * link.avoided
    return [rounded(link.rate), link.queue, rounded(link.load), flags]


def _totals_json(totals: Totals) -> dict[str, Any]:
    return {
        "brokers": totals.brokers,
        "up": totals.up,
        "clients": totals.clients,
        "subscriptions": totals.subscriptions,
        "queue": totals.queue,
        "client_queue": totals.client_queue,
        "published": rounded(totals.published_rate),
        "delivered": rounded(totals.delivered_rate),
        "sent": rounded(totals.sent_rate),
        "dropped": rounded(totals.dropped_rate),
        "refused": rounded(totals.refused_rate),
        "links": totals.links,
        "links_up": totals.links_up,
        "overloaded": totals.links_overloaded,
    }


def rounded(value: float | None) -> float | None:
    """Round to three significant digits, without a fraction if there are three before the point."""
    if value is None or not math.isfinite(value):
        return None
    if value >= 100:
        digits = max(0, int(math.log10(value)) - 2)
        return float(round(value / 10**digits) * 10**digits)
    return round(value, 2 if value < 10 else 1)
