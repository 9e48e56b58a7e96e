"""Clients that wait until what they published has arrived at the host brokers of all subscribers.

A routing with streams knows that: the publishers' host broker asks the destinations to confirm. The client is told when
all have, or when the others could not be reached for long, or when its time is over; those that have not confirmed are
named.

Bound: a client has at most `OPEN_MAX` requests open; another one is refused.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from octopia.routing import Streams
from octopia.wire import FlushRequest

OPEN_MAX = 16


class FlushClient(Protocol):
    """A client of this broker."""

    name: str

    def refuse(self, request: str, id: str, reason: str) -> None: ...
    def flushed(self, id: str, missing: list[str]) -> None: ...


class _Open(NamedTuple):
    client: FlushClient
    id: str
    upto: int
    until_s: float


class Flushes:
    """The open requests of all clients of one broker."""

    def __init__(self, streams: Streams | None, routing: str, now: Callable[[], float]) -> None:
        self._streams = streams
        self._routing = routing
        self._now = now
        self._open: list[_Open] = []

    def ask(self, client: FlushClient, request: FlushRequest) -> None:
        """A client wants to know when everything that it has published by now has arrived."""
        streams = self._streams
        if streams is None:
            reason = f'{self._routing} does not know what has arrived: set name = "fdr" under [routing] at all brokers'
            client.refuse("flush", request.id, reason)
        elif sum(each.client is client for each in self._open) >= OPEN_MAX:
            client.refuse("flush", request.id, f"{OPEN_MAX} requests to flush are open; wait for an answer")
        else:
            until_s = self._now() + request.timeout_ms / 1000
            self._open.append(_Open(client, request.id, streams.log.sent_upto(client.name), until_s))
            self.check()

    def check(self) -> None:
        """Answer what can be answered now."""
        now = self._now()
        self._open = [each for each in self._open if not self._is_answered(each, now)]

    def answer_all(self) -> None:
        """Nothing more will be confirmed: name all who have not."""
        for each in self._open:
            self._is_answered(each, each.until_s)
        self._open.clear()

    def _is_answered(self, asked: _Open, now: float) -> bool:
        streams, client = self._streams, asked.client
        assert streams is not None  # noqa: S101  without streams nothing is open
        streams.ask(client.name, now)
        brokers, is_final = streams.unproved(client.name, asked.upto)
        if brokers and not is_final and now < asked.until_s:
            return False
        streams.log.lost.pop(client.name, None)
        client.flushed(asked.id, [str(broker) for broker in brokers])
        return True
