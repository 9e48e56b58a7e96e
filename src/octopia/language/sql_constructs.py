"""SQL that is fine and yet no filter: what to call it, where it stands, and what to write instead.

Rules of this file: it only makes errors. Every construct that sqlglot can parse gets a name here, at worst its own.
"""

from typing import Final, TypeAlias

from sqlglot import exp

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.sql_guard import PREFIX

_Names: TypeAlias = tuple[tuple[tuple[type, ...], str, str | None], ...]

# The first that fits: special cases stand before the classes that include them.
_CONSTRUCTS: Final[_Names] = (
    ((exp.Cast, exp.TryCast), "a cast", "write the value itself"),
    ((exp.Subquery, exp.Query, exp.Exists), "a subquery", None),
    ((exp.Case, exp.If), "a case distinction", "write it with and/or"),
    ((exp.ILike,), "ilike", "like is case-sensitive here, and the only one"),
    ((exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob), "a regular expression", "like knows % only"),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), "is distinct from", "write = or <>"),
    ((exp.Concat,), "concatenation", "a quote inside a string is written twice: 'it''s'"),
    ((exp.DPipe,), "concatenation", "to combine conditions, write or"),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), "a comparison as a value", "write x > 1 and x < 3"),
    ((exp.And, exp.Or, exp.Not, exp.In, exp.Is, exp.Like, exp.Between), "a condition as a value", None),
    ((exp.Xor,), "xor", "write it with and/or/not"),
    ((exp.Any, exp.All), "any/all", "write in (…)"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "a parameter", "write the value itself"),
    ((exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow), "arithmetic", "write the result"),
    ((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot), "bit arithmetic", None),
    ((exp.BitwiseLeftShift, exp.BitwiseRightShift), "bit arithmetic", None),
    ((exp.Collate,), "collate", "strings are ordered by code point"),
    ((exp.Interval,), "an interval", "write a number or a string"),
    ((exp.Bracket, exp.Dot, exp.JSONExtract), "access into a value", "values are str, int, float and bool"),
    ((exp.Tuple, exp.Array, exp.Struct), "a list", "write in (…)"),
    ((exp.Star,), "*", None),
    ((exp.Literal, exp.Null), "a value without a comparison", None),
    ((exp.Alias,), "an alias", None),
    ((exp.National, exp.HexString, exp.BitString, exp.ByteString, exp.RawString), "a prefixed string", "write '…'"),
)


def refused(
    text: str, node: exp.Expression, problem: str, expected: str | None = None, hint: str | None = None
) -> LanguageError:
    """The error for `node`."""
    return LanguageError(problem, text=text, position=position_of(node), expected=expected, hint=hint)


def construct(text: str, node: exp.Expression, expected: str) -> LanguageError:
    """The error for a node that has no place in a filter, by its name."""
    for types, name, hint in _CONSTRUCTS:
        if isinstance(node, types):
            return refused(text, node, f"{name} is not part of the language", expected, hint)
    if isinstance(node, exp.Func):
        return refused(text, node, f"the function {_function_name(node)} is not part of the language", expected)
    return refused(text, node, f"{node.key} is not part of the language", expected)


def position_of(node: exp.Expression) -> int | None:
    """Where the first part of `node` that knows its place starts; an operator stands after that, roughly."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return max(0, min(starts) - len(PREFIX)) if starts else None


def _function_name(node: exp.Func) -> str:
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return f"{shortened(name).lower()}()"
