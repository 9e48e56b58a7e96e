"""Clients of a live overlay.

    client.py         the public API                  sync.py      the same for code without asyncio
    connecting.py     choosing a broker, dialling, reconnecting
    nearest.py        finding the nearest of several brokers by measurement
    moving.py         when to move to another broker           overlap.py   how to move without loss or duplicates
    session.py        the handshake, and the messages of one read
    journal.py        requests and publications, in order, until the broker has confirmed them
    registry.py       advertisements and subscriptions, and registering them again
    publishing.py     from a dict to an entry of the journal
    subscription.py   an inbox as an iterator         life.py      open, failed, closed
    durable.py        sessions that outlive the process
    bench_load.py     load for `octopia bench`

A client is composed of these parts; each changes only its own fields.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.net.client.bench_load import BenchPlan, BenchResult, bench
    from octopia.net.client.client import Client, connect
    from octopia.net.client.connecting import parse_urls
    from octopia.net.client.durable import KeptClient, KeptSession
    from octopia.net.client.subscription import Subscription
    from octopia.net.client.sync import SyncClient, SyncSubscription, connect_sync

__all__ = [
    "BenchPlan",
    "BenchResult",
    "Client",
    "KeptClient",
    "KeptSession",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "bench",
    "connect",
    "connect_sync",
    "parse_urls",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.net.client.bench_load": "BenchPlan BenchResult bench",
        "octopia.net.client.client": "Client connect",
        "octopia.net.client.connecting": "parse_urls",
        "octopia.net.client.durable": "KeptClient KeptSession",
        "octopia.net.client.subscription": "Subscription",
        "octopia.net.client.sync": "SyncClient SyncSubscription connect_sync",
    },
)
