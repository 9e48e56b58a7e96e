"""The counters of a broker. Plain integers, so that counting costs nothing; metrics and status read them."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Counters:
    """Totals since the broker started."""

    blocks_lost: int = 0
    clients_asked_to_move: int = 0
    deliveries: int = 0
    deliveries_dropped_for_memory: int = 0
    duplicates: int = 0
    faults: int = 0
    frames_unfinished_closed: int = 0
    handshakes_crowded_out: int = 0
    http_crowded_out: int = 0
    newcomers_refused: int = 0
    notifications: int = 0
    peers_at_fault: int = 0
    refusals: int = 0
    sessions_ended_for_memory: int = 0
    sessions_ended_slow: int = 0
    sessions_resumed: int = 0
    sources_held: int = 0
    stamps_wrong: int = 0
