"""Messages of one read that are handled later, because they are too many for one iteration of the event loop.

Messages leave in order of arrival. `numbered` counts the session's frames among them, since only handled frames may be
confirmed.
"""

from collections import deque
from typing import Any

from octopia.net.outbox import Source
from octopia.wire import (
    Ack,
    Challenge,
    Counted,
    CountRequest,
    Drain,
    Drained,
    Goodbye,
    Haul,
    Hello,
    Hold,
    Parcels,
    Ping,
    Pong,
    Proof,
    Welcome,
)

_NOT_NUMBERED = frozenset(
    {Hello, Welcome, Challenge, Proof, Goodbye, Ack, Ping, Pong, Hold, Drain, Drained, CountRequest, Counted}
)


class Backlog:
    """Messages of a read that are handled later, in order."""

    __slots__ = ("_messages", "numbered")

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self.numbered = 0  # frames among them

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, messages: list[Any]) -> None:
        self._messages.extend(messages)
        self.numbered += sum(map(_frames_of, messages))

    def take(self, count: int) -> list[Any]:
        some = [self._messages.popleft() for _ in range(min(count, len(self._messages)))]
        self.numbered -= sum(map(_frames_of, some))
        return some

    def forget(self, source: Source) -> None:
        """The channel is gone, and with it its unhandled messages, which were not confirmed."""


def _frames_of(message: Any) -> int:
    """The number of numbered frames in a message."""
    if type(message) is Parcels or type(message) is Haul:
        return len(message)
    return 0 if type(message) in _NOT_NUMBERED else 1
