"""Connections that have come in and not said yet who they are: a pool with a bound.

Nobody can be kept out by others who come and say nothing. At the bound the oldest makes room for the newcomer: whoever
means to speak has done so long before. An address that has more than its share makes room for itself first. An IPv6
address stands for its /64, which is what one customer has. Everyone on this machine has the same address, so loopback
has no share.

Rules of this file: no I/O and no clock; the order is that of arrival.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from octopia.net.addresses import is_loopback
from octopia.net.broker.failures import source_of

Key = TypeVar("Key", bound=Hashable)


class Arrivals(Generic[Key]):
    """Who has come in, the oldest first."""

    def __init__(self, count_max: int, per_address_max: int) -> None:
        self._count_max = count_max
        self._per_address_max = per_address_max
        self._address: dict[Key, str] = {}
        self._of_address: dict[str, dict[Key, None]] = {}  # without loopback

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, key: Key) -> bool:
        return key in self._address

    def add(self, key: Key, address: str) -> Key | None:
        """Someone came in from this address. Returns who is to be closed, and has been taken out already."""
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
        """It has said who it is, or it has gone. Removing it again does nothing."""
        source = self._address.pop(key, "")
        if source:
            del self._of_address[source][key]
            if not self._of_address[source]:
                del self._of_address[source]
