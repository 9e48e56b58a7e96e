"""The counters of a broker. Plain integers, so that counting costs nothing; metrics and status read them."""


class Counters:
    """Totals since the broker started."""

    __slots__ = (
        "blocks_lost",
        "clients_asked_to_move",
        "deliveries",
        "deliveries_dropped_for_memory",
        "duplicates",
        "faults",
        "frames_unfinished_closed",
        "handshakes_crowded_out",
        "http_crowded_out",
        "newcomers_refused",
        "notifications",
        "peers_at_fault",
        "refusals",
        "sessions_ended_for_memory",
        "sessions_ended_slow",
        "sessions_resumed",
        "sources_held",
        "stamps_wrong",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    blocks_lost: int
    clients_asked_to_move: int
    deliveries: int
    deliveries_dropped_for_memory: int
    duplicates: int
    faults: int
    frames_unfinished_closed: int
    handshakes_crowded_out: int
    http_crowded_out: int
    newcomers_refused: int
    notifications: int
    peers_at_fault: int
    refusals: int
    sessions_ended_for_memory: int
    sessions_ended_slow: int
    sessions_resumed: int
    sources_held: int
    stamps_wrong: int
