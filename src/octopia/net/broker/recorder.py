"""What a recorder of a broker has to do: observe its router and its queues."""

from typing import Protocol

from octopia.net.broker.router import RouterObserver
from octopia.net.frame_queue import FrameObserver, FrameQueue
from octopia.topology import BrokerId


class Recorder(RouterObserver, Protocol):
    """Observes one broker."""

    def client_observer(self, client: str) -> FrameObserver:
        """The observer of a client's queue."""

    def observe_link(self, neighbour: BrokerId, queue: FrameQueue) -> None:
        """Observe the queue of a link."""
