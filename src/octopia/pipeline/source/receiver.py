"""The client of a streaming read: a thread that moves notifications from the broker into the spool.

It runs in the process that Spark keeps for the source, from the first request to the end of the query, whatever the
query does meanwhile. An error in it is raised by the next `check`.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from octopia.errors import OctopiaError
from octopia.net import KeptClient
from octopia.pipeline.source.options import ReadOptions
from octopia.pipeline.source.spool import Spool

_T = TypeVar("_T")
_JOIN_S: Final = 5.0


class Receiver:
    """A running client with its spool."""

    def __init__(self, options: ReadOptions, spool: Spool) -> None:
        self.spool = spool
        self._durable = options.spool is not None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="octopia stream", daemon=True)
        self._client = KeptClient(
            options.connect.url,
            options.filter,
            spool,
            session=spool.session,
            policy=options.policy,
            ordered=options.ordered,
            name=options.connect.name,
            session_s=options.session_s,
            **options.connect.client(),
        )

    def start(self) -> None:
        """Connect and subscribe, or resume the session; on return, the subscription is in force."""
        self._thread.start()
        self.spool.when_room = self._resume
        try:
            self._wait(self._client.open())
        except BaseException:
            self._end()
            raise

    def check(self) -> None:
        """Raise the error that occurred since, if any."""
        if self._client.failure is not None:
            raise OctopiaError(str(self._client.failure))

    def catch_up(self) -> None:
        """Block until everything that waits at the broker is in the spool, or the spool is full."""

        async def either() -> None:
            asking = asyncio.ensure_future(self._client.caught_up())
            while not self.spool.is_full:
                done, _ = await asyncio.wait([asking], timeout=0.05)
                if done:
                    break
            asking.cancel()

        self._wait(either())

    def stop(self) -> None:
        """Leave. The session stays at the broker if it can be resumed."""
        try:
            self._wait(self._client.leave() if self._durable else self._client.close())
        finally:
            self._end()

    def _resume(self) -> None:
        self._loop.call_soon_threadsafe(self._client.resume)

    def _end(self) -> None:
        self.spool.when_room = lambda: None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
