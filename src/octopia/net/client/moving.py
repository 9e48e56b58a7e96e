"""When a client moves away from a live broker: when the broker asks it to, because it is overloaded.

Clients must neither all move at once nor move back and forth. A broker asks only a share of its clients at a time. A
client that is asked waits for a random time, then probes the brokers it knows (`nearest.py`) and moves to the nearest
that is not overloaded; if there is none, it stays. It tries at most `TRIES_MAX` brokers and, moved or not, does not
try again for `MOVE_EVERY_S`. A move loses and duplicates nothing (`overlap.py`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from octopia.errors import OctopiaError
from octopia.net.addresses import Url
from octopia.net.client.overlap import Move

JITTER_S = 2.0
MOVE_EVERY_S = 60.0
TRIES_MAX = 3
_draws = random.Random()  # noqa: S311  not a secret: spreads the moves


class Moving:
    """The moves of one client, one at a time."""

    def __init__(
        self,
        candidates: Callable[[], Awaitable[list[Url]]],
        start: Callable[[Url], Move | None],
        committed: Callable[[Move], None],
    ) -> None:
        """`candidates` finds better brokers, best first; `start` begins a move; `committed` is called after one."""
        self._candidates = candidates
        self._start = start
        self._committed = committed
        self._move: Move | None = None
        self._task: asyncio.Task[None] | None = None
        self._looked_s: float | None = None

    def asked(self) -> None:
        """The broker asks the client to move."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._task is None and (self._looked_s is None or now - self._looked_s >= MOVE_EVERY_S):
            self._looked_s = now
            self._task = loop.create_task(self._go())

    async def _go(self) -> None:
        try:
            await asyncio.sleep(JITTER_S * _draws.random())
            for url in (await self._candidates())[:TRIES_MAX]:
                if await self._go_to(url):
                    return
        finally:
            self._task = None

    async def _go_to(self, url: Url) -> bool:
        move = self._start(url)
        if move is None:
            return True  # not now
        self._move = move
        try:
            await move.register()
            if not await move.quieten():
                return False
            move.commit()
            self._committed(move)
            await move.finish()
        except OctopiaError:
            return move.is_committed
        finally:
            move.end()
            self._move = None
        return True

    def old_lost(self) -> None:
        """The session's connection is gone: an uncommitted move is abandoned."""
        if self._move is not None and not self._move.is_committed:
            self._move.end()

    def left(self, url: Url) -> None:
        """Called before dialling this broker: if it is the one being left, leave it at once."""
        if self._move is not None and self._move.is_committed and self._move.old_url == url:
            self._move.end()

    async def stop(self) -> None:
        """The client is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
