"""Fast frames of plain dicts: a dict of a shape that was checked before needs only a check of its types.

A publisher's dicts have few shapes: the same names, in the same order, with values of the same types. Whether a shape
can be published, and which tests an advertisement leaves, is determined on first use by the ordinary path
(`check_parcel`, `left_to_test`). A dict of a known shape is only checked for what its values decide: NaN, length, and
those tests. Anything unusual gets None and takes the ordinary path, which reports errors.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from octopia.language import ALWAYS, STRING_CHARS_MAX, Alternatives, Filter, left_to_test, one_holds
from octopia.wire.encode import Heads
from octopia.wire.kinds import Kind
from octopia.wire.limits import PARCEL_AROUND_BYTES
from octopia.wire.values import ENCODER

# Cached shapes, and attributes per shape; a full cache is cleared, and a larger shape is not cached.
SHAPES_MAX: Final = 256
NAMES_MAX: Final = 64
_PLAIN: Final = frozenset({str, int, float, bool})

# From a dict, its publisher and its number to a frame; None if it has to take another path.
MakeFrame: TypeAlias = Callable[[dict[str, Any], str, int], bytes | None]


class DictFrames:
    """Makes PUBLISH frames from the dicts of one publisher, given its current advertisements."""

    __slots__ = ("_advertisements", "_heads", "_limit", "_shapes", "frame")

    def __init__(self, advertisements: Sequence[Filter], frame_bytes_max: int) -> None:
        self._advertisements = advertisements
        # A parcel no longer than this cannot contain a string that is too long.
        self._limit = min(frame_bytes_max - PARCEL_AROUND_BYTES, STRING_CHARS_MAX)
        self._shapes: dict[tuple[tuple[str, ...], tuple[type, ...]], MakeFrame] = {}
        self._heads = Heads(Kind.PUBLISH)
        # For dicts of the most recent shape. If it returns None, use `frame_of_another`.
        self.frame: MakeFrame = lambda attributes, publisher, sequence: None

    def frame_of_another(self, attributes: dict[str, Any], publisher: str, sequence: int) -> bytes | None:
        """The frame of a dict whose shape differs from the last one's; None: take the ordinary path."""
        make = self._shapes.get((tuple(attributes), tuple(map(type, attributes.values()))))
        if make is None or make is self.frame:
            return None
        self.frame = make
        return make(attributes, publisher, sequence)

    def learn(self, attributes: dict[str, Any]) -> None:
        """Cache the shape of a dict that passed the ordinary path."""
        names, kinds = tuple(attributes), tuple(map(type, attributes.values()))
        if len(names) > NAMES_MAX or not _PLAIN.issuperset(kinds) or any(type(name) is not str for name in names):
            return
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self.frame = self._shapes[names, kinds] = _maker(names, kinds, self._tests(names), self._heads, self._limit)

    def _tests(self, names: tuple[str, ...]) -> Alternatives | None:
        """The tests on values of dicts with these names; None: no tests."""
        tests: list[Any] = []
        for advertisement in self._advertisements:
            left = left_to_test(names, advertisement)
            if left is ALWAYS:
                return None
            tests += left
        return tuple(tests)


def _maker(
    names: tuple[str, ...], kinds: tuple[type, ...], tests: Alternatives | None, heads: Heads, limit: int
) -> MakeFrame:
    """A function that makes frames from dicts of one shape. A closure, since it runs for every publication."""
    encode = ENCODER.encode
    # Lists, since Python allocates a list of known length at once, but grows a tuple piece by piece.
    name_list, kind_list = list(names), list(kinds)
    with_floats = [name for name, kind in zip(names, kinds, strict=True) if kind is float]
    # At least two, so that it returns a tuple; a duplicate is harmless.
    floats = itemgetter(*with_floats, with_floats[0]) if with_floats else None

    def make(attributes: dict[str, Any], publisher: str, sequence: int) -> bytes | None:
        if list(map(type, attributes.values())) != kind_list or list(attributes) != name_list:
            return None
        # NaN, or infinities of both signs.
        if floats is not None and (total := sum(floats(attributes))) != total:
            return None
        if tests is not None and not one_holds(tests, attributes):
            return None
        try:
            parcel = encode((attributes, publisher, sequence))
        except (OverflowError, UnicodeEncodeError):
            return None
        size = len(parcel)
        return heads[size] + parcel if size <= limit else None

    return make
