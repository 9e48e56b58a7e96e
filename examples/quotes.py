"""A feed and two readers: nine brokers in this process, and clients as they would be in programs of their own.

python examples/quotes.py
"""

import asyncio
import sys

import octopia
from octopia.net import Address, Server
from octopia.topology import BrokerId, Scot, parse_tree

QUOTES: list[dict[str, str | int | float | bool]] = [
    {"symbol": "AAPL", "price": 120.5, "volume": 4_000},
    {"symbol": "MSFT", "price": 88.0, "volume": 9_000},
    {"symbol": "AAPL", "price": 99.5, "volume": 100},
    {"symbol": "IBM", "price": 130.0, "volume": 7_500},
]


async def read(url: str, condition: str, count: int, ready: asyncio.Event) -> list[str]:
    """The symbols of the next `count` matching quotes."""
    async with octopia.connect(url) as client, client.subscribe(condition) as quotes:
        ready.set()  # in force in the whole overlay: nothing that is published from now on is missed
        found = []
        async for quote in quotes:
            found.append(f"{quote['symbol']} at {quote['price']}")
            if len(found) == count:
                return found
    return found


async def main() -> None:
    overlay = Scot(parse_tree("path:3"), 3)
    async with Server(overlay, dict.fromkeys(overlay.brokers, Address("127.0.0.1", 0))) as server:
        urls = {broker: f"octopia://{address}" for broker, address in server.addresses.items()}
        dear, busy = asyncio.Event(), asyncio.Event()
        readers = [
            asyncio.create_task(read(urls[BrokerId("c", 0)], "price > 100", 2, dear)),
            asyncio.create_task(read(urls[BrokerId("a", 1)], "volume >= 5000 and symbol <> 'IBM'", 1, busy)),
        ]
        await dear.wait()
        await busy.wait()
        async with octopia.connect(urls[BrokerId("b", 2)], name="feed") as feed:
            await feed.advertise("symbol is not null and price > 0 and volume >= 0")
            await feed.publish_many(QUOTES)
            for found in await asyncio.gather(*readers):
                sys.stdout.write(f"{', '.join(found)}\n")


if __name__ == "__main__":
    asyncio.run(main())
