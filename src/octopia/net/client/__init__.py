"""Clients of a live overlay.

    client.py         what a program calls            sync.py      the same for code without asyncio
    connecting.py     which broker, dialling, dialling again
    session.py        what a connection carries: the handshake, what one read brought
    journal.py        everything asked and published, in order, until the broker has confirmed it
    registry.py       advertisements and subscriptions, and registering them anew
    publishing.py     from a dict to an entry of the journal
    subscription.py   an inbox as an iterator         life.py      open, failed, closed
    durable.py        sessions and ids that outlive the process
    bench.py          load for `octopia bench`

A client is made of these parts; each changes its own fields only.
"""

from octopia.net.client.bench import BenchPlan, BenchResult, bench
from octopia.net.client.client import Client, connect
from octopia.net.client.connecting import parse_urls
from octopia.net.client.durable import KeptClient, KeptSession, NumberedClient
from octopia.net.client.subscription import Subscription
from octopia.net.client.sync import SyncClient, SyncSubscription, connect_sync

__all__ = [
    "BenchPlan",
    "BenchResult",
    "Client",
    "KeptClient",
    "KeptSession",
    "NumberedClient",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "bench",
    "connect",
    "connect_sync",
    "parse_urls",
]
