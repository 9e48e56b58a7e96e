"""Tokens of PADRES text.

Rules of this file: it cuts text and judges nothing. It follows the PADRES lexer where that matters: whitespace between
tokens is skipped, except that a space right after an unquoted word makes the word part of a time format, which the
grammar accepts in one place only (after a notification's `;`). It takes more than PADRES where PADRES fails to lex:
any character inside quotes (but that quote), exponents in numbers, `%` in names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from octopia.errors import LanguageError
from octopia.hints import shortened
from octopia.language.padres_text import NAME


class Token(Enum):
    """What a token is."""

    OPEN = auto()  # [
    CLOSE = auto()  # ]
    OPEN_BRACE = auto()
    CLOSE_BRACE = auto()
    COMMA = auto()
    SEMICOLON = auto()
    COLON = auto()
    JOINER = auto()  # & and ||, between the parts of a composite subscription
    WORD = auto()
    TIME = auto()  # a word with a space after it, and what follows
    SYMBOL = auto()  # a run of comparison signs, known or not
    NUMBER = auto()
    STRING = auto()
    VARIABLE = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token with its text (a string without its quotes) and the offset it starts at."""

    token: Token
    text: str
    position: int

    @property
    def shown(self) -> str:
        """The token in an error message."""
        if self.token is Token.END:
            return "the end of the text"
        quoted = f"'{shortened(self.text)}'"
        return f"string {quoted}" if self.token is Token.STRING else quoted


# A time: a word, then any number of single spaces, each with a word, a number or nothing after it.
_TIME: Final = rf"(?:{NAME.pattern})(?: (?:{NAME.pattern}|[+-][1-9][0-9]*|[:0-9]*))+"

# In this order: a time is longer than the word it starts with, and a lone colon is no word.
_PATTERNS: Final = (
    (Token.TIME, _TIME),
    (Token.WORD, NAME.pattern),
    (Token.STRING, r"'[^']*'|\"[^\"]*\""),
    (Token.NUMBER, r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
    (Token.VARIABLE, r"\$[SIF]\$[A-Za-z_][A-Za-z0-9_\-]*"),
    (Token.SYMBOL, r"[=<>!~]+"),
    (Token.JOINER, r"\|\||&"),
    (Token.OPEN, r"\["),
    (Token.CLOSE, r"\]"),
    (Token.OPEN_BRACE, r"\{"),
    (Token.CLOSE_BRACE, r"\}"),
    (Token.COMMA, ","),
    (Token.SEMICOLON, ";"),
    (Token.COLON, ":"),
)
_LEXEME: Final = re.compile("|".join(f"(?P<{token.name}>{pattern})" for token, pattern in _PATTERNS))
_SPACE: Final = re.compile(r"[ \t\n\r]*")


def lexemes(text: str) -> Iterator[Lexeme]:
    """The tokens of `text`, then `END`; lazily, so what stands after the end of a filter is never looked at."""
    position = 0
    while True:
        position = _skip(text, position)
        if position == len(text):
            yield Lexeme(Token.END, "", position)
            return
        found = _LEXEME.match(text, position)
        if found is None:
            raise _unreadable(text, position)
        token = Token[found.lastgroup or ""]
        content = found.group()
        yield Lexeme(token, content[1:-1] if token is Token.STRING else content, position)
        position = found.end()


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _unreadable(text: str, position: int) -> LanguageError:
    character = text[position]
    if character in "'\"":
        return LanguageError(
            "unterminated string", text=text, position=position, expected=f"a closing {character} before the end"
        )
    hint = "strings with such characters stand in quotes" if character.isprintable() else None
    return LanguageError(f"unexpected character {character!r}", text=text, position=position, hint=hint)
