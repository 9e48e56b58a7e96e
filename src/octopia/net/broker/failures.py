"""Wrong tokens and certificates: how long each is left without an answer.

Policy: a peer that fails to prove who it is gets its answer late: after 0.1 s at first, and twice as long for each
further failure from the same address, up to 2 s. An address without a failure for a minute starts afresh. At most 8
connections of one address and 64 in all wait for such an answer; one more is closed at once, without a word. Peers
with the right token are never asked how many failed before them, so nobody can lock out a neighbour behind the same
address. For the same reason this is no defence of a token that can be guessed: the least length is (`secret.py`).

The table is bounded: at the bound the address whose last failure is oldest is forgotten. An IPv6 address stands for
its /64, which is what one customer has.
"""

from ipaddress import IPv6Address, ip_address, ip_network

FIRST_S = 0.1
LONGEST_S = 2.0
FORGET_S = 60.0
ADDRESSES_MAX = 1024
WAITING_PER_ADDRESS_MAX = 8
WAITING_MAX = 64


class Failures:
    """Failed attempts at one broker, by address."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}  # how many, and when the last was; the oldest first
        self._waiting: dict[str, int] = {}

    def failed(self, address: str, now: float) -> float | None:
        """Note a failure: seconds until it may be answered, or None where it is not to be answered at all.

        Whoever is told to wait is ended with `answered`.
        """
        source = source_of(address)
        count, last_s = self._seen.pop(source, (0, now))
        if now - last_s > FORGET_S:
            count = 0
        self._seen[source] = (count + 1, now)
        if len(self._seen) > ADDRESSES_MAX:
            del self._seen[next(iter(self._seen))]
        waiting = self._waiting.get(source, 0)
        if waiting >= WAITING_PER_ADDRESS_MAX or sum(self._waiting.values()) >= WAITING_MAX:
            return None
        self._waiting[source] = waiting + 1
        # The power is bounded, too: a number of a million bits takes its time.
        return min(FIRST_S * float(2 ** min(count, 32)), LONGEST_S)

    def answered(self, address: str) -> None:
        """One that waited was answered, or went."""
        source = source_of(address)
        left = self._waiting.get(source, 0) - 1
        if left > 0:
            self._waiting[source] = left
        else:
            self._waiting.pop(source, None)


def source_of(address: str) -> str:
    """What counts as one address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, 64), strict=False))
