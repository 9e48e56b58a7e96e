"""The requests of clients in a run, ordered by time.

Requests are created lazily, since a burst has hundreds of thousands.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from octopia.routing import Event
from octopia.sim.links import NO_MESSAGE, Arrival
from octopia.sim.node import Node
from octopia.topology import BrokerId


class Request(NamedTuple):
    """A client's request to its host broker at a moment; `number` is its row in the trace."""

    at_ns: int
    broker: BrokerId
    event: Event
    number: int
    row: int | None = None


class Asked:
    """The requests to come. `next_ns` is when the next one reaches its broker; -1 if there is none."""

    def __init__(self, requests: Iterator[Request], client_delay_ns: int, nodes: Mapping[BrokerId, Node]) -> None:
        self._requests = requests
        self._client_delay_ns = client_delay_ns
        self._links = {id: -1 - node.index for id, node in nodes.items()}
        self._next: Request | None = None
        self.next_ns = -1
        self._advance()

    def take_until(self, end_ns: int) -> list[Arrival]:
        """All requests before a moment."""
        taken: list[Arrival] = []
        while self._next is not None and self.next_ns < end_ns:
            request = self._next
            taken.append((self.next_ns, self._links[request.broker], request, request.number, 0, 0, 0, 0, NO_MESSAGE))
            self._advance()
        return taken

    def _advance(self) -> None:
        self._next = next(self._requests, None)
        self.next_ns = -1 if self._next is None else self._next.at_ns + self._client_delay_ns
