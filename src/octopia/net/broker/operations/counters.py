"""What a broker counts. Plain integers, so that counting costs nothing; metrics and status read them."""


class Counters:
    """Totals since the broker started."""

    __slots__ = (
        "blocks_lost",
        "deliveries",
        "duplicates",
        "faults",
        "notifications",
        "peers_at_fault",
        "refusals",
        "sessions_ended_slow",
        "sessions_resumed",
        "sources_held",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    blocks_lost: int
    deliveries: int
    duplicates: int
    faults: int
    notifications: int
    peers_at_fault: int
    refusals: int
    sessions_ended_slow: int
    sessions_resumed: int
    sources_held: int
