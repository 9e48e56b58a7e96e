"""Questions of a client about advertisements, beside its session: they do not outlive the connection."""

import asyncio
from typing import TYPE_CHECKING

from octopia.language import Filter
from octopia.wire import Counted, count_frame

if TYPE_CHECKING:
    from octopia.net.channel import Channel


class Questions:
    """The unanswered questions of one client. Each is answered, or ends as unknown with the connection."""

    def __init__(self) -> None:
        self._channel: Channel | None = None  # None also if the broker does not know such questions
        self._number = 0
        self._asked: dict[int, asyncio.Future[int | None]] = {}

    async def overlapping(self, filter: Filter) -> int | None:
        """The number of advertisements that overlap a filter; None: unknown."""
        if self._channel is None:
            return None
        self._number += 1
        answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._asked[self._number] = answer
        self._channel.write_beside(count_frame(self._number, filter))
        return await answer

    def answered(self, counted: Counted) -> None:
        answer = self._asked.pop(counted.number, None)
        if answer is not None and not answer.done():
            answer.set_result(counted.count if counted.complete or counted.count else None)

    def connected(self, channel: "Channel", *, counts: bool) -> None:
        """A broker accepted us; `counts`: it answers such questions."""
        self._end()
        self._channel = channel if counts else None

    def lost(self, channel: "Channel") -> None:
        """This connection is gone."""
        if channel is self._channel:
            self._channel = None
            self._end()

    def _end(self) -> None:
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_result(None)
