"""The space that boxes live in: attributes with their axes, and the kinds of boxes.

An *attribute* has a place in the space for each axis that some box uses, the codes of strings and of pieces, and the
ladders of bounds. A *kind* is the set of boxes with the same dimensions. Kinds that differ only in their intervals form
a *family*, and a notification is compared with families that it opens: those whose boxes name a piece, once for each of
them that its string has; where filters name many attributes, those with an *anchor*, an attribute that all their boxes
name, if it has that attribute; and all others.

Everything here is counted and goes with its last user. Numbers are reused, so that they stay small, except for codes:
removed boxes may stay in a run for a while, but nobody looks at them. `mirror` is told of everything that compiled code
reads (`mirror.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Any, NamedTuple, Protocol

from octopia.language import Predicate, Value
from octopia.matching.boxes import Axis, Dimension, Parts, string_key
from octopia.matching.ladder import Ladder, Relabelled
from octopia.matching.pieces import Piece, Pieces
from octopia.matching.sharded import BLOCK_BITS, ShardedDict
from octopia.matching.tokens import floats_around

# The number of a kind: its family, its shape, whether its boxes have tests. So kinds in order are families in order.
_FAMILY_BIT, _SHAPE_BIT = 32, 1
_SHAPES_MAX = 1 << (_FAMILY_BIT - _SHAPE_BIT)
_NAMES_REMEMBERED_MAX = 1_024
# Up to this many attributes, it costs less to compare boxes with a notification than to look for the families that its
# attributes open.
FEW_ATTRIBUTES_MAX = 64

_NUMBER, _STRING, _BOOL, _PRESENT, _EXACT, _ORDER, _ENDING, _PIECE = Axis


@lru_cache(_NAMES_REMEMBERED_MAX)
def _names(attributes: tuple[str, ...]) -> frozenset[str]:
    """One shared set for equal names: there may be thousands of families, and most have the same names."""
    return frozenset(attributes)


class Shape:
    """Dimensions with intervals, and their places in the space."""

    __slots__ = ("anchor", "attributes", "dimensions", "id", "kinds", "places")

    def __init__(
        self, id: int, dimensions: tuple[Dimension, ...], places: tuple[int, ...], anchor: str | None = None
    ) -> None:
        self.id = id
        self.anchor = anchor
        self.dimensions = dimensions
        self.attributes = _names(tuple(attribute for attribute, _ in dimensions))
        self.places = places
        self.kinds = 0


class Family:
    """Kinds that are opened alike, and leave values out of the same dimensions.

    `piece` is the attribute whose pieces open it, `anchor` the one that must be there; at most one of them is set.
    """

    __slots__ = ("anchor", "attributes", "id", "kinds", "piece", "places", "without")

    def __init__(
        self,
        id: int,
        without: tuple[Dimension, ...],
        places: tuple[int, ...],
        piece: str | None = None,
        anchor: str | None = None,
    ) -> None:
        self.id = id
        self.without = without
        self.places = places
        self.piece = piece
        self.anchor = anchor
        self.attributes = _names(tuple(attribute for attribute, _ in without))
        self.kinds = 0


class BoxKind(NamedTuple):
    """Boxes of one shape in one family. Made from its number on demand, since there may be thousands of kinds."""

    number: int
    shape: Shape
    family: Family
    tested: bool


class _Codes:
    """Numbers that stand for the strings of one attribute, counted."""

    __slots__ = ("next", "of", "users")

    def __init__(self) -> None:
        self.of: ShardedDict[str, float] = ShardedDict()
        self.users: ShardedDict[str, int] = ShardedDict()
        self.next = 0.0

    def hold(self, text: str) -> float | None:
        """Count a user of a string; returns its code if it is new."""
        part = hash(text) >> BLOCK_BITS & self.of.last
        users = self.users.parts[part]
        if text in users:
            users[text] += 1
            return None
        users[text] = 1
        code = self.of.parts[part][text] = self.next
        self.next += 1.0
        self.of.split_if_large()
        self.users.split_if_large()
        return code

    def release(self, text: str) -> bool:
        """A user of a string is gone; returns whether that was the last."""
        part = hash(text) >> BLOCK_BITS & self.of.last
        users = self.users.parts[part]
        users[text] -= 1
        if users[text]:
            return False
        del users[text], self.of.parts[part][text]
        return True


class Attribute:
    """What filters say about one attribute.

    `line` is its number; `places` are those of its axes, or -1. `anchored` and `pieced` are the families that it opens:
    by being there, and by each of its pieces. `tested` counts tests.
    """

    __slots__ = ("anchored", "codes", "ladders", "line", "name", "pieced", "pieces", "places", "tested", "uses")

    def __init__(self, name: str, line: int) -> None:
        self.name = name
        self.line = line
        self.places = [-1] * len(Axis)
        self.codes: _Codes | None = None
        self.ladders: dict[Axis, Ladder] = {}
        self.pieces: Pieces | None = None
        self.anchored: dict[int, Family] = {}
        self.pieced: dict[int, Family] = {}
        self.tested = 0
        self.uses = 0  # users of all its places

    def code(self, text: str) -> float:
        """The code of a string; -1 if no filter has it."""
        code: float = -1.0 if self.codes is None else self.codes.of.lookup(text, -1.0)
        return code

    def place(self, value: Value) -> Iterator[tuple[int, float, float]]:
        """Where a value lies: each place, and what is compared there with lower and with upper bounds.

        Both are the coordinate of the value, except for an integer between two floats. Pieces are not among them.
        """
        places = self.places
        if places[_PRESENT] >= 0:
            yield places[_PRESENT], 1.0, 1.0
        if type(value) is str:
            if places[_STRING] >= 0:
                code = self.code(value)
                yield places[_STRING], code, code
            for axis in (_ORDER, _ENDING):
                if places[axis] >= 0:
                    at = self.ladders[axis].place(string_key(value, axis))
                    yield places[axis], at, at
        elif type(value) is bool:
            if places[_BOOL] >= 0:
                yield places[_BOOL], float(value), float(value)
        else:
            if places[_NUMBER] >= 0:
                below, above = floats_around(value) if isinstance(value, int) else (float(value), float(value))
                yield places[_NUMBER], below, above
            if places[_EXACT] >= 0:
                at = self.ladders[_EXACT].place(value)
                yield places[_EXACT], at, at

    @property
    def reads_strings(self) -> bool:
        """Whether the code of a string is not all that matters."""
        return self.tested > 0 or max(self.places[_ORDER:]) >= 0


class Tests:
    """Conditions that are tested when a box is found. Each list of them has a number, which is counted."""

    __slots__ = ("_free", "_lists", "_numbers", "_users")

    def __init__(self) -> None:
        self._numbers: dict[tuple[Predicate, ...], int] = {}
        self._lists: list[tuple[Predicate, ...]] = []
        self._users: list[int] = []
        self._free: list[int] = []

    def __getitem__(self, number: int) -> tuple[Predicate, ...]:
        return self._lists[number]

    def __iter__(self) -> Iterator[tuple[tuple[Predicate, ...], int]]:
        return iter(self._numbers.items())

    def number(self, tests: tuple[Predicate, ...]) -> int:
        """The number of a list; -1 if it is empty."""
        return self._numbers[tests] if tests else -1

    def hold(self, tests: tuple[Predicate, ...]) -> bool:
        """Count a user of a list; returns whether it is new."""
        number = self._numbers.get(tests)
        if number is not None:
            self._users[number] += 1
            return False
        if self._free:
            number = self._free.pop()
            self._lists[number], self._users[number] = tests, 1
        else:
            number = len(self._lists)
            self._lists.append(tests)
            self._users.append(1)
        self._numbers[tests] = number
        return True

    def release(self, tests: tuple[Predicate, ...]) -> bool:
        """A user of a list is gone; returns whether that was the last."""
        number = self._numbers[tests]
        self._users[number] -= 1
        if self._users[number]:
            return False
        del self._numbers[tests]
        self._lists[number] = ()
        self._free.append(number)
        return True


class SpaceWatcher(Protocol):
    """What a space tells whoever keeps the same in another form."""

    def add(self, attribute: Attribute, /) -> None: ...
    def write(self, attribute: Attribute, /) -> None:
        """Its places or ladders have changed."""

    def remove(self, attribute: Attribute, /) -> None: ...
    def link(self, family: Family, /) -> None: ...
    def unlink(self, family: Family, /) -> None: ...
    def add_code(self, line: int, text: str, code: float, /) -> None: ...
    def remove_code(self, line: int, text: str, /) -> None: ...
    def add_piece(self, attribute: Attribute, piece: Piece, /) -> None: ...
    def remove_piece(self, attribute: Attribute, piece: Piece, /) -> None: ...
    def add_tests(self, number: int, tests: tuple[Predicate, ...], /) -> None: ...
    def remove_tests(self, number: int, /) -> None: ...


class Space:
    """All attributes and kinds of one matcher."""

    def __init__(self) -> None:
        self.attributes: dict[str, Attribute] = {}
        self._free_lines: list[int] = []
        self._places = 0
        self._free_places: list[int] = []
        self._users: dict[Dimension, int] = {}
        # number of a kind -> number of its boxes
        self._boxes: dict[int, int] = {}
        self._shapes: dict[int, Shape] = {}
        self._shape_of: dict[tuple[Dimension, ...], Shape] = {}
        self._free_shapes: list[int] = []
        # the kinds that name an attribute; and each kind once, under the attribute that the fewest others name
        self._kinds_naming: dict[str, dict[int, None]] = {}
        self._kinds_under: dict[str | None, dict[int, None]] = {}
        self._listed_under: dict[int, str | None] = {}
        self._families: dict[int, Family] = {}
        self._family_of: dict[tuple[tuple[Dimension, ...], str | None, str | None], Family] = {}
        self._free_families: list[int] = []
        # families that every notification opens
        self.always: dict[int, Family] = {}
        self.tests = Tests()
        self.mirror: SpaceWatcher | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"mirror": None}

    @property
    def size(self) -> int:
        """The length of a point: the most places ever in use at once."""
        return self._places

    @property
    def families_max(self) -> int:
        """More than the number of any family."""
        return len(self._families) + len(self._free_families)

    @property
    def lines_max(self) -> int:
        """More than the number of any attribute."""
        return len(self.attributes) + len(self._free_lines)

    # -- what boxes refer to

    def hold(self, parts: Parts) -> list[tuple[int, Relabelled]]:
        """Count the strings, bounds, pieces and tests of a conjunction; call this before `take`.

        Returns the places at which the labels of bounds have changed: the bounds of all boxes there must be mapped.
        """
        changed: list[tuple[int, Relabelled]] = []
        for name, axis, low, high in chain(parts.spans, parts.without):
            if axis is _STRING:
                self._hold_code(name, low)
            elif axis > _PRESENT:
                self._hold_bounds(self._attribute(name), axis, low, high, changed)
        for tests in _lists(parts):
            for predicate in tests:
                self._attribute(predicate.attribute).tested += 1
            if self.tests.hold(tests) and self.mirror is not None:
                self.mirror.add_tests(self.tests.number(tests), tests)
        return changed

    def _hold_code(self, name: str, text: str) -> None:
        attribute = self.attributes.get(name) or self._attribute(name)
        codes = attribute.codes
        if codes is None:
            codes = attribute.codes = _Codes()
        code = codes.hold(text)
        if code is not None and self.mirror is not None:
            self.mirror.add_code(attribute.line, text, code)

    def _hold_bounds(
        self, attribute: Attribute, axis: Axis, low: Any, high: Any, changed: list[tuple[int, Relabelled]]
    ) -> None:
        if axis is _PIECE:
            if attribute.pieces is None:
                attribute.pieces = Pieces()
            piece = attribute.pieces.hold(low)
            if piece is not None and self.mirror is not None:
                self.mirror.add_piece(attribute, piece)
            return
        ladder = attribute.ladders.get(axis)
        if ladder is None:
            ladder = attribute.ladders[axis] = Ladder()
            if self.mirror is not None:
                self.mirror.write(attribute)
        for bound in (low, high):
            if bound is not None:
                relabelled = ladder.hold(bound)
                if relabelled is not None and attribute.places[axis] >= 0:
                    changed.append((attribute.places[axis], relabelled))

    def release(self, parts: Parts) -> None:
        """The opposite of `hold`; call this before the box leaves its kind."""
        for name, axis, low, high in chain(parts.spans, parts.without):
            if axis is _STRING:
                attribute = self.attributes[name]
                if attribute.codes.release(low) and self.mirror is not None:  # type: ignore[union-attr]
                    self.mirror.remove_code(attribute.line, low)
            elif axis is _PIECE:
                attribute = self.attributes[name]
                piece = attribute.pieces.release(low)  # type: ignore[union-attr]
                if piece is not None and self.mirror is not None:
                    self.mirror.remove_piece(attribute, piece)
            elif axis > _PRESENT:
                ladder = self.attributes[name].ladders[axis]
                for bound in (low, high):
                    if bound is not None:
                        ladder.release(bound)
        for tests in _lists(parts):
            for predicate in tests:
                self.attributes[predicate.attribute].tested -= 1
            number = self.tests.number(tests)
            if self.tests.release(tests) and self.mirror is not None:
                self.mirror.remove_tests(number)

    def bounds(self, parts: Parts) -> tuple[list[float], list[float]]:
        """The lower and the upper bounds of the box of a conjunction that is held: intervals, then what is left out."""
        lows: list[float] = []
        highs: list[float] = []
        for name, axis, low, high in chain(parts.spans, parts.without):
            if axis is _STRING:
                low = high = self.attributes[name].code(low)
            elif axis is _PIECE:
                low = high = self.attributes[name].pieces.code(low)  # type: ignore[union-attr]
            elif axis > _PRESENT:
                ladder = self.attributes[name].ladders[axis]
                low = -inf if low is None else float(ladder.label(low))
                # strings are below their upper bound
                high = inf if high is None else ladder.label(high) - (0.0 if axis is _EXACT else 0.5)
            lows.append(low)
            highs.append(high)
        return lows, highs

    # -- attributes and places

    def _attribute(self, name: str) -> Attribute:
        attribute = self.attributes.get(name)
        if attribute is None:
            line = self._free_lines.pop() if self._free_lines else len(self.attributes)
            attribute = self.attributes[name] = Attribute(name, line)
            if self.mirror is not None:
                self.mirror.add(attribute)
        return attribute

    def _use(self, dimension: Dimension) -> int:
        name, axis = dimension
        attribute = self._attribute(name)
        if attribute.places[axis] < 0:
            if self._free_places:
                attribute.places[axis] = self._free_places.pop()
            else:
                attribute.places[axis] = self._places
                self._places += 1
            self._users[dimension] = 0
            if self.mirror is not None:
                self.mirror.write(attribute)
        self._users[dimension] += 1
        attribute.uses += 1
        return attribute.places[axis]

    def _disuse(self, dimension: Dimension) -> None:
        name, axis = dimension
        attribute = self.attributes[name]
        attribute.uses -= 1
        self._users[dimension] -= 1
        if self._users[dimension]:
            return
        del self._users[dimension]
        self._free_places.append(attribute.places[axis])
        attribute.places[axis] = -1
        attribute.ladders.pop(axis, None)
        if attribute.uses:
            if self.mirror is not None:
                self.mirror.write(attribute)
            return
        del self.attributes[name]
        self._free_lines.append(attribute.line)
        if self.mirror is not None:
            self.mirror.remove(attribute)

    def place_of(self, attribute: str, axis: Axis) -> int:
        """The place of an axis; -1 if no box uses it."""
        known = self.attributes.get(attribute)
        return -1 if known is None else known.places[axis]

    def code(self, attribute: str, text: str) -> float:
        """The code of a string; -1 if no filter has it."""
        known = self.attributes.get(attribute)
        return -1.0 if known is None else known.code(text)

    def strings_of(self, attribute: str) -> Iterable[tuple[str, float]]:
        """The strings in filters, with their codes, in any order."""
        known = self.attributes.get(attribute)
        return () if known is None or known.codes is None else known.codes.of.items()

    # -- kinds

    def kinds_naming_all(self, attributes: Iterable[str]) -> Iterable[int]:
        """Numbers of kinds, including all that name each of these attributes."""
        naming = [self._kinds_naming.get(attribute, {}) for attribute in attributes]
        if not naming:
            return self._boxes
        return min(naming, key=len)

    def kinds_naming_only(self, attributes: Iterable[str]) -> Iterable[int]:
        """Numbers of kinds, including all that name only these attributes."""
        return chain.from_iterable(self._kinds_under.get(attribute, ()) for attribute in (None, *attributes))

    @property
    def kinds_count(self) -> int:
        """The number of kinds that have boxes."""
        return len(self._boxes)

    def kind(self, number: int) -> BoxKind:
        """The kind with this number."""
        shape = self._shapes[(number >> _SHAPE_BIT) % _SHAPES_MAX]
        return BoxKind(number, shape, self._families[number >> _FAMILY_BIT], bool(number % 2))

    @staticmethod
    def family_id(kind: int) -> int:
        """The family of a kind, by their numbers."""
        return kind >> _FAMILY_BIT

    def take(self, parts: Parts) -> BoxKind:
        """The kind of a box, which is counted as having one more box."""
        dimensions = tuple([(name, axis) for name, axis, _, _ in parts.spans])
        shape = self._shape_of.get(dimensions) or self._new_shape(dimensions)
        without = tuple([(name, axis) for name, axis, _, _ in parts.without]) if parts.without else ()
        anchor = None if parts.piece is not None else shape.anchor if dimensions else self._rarest(without)
        family = self._family_of.get((without, parts.piece, anchor)) or self._new_family(without, parts.piece, anchor)
        tested = bool(parts.tests)
        number = family.id << _FAMILY_BIT | shape.id << _SHAPE_BIT | tested
        boxes = self._boxes.get(number, 0)
        if not boxes:
            shape.kinds += 1
            family.kinds += 1
            self._list_kind(number, shape.attributes | family.attributes)
        self._boxes[number] = boxes + 1
        return BoxKind(number, shape, family, tested)

    def _rarest(self, dimensions: tuple[Dimension, ...]) -> str | None:
        """The attribute of these dimensions that the fewest kinds name; None while there are few attributes."""
        if not dimensions or len(self._kinds_naming) <= FEW_ATTRIBUTES_MAX:
            return None
        return min((attribute for attribute, _ in dimensions), key=self._naming_count)

    def _naming_count(self, attribute: str) -> int:
        return len(self._kinds_naming.get(attribute, ()))

    def _list_kind(self, number: int, attributes: frozenset[str]) -> None:
        # sorted: the order of a set differs from run to run
        named = sorted(attributes)
        under = min(named, key=self._naming_count, default=None)
        self._listed_under[number] = under
        self._kinds_under.setdefault(under, {})[number] = None
        for attribute in named:
            self._kinds_naming.setdefault(attribute, {})[number] = None

    def _unlist_kind(self, number: int, attributes: frozenset[str]) -> None:
        under = self._listed_under.pop(number)
        del self._kinds_under[under][number]
        if not self._kinds_under[under]:
            del self._kinds_under[under]
        for attribute in attributes:
            del self._kinds_naming[attribute][number]
            if not self._kinds_naming[attribute]:
                del self._kinds_naming[attribute]

    def _new_shape(self, dimensions: tuple[Dimension, ...]) -> Shape:
        id = self._free_shapes.pop() if self._free_shapes else len(self._shapes)
        places = tuple(self._use(dimension) for dimension in dimensions)
        shape = Shape(id, dimensions, places, self._rarest(dimensions))
        self._shape_of[dimensions] = self._shapes[shape.id] = shape
        return shape

    def _new_family(self, without: tuple[Dimension, ...], piece: str | None, anchor: str | None) -> Family:
        id = self._free_families.pop() if self._free_families else len(self._families)
        places = tuple(self._use(dimension) for dimension in without)
        family = Family(id, without, places, piece, anchor)
        self._family_of[without, piece, anchor] = self._families[id] = family
        self._opened_by(family)[id] = family
        if self.mirror is not None:
            self.mirror.link(family)
        return family

    def _opened_by(self, family: Family) -> dict[int, Family]:
        """The list of families that this one is in."""
        if family.piece is not None:
            return self.attributes[family.piece].pieced
        return self.always if family.anchor is None else self.attributes[family.anchor].anchored

    def leave(self, number: int, boxes: int = 1) -> None:
        """Remove boxes of a kind; the kind goes with the last one."""
        left = self._boxes[number] - boxes
        if left:
            self._boxes[number] = left
            return
        del self._boxes[number]
        _, shape, family, _ = self.kind(number)
        self._unlist_kind(number, shape.attributes | family.attributes)
        family.kinds -= 1
        if not family.kinds:
            self._drop_family(family)
        shape.kinds -= 1
        if not shape.kinds:
            self._drop_shape(shape)

    def _drop_shape(self, shape: Shape) -> None:
        del self._shape_of[shape.dimensions], self._shapes[shape.id]
        self._free_shapes.append(shape.id)
        for dimension in shape.dimensions:
            self._disuse(dimension)

    def _drop_family(self, family: Family) -> None:
        if self.mirror is not None:
            self.mirror.unlink(family)
        del self._opened_by(family)[family.id]
        del self._family_of[family.without, family.piece, family.anchor], self._families[family.id]
        self._free_families.append(family.id)
        for dimension in family.without:
            self._disuse(dimension)

    def families(self) -> Iterable[Family]:
        """All families."""
        return self._families.values()

    # -- what a notification opens

    def named(self, values: Mapping[str, Value]) -> Iterator[tuple[Attribute, Value]]:
        """The attributes of a notification that filters name, and their values."""
        # iterate over the shorter one: a notification may have thousands of attributes that no filter names
        if len(values) < len(self.attributes):
            for name, value in values.items():
                attribute = self.attributes.get(name)
                if attribute is not None:
                    yield attribute, value
        else:
            for name, attribute in self.attributes.items():
                if name in values:
                    yield attribute, values[name]

    def opened(self, values: Mapping[str, Value]) -> tuple[list[int], list[tuple[int, float, Sequence[int]]]]:
        """The families that a notification opens: by numbers; and, for each piece, its place, its code and families."""
        families = list(self.always)
        pieces: list[tuple[int, float, Sequence[int]]] = []
        for attribute, value in self.named(values):
            families += attribute.anchored
            if attribute.pieced and attribute.pieces is not None and type(value) is str:
                place, opened = attribute.places[_PIECE], list(attribute.pieced)
                pieces += ((place, code, opened) for code in attribute.pieces.within(value))
        return families, pieces


def _lists(parts: Parts) -> list[tuple[Predicate, ...]]:
    """The lists of tests of a box: what is tested when it is found, and what if it waits, since pieces are not compared
    then."""
    if not parts.tests and parts.pattern is None:
        return []
    waiting = waiting_tests(parts)
    return [waiting] if waiting == parts.tests else [waiting, parts.tests] if parts.tests else [waiting]


def waiting_tests(parts: Parts) -> tuple[Predicate, ...]:
    """What is tested for a box that waits."""
    return parts.tests if parts.pattern is None else (parts.pattern, *parts.tests)
