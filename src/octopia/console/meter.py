"""Delivery delays: the console's own test clients send each other one notification a second and measure the delays.

Brokers do not measure delays. A station is an ordinary client at a broker; its notifications go through the same queues
as all others, and no other client gets them unless it subscribes to everything. Stations are spread over the overlay,
at most `STATIONS_MAX` of them, so the cost does not grow with it. Without the necessary rights, or with `--no-delays`,
there are no delays, and `reason` says why.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from octopia.errors import OctopiaError
from octopia.language import Value
from octopia.net import Client, Subscription
from octopia.topology import BrokerId, Scot

# The attribute that marks notifications of stations.
MARK: Final = "octopia_console"
STATIONS_MAX: Final = 12
EVERY_S: Final = 1.0
# Percentiles cover arrivals within this time.
WINDOW_S: Final = 5.0
# Maximum number of samples kept.
SAMPLES_MAX: Final = 2_000
_RETRY_S: Final = 5.0
_STOP_S: Final = 2.0


def stations(scot: Scot) -> list[BrokerId]:
    """Brokers spread over all clusters and regions."""
    brokers = scot.brokers
    if len(brokers) <= STATIONS_MAX:
        return list(brokers)
    # A step that is not a multiple of the number of regions visits different regions.
    return [brokers[place * len(brokers) // STATIONS_MAX] for place in range(STATIONS_MAX)]


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))]


class Meter:
    """Delays between stations."""

    def __init__(self, places: Sequence[BrokerId], connect: Callable[[BrokerId], Client]) -> None:
        self._places = places
        self._connect = connect
        self._run = secrets.token_hex(6)
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self.reason = "no delay has been measured yet"

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._station(number)) for number in range(len(self._places))]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)

    def numbers(self) -> dict[str, float]:
        """Percentiles over the last seconds; nothing if no delays were measured."""
        now = time.monotonic()
        while self._samples and now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        delays = sorted(delay for _, delay in self._samples)
        if not delays:
            return {}
        self.reason = ""
        return {
            "delay_p50": round(percentile(delays, 0.5), 6),
            "delay_p90": round(percentile(delays, 0.9), 6),
            "delay_p99": round(percentile(delays, 0.99), 6),
        }

    async def _station(self, number: int) -> None:
        while True:
            client = self._connect(self._places[number])
            try:
                await client.open()
                await self._work(client, number)
            except OctopiaError as error:
                self.reason = f"delays are not measured: {error}"
            finally:
                # A beat that was not delivered is not a loss.
                with suppress(OctopiaError):
                    await client.close(0)
            await asyncio.sleep(_RETRY_S)

    async def _work(self, client: Client, number: int) -> None:
        mine = f"{MARK} = '{self._run}'"
        await client.advertise(f"{mine} and station >= 0 and sent >= 0")
        async with client.subscribe(mine, inbox_max=1000) as subscription:
            reading = asyncio.create_task(self._read(subscription, number))
            try:
                # Not all at the same moment.
                await asyncio.sleep(EVERY_S * number / len(self._places))
                while not reading.done():
                    beat: dict[str, Value] = {MARK: self._run, "station": number, "sent": time.monotonic()}
                    await client.publish(beat)
                    await asyncio.sleep(EVERY_S)
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def _read(self, subscription: Subscription, number: int) -> None:
        async for beat in subscription:
            if beat["station"] != number:
                now = time.monotonic()
                self._samples.append((now, max(0.0, now - float(beat["sent"]))))
