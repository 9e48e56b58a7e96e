"""SQL where-clauses to filters.

    condition    comparison {and comparison}, joined by `xor`, then by `or`
    comparison   {not} operand [operator …]
    operand      a name, a string, a number, true, false, null, `exists x`, or a condition in parentheses

The parser makes a tree, of which `sql_tree` makes terms. A name, a value and a condition are all operands: only what
follows the closing parenthesis of `(x)` tells whether x is compared or is a condition itself.

Time is proportional to the length of the text. Only parentheses recurse, and their depth is bounded; a chain of one
connector is a loop. The place of a part is the index of its first token. `sql_refusals` makes an error of a token that
does not fit.
"""

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple, NoReturn, TypeAlias

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.filter import Filter, as_filter
from octopia.language.like_patterns import like_predicates
from octopia.language.limits import NESTING_LEVELS_MAX
from octopia.language.predicate import Operator, Predicate
from octopia.language.sql_refusals import (
    A_CONDITION,
    A_NAME,
    A_VALUE,
    ARITHMETIC,
    BARE_VALUE,
    CONDITION_AS_VALUE,
    FOLLOWERS,
    no_part,
    placed,
    refused,
    two_attributes,
    unexpected,
)
from octopia.language.sql_text import RESERVED, number_from, value_as_sql
from octopia.language.sql_tokens import tokens_of
from octopia.language.sql_tree import Branch, Compiler, Is, Tree
from octopia.language.values import Value


def sql_filter(text: str) -> Filter:
    """The filter of the where-clause `text` (written without the word `where`)."""
    try:
        terms = Compiler(text).terms(_Parser(text).tree(), negated=False)
    except RecursionError:
        # A caller deep in the stack may have little of it left.
        raise LanguageError(_TOO_DEEP, text=text, expected=_LEVELS) from None
    if not terms:
        raise LanguageError("this condition is never true", text=text, position=0, expected="a condition that can hold")
    return as_filter(terms)


_TOO_DEEP: Final = "the condition is nested too deeply"
_LEVELS: Final = f"at most {NESTING_LEVELS_MAX} levels"


class _Name(NamedTuple):
    """The name of an attribute."""

    text: str


_Operand: TypeAlias = Tree | _Name | Value | None
_TREES: Final = (Predicate, Branch, Is)
_VALUES: Final = (str, int, float)

_STRENGTHS: Final = {"or": 1, "xor": 2, "and": 3}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_COMPARISONS: Final = {
    "=": Operator.EQ,
    "<>": Operator.NE,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
# `10 < price` is `price > 10`.
_FLIPPED: Final = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_NEGATABLE: Final = frozenset({"between", "in", "like"})
_DIGITS: Final = frozenset("0123456789")
_SIGNS: Final = frozenset("+-")
# Words that are no names, or not always.
_SPECIAL: Final = RESERVED | {"exists"}


class _Parser:
    """Reads the tokens of one text from left to right; each method reads the part it is named for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._words = list(map(str.lower, self._tokens))
        self._at = 0
        self._level = 0

    def tree(self) -> Tree:
        """The whole text."""
        operand = self._joined(0)
        if self._words[self._at]:
            self._unexpected("'and', 'or' or the end of the text")
        return self._condition(operand, 0)

    def _joined(self, floor: int) -> _Operand:
        """A comparison, and what is joined to it by words that bind more strongly than `floor`."""
        start = self._at
        left = self._comparison()
        while (strength := _STRENGTHS.get(word := self._words[self._at], 0)) > floor:
            parts = [self._condition(left, start)]
            while self._words[self._at] == word:
                self._at = at = self._at + 1
                parts.append(self._condition(self._joined(strength), at))
            left = Branch(word, parts, start)
        return left

    def _condition(self, operand: _Operand, at: int) -> Tree:
        if isinstance(operand, _TREES):
            return operand
        if isinstance(operand, _Name):
            return Predicate(operand.text, Operator.EQ, True)
        if isinstance(operand, bool):
            return Branch("and" if operand else "or", [], at)
        raise no_part(self._text, at, BARE_VALUE, A_CONDITION)

    def _comparison(self) -> _Operand:
        start = self._at
        while self._words[self._at] == "not":
            self._at += 1
            self._check_level(self._at - start)
        at = self._at
        operand = self._operand(A_CONDITION)
        word = self._words[self._at]
        try:
            if word in _COMPARISONS:
                self._at += 1
                operand = self._compared(operand, _COMPARISONS[word], at)
            elif word in self._TESTS:
                self._at += 1
                operand = self._TESTS[word](self, self._attribute(operand, at), at)
            elif word == "not" and (word := self._words[self._at + 1]) in _NEGATABLE:
                self._at += 2
                operand = Branch("not", [self._TESTS[word](self, self._attribute(operand, at), at)], at)
        except LanguageError as error:
            raise placed(error, self._text, at) from None
        return Branch("not", [self._condition(operand, at)], start) if (at - start) % 2 else operand

    # ---- operators

    def _compared(self, left: _Operand, operator: Operator, at: int) -> Predicate:
        if isinstance(left, _Name):
            return Predicate(left.text, operator, self._value(left.text))
        if isinstance(left, _TREES):
            raise no_part(self._text, at, CONDITION_AS_VALUE, A_NAME)
        name_at = self._at
        right = self._operand(A_NAME)
        if isinstance(right, _VALUES):
            raise refused(self._text, at, "two constants are compared", f"{A_NAME} on one side")
        name = self._attribute(right, name_at)
        return Predicate(name, _FLIPPED.get(operator, operator), self._constant(left, name, at))

    def _between(self, name: str, at: int) -> Tree:
        low = Predicate(name, Operator.GE, self._value(name))
        self._take("and")
        return Branch("and", [low, Predicate(name, Operator.LE, self._value(name))], at)

    def _in(self, name: str, at: int) -> Tree:
        if self._tokens[self._at] != "(" and self._tokens[self._at]:
            raise refused(
                self._text, self._at, "the values after 'in' stand without parentheses", "a list such as in (1, 2)"
            )
        self._take("(")
        if self._tokens[self._at] == ")":
            raise refused(self._text, self._at, "the list after 'in' is empty", "at least one value")
        parts: list[Tree] = [Predicate(name, Operator.EQ, self._value(name))]
        while self._tokens[self._at] == ",":
            self._at += 1
            parts.append(Predicate(name, Operator.EQ, self._value(name)))
        self._take(")", "',' or ')'")
        return Branch("or", parts, at)

    def _like(self, name: str, at: int) -> Tree:
        pattern_at = self._at
        pattern = self._value(name)
        escape = self._escape()
        if not isinstance(pattern, str):
            problem = f"'like' needs a pattern in quotes, not {shortened(str(pattern))}"
            raise refused(self._text, pattern_at, problem, "'A%'")
        try:
            predicates = like_predicates(name, pattern, escape)
        except LanguageError as error:
            raise placed(error, self._text, pattern_at) from None
        return Branch("and", [*predicates], at) if len(predicates) > 1 else predicates[0]

    def _escape(self) -> str | None:
        if self._words[self._at] != "escape":
            return None
        at = self._at = self._at + 1
        escape = self._operand("a character in quotes")
        if not isinstance(escape, str) or len(escape) != 1:
            raise refused(self._text, at, "'escape' needs one character", "something like escape '!'")
        return escape

    def _is(self, name: str, at: int) -> Tree:
        negated = self._words[self._at] == "not"
        self._at += negated
        word = self._words[self._at]
        if word not in _CONSTANTS:
            self._unexpected("'is not null', 'is true' or 'is false'")
        self._at += 1
        wanted = _CONSTANTS[word]
        if wanted is None:
            negated = not negated
        tree = Is(Predicate(name, Operator.PRESENT if wanted is None else Operator.EQ, wanted), at)
        return Branch("not", [tree], at) if negated else tree

    # ---- operands

    def _operand(self, expected: str) -> _Operand:
        at = self._at
        token = self._tokens[at]
        self._at = at + 1
        if token.isidentifier():
            word = self._words[at]
            return _Name(token) if word not in _SPECIAL else self._word(token, word, expected)
        first = token[:1]
        if first == "'" and len(token) > 1:
            return token[1:-1].replace("''", "'")
        if first in _DIGITS or (first == "." and len(token) > 1):
            return self._number(token, at)
        if first == "(":
            return self._group()
        if first == '"' and len(token) > 1:
            return _Name(self._unquoted(at))
        if token in _SIGNS:
            return self._signed(token, at, expected)
        self._at = at
        return self._unexpected(expected)

    def _word(self, token: str, word: str, expected: str) -> _Operand:
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word == "exists":
            return self._exists(token)
        self._at -= 1
        return self._unexpected(expected)

    def _exists(self, token: str) -> _Operand:
        """`exists x` and `exists(x)` are `x is not null`; without a name after it, `exists` is a name itself."""
        is_closed = self._tokens[self._at] == "("
        at = self._at + is_closed
        name = self._name(at)
        if name is None or (is_closed and self._tokens[at + 1] != ")"):
            return _Name(token)
        self._at = at + 1 + is_closed
        return Is(Predicate(name, Operator.PRESENT), at)

    def _name(self, at: int) -> str | None:
        token = self._tokens[at]
        if token[:1] == '"' and len(token) > 1:
            return self._unquoted(at)
        return token if token.isidentifier() and self._words[at] not in RESERVED else None

    def _unquoted(self, at: int) -> str:
        name = self._tokens[at][1:-1].replace('""', '"')
        if not name:
            raise refused(self._text, at, "attribute name is empty")
        return name

    def _number(self, literal: str, at: int) -> Value:
        try:
            return number_from(literal)
        except LanguageError as error:
            raise placed(error, self._text, at) from None

    def _signed(self, sign: str, at: int, expected: str) -> Value:
        """A number with a sign, or with a sign before its parentheses; two signs in a row are arithmetic."""
        operand = self._operand(A_VALUE) if self._tokens[self._at] not in _SIGNS else None
        if not isinstance(operand, int | float) or isinstance(operand, bool):
            raise no_part(self._text, at, ARITHMETIC, expected)
        return -operand if sign == "-" else operand

    def _group(self) -> _Operand:
        self._level += 1
        self._check_level(0)
        inner = self._joined(0)
        self._take(")", "'and', 'or' or ')'")
        self._level -= 1
        return inner

    # ---- names, values and errors

    def _attribute(self, operand: _Operand, at: int) -> str:
        if isinstance(operand, _Name):
            return operand.text
        if isinstance(operand, _TREES):
            raise no_part(self._text, at, CONDITION_AS_VALUE, A_NAME)
        shown = "null" if operand is None else shortened(value_as_sql(operand))
        raise refused(self._text, at, f"{shown} is a value", A_NAME)

    def _value(self, name: str) -> Value:
        at = self._at
        operand = self._operand(A_VALUE)
        return operand if isinstance(operand, _VALUES) else self._constant(operand, name, at)

    def _constant(self, operand: _Operand, name: str, at: int) -> Value:
        if isinstance(operand, _VALUES):
            return operand
        if isinstance(operand, _TREES):
            raise no_part(self._text, at, CONDITION_AS_VALUE, A_VALUE)
        if operand is None:
            hint = f"write {shortened(name)} is not null"
            raise refused(self._text, at, f"'{shortened(name)}' is compared with null", A_VALUE, hint)
        if self._words[self._at] not in FOLLOWERS:
            self._unexpected(A_VALUE)
        raise two_attributes(self._text, at, name, operand.text)

    def _take(self, word: str, expected: str | None = None) -> None:
        if self._words[self._at] != word:
            self._unexpected(expected or f"'{word}'")
        self._at += 1

    def _check_level(self, more: int) -> None:
        if self._level + more > NESTING_LEVELS_MAX:
            raise refused(self._text, self._at - 1, _TOO_DEEP, _LEVELS)

    def _unexpected(self, expected: str) -> NoReturn:
        raise unexpected(self._text, self._at, expected)

    _TESTS: ClassVar[dict[str, Callable[["_Parser", str, int], Tree]]] = {
        "between": _between,
        "in": _in,
        "is": _is,
        "like": _like,
    }
