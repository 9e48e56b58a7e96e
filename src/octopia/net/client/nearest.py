"""Find the nearest of several brokers by measuring the round trip of a probe.

The probe is a HELLO with the role `probe`: the broker answers with its load and no session begins, so it costs next to
nothing. A round trip is the time from probe to answer, without the time to connect; a busy broker answers late and
counts as far. All brokers are probed at once, for at most `PROBE_S`; those that do not answer in time or are stopping
come last. Brokers about as near as the nearest are shuffled, so that many clients at one place do not all choose the
same broker.
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from octopia.net.addresses import Url
from octopia.net.channel import Channel
from octopia.wire import ROLE_PROBE, VERSION, Codec, Connection, Goodbye, Hello, Load, Side, WireLimits

PROBE_S = 1.0
# Up to this factor of the shortest round trip, plus this much, counts as equally near.
NEAR_FACTOR = 1.5
NEAR_S = 0.001
# The answer of a broker that does not know probes: it is there, and that is all we know.
_REFUSED = "refused"
_CODEC = Codec(WireLimits())
_draws = random.Random()  # noqa: S311  not a secret: spreads the choices


class Measured(NamedTuple):
    """A broker's answer to a probe."""

    round_trip_s: float
    overloaded: bool = False


Measure = Callable[[Sequence[Url], ssl.SSLContext | None], Awaitable[Mapping[Url, Measured]]]


def in_order(urls: Sequence[Url], measured: Mapping[Url, Measured], draws: random.Random | None = None) -> list[Url]:
    """The urls, nearest first; overloaded brokers after the others, those that did not answer last."""
    answered = sorted((url for url in urls if url in measured), key=lambda url: measured[url].round_trip_s)
    free = [url for url in answered if not measured[url].overloaded]
    crowded = [url for url in answered if measured[url].overloaded]
    silent = [url for url in urls if url not in measured]
    draws = draws or _draws
    return [*_shuffled(free, measured, draws), *_shuffled(crowded, measured, draws), *silent]


def _shuffled(urls: list[Url], measured: Mapping[Url, Measured], draws: random.Random) -> list[Url]:
    if not urls:
        return []
    far_s = NEAR_FACTOR * measured[urls[0]].round_trip_s + NEAR_S
    near = [url for url in urls if measured[url].round_trip_s <= far_s]
    draws.shuffle(near)
    return [*near, *urls[len(near) :]]


async def measure(urls: Sequence[Url], tls: ssl.SSLContext | None) -> Mapping[Url, Measured]:
    """Probe all of these at once; returns those that answered in time and accept clients."""
    found = await asyncio.gather(*(_ask(url, tls) for url in urls))
    return {url: answer for url, answer in zip(urls, found, strict=True) if answer is not None}


async def dial(channel: Channel, url: Url, tls: ssl.SSLContext | None) -> None:
    """Connect a channel."""
    options: dict[str, Any] = {}
    if url.tls:
        options = {"ssl": tls or ssl.create_default_context(), "server_hostname": url.address.host}
    await asyncio.get_running_loop().create_connection(lambda: channel, url.address.host, url.address.port, **options)


async def _ask(url: Url, tls: ssl.SSLContext | None) -> Measured | None:
    probe = _Probe()
    try:
        async with asyncio.timeout(PROBE_S):
            await dial(probe.channel, url, tls)
            return await probe.answer
    except (TimeoutError, OSError):
        return None
    finally:
        probe.channel.abort()


class _Probe:
    """The `End` of a connection that sends one probe."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Measured | None] = loop.create_future()
        self.channel = Channel(Connection(Side.CLIENT, _CODEC), self, loop, tells_faults=False)
        self._time = loop.time
        self._asked_s = 0.0

    def made(self, channel: Channel) -> None:
        self._asked_s = self._time()
        channel.say(Hello([VERSION], ROLE_PROBE))

    def greet(self, channel: Channel, message: Any) -> None:
        round_trip_s = self._time() - self._asked_s
        if isinstance(message, Load):
            self._answered(Measured(round_trip_s, message.overloaded))
        else:
            known = isinstance(message, Goodbye) and message.code == _REFUSED
            self._answered(Measured(round_trip_s) if known else None)

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self._answered(None)

    def gone(self, channel: Channel, reason: str) -> None:
        self._answered(None)

    def _answered(self, answer: Measured | None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
