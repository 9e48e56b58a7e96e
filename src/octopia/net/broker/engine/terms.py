"""What the notifications of a publisher must satisfy, as a program for compiled code: advertisements, and its right.

Conformity depends first on a notification's attribute names, so there is a program for each signature (`wire/scanner`).
It is made when a publisher first uses the signature. Publishers with equal advertisements and rights share theirs.

A program is a row of numbers in `CODE`:

    program        how many advertisements apply; for each its number among the publisher's, and its condition; then the
                   condition of the right
    condition      `ANYTHING`: no test is left
                   or how many alternatives there are, and for each how many tests it has, and these
                   or `MEMBERS`, how many tests all alternatives have in common, and these; an attribute, and a table of
                   lines by the hash of their strings, preceded by its size less one: one of them equals the attribute
    test           which attribute of the notification it is about, and the line of its predicate
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from octopia.language import ALWAYS, Alternatives, Filter, Operator, Predicate
from octopia.matching import PredicateTable
from octopia.net.broker.permits import Permit
from octopia.routing import Registered, Terms
from octopia.sheets import Sheet

# Lines of the sheet: where the program of each signature begins, or one of the two below; and the programs.
BY_SIGNATURE, CODE = range(2)
SHEET_LINES: Final = 2
UNKNOWN: Final = -1
# The signature needs a program that compiled code does not run.
PYTHON: Final = -2
ANYTHING: Final = -1
MEMBERS: Final = -2
# Advertisements of one publisher that programs may have: their numbers are bits of a word.
ADVERTISEMENTS_MAX: Final = 63
# Tests in one program; a longer one is run in Python.
TESTS_MAX: Final = 4_096
# Fewer alternatives than this are tested one after the other.
_MEMBERS_MIN: Final = 8


class Programs:
    """The programs of publishers with certain advertisements and a certain right."""

    __slots__ = ("_end", "_kernels", "predicates", "sheet")

    def __init__(self) -> None:
        from octopia.net.broker.engine import read_numba

        self._kernels: Any = read_numba
        self._end = 0
        self.predicates = PredicateTable()
        self.sheet = Sheet(SHEET_LINES)
        self.sheet.put(BY_SIGNATURE, np.full(8, UNKNOWN, dtype=np.int32))
        self.sheet.put(CODE, np.zeros(64, dtype=np.int32))

    def add(
        self,
        signature: int,
        names: tuple[str, ...],
        terms: Terms,
        advertised: Sequence[Registered],
        permit: Permit | None,
    ) -> None:
        """Make the program of a signature, which has these names."""
        right = ALWAYS if permit is None else permit.alternatives(names)
        by_signature = self.sheet[BY_SIGNATURE]
        if signature >= len(by_signature):
            before = len(by_signature)
            by_signature = self.sheet.grow(BY_SIGNATURE, max(signature + 1, 2 * before))
            by_signature[before:] = UNKNOWN
        if len(advertised) > ADVERTISEMENTS_MAX or _tests(terms, right) > TESTS_MAX:
            by_signature[signature] = PYTHON
            return
        places = {name: place for place, name in enumerate(names)}
        number_of = {id(own): number for number, own in enumerate(advertised)}
        code = [len(terms)]
        for own, alternatives in terms:
            code += [number_of[id(own)], *self._condition(alternatives, places)]
        code += self._condition(right, places)
        by_signature[signature] = self._end
        stop = self._end + len(code)
        if stop > len(self.sheet[CODE]):
            self.sheet.grow(CODE, 2 * stop)
        self.sheet[CODE][self._end : stop] = code
        self._end = stop

    def _condition(self, alternatives: Alternatives, places: dict[str, int]) -> list[int]:
        if alternatives is ALWAYS:
            return [ANYTHING]
        if len(alternatives) >= _MEMBERS_MIN and (found := _members(alternatives)) is not None:
            common, members = found
            return [
                MEMBERS,
                len(common),
                *self._all(common, places),
                places[members[0].attribute],
                *self._by_hash(members),
            ]
        code = [len(alternatives)]
        for tests in alternatives:
            code += [len(tests), *self._all(tests, places)]
        return code

    def _all(self, tests: Sequence[Predicate], places: dict[str, int]) -> list[int]:
        code = []
        for predicate in tests:
            code += [places[predicate.attribute], self.predicates.add(predicate)]
        return code

    def _by_hash(self, members: Sequence[Predicate]) -> list[int]:
        last = (4 << len(members).bit_length()) - 1
        slots = [-1] * (last + 1)
        for predicate in members:
            text = np.frombuffer(str(predicate.value).encode() or b"\0", dtype=np.uint8)
            slot = self._kernels.hash_of_text(text, len(str(predicate.value).encode())) & last
            while slots[slot] >= 0:
                slot = (slot + 1) & last
            slots[slot] = self.predicates.add(predicate)
        return [last, *slots]


def _members(alternatives: Alternatives) -> tuple[list[Predicate], list[Predicate]] | None:
    """Tests that all alternatives have, and the one more of each; None unless that says that a string is equal.

    So for `symbol in ('A', 'B', …) and price > 0`.
    """
    common = [predicate for predicate in alternatives[0] if all(predicate in tests for tests in alternatives)]
    members = []
    for tests in alternatives:
        rest = [predicate for predicate in tests if predicate not in common]
        if len(rest) != 1 or rest[0].operator is not Operator.EQ or not isinstance(rest[0].value, str):
            return None
        members.append(rest[0])
    return (common, members) if len({predicate.attribute for predicate in members}) == 1 else None


def _tests(terms: Terms, right: Alternatives) -> int:
    return sum(len(tests) for _, alternatives in terms for tests in alternatives) + sum(map(len, right))


# What programs follow from: the filters of advertisements in order, and the right.
Promise = tuple[tuple[Filter, ...], Filter | None]
