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
# Numbers that follow each other are mostly in the same part, and so in memory that was just in use.
BLOCK_BITS: Final = 12


class ShardedDict(Generic[Key, Value]):
    """Values by key, in dicts. In order of arrival while there is one part, then in no particular order.

    `lookup` is `get`, or the same of the only part, which is faster. It changes once, when the dict is split.
    """

    __slots__ = ("last", "lookup", "parts")

    def __init__(self, entries: dict[Key, Value] | None = None) -> None:
        self.parts: list[dict[Key, Value]] = [{} if entries is None else entries]
        self.last = 0  # the number of parts less one
        self.lookup: Callable[..., Any] = self.parts[0].get
        self.split_if_large()

    def part(self, key: Key) -> dict[Key, Value]:
        """The dict that this key is in, or belongs in: what is done with the key is done there.

        Ask again for each use, and for each key. After adding keys call `split_if_large` now and then. Where a call
        would cost too much, callers do the same by themselves.
        """
        return self.parts[hash(key) >> BLOCK_BITS & self.last]

    def split_if_large(self) -> None:
        """Split it if it is large and has one part."""
        if not self.last and len(self.parts[0]) >= SPLIT_ENTRIES:
            (whole,) = self.parts
            self.parts, self.last = [{} for _ in range(PARTS)], PARTS - 1
            for key, value in whole.items():
                self.part(key)[key] = value
            self.lookup = self.get

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def get(self, key: Key, default: Any = None) -> Any:
        return self.parts[hash(key) >> BLOCK_BITS & self.last].get(key, default)

    def __getitem__(self, key: Key) -> Value:
        return self.parts[hash(key) >> BLOCK_BITS & self.last][key]

    def __iter__(self) -> Iterator[Key]:
        for part in self.parts:
            yield from part

    def items(self) -> Iterator[tuple[Key, Value]]:
        for part in self.parts:
            yield from part.items()

    def __reduce__(self) -> tuple[Any, ...]:
        # another process has other hashes
        return ShardedDict, (dict(self.items()),)
