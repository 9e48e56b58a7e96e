"""Wrong tokens and certificates: how long the answer to each is delayed.

Policy: a peer that fails to authenticate gets its answer late: after 0.1 s at first, and twice as long for each further
failure from the same address, up to 2 s. An address without a failure for a minute starts afresh. At most 8 connections
of one address and 64 in total wait for such an answer; one more is closed at once, without a message. A peer with the
right token is accepted whatever failed before it, so nobody can lock out a neighbour behind the same address. For the
same reason this does not protect a guessable token: the minimum length does (`secret.py`).

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
        self._seen: dict[str, tuple[int, float]] = {}  # how many failures, and when the last one was; oldest first
        self._waiting: dict[str, int] = {}

    def failed(self, address: str, now: float) -> float | None:
        """Note a failure: returns the seconds until its answer, or None for no answer at all.

        Call `answered` at the end of each wait.
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
        # The exponent is bounded, too: a number of a million bits takes time.
        return min(FIRST_S * float(2 ** min(count, 32)), LONGEST_S)

    def answered(self, address: str) -> None:
        """A waiting connection was answered or is gone."""
        source = source_of(address)
        left = self._waiting.get(source, 0) - 1
        if left > 0:
            self._waiting[source] = left
        else:
            self._waiting.pop(source, None)


def source_of(address: str) -> str:
    """The unit that counts as one address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, 64), strict=False))
