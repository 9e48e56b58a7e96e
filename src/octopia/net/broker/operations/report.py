"""The state of a broker at one moment, as plain values: all that health and metrics see of it."""

from dataclasses import dataclass

from octopia.net.broker.operations.cases import CaseReport
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.streams_report import StreamsReport


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """The state of one link. `queue` is Q_l; `sent` and `lost` are totals in messages; `element` is CE of Eq. 10."""

    neighbour: str
    up: bool
    connected: bool
    queue: int
    overloaded: bool
    sent: int
    lost: int
    queue_by_priority: tuple[int, ...] = ()
    element: float = 1.0
    queue_bytes: int = 0
    avoided: bool = False  # the routing avoids the link, since it is overloaded or down


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a broker."""

    broker: str
    overlay: str  # the digest of its overlay
    routing: str
    takes_clients: bool
    overloaded: str  # the reason; empty if it is not
    counters: Counters
    clients: int
    connections: int
    connections_max: int  # of clients, as far as file descriptors allow
    handshakes: int  # connections that have not identified themselves
    memory_bytes: int  # memory used for peers, at the last tick
    memory_bytes_max: int
    subscriptions: int
    advertisements: int
    client_queue_frames: tuple[int, ...]  # by priority
    publishers_held: int
    dropped_total: int
    too_old_total: int
    held_back_total: int
    out_of_order_total: int
    links: tuple[LinkFigures, ...]
    streams: StreamsReport | None = None
    cases: tuple[CaseReport, ...] = ()  # by case of the routing; () if it has none
    started_s: float = 0.0  # when this broker started, by the wall clock
    tau: float = 0.0
    window_s: float = 0.0
    events_last: int = 0  # the number of the last event
