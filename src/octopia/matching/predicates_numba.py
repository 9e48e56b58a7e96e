"""The test of a value with a predicate, compiled (`predicates.py`). It says what `Predicate.accepts` says."""

import numpy as np

from octopia.matching.predicates import (
    COLUMNS,
    EQ,
    FLOATS,
    GE,
    GT,
    LE,
    LINES,
    LT,
    NE,
    NOT_POSTFIX,
    NOT_PREFIX,
    OPERATOR,
    POSTFIX,
    PREFIX,
    PRESENT,
    REST,
    SHEET_LINES,
    TESTED,
    TEXT_AT,
    TEXT_BYTES,
    TEXTS,
)
from octopia.matching.tokens import AT, END, KIND, NUMBER, TEXT
from octopia.native import (
    addresses_at,
    bytes_order,
    contains_bytes,
    floats_at,
    inlined,
    int_lines_at,
    kernel,
    same_bytes,
)


@kernel
def _order_allows(operator, order):  # type: ignore[no-untyped-def]
    """Whether a value that is below (-1), equal to (0) or above (1) the constant satisfies a comparison."""
    if operator == EQ:
        return order == 0
    if operator == NE:
        return order != 0
    if operator == LT:
        return order < 0
    if operator == LE:
        return order <= 0
    if operator == GT:
        return order > 0
    return order >= 0


@kernel
def _text_holds(operator, text, size, constant, constant_bytes):  # type: ignore[no-untyped-def]
    """The test of a string, `size` bytes at `text`."""
    if operator <= GE:
        return _order_allows(operator, bytes_order(text, size, constant, constant_bytes))
    negated = operator >= NOT_PREFIX
    if size < constant_bytes:
        return negated
    if operator in (PREFIX, NOT_PREFIX):
        found = same_bytes(text, constant, constant_bytes)
    elif operator in (POSTFIX, NOT_POSTFIX):
        found = same_bytes(text + size - constant_bytes, constant, constant_bytes)
    else:
        found = contains_bytes(text, size, constant, constant_bytes)
    return found != negated


@kernel
def value_holds(table_at, line, kind, number, rest, text, text_bytes):  # type: ignore[no-untyped-def]
    """Whether a value satisfies the predicate of a line; `text` is the address of a string."""
    sheet = addresses_at(table_at, SHEET_LINES)
    lines = int_lines_at(sheet, LINES, COLUMNS)
    operator = lines[line, OPERATOR]
    if operator == PRESENT:
        return True
    if lines[line, TESTED] != kind:
        return False
    if kind == TEXT:
        constant = sheet[TEXTS, 0] + lines[line, TEXT_AT]
        return _text_holds(operator, text, text_bytes, constant, lines[line, TEXT_BYTES])
    bound = floats_at(sheet, FLOATS)[line]
    if number != bound:
        return _order_allows(operator, -1 if number < bound else 1)
    above = rest - lines[line, REST] if kind == NUMBER else 0
    return _order_allows(operator, -1 if above < 0 else 1 if above > 0 else 0)


@inlined
def holds(table_at, line, data_at, tokens, numbers, token):  # type: ignore[no-untyped-def]
    """Whether a token satisfies the predicate of a line.

    `table_at` is the address of a table's sheet, `data_at` that of the bytes in which the strings of tokens are.
    """
    kind, at, end = np.int64(tokens[token, KIND]), np.int64(tokens[token, AT]), np.int64(tokens[token, END])
    return value_holds(table_at, line, kind, numbers[token], at, data_at + at, end - at)
