"""The space that boxes live in: dimensions, the codes of strings, and the kinds of boxes.

A *kind* is what boxes have in common that share their dimensions and atoms. Kinds that differ in their intervals alone
form a *family*; an event opens the families whose atoms its strings satisfy, and is compared with their boxes only.

Rules of this file: everything here is counted and goes when its last user goes. Numbers of dimensions and shapes are
used again, so that a point stays short and the number of a kind a number of 64 bits; numbers of families and codes are
not, since removed boxes may lie in a run for a while. Which families a combination of strings opens is remembered
(`openings`), and forgotten when one comes or goes.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Predicate, Value
from octopia.matching.boxes import Axis, Box, Dimension
from octopia.matching.openings import Openings, Strings
from octopia.matching.placing import Placing, Plan, Sides

# The number of a kind: its family, its shape, whether its boxes are inexact. So kinds in order are families in order.
_FAMILY_BIT, _SHAPE_BIT = 32, 1
_SHAPES_MAX = 1 << (_FAMILY_BIT - _SHAPE_BIT)
_NAMES_REMEMBERED_MAX = 1_024


@lru_cache(_NAMES_REMEMBERED_MAX)
def _names(attributes: tuple[str, ...]) -> frozenset[str]:
    """One set for equal names: there may be thousands of families, and most name the same."""
    return frozenset(attributes)


class Shape:
    """Dimensions that boxes have intervals on, and their numbers in the space. `typed`: attributes of which they ask
    for more than that they are present."""

    __slots__ = ("attributes", "dimensions", "id", "kinds", "places", "typed")

    def __init__(self, id: int, dimensions: tuple[Dimension, ...], places: tuple[int, ...]) -> None:
        self.id = id
        self.dimensions = dimensions
        self.attributes = _names(tuple(attribute for attribute, _ in dimensions))
        self.typed = _names(tuple(attribute for attribute, axis in dimensions if axis is not Axis.PRESENT))
        self.places = places
        self.kinds = 0


class Family:
    """Kinds of the same atoms, and the same dimensions that a value is left out of, with their numbers."""

    __slots__ = ("atom_numbers", "atoms", "attributes", "id", "kinds", "places", "without")

    def __init__(self, id: int, box: Box, places: tuple[int, ...], atom_numbers: tuple[int, ...]) -> None:
        self.id = id
        self.atoms = box.atoms
        self.atom_numbers = atom_numbers
        self.without = box.without
        self.attributes = _names((*(a for a, _ in box.without), *(atom.attribute for atom in box.atoms)))
        self.places = places
        self.kinds = 0


class BoxKind(NamedTuple):
    """Boxes of one shape in one family. There may be thousands of kinds: this is made of the number when needed."""

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
    """Numbers that stand for the strings of one attribute, counted."""

    __slots__ = ("next", "of", "users")

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self.users: dict[str, int] = {}
        self.next = 0.0

    def add(self, text: str) -> float:
        code = self.of[text] = self.next
        self.users[text] = 1
        self.next += 1.0
        return code

    def drop(self, text: str) -> None:
        del self.of[text], self.users[text]


class Space:
    """All dimensions, codes and kinds of one matcher."""

    def __init__(self) -> None:
        # by the number of a kind, how many boxes it has
        self._boxes: dict[int, int] = {}
        self._shapes: dict[int, Shape] = {}
        self._shape_of: dict[tuple[Dimension, ...], Shape] = {}
        self._free_shapes: list[int] = []
        self._families: dict[int, Family] = {}
        self._family_of: dict[tuple[tuple[Dimension, ...], tuple[Predicate, ...]], Family] = {}
        self._next_family = 0
        self._places: dict[Dimension, int] = {}
        self._users: dict[Dimension, int] = {}
        self._free: list[int] = []
        self._codes: dict[str, _Codes] = {}
        # attribute -> its places by axis (None where it has none), for the one pass over a notification
        self._axes: dict[str, list[int | None]] = {}
        # worked out when they are asked for
        self._planned: list[Plan] | None = None
        self._placing: Placing | None = None
        self._atoms: dict[str, dict[Predicate, _Atom]] = {}
        self._next_atom = 0
        self._without_atoms: dict[int, Family] = {}
        self.openings = Openings(self._open)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is worked out again."""
        return self.__dict__ | {"_planned": None, "_placing": None}

    @property
    def size(self) -> int:
        """The length of a point: places ever in use at the same time."""
        return len(self._places) + len(self._free)

    def code_of(self, attribute: str, text: str) -> float:
        """The number of a string that a filter asks for; counted, see `release_code`."""
        codes = self._codes.get(attribute)
        if codes is None:
            codes = self._codes[attribute] = _Codes()
        code = codes.of.get(text)
        if code is None:
            return codes.add(text)
        codes.users[text] += 1
        return code

    def known_code(self, attribute: str, text: str) -> float:
        """The number of a string in a notification; -1 where no filter asks for it."""
        codes = self._codes.get(attribute)
        return -1.0 if codes is None else codes.of.get(text, -1.0)

    def release_code(self, attribute: str, text: str) -> None:
        """A filter that asked for a string is gone; to be called before its boxes leave their kinds."""
        codes = self._codes[attribute]
        left = codes.users[text] - 1
        if left:
            codes.users[text] = left
        else:
            codes.drop(text)

    # -- kinds

    @property
    def kinds(self) -> list[BoxKind]:
        """All kinds that have boxes."""
        return [self.kind(number) for number in self._boxes]

    @property
    def kinds_count(self) -> int:
        """How many kinds have boxes."""
        return len(self._boxes)

    def kind(self, number: int) -> BoxKind:
        """What boxes of this number have in common."""
        shape = self._shapes[(number >> _SHAPE_BIT) % _SHAPES_MAX]
        return BoxKind(number, shape, self._families[number >> _FAMILY_BIT], bool(number % 2))

    def take(self, box: Box) -> int:
        """The number of the kind of a box, which now has one more box."""
        shape = self._shape_of.get(box.dimensions) or self._new_shape(box)
        family = self._family_of.get((box.without, box.atoms)) or self._new_family(box)
        number = family.id << _FAMILY_BIT | shape.id << _SHAPE_BIT | box.inexact
        boxes = self._boxes.get(number, 0)
        if not boxes:
            shape.kinds += 1
            family.kinds += 1
        self._boxes[number] = boxes + 1
        return number

    def _new_shape(self, box: Box) -> Shape:
        id = self._free_shapes.pop() if self._free_shapes else len(self._shapes)
        shape = Shape(id, box.dimensions, tuple(self._use(dimension) for dimension in box.dimensions))
        self._shape_of[box.dimensions] = self._shapes[shape.id] = shape
        return shape

    def _new_family(self, box: Box) -> Family:
        atoms = [self._use_atom(atom) for atom in box.atoms]
        places = tuple(self._use(dimension) for dimension in box.without)
        family = Family(self._next_family, box, places, tuple(atom.number for atom in atoms))
        self._next_family += 1
        self._family_of[box.without, box.atoms] = self._families[family.id] = family
        # looked up by the atom that the fewest others are looked up by
        by_number = min(atoms, key=lambda atom: len(atom.families)).families if atoms else self._without_atoms
        by_number[family.id] = family
        self.openings.forget()
        return family

    def leave(self, number: int, boxes: int = 1) -> None:
        """Boxes of a kind are gone; with the last, the kind."""
        left = self._boxes[number] - boxes
        if left:
            self._boxes[number] = left
            return
        del self._boxes[number]
        _, shape, family, _ = self.kind(number)
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
        del self._family_of[family.without, family.atoms], self._families[family.id]
        self._without_atoms.pop(family.id, None)
        for dimension in family.without:
            self._disuse(dimension)
        for atom in family.atoms:
            self._disuse_atom(atom, family)
        self.openings.forget()

    def _use_atom(self, predicate: Predicate) -> _Atom:
        of_attribute = self._atoms.setdefault(predicate.attribute, {})
        atom = of_attribute.get(predicate)
        if atom is None:
            atom = of_attribute[predicate] = _Atom(self._next_atom)
            self._next_atom += 1
        atom.users += 1
        return atom

    def _disuse_atom(self, predicate: Predicate, family: Family) -> None:
        of_attribute = self._atoms[predicate.attribute]
        atom = of_attribute[predicate]
        atom.families.pop(family.id, None)
        atom.users -= 1
        if not atom.users:
            del of_attribute[predicate]
            if not of_attribute:
                del self._atoms[predicate.attribute]

    def _use(self, dimension: Dimension) -> int:
        place = self._places.get(dimension)
        if place is None:
            place = self._free.pop() if self._free else len(self._places)
            self._places[dimension] = place
            self._users[dimension] = 0
            attribute, axis = dimension
            self._axes.setdefault(attribute, [None] * len(Axis))[axis] = place
            self._planned = self._placing = None
        self._users[dimension] += 1
        return place

    def _disuse(self, dimension: Dimension) -> None:
        self._users[dimension] -= 1
        if self._users[dimension]:
            return
        del self._users[dimension]
        self._free.append(self._places.pop(dimension))
        attribute, axis = dimension
        self._planned = self._placing = None
        if axis is Axis.STRING:
            del self._codes[attribute]
        axes = self._axes[attribute]
        axes[axis] = None
        if not any(place is not None for place in axes):
            del self._axes[attribute]

    # -- where a notification lies, and what it opens

    def point(self, values: Mapping[str, Value]) -> Sides:
        """Where a notification lies; the same array every time."""
        if self._placing is None:
            self._placing = Placing(self.size, self.plan())
        return self._placing.place(values)

    def plan(self) -> list[Plan]:
        """What to do with each attribute that some dimension is of."""
        if self._planned is None:
            self._planned = []
            for attribute, axes in self._axes.items():
                number, string, boolean, present = (-1 if place is None else place for place in axes)
                codes = self._codes[attribute].of if string >= 0 else {}
                self._planned.append(Plan(attribute, codes, number, string, boolean, present))
        return self._planned

    def axes_of(self, attribute: str) -> list[int | None] | None:
        """The places of an attribute by axis; None where no filter asks for it."""
        return self._axes.get(attribute)

    @property
    def attributes(self) -> list[str]:
        """All attributes that some filter asks for, in dimensions or in atoms."""
        return list(dict.fromkeys([*self._axes, *self._atoms]))

    @property
    def atom_attributes(self) -> list[str]:
        """The attributes whose strings decide which families are open."""
        return list(self._atoms)

    def opened_by(self, values: Mapping[str, Value]) -> npt.NDArray[np.int64]:
        """What a notification opens, as its number among the openings."""
        strings = []
        for attribute in self._atoms:
            value = values.get(attribute)
            strings.append(value if type(value) is str else None)
        return self.openings.number_alone(tuple(strings))

    def _open(self, strings: Strings) -> list[int]:
        """The families that strings of `atom_attributes` open; None stands for anything that is no string."""
        satisfied: dict[int, _Atom] = {}
        for atoms, text in zip(self._atoms.values(), strings, strict=True):
            if text is not None:
                satisfied.update((a.number, a) for predicate, a in atoms.items() if predicate.accepts(text))
        opened = list(self._without_atoms)
        for atom in satisfied.values():
            for family in atom.families.values():
                if all(number in satisfied for number in family.atom_numbers):
                    opened.append(family.id)
        return opened
