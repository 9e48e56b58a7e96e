"""One watcher for all pages: it polls once a second, and every connected page gets the same bytes.

A page that has just connected, or missed an update because it is slow, gets everything; others get changes. So nothing
waits for a page, and a hundred of them cost the brokers as much as one. The hub polls even without pages, to record the
hour of history.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from octopia.console.overlay_json import StateRows, plan_json
from octopia.errors import OctopiaError
from octopia.watch import OverlayView, Watched, Watcher

_log: Final = logging.getLogger("octopia.console")
# So that a proxy does not mistake a quiet stream for a dead one.
KEEP_ALIVE_S: Final = 15.0


def event(kind: str, content: Any) -> bytes:
    """One server-sent event. The JSON contains no line breaks."""
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


class Hub:
    """The state of the overlay, and the connected pages."""

    def __init__(
        self,
        watched: Watched,
        every_s: float,
        facts: Callable[[], dict[str, Any]],
        numbers: Callable[[], dict[str, float]] = dict,
    ) -> None:
        """`facts` belong to the plan of the overlay; `numbers` are further series with a history."""
        self.watcher = Watcher(watched, every_s)
        self._facts = facts
        self._numbers = numbers
        self._rows = StateRows(watched.scot)
        self._plan = b""
        self._delta = b""
        self._version = 0
        self._plan_version = 0
        self._extra: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.followers = 0
        self.looks = 0  # that were finished

    @property
    def watched(self) -> Watched:
        return self.watcher.watched

    @property
    def view(self) -> OverlayView | None:
        return self.watcher.view

    def start(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def watch(self, watched: Watched) -> None:
        """The same brokers now run another overlay, for example with another routing. History continues."""
        before = self.watcher
        self.watcher = Watcher(watched, before.every_s)
        self.watcher.history, self.watcher.events = before.history, before.events
        self.show_plan()

    def show_plan(self) -> None:
        """Send pages the shape of the overlay, before or after anything is known about its state."""
        self._plan = event("overlay", plan_json(self.watched, **self._facts()))
        self._plan_version += 1
        self._wake()

    def tell(self, kind: str, content: Any) -> None:
        """Send pages something else now, and new pages when they connect."""
        self._extra[kind] = event(kind, content)
        self._plan_version += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            watcher = self.watcher
            try:
                view = await watcher.look()
            except OctopiaError as error:
                _log.warning("cannot look: %s", error)
            else:
                if watcher is self.watcher:
                    self._take(view)
            due_s = max(due_s + watcher.every_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    def _take(self, view: OverlayView) -> None:
        numbers = self._numbers()
        if numbers:
            self.watcher.history.add(view.time_s, numbers)
        changed = self._rows.take(view, **numbers)
        self._delta = event("delta", changed) if self.followers else b""
        self._version += 1
        self.looks += 1
        self._wake()

    async def follow(self) -> AsyncIterator[bytes]:
        """The stream of one page."""
        self.followers += 1
        try:
            seen = plan_seen = -1
            while True:
                changed = self._changed
                if plan_seen != self._plan_version:
                    plan_seen = self._plan_version
                    yield self._plan
                    for told in self._extra.values():
                        yield told
                if seen != self._version and self._version:
                    follows = seen == self._version - 1 and self._delta
                    seen = self._version
                    yield self._delta if follows else event("full", self._rows.whole())
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await changed.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.followers -= 1
