"""The compiled test of a value says what `Predicate.accepts` says, for all operators and kinds."""

import random
from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt
import pytest

from octopia.errors import LanguageError
from octopia.language import Operator, Predicate, Value
from octopia.matching import kernels_in_use
from octopia.matching.predicates import PredicateTable
from octopia.matching.tokens import BOOL, NUMBER, TEXT, TOKEN_COLUMNS, pair_of
from tests.effort import cases

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")

WORDS: list[int] = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    2**60,
    2**60 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**53) - 1,
    -(2**60) - 1,
    -(2**63),
]
FLOATS = [0.0, -0.0, 0.5, 1.5, 2.0**53, 2.0**60, 2.0**63, 2.0**64, 1e300, 1.7976931348623157e308, 5e-324, inf, -inf]
NUMBERS: list[Value] = [*WORDS, *FLOATS, -1.5, -(2.0**60), -(2.0**63)]
# constants may be longer than any number that a token can be
LONG: list[Value] = [2**64, 2**64 + 1, 10**30, 10**30 + 1, -(10**30), 10**400, -(10**400)]
LETTERS = ("a", "b", "ab", "aab", "é", "日", "\U0001f419", "\0", "\x7f", "\ud7ff", "\ue000", "\U0010ffff")


def tokens_of(values: Sequence[Value]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    """Tokens written by hand, their numbers, and strings as the wire has them, with other bytes around them."""
    tokens = np.empty((len(values), TOKEN_COLUMNS), dtype=np.int32)
    numbers = np.empty(len(values), dtype=np.float64)
    data = b"\xffaaaaaaaa"
    for at, value in enumerate(values):
        if isinstance(value, str):
            text = value.encode()
            tokens[at] = at, TEXT, len(data), len(data) + len(text)
            data += text + b"ab\xff"
        elif isinstance(value, bool):
            tokens[at] = at, BOOL, -1, -1
            numbers[at] = value
        else:
            numbers[at], rest = pair_of(value)
            tokens[at] = at, NUMBER, rest, -1
    return tokens, numbers, np.frombuffer(data, dtype=np.uint8)


def drawn_text(draw: random.Random) -> str:
    return "".join(draw.choices(LETTERS[: draw.choice((1, 3, 12))], k=draw.choice((0, 1, 2, 3, 8, 30))))


def drawn_constant(draw: random.Random, near: Value) -> Value:
    """A constant that the value is often close to: its own, a piece of it, a number beside it."""
    if isinstance(near, str) and draw.random() < 0.7:
        start = draw.randint(0, len(near))
        return near[start : draw.randint(start, len(near))] + draw.choice(("", "", "", "a", "\0"))
    if isinstance(near, int) and not isinstance(near, bool) and draw.random() < 0.7:
        return near + draw.choice((-1, 0, 1))
    return draw.choice((drawn_text(draw), draw.choice(NUMBERS), draw.choice(LONG), draw.random() < 0.5))


def drawn_predicate(draw: random.Random, near: Value) -> Predicate:
    while True:
        operator = draw.choice(tuple(Operator))
        try:
            return Predicate("x", operator, None if operator is Operator.PRESENT else drawn_constant(draw, near))
        except LanguageError:
            continue


@pytest.mark.parametrize("seed", range(cases(30)))
def test_a_compiled_test_says_what_the_predicate_says(seed: int) -> None:
    from octopia.matching.predicates_numba import holds

    draw = random.Random(seed)
    table = PredicateTable()
    stored: dict[int, Predicate] = {}
    address = table.sheet.address
    values: list[Value] = [drawn_text(draw) for _ in range(20)]
    values += [draw.choice(NUMBERS) for _ in range(20)] + [True, False]
    tokens, numbers, data = tokens_of(values)
    for _ in range(400):
        if stored and draw.random() < 0.3:
            gone = draw.choice(list(stored))
            table.remove(gone)
            del stored[gone]
        else:
            predicate = drawn_predicate(draw, draw.choice(values))
            line = table.add(predicate)
            assert line not in stored
            stored[line] = predicate
        assert len(table) == len(stored)
        line, token = draw.choice(list(stored) or [-1]), draw.randrange(len(values))
        if line >= 0:
            found = holds(address, line, data.ctypes.data, tokens, numbers, token)
            assert found == stored[line].accepts(values[token]), (stored[line], values[token])
    for line, predicate in stored.items():
        for token, value in enumerate(values):
            found = holds(address, line, data.ctypes.data, tokens, numbers, token)
            assert found == predicate.accepts(value), (predicate, value)


def test_all_operators_on_all_numbers() -> None:
    from octopia.matching.predicates_numba import holds

    table = PredicateTable()
    tokens, numbers, data = tokens_of(NUMBERS)
    for operator in (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE):
        for constant in (*NUMBERS, *LONG):
            predicate = Predicate("x", operator, constant)
            line = table.add(predicate)
            found = [
                holds(table.sheet.address, line, data.ctypes.data, tokens, numbers, token)
                for token in range(len(NUMBERS))
            ]
            assert found == [predicate.accepts(value) for value in NUMBERS], predicate
            table.remove(line)


@pytest.mark.parametrize("letters", ["a", "ab", "aaab", "abc"])
def test_a_piece_is_found_in_a_text_whatever_repeats(letters: str) -> None:
    from octopia.native import contains_bytes

    draw = random.Random(len(letters))
    for _ in range(cases(6000)):
        text = np.array([ord(draw.choice(letters)) for _ in range(draw.randrange(40))], dtype=np.uint8)
        size = draw.choice((1, 2, 3, 5, 9, 17))
        start = draw.randrange(max(1, len(text)))
        piece = text[start : start + size].copy()
        if len(piece) and draw.random() < 0.5:
            piece[draw.randrange(len(piece))] = ord(draw.choice(letters))
        found = contains_bytes(text.ctypes.data, len(text), piece.ctypes.data, len(piece))
        assert found == (piece.tobytes() in text.tobytes())


def test_a_pair_is_the_greatest_float_not_above_and_the_rest() -> None:
    for number in (n + d for n in WORDS for d in range(-3, 4) if n + d < 2**64):
        below, rest = pair_of(number)
        assert int(below) + rest == number
        assert 0 <= rest < 2048
        assert (rest == 0) == (float(number) == number)
    pairs = [pair_of(number) for number in sorted({*WORDS, *FLOATS})]
    assert pairs == sorted(pairs)
