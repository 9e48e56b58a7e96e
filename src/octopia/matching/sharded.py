"""A dict in parts, by hash, so that no call has to wait while it grows.

Python moves all entries of a dict when it is full: 30 ms for a million. Parts are full at different times, and moving
the entries of one takes less than a millisecond. A small dict has one part, which is looked up as fast as any other.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

# From so many entries on, which take less than a millisecond to move, there are so many parts, a power of 2.
SPLIT_ENTRIES: Final = 4_096
PARTS: Final = 128


class ShardedDict(Generic[Key, Value]):
    """Values by key, in dicts. In order of arrival while there is one part, then in no particular order.

    `lookup` is `get`, or the same of the only part, which is faster. It changes once, when the dict is split.
    """

    __slots__ = ("_last", "_parts", "lookup")

    def __init__(self, entries: dict[Key, Value] | None = None) -> None:
        self._parts: list[dict[Key, Value]] = [{} if entries is None else entries]
        self._last = 0  # the number of parts less one
        self.lookup: Callable[..., Any] = self._parts[0].get
        self.split_if_large()

    def part(self, key: Key) -> dict[Key, Value]:
        """The dict that this key is in, or belongs in: what is done with the key is done there.

        Ask again for each use, and for each key. After adding keys call `split_if_large` now and then.
        """
        return self._parts[hash(key) & self._last]

    def split_if_large(self) -> None:
        """Split it if it is large and has one part."""
        if not self._last and len(self._parts[0]) >= SPLIT_ENTRIES:
            (whole,) = self._parts
            self._parts, self._last = [{} for _ in range(PARTS)], PARTS - 1
            for key, value in whole.items():
                self.part(key)[key] = value
            self.lookup = self.get

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def get(self, key: Key, default: Any = None) -> Any:
        return self._parts[hash(key) & self._last].get(key, default)

    def __getitem__(self, key: Key) -> Value:
        return self._parts[hash(key) & self._last][key]

    def __iter__(self) -> Iterator[Key]:
        for part in self._parts:
            yield from part

    def items(self) -> Iterator[tuple[Key, Value]]:
        for part in self._parts:
            yield from part.items()

    def __reduce__(self) -> tuple[Any, ...]:
        # another process has other hashes
        return ShardedDict, (dict(self.items()),)
