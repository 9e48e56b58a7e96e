"""A matcher as compiled code reads it: arrays in one sheet, kept equal to the space, the runs and the waiting boxes.

It is made for the first search that compiled code does. From then on the space tells it of every attribute, family,
string, piece and test that comes or goes, and each of them costs the same, however many there are. Before a search,
`refresh` brings in what changes more seldom.

A reader numbers attribute names in its own way (`tokens.Names`). A *view* has the attribute of each of its names; its
sheet is what a search begins with (`find_numba.find`). The matcher's own tokens have attributes for names.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from octopia.language import Predicate
from octopia.matching.boxes import Axis
from octopia.matching.codes import CODE_LINES, CodeTable
from octopia.matching.ladder import LadderTable
from octopia.matching.pieces import Piece, PieceTable
from octopia.matching.predicates import PredicateTable
from octopia.matching.space import Attribute, Family, Space
from octopia.matching.tokens import Names
from octopia.sheets import Sheet

# Lines of the sheet. First what is kept equal: attributes; families as lists, each with the next and the one before;
# the codes of strings, from CODE_TABLE on, and pieces, from PIECE_TABLE on; lists of tests by number, the tests, and
# the address of the table of their predicates; the addresses of all runs, of the waiting boxes and of the rows.
ATTRIBUTES, FAMILIES, CODE_TABLE, PIECE_TABLE, FIRST_TESTS, TEST_TABLE, PREDICATES = 0, 1, 2, 6, 10, 11, 12
RUNS, WAITING, ROWS = 13, 14, 15
# Then numbers (below), and what a search works with: the sides of a point, the places where it has some, per attribute
# the last event that had it and its token, the pieces found, and the levels of a search.
STATE, SIDES, TOUCHED, SEEN, HITS, LEVELS = 16, 17, 18, 19, 20, 21
MIRROR_LINES = 22
# STATE: how many events were searched for, the length of a point, the first family that is always open, and how many
# rows have several boxes.
EVENTS, SIZE, ALWAYS, SEVERAL = range(4)
# Columns of an attribute: the places of its axes, in the order of `Axis`; the addresses of its ladders, or 0; the
# widths of windows of its pieces; and the first of the families that it opens, by being there and by its pieces, or -1.
EXACT_TABLE, ORDER_TABLE, ENDING_TABLE, PIECE_WIDTHS, ANCHORED, PIECED = range(len(Axis), len(Axis) + 6)
ATTRIBUTE_COLUMNS = len(Axis) + 6
# Columns of a family, and of a test: its predicate, its attribute, and the next test of its list.
NEXT, PREVIOUS = range(2)
TEST_LINE, TEST_ATTRIBUTE, TEST_NEXT = range(3)
TEST_COLUMNS = 3
# Lines of a view's sheet: the attribute of each name, or -1, and the address of the mirror.
PLANS, MIRROR = range(2)
VIEW_LINES = 2

_LADDERS = {Axis.EXACT: EXACT_TABLE, Axis.ORDER: ORDER_TABLE, Axis.ENDING: ENDING_TABLE}
_LINES_MIN = 16
# Views that are kept: there is one for each reader, and a reader that has met too many names begins anew.
_VIEWS_MAX = 8


class View:
    """The names of a reader in a space."""

    __slots__ = ("_number_of", "names", "sheet")

    def __init__(self, names: Names, mirror: Sheet) -> None:
        self.names = names
        self._number_of: dict[str, int] = {}
        self.sheet = Sheet(VIEW_LINES)
        self.sheet.put(PLANS, np.zeros(0, dtype=np.int64))
        self.sheet.put(MIRROR, np.array([mirror.address], dtype=np.int64))

    def meet_names(self, space: Space) -> None:
        """Plan the names that the reader has met since."""
        known, words = len(self._number_of), self.names.words
        if len(words) == known:
            return
        plans = [_line(space.attributes.get(word)) for word in words[known:]]
        self._number_of.update(zip(words[known:], range(known, len(words)), strict=True))
        self.sheet.put(PLANS, np.concatenate([self.sheet[PLANS], np.array(plans, dtype=np.int64)]))

    def plan(self, word: str, line: int) -> None:
        """The attribute of this name, if the reader has met it, has this number now, or -1."""
        number = self._number_of.get(word)
        if number is not None:
            self.sheet[PLANS][number] = line


def _line(attribute: Attribute | None) -> int:
    return -1 if attribute is None else attribute.line


class Mirror:
    """The arrays for one matcher."""

    def __init__(self, space: Space, rows: Sheet) -> None:
        from octopia.matching.search_numba import LEVEL_NUMBERS

        self._space = space
        self.sheet = sheet = Sheet(MIRROR_LINES)
        self._views: dict[int, View] = {}
        sheet.put(ATTRIBUTES, np.full((_LINES_MIN, ATTRIBUTE_COLUMNS), -1, dtype=np.int64))
        sheet.put(FAMILIES, np.full((_LINES_MIN, 2), -1, dtype=np.int64))
        self._codes = CodeTable(sheet, CODE_TABLE)
        self._pieces = PieceTable(sheet, PIECE_TABLE)
        self._predicates = PredicateTable()
        sheet.put(FIRST_TESTS, np.full(_LINES_MIN, -1, dtype=np.int64))
        sheet.put(TEST_TABLE, np.full((_LINES_MIN, TEST_COLUMNS), -1, dtype=np.int64))
        self._free_tests: list[int] = []
        self._tests_end = 0
        sheet.put(PREDICATES, np.array([self._predicates.sheet.address], dtype=np.int64))
        sheet.put(RUNS, np.zeros(0, dtype=np.int64))
        self._runs: list[int] = []  # the addresses there
        sheet.put(WAITING, np.zeros(1, dtype=np.int64))
        sheet.put(ROWS, np.array([rows.address], dtype=np.int64))
        # numbers of events begin at 1: 0 is that of none
        sheet.put(STATE, np.array([1, 0, -1, 0], dtype=np.int64))
        sheet.put(LEVELS, np.zeros(LEVEL_NUMBERS, dtype=np.int64))
        sheet.put(SEEN, np.zeros((_LINES_MIN, 2), dtype=np.int64))
        sheet.put(HITS, np.zeros((1, 2)))
        self._make_sides()
        # the attributes themselves, for tokens that the matcher makes
        self.own = Sheet(VIEW_LINES)
        self.own.put(PLANS, np.arange(_LINES_MIN))
        self.own.put(MIRROR, np.array([sheet.address], dtype=np.int64))
        self._fill()

    def _fill(self) -> None:
        space = self._space
        for attribute in space.attributes.values():
            self.add(attribute)
            if attribute.codes is not None:
                for text, code in attribute.codes.of.items():
                    self.add_code(attribute.line, text, code)
            for piece in attribute.pieces or ():
                self.add_piece(attribute, piece)
        for family in space.families():
            self.link(family)
        for tests, number in space.tests:
            self.add_tests(number, tests)

    # -- before a search

    def refresh(self, runs: Iterable[Sheet], waiting: Sheet, several: int) -> None:
        """Bring in the runs, the waiting boxes and the length of points."""
        addresses = [run.address for run in runs]
        if addresses != self._runs:
            self._runs = addresses
            self.sheet.put(RUNS, np.array(addresses, dtype=np.int64))
        self.sheet[WAITING][0] = waiting.address
        self.sheet[STATE][SEVERAL] = several
        if self._space.size > self.sheet[STATE][SIZE]:
            self._make_sides()
        if len(self._pieces) > len(self.sheet[HITS]):
            self.sheet.put(HITS, np.zeros((2 * len(self._pieces), 2)))

    def _make_sides(self) -> None:
        size = max(_LINES_MIN, 2 * self._space.size)
        self.sheet.put(SIDES, np.repeat([-np.inf, np.inf], size))
        # an attribute has at most this many places
        self.sheet.put(TOUCHED, np.zeros(size + len(Axis), dtype=np.int32))
        self.sheet[STATE][SIZE] = size

    def view_of(self, names: Names) -> Sheet:
        """The sheet with which a search for a reader's tokens begins."""
        view = self._views.get(id(names))
        if view is None:
            if len(self._views) >= _VIEWS_MAX:
                del self._views[next(iter(self._views))]
            # it keeps the names, so that no others get their identity
            view = self._views[id(names)] = View(names, self.sheet)
        view.meet_names(self._space)
        return view.sheet

    # -- attributes come and go

    def add(self, attribute: Attribute) -> None:
        """A new attribute."""
        line = attribute.line
        if line >= len(self.sheet[ATTRIBUTES]):
            for lines in (ATTRIBUTES, SEEN):
                self.sheet.grow(lines, 2 * line)
            self.own.put(PLANS, np.arange(2 * line))
        self.sheet[ATTRIBUTES][line, PIECE_WIDTHS:] = 0, -1, -1
        self.write(attribute)
        for view in self._views.values():
            view.plan(attribute.name, line)

    def write(self, attribute: Attribute) -> None:
        """The places or ladders of an attribute have changed."""
        line = self.sheet[ATTRIBUTES][attribute.line]
        line[: len(Axis)] = attribute.places
        for axis, column in _LADDERS.items():
            ladder = attribute.ladders.get(axis)
            if ladder is None:
                line[column] = 0
                continue
            if ladder.table is None:
                ladder.table = LadderTable(ladder)
            line[column] = ladder.table.sheet.address

    def remove(self, attribute: Attribute) -> None:
        """An attribute is gone."""
        for view in self._views.values():
            view.plan(attribute.name, -1)

    # -- families

    def link(self, family: Family) -> None:
        """A new family: it becomes the first of its list."""
        id = family.id
        if id >= len(self.sheet[FAMILIES]):
            self.sheet.grow(FAMILIES, 2 * id)
        families = self.sheet[FAMILIES]
        array, at = self._list_of(family)
        first = int(array[at])
        families[id] = first, -1
        if first >= 0:
            families[first, PREVIOUS] = id
        array[at] = id

    def unlink(self, family: Family) -> None:
        """A family is gone."""
        families = self.sheet[FAMILIES]
        after, before = families[family.id].tolist()
        if after >= 0:
            families[after, PREVIOUS] = before
        if before >= 0:
            families[before, NEXT] = after
        else:
            array, at = self._list_of(family)
            array[at] = after

    def _list_of(self, family: Family) -> tuple[Any, Any]:
        """Where the first family of the list is that this one is in."""
        if family.piece is not None:
            return self.sheet[ATTRIBUTES], (self._space.attributes[family.piece].line, PIECED)
        if family.anchor is not None:
            return self.sheet[ATTRIBUTES], (self._space.attributes[family.anchor].line, ANCHORED)
        return self.sheet[STATE], ALWAYS

    # -- strings, pieces, tests

    def add_code(self, line: int, text: str, code: float) -> None:
        self._codes.add(line, text, code)

    def remove_code(self, line: int, text: str) -> None:
        self._codes.remove(line, text)

    def add_piece(self, attribute: Attribute, piece: Piece) -> None:
        self._pieces.add(attribute.line, piece)
        self._write_widths(attribute)

    def remove_piece(self, attribute: Attribute, piece: Piece) -> None:
        self._pieces.remove(attribute.line, piece)
        self._write_widths(attribute)

    def _write_widths(self, attribute: Attribute) -> None:
        self.sheet[ATTRIBUTES][attribute.line, PIECE_WIDTHS] = (
            0 if attribute.pieces is None else attribute.pieces.widths
        )

    def add_tests(self, number: int, tests: tuple[Predicate, ...]) -> None:
        """A new list of tests."""
        if number >= len(self.sheet[FIRST_TESTS]):
            self.sheet.grow(FIRST_TESTS, 2 * number)
        first = -1
        for predicate in reversed(tests):
            line = self._free_tests.pop() if self._free_tests else self._new_test()
            attribute = self._space.attributes[predicate.attribute].line
            self.sheet[TEST_TABLE][line] = self._predicates.add(predicate), attribute, first
            first = line
        self.sheet[FIRST_TESTS][number] = first

    def _new_test(self) -> int:
        line = self._tests_end
        self._tests_end += 1
        if line >= len(self.sheet[TEST_TABLE]):
            self.sheet.grow(TEST_TABLE, 2 * line)
        return line

    def remove_tests(self, number: int) -> None:
        """A list of tests is gone."""
        line = int(self.sheet[FIRST_TESTS][number])
        while line >= 0:
            predicate, _, after = self.sheet[TEST_TABLE][line].tolist()
            self._predicates.remove(predicate)
            self._free_tests.append(line)
            line = after


assert PIECE_TABLE == CODE_TABLE + CODE_LINES  # noqa: S101 - lines are numbered by hand
