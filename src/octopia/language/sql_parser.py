"""SQL where-clauses to filters.

sqlglot gives the tree, and every node of it is either understood or refused by name; nothing is skipped. `not` is
pushed down to the predicates: `not (price > 10)` is `price <= 10`. That is SQL's own three-valued logic as seen from
outside: an absent attribute, or a value of another kind, satisfies neither a predicate nor its negation. `xor` holds
when one side holds and the negation of the other does. `or` and `in` multiply out under the limits of `filter`.
Recursion is bounded: nesting was checked on the tokens, and long chains of `and` and `or`, which nest on the left
without any parenthesis, are walked in a loop.

LIKE patterns become string predicates. A pattern is accepted only if prefix, postfix, contains and equals can express
it exactly; anything else (`_`, more than one gap) is refused. `'A%B'` is "starts with A and ends with B" only if A and
B cannot share characters: 'ab%bc' needs at least four characters, while 'abc' starts with 'ab' and ends with 'bc'.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from sqlglot import ParseError, Token, exp

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.filter import EVERYTHING, NOTHING, Filter, Terms, all_of, any_of, as_filter, one
from octopia.language.predicate import Operator, Predicate
from octopia.language.sql_guard import (
    OPERATORS,
    PREFIX,
    WhereParser,
    checked_tokens,
    construct,
    position_of,
    refused,
    start_of,
    too_deep,
    unparsed,
    with_exists,
)
from octopia.language.sql_text import number_from
from octopia.language.values import Value

_COMPARISONS: Final[dict[type[exp.Expression], Operator]] = {
    exp.EQ: Operator.EQ,
    exp.NEQ: Operator.NE,
    exp.LT: Operator.LT,
    exp.LTE: Operator.LE,
    exp.GT: Operator.GT,
    exp.GTE: Operator.GE,
}
# `10 < price` is `price > 10`.
_FLIPPED: Final = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_A_CONDITION: Final = "a condition such as price > 10"
_A_VALUE: Final = "a string, a number, true or false"


def sql_filter(text: str) -> Filter:
    """The filter of the where-clause `text` (written without the word `where`)."""
    tokens = with_exists(checked_tokens(text))
    try:
        trees = WhereParser().parse_into(exp.Where, tokens, PREFIX + text)
    except ParseError as error:
        raise unparsed(text, tokens, error) from error
    except RecursionError:
        # Some constructs nest without brackets, and a caller deep in the stack may have little of it left.
        raise too_deep(text, None) from None
    condition = trees[0].this if len(trees) == 1 and isinstance(trees[0], exp.Where) else None
    if condition is None:
        raise LanguageError("this is not a condition", text=text, position=0, expected=_A_CONDITION)
    terms = _Compiler(text, tokens).terms(condition, negated=False)
    if not terms:
        raise LanguageError("this condition is never true", text=text, position=0, expected="a condition that can hold")
    return as_filter(terms)


class _Compiler:
    """One text's tree to terms; each method reads the node it is named for."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._leaves: Final[dict[type[exp.Expression], Callable[[Any, bool], Terms]]] = {
            exp.Boolean: self._constant,
            exp.Column: self._flag,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Like: self._like,
            exp.Escape: self._escape,
            **dict.fromkeys(_COMPARISONS, self._comparison),
        }

    def terms(self, node: exp.Expression, negated: bool) -> Terms:
        """The condition `node`, or `not node`."""
        while isinstance(node, exp.Paren | exp.Not):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.And | exp.Or):
            parts = (self.terms(part, negated) for part in _chain(node))
            return all_of(parts) if isinstance(node, exp.And) is not negated else any_of(parts)
        if isinstance(node, exp.Xor):
            return self._xor(node, negated)
        leaf = self._leaves.get(type(node))
        if leaf is None:
            raise self._construct(node, _A_CONDITION)
        try:
            return leaf(node, negated)
        except LanguageError as error:
            if error.text is not None:
                raise
            raise refused(self._text, node, error.problem, error.expected, error.hint) from None

    def _xor(self, node: exp.Xor, negated: bool) -> Terms:
        # The terms that make the chain so far true, and those that make it false; a loop, as chains may be long.
        holds, fails = NOTHING, EVERYTHING
        for operand in _chain(node):
            one_holds, one_fails = self.terms(operand, False), self.terms(operand, True)
            holds, fails = (
                any_of((all_of((holds, one_fails)), all_of((fails, one_holds)))),
                any_of((all_of((holds, one_holds)), all_of((fails, one_fails)))),
            )
        return fails if negated else holds

    # ---- leaves

    def _constant(self, node: exp.Boolean, negated: bool) -> Terms:
        return NOTHING if bool(node.this) is negated else EVERYTHING

    def _flag(self, node: exp.Column, negated: bool) -> Terms:
        return one(Predicate(self._name(node), Operator.EQ, not negated))

    def _comparison(self, node: exp.Expression, negated: bool) -> Terms:
        left, right = _bare(node.this), _bare(node.expression)
        operator = _COMPARISONS[type(node)]
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right = right, left
            operator = _FLIPPED.get(operator, operator)
        if not isinstance(left, exp.Column):
            raise self._no_attribute(left, right)
        name = self._name(left)
        return _all([Predicate(name, operator, self._value(right, name))], negated)

    def _between(self, node: exp.Between, negated: bool) -> Terms:
        self._check_options(node, "this", "low", "high")
        name = self._name(node.this)
        low, high = self._value(node.args["low"], name), self._value(node.args["high"], name)
        return _all([Predicate(name, Operator.GE, low), Predicate(name, Operator.LE, high)], negated)

    def _in(self, node: exp.In, negated: bool) -> Terms:
        if node.args.get("query") is not None:
            raise self._construct(node.args["query"], "a list of values")
        if node.args.get("field") is not None:
            raise LanguageError("the values after 'in' stand without parentheses", expected="a list such as in (1, 2)")
        self._check_options(node, "this", "expressions")
        if not node.expressions:
            raise LanguageError("the list after 'in' is empty", expected="at least one value")
        name = self._name(node.this)
        return _any([Predicate(name, Operator.EQ, self._value(item, name)) for item in node.expressions], negated)

    def _is(self, node: exp.Is, negated: bool) -> Terms:
        name, wanted = self._name(node.this), _bare(node.expression)
        if isinstance(wanted, exp.Null):
            if not negated:
                raise LanguageError(
                    f"a filter cannot ask for the absence of '{shortened(name)}'",
                    expected="'is not null' or a condition on its value",
                )
            return one(Predicate(name, Operator.PRESENT))
        if isinstance(wanted, exp.Boolean) and not negated:
            return one(Predicate(name, Operator.EQ, bool(wanted.this)))
        if isinstance(wanted, exp.Boolean):
            raise LanguageError(
                "'is not true' and 'is not false' also hold for absent attributes, and a filter cannot ask that",
                hint=f"write {shortened(name)} = {str(not wanted.this).lower()}",
            )
        raise refused(self._text, node, "unexpected value after 'is'", "'is not null', 'is true' or 'is false'")

    def _like(self, node: exp.Like, negated: bool, escape: str | None = None) -> Terms:
        self._check_options(node, "this", "expression", "negate")
        name = self._name(node.this)
        pattern = self._value(node.expression, name)
        try:
            predicates = like_predicates(name, pattern, escape)
        except LanguageError as error:
            position = self._position_after(node.this, str(pattern))
            raise LanguageError(
                error.problem, text=self._text, position=position, expected=error.expected, hint=error.hint
            ) from None
        # Newer sqlglot marks `not like` on the node, older ones wrap it.
        return _all(predicates, negated ^ bool(node.args.get("negate")))

    def _escape(self, node: exp.Escape, negated: bool) -> Terms:
        escape = _bare(node.expression)
        if not isinstance(node.this, exp.Like):
            raise self._construct(node.this, "like before escape")
        if not isinstance(escape, exp.Literal) or not escape.is_string or len(escape.this) != 1:
            raise LanguageError("'escape' needs one character", expected="something like escape '!'")
        return self._like(node.this, negated, escape.this)

    # ---- names and values

    def _name(self, node: exp.Expression) -> str:
        column = _bare(node)
        if not isinstance(column, exp.Column):
            what = _constant_of(self._text, column)
            if what is None:
                raise self._construct(column, "an attribute name")
            raise refused(self._text, column, f"'{shortened(str(what))}' is a value", "an attribute name")
        identifier = column.this
        if not isinstance(identifier, exp.Identifier):
            raise self._construct(identifier, "an attribute name")
        if len(column.parts) > 1:
            dotted = shortened(".".join(part.name for part in column.parts))
            raise refused(self._text, column, f"{dotted} has a dot", "an attribute name", f'quote it: "{dotted}"')
        self._check_variable(identifier)
        return str(identifier.this)

    def _value(self, node: exp.Expression, name: str) -> Value:
        bare = _bare(node)
        value = _constant_of(self._text, bare)
        if value is not None:
            return value
        if isinstance(bare, exp.Column):
            raise self._two_attributes(bare, name)
        if isinstance(bare, exp.Null):
            raise refused(
                self._text,
                bare,
                f"'{shortened(name)}' is compared with null",
                _A_VALUE,
                f"write {shortened(name)} is not null",
            )
        raise self._construct(bare, _A_VALUE)

    def _two_attributes(self, column: exp.Column, name: str) -> LanguageError:
        other = shortened(self._name(column))
        quoted = "double quotes name an attribute; " if column.this.args.get("quoted") else ""
        return refused(
            self._text,
            column,
            f"'{shortened(name)}' is compared with the attribute '{other}'",
            _A_VALUE,
            f"{quoted}did you mean '{other}'?",
        )

    def _no_attribute(self, left: exp.Expression, right: exp.Expression) -> LanguageError:
        for side in (left, right):
            if _constant_of(self._text, side) is None:
                return self._construct(side, "an attribute name")
        return refused(self._text, left, "two constants are compared", "an attribute name on one side")

    def _check_variable(self, identifier: exp.Identifier) -> None:
        if identifier.this.startswith("$") and not identifier.args.get("quoted"):
            raise refused(
                self._text,
                identifier,
                f"'{shortened(identifier.this)}' is a variable, and this language has none",
                _A_VALUE,
                f"to compare with this very text, quote it: '{shortened(identifier.this)}'",
            )

    def _construct(self, node: exp.Expression, expected: str) -> LanguageError:
        return construct(self._text, node, expected, self._operator_in(node))

    def _operator_in(self, node: exp.Expression) -> int | None:
        """The position of the operator of `node`: the next one after its first name, or else the first of all."""
        if not isinstance(node, exp.Binary | exp.Unary):
            return None
        places = [start_of(token) for token in self._tokens if token.token_type in OPERATORS]
        start = position_of(node) or 0
        return next((place for place in places if place > start), next(iter(places), None))

    def _position_after(self, node: exp.Expression, literal: str) -> int | None:
        """The position of `literal` after `node`; sqlglot knows the positions of names, but not of literals."""
        start = position_of(node) or 0
        found = (start_of(token) for token in self._tokens if token.text == literal and start_of(token) > start)
        return next(found, start)

    def _check_options(self, node: exp.Expression, *known: str) -> None:
        """Refuse parts that sqlglot parsed but that we would ignore."""
        for option, content in node.args.items():
            if content and option not in known:
                raise refused(self._text, node, f"'{option}' after '{node.key}' is not part of the language")


def _chain(node: exp.And | exp.Or | exp.Xor) -> Iterator[exp.Expression]:
    """The operands of a chain of one connector, from left to right."""
    operands: list[exp.Expression] = []
    rest: exp.Expression = node
    while isinstance(rest, type(node)):
        operands.append(rest.expression)
        rest = rest.this
    return reversed([*operands, rest])


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _constant_of(text: str, node: exp.Expression) -> Value | None:
    """The value that a literal spells; None for anything else."""
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", _bare(node.this)
    if not isinstance(node, exp.Literal) or (sign and node.is_string):
        return None
    if node.is_string:
        return str(node.this)
    return number_from(sign + node.this, text=text, position=position_of(node) or 0)


def _all(predicates: Iterable[Predicate], negated: bool) -> Terms:
    if negated:
        return any_of(one(predicate.negated()) for predicate in predicates)
    return all_of(one(predicate) for predicate in predicates)


def _any(predicates: Iterable[Predicate], negated: bool) -> Terms:
    if negated:
        return all_of(one(predicate.negated()) for predicate in predicates)
    return any_of(one(predicate) for predicate in predicates)


_ANY_RUN: Final = "%"
_ANY_ONE: Final = "_"


def like_predicates(attribute: str, pattern: Value, escape: str | None) -> tuple[Predicate, ...]:
    """Predicates whose conjunction is exactly `attribute like pattern`."""
    if not isinstance(pattern, str):
        raise LanguageError(f"'like' needs a pattern in quotes, not {shortened(str(pattern))}", expected="'A%'")
    parts = _literal_parts(pattern, escape)
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return (Predicate(attribute, Operator.EQ, first),)
    if len(parts) == 3 and not first and not last:
        return (Predicate(attribute, Operator.CONTAINS, parts[1]),)
    if len(parts) > 2:
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' has too many gaps", expected="'A%', '%A', '%A%', 'A%B' or no % at all"
        )
    if first and last and _can_share(first, last):
        raise LanguageError(
            f"the pattern '{shortened(pattern)}' cannot be told from its ends: an end of '{shortened(first)}'"
            f" is a start of '{shortened(last)}'",
            expected="a prefix and a postfix that cannot overlap",
        )
    ends = [Predicate(attribute, Operator.PREFIX, first)] if first or not last else []
    if last:
        ends.append(Predicate(attribute, Operator.POSTFIX, last))
    return tuple(ends)


def _literal_parts(pattern: str, escape: str | None) -> list[str]:
    """The parts between the runs of `%`, with escapes resolved."""
    parts = [""]
    in_gap = False
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise LanguageError(f"the pattern '{shortened(pattern)}' ends with its escape character")
            parts[-1] += escaped
        elif character == _ANY_ONE:
            raise LanguageError(
                f"the pattern '{shortened(pattern)}' has the wildcard '_'",
                expected="'%' as the only wildcard",
                hint="for a plain underscore write like '…!_…' escape '!'",
            )
        elif character == _ANY_RUN:
            if not in_gap:
                parts.append("")
            in_gap = True
            continue
        else:
            parts[-1] += character
        in_gap = False
    return parts


def _can_share(first: str, last: str) -> bool:
    return any(first.endswith(last[:length]) for length in range(1, min(len(first), len(last)) + 1))
