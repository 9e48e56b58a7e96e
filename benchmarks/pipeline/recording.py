"""What recording costs: CPU time of brokers and clients in one process, with no recording, a share of it, and all.

Two brokers, a publisher at one and a subscriber at the other. The clients are counted, too, so for the brokers alone
the ratio is larger.
"""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import octopia
from benchmarks.pipeline.streams import own_host
from octopia.net import Address, RecordOptions, Server
from octopia.topology import BrokerId, Scot, parse_tree

SHARES: Final = (0.0, 0.01, 0.1, 1.0)
ROUNDS: Final = 3


def measure_recording(rows: int) -> list[dict[str, Any]]:
    """The best of some rounds for each share; rounds of all shares take turns."""
    found: dict[float, list[tuple[float, int]]] = {share: [] for share in SHARES}
    for _ in range(ROUNDS):
        for share in SHARES:
            found[share].append(asyncio.run(_cpu_s(rows, share)))
    plain = min(found[0.0])[0]
    return [
        {
            "share": share,
            "cpu_us": min(took)[0] / rows * 1e6,
            "ratio": min(took)[0] / plain,
            "bytes_per_row": min(took)[1] / rows,
        }
        for share, took in found.items()
    ]


async def _cpu_s(rows: int, share: float) -> tuple[float, int]:
    with TemporaryDirectory(prefix="octopia-recording-") as name:
        record = RecordOptions(Path(name), share) if share else None
        scot = Scot(parse_tree("path:2"), 1)
        server = Server(scot, dict.fromkeys(scot.brokers, Address(own_host(), 0)), record=record)
        async with server:
            await server.links_up()
            one, other = (f"octopia://{server.addresses[BrokerId(region, 0)]}" for region in "ab")
            async with (
                octopia.connect(other) as subscriber,
                subscriber.subscribe("n >= 0") as taken,
                octopia.connect(one) as publisher,
            ):
                await publisher.advertise("n >= 0 and text is not null")
                begin = time.process_time()
                # a subscriber that does not read holds up the publisher
                publishing = asyncio.ensure_future(
                    publisher.publish_many({"n": n, "text": "x" * 20} for n in range(rows))
                )
                came = 0
                while came < rows:
                    came += len(await taken.next_batch())
                await publishing
                cpu = time.process_time() - begin
            begin = time.process_time()
        cpu += time.process_time() - begin
        return cpu, sum(path.stat().st_size for path in Path(name).rglob("*.parquet"))
