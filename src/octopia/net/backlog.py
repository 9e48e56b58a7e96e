"""What a read brought and was not dealt with yet, because it is more than one turn of the loop should take.

Rules of this file: messages leave in the order in which they came. `numbered` says how many frames of the session they
are, since only what was dealt with may be confirmed.
"""

from collections import deque
from typing import Any

from octopia.net.outbox import Source
from octopia.wire import Ack, Challenge, Drain, Drained, Goodbye, Hello, Hold, Parcels, Ping, Pong, Proof, Welcome

_NOT_NUMBERED = frozenset({Hello, Welcome, Challenge, Proof, Goodbye, Ack, Ping, Pong, Hold, Drain, Drained})


class Backlog:
    """Messages of a read that are dealt with later, in their order."""

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
        """The channel is gone, and with it what it has not dealt with: that was not confirmed."""


def _frames_of(message: Any) -> int:
    """How many numbered frames a message was."""
    if type(message) is Parcels:
        return len(message)
    return 0 if type(message) in _NOT_NUMBERED else 1
