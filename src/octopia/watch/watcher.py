"""A watcher: polls all brokers and keeps a bounded history.

Each poll asks every broker for its `/state`, and brokers with new events for those. The last view, an hour of history
and the last `EVENTS_MAX` events are kept.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from octopia.topology import BrokerId
from octopia.watch.history import History
from octopia.watch.overlays import Watched
from octopia.watch.reader import Reader
from octopia.watch.view import OverlayView, overlay_view, series_count, series_of

EVENTS_MAX = 5_000


class Watcher:
    """Of one overlay."""

    def __init__(self, watched: Watched, every_s: float = 1.0, *, clock: Callable[[], float] = time.time) -> None:
        self.reader = Reader(watched)
        self.watched = watched
        self.every_s = every_s
        self._clock = clock
        scot = watched.scot
        links = sum(len(scot.neighbours(broker)) for broker in scot.brokers)
        self.history = History(every_s, series_count(len(scot.brokers), links))
        self.view: OverlayView | None = None
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._before: dict[BrokerId, Any] = {}
        self._read: dict[BrokerId, tuple[float, int]] = {}  # by broker: its life, and its last event that was read

    async def look(self) -> OverlayView:
        """Poll all brokers now."""
        answers = await self.reader.states()
        time_s = self._clock()
        view = overlay_view(time_s, answers, self._before)
        # one that did not answer is compared with its last answer
        self._before.update({broker: answer for broker, answer in answers.items() if isinstance(answer, dict)})
        self.history.add(time_s, series_of(view))
        self.view = view
        await self._read_events(answers)
        return view

    async def _read_events(self, answers: dict[BrokerId, Any]) -> None:
        since: dict[BrokerId, int] = {}
        for broker, answer in answers.items():
            if isinstance(answer, dict) and "events_last" in answer:
                life, read = self._read.get(broker, (0.0, 0))
                if life != answer["started_s"]:
                    read = 0
                    self._read[broker] = (answer["started_s"], 0)
                if answer["events_last"] > read:
                    since[broker] = read
        if not since:
            return
        fresh: list[dict[str, Any]] = []
        for broker, answer in (await self.reader.events(since)).items():
            if isinstance(answer, dict):
                self._read[broker] = (self._read[broker][0], answer["last"])
                fresh += [{"broker": str(broker), **event} for event in answer["events"]]
        self.events.extend(sorted(fresh, key=lambda event: (event["time_s"], event["broker"], event["sequence"])))

    async def views(self) -> AsyncIterator[OverlayView]:
        """A view every `every_s`, as long as it is wanted."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            yield await self.look()
            # missed polls are not made up for
            due_s = max(due_s + self.every_s, loop.time())
            await asyncio.sleep(due_s - loop.time())
