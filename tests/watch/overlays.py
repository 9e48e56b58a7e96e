"""Overlays with HTTP ports on loopback, for tests of what watches them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from octopia.net import Address, Client, NetLimits, OverlayIdentity, Server, connect
from octopia.routing import DEFAULT_ROUTING
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.watch import Place, Watched
from tests.net.processes import own_host


@asynccontextmanager
async def watched_overlay(
    tree: str = "path:2", clusters: int = 2, **options: Any
) -> AsyncIterator[tuple[Server, Watched]]:
    """All brokers of an overlay in this process, and how to watch them."""
    scot = Scot(parse_tree(tree), clusters)
    options.setdefault("net_limits", NetLimits(drain_s=0.1))
    anywhere = dict.fromkeys(scot.brokers, Address(own_host(), 0))
    async with Server(scot, anywhere, http=anywhere, name="test", **options) as server:
        await server.links_up()
        places = {b: Place(f"octopia://{server.addresses[b]}", f"http://{server.http[b]}") for b in scot.brokers}
        routing = options.get("routing", DEFAULT_ROUTING)
        digest = OverlayIdentity("test", scot, routing).digest
        yield server, Watched("test", scot, routing, digest, places, options.get("http_token", ""))


@asynccontextmanager
async def clients(watched: Watched, **named: str) -> AsyncIterator[list[Client]]:
    """Clients by name at these brokers."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(url(watched, at), name=name)) for name, at in named.items()]


def url(watched: Watched, broker: str) -> str:
    """Where clients of a broker connect."""
    return watched.places[BrokerId.parse(broker)].url
