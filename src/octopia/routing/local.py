"""Delivery to the clients of a broker: the last step of every routing."""

from collections.abc import Iterable

from octopia.routing.actions import Recipient
from octopia.routing.entries import PrtEntry


def recipients_of(local: Iterable[PrtEntry]) -> tuple[Recipient, ...]:
    """One recipient per client, with all its matching subscriptions; both in order of subscription."""
    by_client: dict[str, list[str]] = {}
    for entry in sorted(local, key=_serial):
        by_client.setdefault(entry.client, []).append(entry.id)
    return tuple(Recipient(client, tuple(ids)) for client, ids in by_client.items())


def _serial(entry: PrtEntry) -> int:
    return entry.key.serial
