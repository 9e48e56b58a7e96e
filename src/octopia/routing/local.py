"""Delivery to the clients of a broker: the last step of every routing."""

from collections.abc import Sequence

from octopia.language import Notification
from octopia.routing.actions import Action, Deliver
from octopia.routing.tables import PrtEntry


def deliver(
    matching: Sequence[PrtEntry], publisher: str, id: str, notification: Notification, out: list[Action]
) -> None:
    """One delivery per client, with all its matching subscriptions; both in order of subscription."""
    if not matching:
        return
    by_client: dict[str, list[str]] = {}
    for entry in sorted(matching, key=_serial):
        by_client.setdefault(entry.client, []).append(entry.id)
    out.extend(Deliver(client, publisher, id, notification, tuple(ids)) for client, ids in by_client.items())


def _serial(entry: PrtEntry) -> int:
    return entry.key.serial
