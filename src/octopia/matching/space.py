"""The space that boxes live in: dimensions, the codes of strings, and the kinds of boxes.

A *kind* is the set of boxes with the same dimensions and atoms. Kinds that differ only in their intervals form a
*family*; an event opens the families whose atoms its strings satisfy, and is compared with their boxes only. Where
filters name many attributes, a family also has an *anchor*: an attribute that all its boxes name, so that events
without it skip the family.

Everything here is reference-counted and goes with its last user. Numbers of dimensions and shapes are reused, so that a
point stays short and a kind's number fits in 64 bits; numbers of families and codes are not, since removed boxes may
stay in a run for a while. The families that a combination of strings opens are cached (`openings`) until a family comes
or goes. Once filters name more than `FEW_ATTRIBUTES_MAX` attributes, the cost of a notification depends on its own
attributes only.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Predicate, Value
from octopia.matching.boxes import Axis, Box, Dimension
from octopia.matching.coordinates import AttributeAxes, Coordinates, Sides, WideCoordinates
from octopia.matching.openings import Key, Openings
from octopia.matching.patterns import Patterns
from octopia.matching.sharded import BLOCK_BITS, ShardedDict
from octopia.matching.token_points import TokenPoints

# The number of a kind: its family, its shape, whether its boxes are inexact. So kinds in order are families in order.
_FAMILY_BIT, _SHAPE_BIT = 32, 1
_SHAPES_MAX = 1 << (_FAMILY_BIT - _SHAPE_BIT)
_NAMES_REMEMBERED_MAX = 1_024
_NO_CODES: dict[str, float] = {}
# Up to this many attributes, visiting all of them is faster than looking up those of a notification.
FEW_ATTRIBUTES_MAX = 64


@lru_cache(_NAMES_REMEMBERED_MAX)
def _names(attributes: tuple[str, ...]) -> frozenset[str]:
    """One shared set for equal names: there may be thousands of families, and most have the same names."""
    return frozenset(attributes)


class Shape:
    """Dimensions with intervals, and their numbers in the space. `typed`: attributes with more than a presence test."""

    __slots__ = ("anchor", "attributes", "dimensions", "id", "kinds", "places", "typed")

    def __init__(
        self, id: int, dimensions: tuple[Dimension, ...], places: tuple[int, ...], anchor: str | None = None
    ) -> None:
        self.id = id
        self.anchor = anchor
        self.dimensions = dimensions
        self.attributes = _names(tuple(attribute for attribute, _ in dimensions))
        self.typed = _names(tuple(attribute for attribute, axis in dimensions if axis is not Axis.PRESENT))
        self.places = places
        self.kinds = 0


class Family:
    """Kinds with the same atoms and the same dimensions with excluded values, with their numbers."""

    __slots__ = ("anchor", "atom_numbers", "atoms", "attributes", "id", "kinds", "places", "without")

    def __init__(
        self, id: int, box: Box, places: tuple[int, ...], atom_numbers: tuple[int, ...], anchor: str | None = None
    ) -> None:
        self.id = id
        self.anchor = anchor
        self.atoms = box.atoms
        self.atom_numbers = atom_numbers
        self.without = box.without
        self.attributes = _names((*(a for a, _ in box.without), *(atom.attribute for atom in box.atoms)))
        self.places = places
        self.kinds = 0


class BoxKind(NamedTuple):
    """Boxes of one shape in one family. Made from its number on demand, since there may be thousands of kinds."""

    number: int
    shape: Shape
    family: Family
    inexact: bool


class _Atom:
    """A condition on strings in use, and the families that are looked up by it: each by one of its atoms."""

    __slots__ = ("families", "number", "users")

    def __init__(self, number: int) -> None:
        self.number = number
        self.users = 0
        self.families: dict[int, Family] = {}


class _Codes:
    """Numbers that stand for the strings of one attribute, counted. `owner` is its own number, never used again."""

    __slots__ = ("next", "of", "owner", "users")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.of: ShardedDict[str, float] = ShardedDict()
        self.users: ShardedDict[str, int] = ShardedDict()
        self.next = 0.0

    def add(self, text: str) -> float:
        code = self.of.part(text)[text] = self.next
        self.users.part(text)[text] = 1
        self.next += 1.0
        self.of.split_if_large()
        self.users.split_if_large()
        return code

    def drop(self, text: str) -> None:
        del self.of.part(text)[text], self.users.part(text)[text]


class Space:
    """All dimensions, codes and kinds of one matcher."""

    def __init__(self) -> None:
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
        self._family_of: dict[tuple[tuple[Dimension, ...], tuple[Predicate, ...], str | None], Family] = {}
        self._next_family = 0
        self._places: dict[Dimension, int] = {}
        self._users: dict[Dimension, int] = {}
        self._free: list[int] = []
        self._codes: dict[str, _Codes] = {}
        self._next_owner = 0
        # attribute -> its places by axis (or None), for the one pass over a notification
        self._axes: dict[str, list[int | None]] = {}
        # computed on demand
        self._planned: list[AttributeAxes] | None = None
        self._coordinates: Coordinates | None = None
        self._wide_coordinates: WideCoordinates | None = None
        self._atoms: dict[str, Patterns[_Atom]] = {}
        self._next_atom = 0
        # families without atoms by their anchor
        self._without_atoms: dict[str | None, dict[int, Family]] = {None: {}}
        # how many families have an anchor, by the attribute
        self._anchors: dict[str, int] = {}
        self.openings = Openings(self._open)
        self._token_points: TokenPoints | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything except what is computed on demand."""
        return self.__dict__ | {
            "_planned": None,
            "_coordinates": None,
            "_wide_coordinates": None,
            "_token_points": None,
        }

    @property
    def size(self) -> int:
        """The length of a point: the most places ever in use at once."""
        return len(self._places) + len(self._free)

    def code_of(self, attribute: str, text: str) -> float:
        """The number of a string in a filter; counted, see `release_code`."""
        codes = self._codes.get(attribute)
        if codes is None:
            codes = self._codes[attribute] = _Codes(self._next_owner)
            self._next_owner += 1
        part = hash(text) >> BLOCK_BITS & codes.of.last
        code = codes.of.parts[part].get(text)
        if code is None:
            lookup = codes.of.lookup
            code = codes.add(text)
            if lookup is not codes.of.lookup:
                # what places notifications has the old one
                self._dimensions_changed()
            if self._token_points is not None:
                self._token_points.codes.add(codes.owner, text, code)
            return code
        codes.users.parts[part][text] += 1
        return code

    def known_code(self, attribute: str, text: str) -> float:
        """The number of a string in a notification; -1 if no filter has it."""
        codes = self._codes.get(attribute)
        code: float = -1.0 if codes is None else codes.of.lookup(text, -1.0)
        return code

    def strings_of(self, attribute: str) -> Iterable[tuple[str, float]]:
        """The strings in filters, with their numbers, in any order."""
        codes = self._codes.get(attribute)
        return () if codes is None else codes.of.items()

    def release_code(self, attribute: str, text: str) -> None:
        """Release a string of a removed filter; call this before its boxes leave their kinds."""
        codes = self._codes[attribute]
        users = codes.users.parts[hash(text) >> BLOCK_BITS & codes.users.last]
        left = users[text] - 1
        if left:
            users[text] = left
        else:
            codes.drop(text)
            if self._token_points is not None:
                self._token_points.codes.remove(codes.owner, text)

    def all_codes(self) -> Iterator[tuple[int, str, float]]:
        """Every string that has a code: the number of its attribute, the string, the code."""
        for codes in self._codes.values():
            for text, code in codes.of.items():
                yield codes.owner, text, code

    def owner_of(self, attribute: str) -> int:
        """The number under which an attribute's strings have codes; -1 if they have none."""
        codes = self._codes.get(attribute)
        return -1 if codes is None else codes.owner

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

    def take(self, box: Box) -> int:
        """The number of a box's kind, which is counted as having one more box."""
        shape = self._shape_of.get(box.dimensions) or self._new_shape(box)
        anchor = shape.anchor if shape.dimensions else self._rarest(box.without)
        family = self._family_of.get((box.without, box.atoms, anchor)) or self._new_family(box, anchor)
        number = family.id << _FAMILY_BIT | shape.id << _SHAPE_BIT | box.inexact
        boxes = self._boxes.get(number, 0)
        if not boxes:
            shape.kinds += 1
            family.kinds += 1
            self._list_kind(number, shape.attributes | family.attributes)
        self._boxes[number] = boxes + 1
        return number

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

    def _new_shape(self, box: Box) -> Shape:
        id = self._free_shapes.pop() if self._free_shapes else len(self._shapes)
        places = tuple(self._use(dimension) for dimension in box.dimensions)
        shape = Shape(id, box.dimensions, places, self._rarest(box.dimensions))
        self._shape_of[box.dimensions] = self._shapes[shape.id] = shape
        return shape

    def _new_family(self, box: Box, anchor: str | None) -> Family:
        atoms = [self._use_atom(atom) for atom in box.atoms]
        places = tuple(self._use(dimension) for dimension in box.without)
        family = Family(self._next_family, box, places, tuple(atom.number for atom in atoms), anchor)
        self._next_family += 1
        self._family_of[box.without, box.atoms, anchor] = self._families[family.id] = family
        if anchor is not None:
            self._anchors[anchor] = self._anchors.get(anchor, 0) + 1
        if atoms:
            # filed under the atom with the fewest families
            min(atoms, key=lambda atom: len(atom.families)).families[family.id] = family
        else:
            self._without_atoms.setdefault(anchor, {})[family.id] = family
        self._openings_changed()
        return family

    def leave(self, number: int, boxes: int = 1) -> None:
        """Remove boxes of a kind; the kind goes with the last one."""
        left = self._boxes[number] - boxes
        if left:
            self._boxes[number] = left
            return
        del self._boxes[number]
        _, shape, family, _ = self.kind(number)
        self._unlist_kind(number, shape.attributes | family.attributes)
        shape.kinds -= 1
        if not shape.kinds:
            self._drop_shape(shape)
        family.kinds -= 1
        if not family.kinds:
            self._drop_family(family)

    def _drop_shape(self, shape: Shape) -> None:
        del self._shape_of[shape.dimensions], self._shapes[shape.id]
        self._free_shapes.append(shape.id)
        for dimension in shape.dimensions:
            self._disuse(dimension)

    def _drop_family(self, family: Family) -> None:
        anchor = family.anchor
        del self._family_of[family.without, family.atoms, anchor], self._families[family.id]
        if not family.atoms:
            del self._without_atoms[anchor][family.id]
        if anchor is not None:
            self._anchors[anchor] -= 1
            if not self._anchors[anchor]:
                del self._anchors[anchor]
                self._without_atoms.pop(anchor, None)
        for dimension in family.without:
            self._disuse(dimension)
        for atom in family.atoms:
            self._disuse_atom(atom, family)
        self._openings_changed()

    def _openings_changed(self) -> None:
        self.openings.forget()
        if self._token_points is not None:
            self._token_points.openings_changed()

    def _dimensions_changed(self) -> None:
        self._planned = self._coordinates = None
        if self._token_points is not None:
            self._token_points.dimensions_changed()

    def _use_atom(self, predicate: Predicate) -> _Atom:
        of_attribute = self._atoms.setdefault(predicate.attribute, Patterns())
        atom = of_attribute.get(predicate)
        if atom is None:
            atom = _Atom(self._next_atom)
            of_attribute.add(predicate, atom)
            self._next_atom += 1
        atom.users += 1
        return atom

    def _disuse_atom(self, predicate: Predicate, family: Family) -> None:
        of_attribute = self._atoms[predicate.attribute]
        atom = of_attribute[predicate]
        atom.families.pop(family.id, None)
        atom.users -= 1
        if not atom.users:
            of_attribute.remove(predicate)
            if not len(of_attribute):
                del self._atoms[predicate.attribute]

    def _use(self, dimension: Dimension) -> int:
        place = self._places.get(dimension)
        if place is None:
            place = self._free.pop() if self._free else len(self._places)
            self._places[dimension] = place
            self._users[dimension] = 0
            attribute, axis = dimension
            self._axes.setdefault(attribute, [None] * len(Axis))[axis] = place
            self._dimensions_changed()
        self._users[dimension] += 1
        return place

    def _disuse(self, dimension: Dimension) -> None:
        self._users[dimension] -= 1
        if self._users[dimension]:
            return
        del self._users[dimension]
        self._free.append(self._places.pop(dimension))
        attribute, axis = dimension
        self._dimensions_changed()
        if axis is Axis.STRING:
            del self._codes[attribute]
        axes = self._axes[attribute]
        axes[axis] = None
        if not any(place is not None for place in axes):
            del self._axes[attribute]

    # -- the position of a notification, and what it opens

    def point(self, values: Mapping[str, Value]) -> Sides:
        """A notification as a point; the same array every time, which may be longer than the space."""
        if len(self._axes) > FEW_ATTRIBUTES_MAX:
            if self._wide_coordinates is None:
                self._wide_coordinates = WideCoordinates(self._axes, self.known_code)
            return self._wide_coordinates.place(values, self.size)
        if self._coordinates is None:
            self._coordinates = Coordinates(self.size, self.plan())
        return self._coordinates.place(values)

    @property
    def token_points(self) -> TokenPoints:
        """Places notifications read as tokens; made on first use and kept up to date."""
        if self._token_points is None:
            self._token_points = TokenPoints(self)
        return self._token_points

    def plan(self) -> list[AttributeAxes]:
        """How to place each attribute that has a dimension."""
        if self._planned is None:
            self._planned = []
            for attribute, axes in self._axes.items():
                number, string, boolean, present = (-1 if place is None else place for place in axes)
                code_of = self._codes[attribute].of.lookup if string >= 0 else _NO_CODES.get
                self._planned.append(AttributeAxes(attribute, code_of, number, string, boolean, present))
        return self._planned

    def axes_of(self, attribute: str) -> list[int | None] | None:
        """The places of an attribute by axis; None if no filter names it."""
        return self._axes.get(attribute)

    @property
    def attributes(self) -> list[str]:
        """All attributes that filters name, in dimensions or in atoms."""
        return list(self._kinds_naming)

    @property
    def atom_attributes(self) -> list[str]:
        """The attributes whose strings decide which families are open."""
        return list(self._atoms)

    def atoms_satisfied_by(self, attribute: str, text: str) -> list[int]:
        """The numbers of the conditions on an attribute that a string satisfies."""
        atoms = self._atoms.get(attribute)
        return [] if atoms is None else [atom.number for atom in atoms.satisfied_by(text)]

    @staticmethod
    def family_id(kind: int) -> int:
        """The family of a kind, by their numbers."""
        return kind >> _FAMILY_BIT

    @property
    def opens_by_name(self) -> bool:
        """Whether openings are looked up by `named_key`; otherwise by one string or None per `atom_attributes`."""
        return bool(self._anchors) or len(self._atoms) > FEW_ATTRIBUTES_MAX

    def decides_openings(self, attribute: str) -> bool:
        """Whether an attribute affects which families are open."""
        return attribute in self._atoms or attribute in self._anchors

    @property
    def something_decides(self) -> bool:
        """Whether any attribute affects which families are open."""
        return bool(self._atoms) or bool(self._anchors)

    def deciding(self) -> list[str]:
        """The attributes that do, each once."""
        return list(dict.fromkeys((*self._atoms, *self._anchors)))

    def opening_key(self, named: Mapping[str, str | None]) -> Key:
        """Like `named_key`, for attributes that matter only: each with its string, or None for another type."""
        if self.opens_by_name:
            return tuple((name, text if name in self._atoms else None) for name, text in named.items())
        return tuple(named.get(attribute) for attribute in self._atoms)

    def named_key(self, values: Mapping[str, Value]) -> Key:
        """The key of the families that a notification opens: each deciding attribute that it has, and its string."""
        return tuple(
            (name, value if type(value) is str and name in self._atoms else None)
            for name, value in values.items()
            if name in self._atoms or name in self._anchors
        )

    def opened_by(self, values: Mapping[str, Value]) -> npt.NDArray[np.int64]:
        """The families that a notification opens, as an index into the openings."""
        if self._anchors or len(self._atoms) > FEW_ATTRIBUTES_MAX:
            return self.openings.number_alone(self.named_key(values))
        strings = []
        for attribute in self._atoms:
            value = values.get(attribute)
            strings.append(value if type(value) is str else None)
        return self.openings.number_alone(tuple(strings))

    def _open(self, key: Key) -> list[int]:
        """The families that this key opens; see `opens_by_name`."""
        pairs = key if self.opens_by_name else zip(self._atoms, key, strict=True)
        named: dict[str, str | None] = dict(pairs)  # type: ignore[arg-type]
        satisfied: dict[int, _Atom] = {}
        for attribute, text in named.items():
            if text is not None:
                satisfied.update((atom.number, atom) for atom in self._atoms[attribute].satisfied_by(text))
        opened = list(self._without_atoms[None])
        for attribute in named if self._anchors else ():
            opened += self._without_atoms.get(attribute, ())
        for atom in satisfied.values():
            for family in atom.families.values():
                if family.anchor is not None and family.anchor not in named:
                    continue
                if all(number in satisfied for number in family.atom_numbers):
                    opened.append(family.id)
        return opened
