"""A bounded pool of connections that have not identified themselves yet.

Silent connections cannot keep others out. At the bound, the oldest makes room for the newcomer: an honest peer has
identified itself long before. An address that exceeds its share makes room for itself first. An IPv6 address stands for
its /64, which is what one customer has. All processes of this machine have the same address, so loopback has no share.

No I/O and no clock; order of arrival.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from octopia.net.addresses import is_loopback
from octopia.net.broker.failures import source_of

Key = TypeVar("Key", bound=Hashable)


class Arrivals(Generic[Key]):
    """Unidentified connections, oldest first."""

    def __init__(self, count_max: int, per_address_max: int) -> None:
        self._count_max = count_max
        self._per_address_max = per_address_max
        self._address: dict[Key, str] = {}
        self._of_address: dict[str, dict[Key, None]] = {}  # without loopback

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, key: Key) -> bool:
        return key in self._address

    def limit(self, count_max: int) -> None:
        """Lower the bound, before anybody is here."""
        self._count_max = min(self._count_max, count_max)
        self._per_address_max = max(1, min(self._per_address_max, self._count_max // 4))

    def pop_oldest(self) -> Key | None:
        """Remove and return the connection that came first."""
        oldest = next(iter(self._address), None)
        if oldest is not None:
            self.remove(oldest)
        return oldest

    def add(self, key: Key, address: str) -> Key | None:
        """Add a connection from this address. Returns the connection to close, which is already removed."""
        source = "" if is_loopback(address) else source_of(address)
        out: Key | None = None
        if source and len(self._of_address.get(source, ())) >= self._per_address_max:
            out = next(iter(self._of_address[source]))
        elif len(self._address) >= self._count_max:
            out = next(iter(self._address))
        if out is not None:
            self.remove(out)
        self._address[key] = source
        if source:
            self._of_address.setdefault(source, {})[key] = None
        return out

    def remove(self, key: Key) -> None:
        """Remove a connection that has identified itself or is gone. Removing it again does nothing."""
        source = self._address.pop(key, "")
        if source:
            del self._of_address[source][key]
            if not self._of_address[source]:
                del self._of_address[source]
