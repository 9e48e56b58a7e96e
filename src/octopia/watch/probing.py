"""Send a probe or a traced notification, and read its path from the brokers."""

import asyncio

from octopia.errors import RefusedError
from octopia.language import Filter, Notification, NotificationLike, Operator, Predicate, parse_notification
from octopia.net import Client
from octopia.watch.path import Path, path_of
from octopia.watch.reader import Reader

# How long to wait for copies that have not arrived, at least for links that are up; and the time between checks.
WITHIN_S = 2.0
LOOK_S = 0.02


async def probe(
    client: Client,
    reader: Reader,
    notification: NotificationLike,
    *,
    publisher: str | None = None,
    within_s: float = WITHIN_S,
) -> Path:
    """The path that a notification of this client, or of `publisher`, would take from this client's broker.

    The client must have advertised it (`advertise_exactly`). If it would be refused, the path has no hops and gives the
    reason.
    """
    seen = parse_notification(notification)
    try:
        number = await client.probe(seen, publisher=publisher)
    except RefusedError as error:
        return Path(publisher or client.name, 0, client.broker, True, str(error), seen.to_dict())
    return await follow(reader, publisher or client.name, number, within_s)


async def advertise_exactly(client: Client, notification: NotificationLike) -> str:
    """Advertise just this one notification: a client may do so if it may publish it, however narrow its rights.

    Returns the id of the advertisement.
    """
    seen: Notification = parse_notification(notification)
    return await client.advertise(Filter.of(*(Predicate(name, Operator.EQ, value) for name, value in seen.items())))


async def follow(reader: Reader, publisher: str, sequence: int, within_s: float = WITHIN_S) -> Path:
    """The path of a traced notification: as soon as all copies have arrived, or as far as known after `within_s`."""
    loop = asyncio.get_running_loop()
    until_s, pause_s = loop.time() + within_s, LOOK_S
    while True:
        path = path_of(publisher, sequence, await reader.traces(publisher, sequence))
        waits = not path.broker or any(hop.up for hop in path.under_way)
        if not waits or loop.time() >= until_s:
            return path
        await asyncio.sleep(pause_s)
        pause_s *= 1.5
