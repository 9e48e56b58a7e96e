"""The tree of a where-clause, and the terms of its filter.

`not` is pushed down to the predicates: `not (price > 10)` is `price <= 10`. That is SQL's own three-valued logic as
seen from outside: an absent attribute, or a value of another kind, satisfies neither a predicate nor its negation.
`xor` holds when one side holds and the negation of the other does. `or` and `in` multiply out under the limits of
`filter`. Work is proportional to the size of the tree and of its terms, and recursion to the depth of parentheses.
"""

from typing import NamedTuple, TypeAlias

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.filter import EVERYTHING, NOTHING, Terms, all_of, any_of
from octopia.language.predicate import Operator, Predicate
from octopia.language.sql_refusals import placed, refused


class Is(NamedTuple):
    """`is not null`, `is true` or `is false`: their negations would hold for absent attributes, and are refused."""

    predicate: Predicate
    at: int


class Branch(NamedTuple):
    """Conditions joined by `and`, `or` or `xor`, or one under `not`; `at` is the index of its first token."""

    word: str
    parts: list["Tree"]
    at: int


Tree: TypeAlias = Predicate | Is | Branch


class Compiler:
    """Makes terms of the tree of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        # `xor` needs its parts and their negations. Computed anew, nested ones would double the work at each level.
        self._xors: dict[int, tuple[Terms, Terms]] = {}

    def terms(self, tree: Tree, negated: bool) -> Terms:
        """The terms of `tree`, or of `not tree`."""
        if isinstance(tree, Predicate):
            return ((tree.negated() if negated else tree,),)
        if isinstance(tree, Is):
            return self._is(tree, negated)
        if tree.word == "not":
            return self.terms(tree.parts[0], not negated)
        try:
            if tree.word == "xor":
                return self._xor(tree)[negated]
            if (tree.word == "and") is not negated:
                return all_of([self.terms(part, negated) for part in tree.parts])
            # One by one: a long chain is refused as soon as it is too large.
            return any_of(self.terms(part, negated) for part in tree.parts)
        except LanguageError as error:
            raise placed(error, self._text, tree.at) from None

    def _is(self, tree: Is, negated: bool) -> Terms:
        predicate = tree.predicate
        if not negated:
            return ((predicate,),)
        name = shortened(predicate.attribute)
        if predicate.operator is Operator.PRESENT:
            problem = f"a filter cannot ask for the absence of '{name}'"
            raise refused(self._text, tree.at, problem, "'is not null' or a condition on its value")
        raise refused(
            self._text,
            tree.at,
            "'is not true' and 'is not false' also hold for absent attributes, and a filter cannot ask that",
            hint=f"write {name} = {str(not predicate.value).lower()}",
        )

    def _xor(self, tree: Branch) -> tuple[Terms, Terms]:
        """The terms of the chain, and of its negation."""
        known = self._xors.get(id(tree))
        if known is None:
            holds, fails = NOTHING, EVERYTHING
            for part in tree.parts:
                part_holds, part_fails = self.terms(part, False), self.terms(part, True)
                holds, fails = (
                    any_of((all_of((holds, part_fails)), all_of((fails, part_holds)))),
                    any_of((all_of((holds, part_holds)), all_of((fails, part_fails)))),
                )
            known = self._xors[id(tree)] = holds, fails
        return known
