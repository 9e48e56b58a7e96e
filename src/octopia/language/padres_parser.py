"""PADRES text to filters and notifications.

    filter        [class,eq,'STOCK'],[price,>,10]
    union         {{[class,eq,'STOCK'],[price,>,10]}||{[class,eq,'BOND']}}
    notification  [class,'STOCK'],[price,10.5]

It accepts what the PADRES grammar accepts, with the exceptions listed in docs/reference/language.md (above all, it
accepts several predicates on one attribute and refuses variables and `&`). As in PADRES, `;` ends the text and the rest
is ignored, except for the time that may follow a notification. Recursion is bounded by NESTING_LEVELS_MAX.

The lexer cuts text into tokens and checks nothing else. It follows the PADRES lexer where that matters: whitespace
between tokens is skipped, except that a space right after an unquoted word makes the word part of a time format, which
the grammar accepts in one place only (after a notification's `;`). It also accepts text that PADRES fails to lex: any
character inside quotes (but that quote), exponents in numbers, `%` in names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn

from octopia.errors import LanguageError
from octopia.hints import did_you_mean, shortened
from octopia.language.filter import Filter, Terms, all_of, any_of, as_filter, one
from octopia.language.limits import NESTING_LEVELS_MAX, NOTIFICATION_ATTRIBUTES_MAX
from octopia.language.notification import Notification
from octopia.language.padres_text import CLASS, NAME, NUMBER_OPERATORS, PRESENT_OPERATOR, RESERVED, STRING_OPERATORS
from octopia.language.predicate import Operator, Predicate
from octopia.language.sql_text import number_from
from octopia.language.values import Value


class Token(Enum):
    """The kind of a token."""

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
            return "end of text"
        quoted = f"'{shortened(self.text)}'"
        return f"string {quoted}" if self.token is Token.STRING else quoted


# A time: a word, then any number of single spaces, each with a word, a number or nothing after it.
_TIME: Final = rf"(?:{NAME.pattern})(?: (?:{NAME.pattern}|[+-][1-9][0-9]*|[:0-9]*))+"

# In this order: a time is longer than the word it starts with, and a lone colon is not a word.
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
    """The tokens of `text`, then `END`; lazy, so text after the end of a filter is never read."""
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


_STRING_OPERATORS: Final = {word: Operator[name] for name, word in STRING_OPERATORS.items()}
_NUMBER_OPERATORS: Final = {sign: Operator[name] for name, sign in NUMBER_OPERATORS.items()}
_OPERATORS: Final = (*_STRING_OPERATORS, *_NUMBER_OPERATORS, PRESENT_OPERATOR)
_BOOLEANS: Final = {"true": True, "false": False}

# Spellings from other languages.
_USUAL_SLIPS: Final = {
    "==": "=",
    "!=": "<>",
    "=>": ">=",
    "=<": "<=",
    "ne": "neq",
    "lt": "str-lt",
    "le": "str-le",
    "gt": "str-gt",
    "ge": "str-ge",
    "like": "str-prefix",
    "suffix": "str-postfix",
    "str-suffix": "str-postfix",
    "str-eq": "eq",
    "str-neq": "neq",
    "ispresent": PRESENT_OPERATOR,
    "present": PRESENT_OPERATOR,
}
_LEADING_ZERO: Final = re.compile(r"[+-]?0[0-9]")
# Java's "EEE MMM dd kk:mm:ss zzz yyyy", as PADRES reads it: names short or in full, and any spaces before a number (a
# one-digit day usually has two). The time itself is dropped: notifications carry no time.
_DATE: Final = re.compile(
    r"(?:mon|tue|wed|thu|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r" (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|january|february|march|april|june|july|august|september"
    r"|october|november|december)"
    r" +[0-9]+ +[0-9]+: *[0-9]+: *[0-9]+ +[a-z][a-z0-9_/:\-]*(?: [a-z]+)* +[0-9]+",
    re.IGNORECASE,
)


def padres_filter(text: str) -> Filter:
    """Parse the filter in `text`."""
    return as_filter(_Parser(text).filter())


def padres_notification(text: str) -> Notification:
    """Parse the notification in `text`."""
    return Notification.of(_Parser(text).notification())


class _Parser:
    """Recursive descent with one token of lookahead; each method reads the part it is named for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = lexemes(text)
        self._next = next(self._lexemes)

    # ---- filters

    def filter(self) -> Terms:
        if self._at(Token.OPEN_BRACE):
            terms, expected = self._braced(level=0), "the end of the text"
        else:
            terms, expected = self._conjunction(), "',' or the end of the text"
        if not self._at(Token.SEMICOLON):
            self._take(Token.END, expected)
        return terms

    def _braced(self, level: int) -> Terms:
        """`{` a conjunction `}` or, outermost always, `{` braced parts joined by `||` `}`."""
        self._take(Token.OPEN_BRACE, "'{'")
        if level > NESTING_LEVELS_MAX:
            self._fail(f"braces are nested deeper than {NESTING_LEVELS_MAX} levels")
        plain = self._at(Token.OPEN)
        if plain and level == 0:
            self._fail(f"unexpected {self._next.shown}", expected="'{'", hint="a union is written {{[…]}||{[…]}}")
        terms = self._conjunction() if plain else self._union(level + 1)
        self._take(Token.CLOSE_BRACE, "',' or '}'" if plain else "'||' or '}'")
        return terms

    def _union(self, level: int) -> Terms:
        parts = [self._braced(level)]
        while self._at(Token.JOINER):
            if self._next.text == "&":
                self._fail(
                    "'&' correlates two notifications, and a filter judges one",
                    expected="'||' or '}'",
                    hint="subscribe to each part by itself",
                )
            self._advance()
            parts.append(self._braced(level))
        return any_of(parts)

    def _conjunction(self) -> Terms:
        predicates = [one(self._class_predicate())]
        while self._at(Token.COMMA):
            self._advance()
            predicates.append(one(self._predicate()))
        return all_of(predicates)

    def _class_predicate(self) -> Predicate:
        self._class_name("[class,eq,'…']")
        operator = self._advance()
        if operator.token in (Token.STRING, Token.WORD) and operator.text != "eq" and self._at(Token.CLOSE):
            self._fail("the operator is missing", operator, "'eq'", "[class,'…'] is the form of a notification")
        if operator.token is not Token.WORD or operator.text != "eq":
            self._fail(f"unexpected {operator.shown}", operator, "'eq': class is only ever compared by 'eq'")
        self._take(Token.COMMA, "','")
        value = self._string("a string as class")
        self._take(Token.CLOSE, "']'")
        return Predicate(CLASS, Operator.EQ, value)

    def _predicate(self) -> Predicate:
        name = self._name().text
        self._take(Token.COMMA, "','")
        sign = self._advance()
        if sign.token not in (Token.WORD, Token.SYMBOL) or sign.text not in _OPERATORS:
            self._unknown_operator(sign)
        if sign.text == PRESENT_OPERATOR and self._at(Token.CLOSE):
            self._fail("the value is missing", expected=f"',' and any value: [{shortened(name)},{PRESENT_OPERATOR},'']")
        self._take(Token.COMMA, "','")
        predicate = self._compared(name, sign)
        self._take(Token.CLOSE, "']'")
        return predicate

    def _compared(self, name: str, sign: Lexeme) -> Predicate:
        if sign.text == PRESENT_OPERATOR:
            # PADRES types isPresent by this value and then misses values of other types; we only test presence.
            self._value()
            return Predicate(name, Operator.PRESENT)
        if sign.text in _STRING_OPERATORS:
            return Predicate(name, _STRING_OPERATORS[sign.text], self._string(f"a string after {sign.text!r}", sign))
        operator = _NUMBER_OPERATORS[sign.text]
        if self._at(Token.WORD) and self._next.text in _BOOLEANS and operator in (Operator.EQ, Operator.NE):
            return Predicate(name, operator, _BOOLEANS[self._advance().text])
        return Predicate(name, operator, self._number(sign))

    # ---- notifications

    def notification(self) -> dict[str, Value]:
        self._class_name("[class,'…']")
        if self._at(Token.WORD) and self._next.text == "eq":
            self._fail("unexpected operator 'eq'", expected="a string as class", hint="this is the form of a filter")
        values: dict[str, Value] = {CLASS: self._string("a string as class")}
        self._take(Token.CLOSE, "']'")
        while self._at(Token.COMMA):
            self._advance()
            self._pair(values)
        if self._at(Token.SEMICOLON):
            self._time()
        else:
            self._take(Token.END, "',' or the end of the text")
        return values

    def _pair(self, values: dict[str, Value]) -> None:
        if len(values) == NOTIFICATION_ATTRIBUTES_MAX:
            self._fail(f"the notification has more than {NOTIFICATION_ATTRIBUTES_MAX} attributes")
        name = self._name()
        if name.text in values:
            self._fail(f"attribute {name.shown} is given twice", name)
        self._take(Token.COMMA, "','")
        if self._at(Token.SYMBOL, Token.WORD) and self._next.text in _OPERATORS:
            self._fail(
                f"unexpected operator {self._next.text!r}", expected="a value", hint="this is the form of a filter"
            )
        values[name.text] = self._value()
        self._take(Token.CLOSE, "']'")

    def _time(self) -> None:
        """The text after a notification's `;`: a time, which is checked and dropped, or anything else, ignored."""
        try:
            self._advance()
        except LanguageError:
            return
        if not self._at(Token.TIME):
            return
        if not _DATE.match(self._next.text):
            self._fail("unreadable time", expected="a time such as 'Sat Jul 08 18:38:47 EDT 2006'")
        self._advance()
        if not self._at(Token.SEMICOLON):
            self._take(Token.END, "';' or the end of the text")

    # ---- names and values

    def _class_name(self, form: str) -> None:
        self._take(Token.OPEN, f"'['; the text starts with {form}")
        name = self._next
        if name.token is not Token.WORD or name.text != CLASS:
            self._check_space(name)
            self._fail(f"the first attribute is {name.shown}", name, f"'class': the text starts with {form}")
        self._advance()
        self._take(Token.COMMA, "','")

    def _name(self) -> Lexeme:
        self._take(Token.OPEN, "'['")
        name = self._next
        self._check_space(name)
        if name.token is not Token.WORD:
            hint = "names stand without quotes" if name.token is Token.STRING else None
            self._fail(f"unexpected {name.shown}", name, "an attribute name", hint)
        if name.text == CLASS:
            self._fail("'class' is given twice", name, "the name of another attribute")
        if name.text in RESERVED:
            self._fail(f"{name.text!r} is an operator", name, "an attribute name")
        return self._advance()

    def _string(self, expected: str, sign: Lexeme | None = None) -> str:
        value = self._next
        self._check_variable(value)
        self._check_space(value)
        if value.token is Token.STRING or (value.token is Token.WORD and value.text not in RESERVED):
            return self._advance().text
        return self._no_string(value, expected, sign)

    def _no_string(self, value: Lexeme, expected: str, sign: Lexeme | None) -> NoReturn:
        hint = None
        if value.token is Token.NUMBER and sign is not None:
            plain = NUMBER_OPERATORS.get(_STRING_OPERATORS[sign.text].name)
            hint = f"numbers are compared by {plain!r}" if plain else "quote it to compare with its digits"
        elif value.token is Token.WORD:
            hint = f"quote it: '{value.text}'"
        self._fail(f"unexpected {value.shown}", value, expected, hint)

    def _number(self, sign: Lexeme) -> int | float:
        value = self._next
        self._check_variable(value)
        self._check_space(value)
        if value.token is not Token.NUMBER:
            hint = None
            if value.token in (Token.STRING, Token.WORD):
                word = STRING_OPERATORS[_NUMBER_OPERATORS[sign.text].name]
                hint = f"strings are compared by {word!r}"
            self._fail(f"unexpected {value.shown}", value, f"a number after {sign.text!r}", hint)
        if _LEADING_ZERO.match(value.text):
            self._fail(f"the number {value.shown} starts with a zero", value)
        self._advance()
        try:
            return number_from(value.text)
        except LanguageError as error:
            raise error.placed(self._text, value.position) from None

    def _value(self) -> Value:
        if self._at(Token.NUMBER):
            return self._number(self._next)
        return self._string("a value")

    # ---- tokens and errors

    def _advance(self) -> Lexeme:
        taken = self._next
        if taken.token is not Token.END:
            self._next = next(self._lexemes)
        return taken

    def _at(self, *tokens: Token) -> bool:
        return self._next.token in tokens

    def _take(self, token: Token, expected: str) -> Lexeme:
        if not self._at(token):
            self._check_space(self._next)
            self._fail(f"unexpected {self._next.shown}", expected=expected)
        return self._advance()

    def _check_variable(self, value: Lexeme) -> None:
        if value.token is Token.VARIABLE:
            self._fail(
                f"{value.shown} is a variable, and this language has none",
                value,
                "a value",
                f"to compare with this very text, quote it: {value.shown}",
            )

    def _check_space(self, found: Lexeme) -> None:
        if found.token is Token.TIME:
            word = found.text.split(" ", 1)[0]
            self._fail(
                f"a space after '{shortened(word)}'",
                Lexeme(Token.WORD, word, found.position + len(word)),
                "no space after an unquoted word",
                "quote strings that have spaces",
            )

    def _unknown_operator(self, sign: Lexeme) -> NoReturn:
        self._check_space(sign)
        if sign.token in (Token.STRING, Token.NUMBER) and self._at(Token.CLOSE):
            self._fail("the operator is missing", sign, "an operator", "[name,value] is the form of a notification")
        hint = did_you_mean(sign.text, _OPERATORS, usual=_USUAL_SLIPS)
        self._fail(f"unknown operator {sign.shown}", sign, "an operator", hint)

    def _fail(
        self, problem: str, at: Lexeme | None = None, expected: str | None = None, hint: str | None = None
    ) -> NoReturn:
        position = (at or self._next).position
        raise LanguageError(problem, text=self._text, position=position, expected=expected, hint=hint)
