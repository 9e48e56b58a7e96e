"""Which SQL reaches the parser of filters, and the errors for what does not.

Sqlglot reads whole scripts in many dialects and recurses as deep as the text nests. This module refuses text that must
not reach it (deep nesting, a second statement, comments) and text that it would silently read as something else (`==`,
`&&`). It also translates sqlglot's errors, with their position in the text. Positions are offsets into the text as the
user wrote it.

`WhereParser` adds `xor`, and `exists` for the presence of an attribute, to sqlglot's common grammar. `refused` is the
error for valid SQL that is not a filter: the construct's name, its position, and what to write instead. Every construct
that sqlglot can parse has a name here; sqlglot's own name is the fallback.
"""

import re
from typing import Final, TypeAlias

from sqlglot import ParseError, Token, TokenError, Tokenizer, TokenType, exp
from sqlglot.parser import Parser

from octopia.errors import LanguageError
from octopia.hints import did_you_mean, shortened
from octopia.language.limits import NESTING_LEVELS_MAX

# sqlglot takes words like `show` or `set` at the start of a text for commands. Behind this word it reads a condition.
PREFIX: Final = "where "

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SIGNS: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})

_NO_WORDS: Final = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER})

_WORDS: Final = ("and", "or", "not", "in", "between", "like", "is not null", "escape", "true", "false")
_USUAL_SLIPS: Final = {
    "==": "=",
    "&&": "and",
    "||": "or",
    "prefix": "like 'A%'",
    "startswith": "like 'A%'",
    "postfix": "like '%A'",
    "suffix": "like '%A'",
    "endswith": "like '%A'",
    "contains": "like '%A%'",
    "eq": "=",
    "neq": "<>",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "ispresent": "is not null",
    "isnull": "is not null",
    "null": "is not null",
    "=>": ">=",
    "=<": "<=",
}
_REFUSED_SPELLINGS: Final = frozenset({"==", "&&", "=>"})
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_COMMENT: Final = re.compile(r"--|/\*|\{#")
_DOUBLED_QUOTE: Final = "a quote inside a string is written twice: 'it''s'"


def checked_tokens(text: str) -> list[Token]:
    """The tokens of `PREFIX + text`, the prefix's first, if they pass the checks."""
    try:
        tokens = Tokenizer().tokenize(PREFIX + text)
    except TokenError as error:
        raise _untokenized(text) from error
    # A comment before the first token of the text is kept with the prefix.
    _check_comments(text, tokens[0])
    _check_first(text, tokens[1:])
    level, run = 0, 0
    for token in tokens[1:]:
        _check_token(text, token)
        run = run + 1 if token.token_type in _SIGNS else 0
        level += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if level + run > NESTING_LEVELS_MAX:
            raise too_deep(text, start_of(token))
    return tokens


def start_of(token: Token) -> int:
    """The offset of a token into the user's text."""
    return max(0, token.start - len(PREFIX))


def too_deep(text: str, position: int | None) -> LanguageError:
    """The error for text that nests too deeply."""
    return LanguageError(
        "the condition is nested too deeply",
        text=text,
        position=position,
        expected=f"at most {NESTING_LEVELS_MAX} levels",
    )


def unparsed(text: str, tokens: list[Token], error: ParseError) -> LanguageError:
    """sqlglot's error as ours."""
    detail = error.errors[0] if error.errors else {}
    token = _token_at(tokens[1:], detail.get("line"), detail.get("col"))
    description = str(detail.get("description") or "")
    if token is None:
        return LanguageError("this is not a condition", text=text, expected="something like price > 10")
    if description.startswith("Expecting"):
        expected = repr(description.removeprefix("Expecting").strip())
        return LanguageError("unclosed parenthesis", text=text, position=_end_of(token), expected=expected)
    if description.startswith("Required keyword"):
        return _incomplete(text, tokens, token)
    return LanguageError(
        f"unexpected '{shortened(token.text)}'",
        text=text,
        position=start_of(token),
        expected="'and', 'or' or the end of the text",
        hint=_hint(text, tokens, token),
    )


def _check_first(text: str, tokens: list[Token]) -> None:
    if not tokens:
        raise LanguageError("the filter text holds no condition", text=text, position=0)
    if tokens[0].token_type is TokenType.WHERE:
        raise LanguageError(
            "unexpected 'where'", text=text, position=start_of(tokens[0]), hint="write the condition alone"
        )


def _check_token(text: str, token: Token) -> None:
    position = start_of(token)
    if token.token_type is TokenType.SEMICOLON:
        raise LanguageError("unexpected ';'", text=text, position=position, expected="one condition and nothing more")
    _check_comments(text, token)
    spelling = text[position : position + 2]
    if spelling in _REFUSED_SPELLINGS or (spelling == "=<" and token.text == "="):
        raise LanguageError(
            f"unknown operator {spelling!r}",
            text=text,
            position=position,
            expected="= <> < <= > >= between in like or is not null",
            hint=did_you_mean(spelling, (), usual=_USUAL_SLIPS),
        )


def _check_comments(text: str, token: Token) -> None:
    if token.comments or token.token_type is TokenType.HINT:
        # sqlglot only says which token a comment belongs to, so its start is looked for here.
        found = _COMMENT.search(_without_quoted(text))
        position = found.start() if found else start_of(token)
        raise LanguageError("a filter cannot have comments", text=text, position=position)


def _untokenized(text: str) -> LanguageError:
    found = re.search(r"['\"]", _without_quoted(text))
    if found is None:
        return LanguageError("the text cannot be read as SQL", text=text)
    quote = found.group()
    if quote == '"':
        return LanguageError("unterminated name", text=text, position=found.start(), expected='a closing "')
    return LanguageError(
        "unterminated string", text=text, position=found.start(), expected="a closing '", hint=_DOUBLED_QUOTE
    )


def _without_quoted(text: str) -> str:
    """The text with properly quoted parts blanked out; a doubled quote inside is a quote, not an end."""
    return _QUOTED.sub(lambda found: " " * len(found.group()), text)


def _incomplete(text: str, tokens: list[Token], token: Token) -> LanguageError:
    word = shortened(token.text)
    # `from = 1`: a word that sqlglot keeps for itself, where a name should be.
    reserved = word.isalpha() and word.lower() not in _WORDS and token is not tokens[-1]
    return LanguageError(
        f"nothing to go with '{word}'",
        text=text,
        position=_end_of(token),
        expected="a value or a condition",
        hint=f'as the name of an attribute, quote it: "{word}"' if reserved else None,
    )


def _hint(text: str, tokens: list[Token], token: Token) -> str | None:
    """A guess from the unexpected word, or from the one before it (`name prefix 'A'` stumbles over the string)."""
    index = tokens.index(token)
    previous = tokens[index - 1] if index else None
    for word in (token, previous):
        # A short word resembles too many others.
        if word is None or word.token_type in _NO_WORDS or len(word.text) < 2:
            continue
        guess = did_you_mean(word.text, _WORDS, usual=_USUAL_SLIPS)
        if guess is not None and word.text.lower() not in _WORDS:
            return guess
    if previous is not None and previous.token_type is TokenType.STRING and token.start == previous.end + 1:
        return _DOUBLED_QUOTE
    if text.count("(") != text.count(")"):
        return "the parentheses do not pair up"
    return None


def _token_at(tokens: list[Token], line: object, col: object) -> Token | None:
    return next((token for token in tokens if token.line == line and token.col == col), None)


def _end_of(token: Token) -> int:
    return token.end + 1 - len(PREFIX)


# `exists x` and `exists(x)` are read as `x is not null`.
_IS_NOT_NULL = ((TokenType.IS, "is"), (TokenType.NOT, "not"), (TokenType.NULL, "null"))
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


class WhereParser(Parser):
    """sqlglot's parser, with `xor` between `and` and `or`, where MySQL has it."""

    def _parse_conjunction(self) -> exp.Expr | None:
        this = super()._parse_conjunction()
        while self._match(TokenType.XOR):
            this = self.expression(exp.Xor(this=this, expression=super()._parse_conjunction()))
        return this


def with_exists(tokens: list[Token]) -> list[Token]:
    """The tokens with each `exists x` and `exists(x)` replaced by `x is not null`, at the same positions."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        name, used = _name_after_exists(tokens, index)
        if name is None:
            result.append(tokens[index])
            index += 1
            continue
        last = tokens[index + used - 1]
        result.append(name)
        result += [
            Token(kind, word, line=last.line, col=last.col, start=last.start, end=last.end)
            for kind, word in _IS_NOT_NULL
        ]
        index += used
    return result


def _name_after_exists(tokens: list[Token], index: int) -> tuple[Token | None, int]:
    """The name tested by `exists` at `index`, and the number of tokens it takes; None if it is not a presence test."""
    kinds = [token.token_type for token in tokens[index : index + 4]]
    if kinds[0] is not TokenType.EXISTS or len(kinds) < 2:
        return None, 0
    if kinds[1] in _NAMES:
        return tokens[index + 1], 2
    if len(kinds) == 4 and kinds[1] is TokenType.L_PAREN and kinds[2] in _NAMES and kinds[3] is TokenType.R_PAREN:
        return tokens[index + 2], 4
    return None, 0


# Tokens that can stand between or before the operands of a calculation.
OPERATORS: Final = frozenset(
    {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD, TokenType.DPIPE}
    | {TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.TILDE}
)
_ARITHMETIC: Final = (exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow)
_BITS: Final = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot)
_CALCULATIONS: Final = (*_ARITHMETIC, *_BITS, exp.DPipe)

_Names: TypeAlias = tuple[tuple[tuple[type, ...], str, str | None], ...]

# The first that fits: special cases stand before the classes that include them.
_CONSTRUCTS: Final[_Names] = (
    ((exp.Cast, exp.TryCast), "a cast", "write the value itself"),
    ((exp.Exists,), "a subquery", "to ask for an attribute, write exists x"),
    ((exp.Subquery, exp.Query), "a subquery", None),
    ((exp.Case, exp.If), "a case distinction", "write it with and/or"),
    ((exp.ILike,), "ilike", "like is case-sensitive here, and the only one"),
    ((exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob), "a regular expression", "like knows % only"),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), "is distinct from", "write = or <>"),
    ((exp.Concat,), "concatenation", "a quote inside a string is written twice: 'it''s'"),
    ((exp.DPipe,), "concatenation", "to combine conditions, write or"),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), "a comparison as a value", "write x > 1 and x < 3"),
    ((exp.And, exp.Or, exp.Not, exp.In, exp.Is, exp.Like, exp.Between), "a condition as a value", None),
    ((exp.Any, exp.All), "any/all", "write in (…)"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "a parameter", "write the value itself"),
    (_ARITHMETIC, "arithmetic", "write the result"),
    (_BITS, "bit arithmetic", None),
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


def construct(text: str, node: exp.Expression, expected: str, operator: int | None = None) -> LanguageError:
    """The error for a node that a filter cannot contain, by its name; `operator` is its operator's position."""
    for types, name, hint in _CONSTRUCTS:
        if isinstance(node, types):
            problem = f"{name} is not part of the language"
            if isinstance(node, _CALCULATIONS) and operator is not None:
                return LanguageError(problem, text=text, position=operator, expected=expected, hint=hint)
            return refused(text, node, problem, expected, hint)
    if isinstance(node, exp.Func):
        return refused(text, node, f"the function {_function_name(node)} is not part of the language", expected)
    return refused(text, node, f"{node.key} is not part of the language", expected)


def position_of(node: exp.Expression) -> int | None:
    """The position of the first part of `node` that has one; an operator comes roughly after it."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return max(0, min(starts) - len(PREFIX)) if starts else None


def _function_name(node: exp.Func) -> str:
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return f"{shortened(name).lower()}()"
