"""What is checked on the tokens of an SQL text before sqlglot may parse it.

Rules of this file: sqlglot reads whole scripts in many dialects and recurses as deep as the text nests. So here ends
what must not reach it (deep nesting, a second statement, comments) and what it would silently read as something else
(`==`, `&&`). Its errors are translated here too, with the place in the text. Positions are offsets into the text as
the user wrote it.
"""

import re
from typing import Final

from sqlglot import ParseError, Token, TokenError, Tokenizer, TokenType

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
    """The tokens of `PREFIX + text`, the prefix's own first, if they are fit to be parsed."""
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
        raise LanguageError("a filter has no room for comments", text=text, position=position)


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
    """The text with what is properly quoted blanked out; a doubled quote inside is a quote, not an end."""
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
