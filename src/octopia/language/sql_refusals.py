"""The errors of SQL text that is not a filter: what is wrong, where, and what to write instead.

The parser knows the token that does not fit and what it expected there. `unexpected` looks at this token and its
neighbours, and names what the user probably wrote: a function, arithmetic, a comment, an operator of another language.
Nothing here runs for text that is a filter, and nothing here decides what is one.
"""

from typing import Final, NamedTuple

from octopia.errors import LanguageError
from octopia.hints import did_you_mean, shortened
from octopia.language.sql_text import RESERVED
from octopia.language.sql_tokens import starts_of, tokens_of

A_CONDITION: Final = "a condition such as price > 10"
A_NAME: Final = "an attribute name"
A_VALUE: Final = "a string, a number, true or false"
_AN_OPERATOR: Final = "= <> < <= > >= between in like or is not null"

# Tokens that can follow a value. Before any other token, a name was not meant as a value.
FOLLOWERS: Final = frozenset({"and", "or", "xor", "escape", ")", ",", ""})

_COMPARISONS: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
# After a comparison, these would compare its truth with something.
_CHAINED: Final = _COMPARISONS | {"between", "in", "is", "like"}
_CONSTANTS: Final = frozenset({"true", "false", "null"})
_WORDS: Final = (
    *("and", "or", "xor", "not", "in", "between", "like", "is not null", "escape", "exists", "true", "false"),
)
_USUAL_SLIPS: Final = {
    "==": "=",
    "=>": ">=",
    "=<": "<=",
    "><": "<>",
    "<=>": "=",
    "!<": ">=",
    "!>": "<=",
    "≠": "<>",
    "≤": "<=",
    "≥": ">=",
    "!": "not",
    "&&": "and",
    "||": "or",
    "~~": "like",
    "!~~": "not like",
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
    "notnull": "is not null",
}
_DOUBLED_QUOTE: Final = "a quote inside a string is written twice: 'it''s'"
# Problem, expected, hint.
_UNREADABLE: Final[dict[str, tuple[str, str | None, str | None]]] = {
    **dict.fromkeys(("--", "/*"), ("a filter cannot have comments", None, None)),
    ";": ("unexpected ';'", "one condition and nothing more", None),
    "'": ("unterminated string", "a closing '", _DOUBLED_QUOTE),
    '"': ("unterminated name", 'a closing "', None),
}
_TWO_QUOTES: Final = "strings stand in straight single quotes, names in double quotes or in none"


class _Construct(NamedTuple):
    """Something that SQL has and a filter cannot have."""

    name: str
    hint: str | None = None


ARITHMETIC: Final = _Construct("arithmetic", "write the result")
BARE_VALUE: Final = _Construct("a value without a comparison")
CONDITION_AS_VALUE: Final = _Construct("a condition as a value")
_ACCESS: Final = _Construct("access into a value", "values are str, int, float and bool")
_ANY_ALL: Final = _Construct("any/all", "write in (…)")
_BITS: Final = _Construct("bit arithmetic")
_CASE: Final = _Construct("a case distinction", "write it with and/or")
_CAST: Final = _Construct("a cast", "write the value itself")
_LIST: Final = _Construct("a list", "write in (…)")
_PARAMETER: Final = _Construct("a parameter", "write the value itself")
_PREFIXED: Final = _Construct("a prefixed string", "write '…'")
_REGULAR: Final = _Construct("a regular expression", "like knows % only")
_SUBQUERY: Final = _Construct("a subquery")

# Where an operand should be.
_AS_OPERAND: Final = {
    "*": _Construct("*"),
    "[": _LIST,
    "{": _LIST,
    "distinct": _Construct("is distinct from", "write = or <>"),
    **dict.fromkeys(("?", ":", "%"), _PARAMETER),
}
# Where an operator should be.
_AS_OPERATOR: Final = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div", "mod"), ARITHMETIC),
    **dict.fromkeys(("&", "|", "^"), _BITS),
    **dict.fromkeys(("[", "->", "->>"), _ACCESS),
    **dict.fromkeys(("~", "rlike", "regexp", "similar", "glob", "match"), _REGULAR),
    **dict.fromkeys(_CHAINED, _Construct("a comparison as a value", "write x > 1 and x < 3")),
    "||": _Construct("concatenation", "to combine conditions, write or"),
    "::": _CAST,
    "as": _Construct("an alias"),
    "at": _Construct("at time zone"),
    "collate": _Construct("collate", "strings are ordered by code point"),
    "ilike": _Construct("ilike", "like is case-sensitive here, and the only one"),
}
# Words before a parenthesis; others are functions.
_BEFORE_PARENTHESIS: Final = {
    "exists": _Construct("a subquery", "to ask for an attribute, write exists x"),
    **dict.fromkeys(("cast", "try_cast", "convert"), _CAST),
    **dict.fromkeys(("any", "all", "some"), _ANY_ALL),
    **dict.fromkeys(("if", "iif"), _CASE),
    **dict.fromkeys(("array", "row", "struct"), _LIST),
    **dict.fromkeys(("select", "with", "values"), _SUBQUERY),
}
_BEFORE_STRING: Final = {
    "interval": _Construct("an interval", "write a number or a string"),
    **dict.fromkeys(("date", "time", "timestamp", "datetime"), _CAST),
}
_BEFORE_WORD_OR_VALUE: Final = {
    "case": _CASE,
    **dict.fromkeys(("select", "with"), _SUBQUERY),
    **{word: _Construct(f"'{word}' after 'between'") for word in ("symmetric", "asymmetric")},
}

# Functions that SQL calls without parentheses.
_CLOCKS: Final = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})


def refused(text: str, index: int, problem: str, expected: str | None = None, hint: str | None = None) -> LanguageError:
    """The error for the token at this index."""
    return LanguageError(problem, text=text, position=starts_of(text)[index], expected=expected, hint=hint)


def placed(error: LanguageError, text: str, index: int) -> LanguageError:
    """`error`, found at the token of this index; one that has a place already keeps it."""
    return error if error.text is not None else error.placed(text, starts_of(text)[index])


def no_part(text: str, index: int, construct: _Construct, expected: str) -> LanguageError:
    """The error for a construct that begins at this index, or whose operator is there."""
    return refused(text, index, f"{construct.name} is not part of the language", expected, construct.hint)


def two_attributes(text: str, index: int, name: str, other: str) -> LanguageError:
    """The error for an attribute that is compared with the attribute at this index."""
    shown = shortened(other)
    if other.lower() in _CLOCKS:
        return no_part(text, index, _Construct(f"the function {shown}"), A_VALUE)
    quoted = "double quotes name an attribute; " if text[starts_of(text)[index]] == '"' else ""
    return refused(
        text,
        index,
        f"'{shortened(name)}' is compared with the attribute '{shown}'",
        A_VALUE,
        f"{quoted}did you mean '{shown}'?",
    )


def unexpected(text: str, index: int, expected: str) -> LanguageError:
    """The error for the token at this index, where the parser expected something else."""
    tokens = [*tokens_of(text), ""]
    before = tokens[index - 1] if index else ""
    if _is_name(before) and expected.startswith("'and'") and tokens[index].lower() not in _CHAINED:
        expected = f"an operator, {expected}"
    here = _Place(text, index, expected, before, tokens[index], tokens[index + 1])
    if not here.found:
        return _end(here)
    explain = _as_operator if _ends_operand(here.before) else _as_operand
    return _unreadable(here) or explain(here) or _unknown(here)


class _Place(NamedTuple):
    """A token that does not fit, and its neighbours."""

    text: str
    at: int
    expected: str
    before: str
    found: str
    after: str

    @property
    def shown(self) -> str:
        """The token in a message; strings and quoted names have quotes already."""
        return shortened(self.found) if self.found[0] in "'\"" else f"'{shortened(self.found)}'"

    def error(self, problem: str, expected: str | None = None, hint: str | None = None) -> LanguageError:
        return refused(self.text, self.at, problem, expected, hint)

    def no_part(self, construct: _Construct) -> LanguageError:
        return no_part(self.text, self.at, construct, self.expected)

    def no_part_before(self, construct: _Construct) -> LanguageError:
        """The error for a construct that began with the token before."""
        return no_part(self.text, self.at - 1, construct, A_VALUE if self.expected == A_VALUE else A_CONDITION)

    def is_glued(self) -> bool:
        """Whether no space is between the token and the one before it."""
        starts = starts_of(self.text)
        return starts[self.at - 1] + len(self.before) == starts[self.at]


def _end(here: _Place) -> LanguageError:
    problem, expected = f"nothing to go with '{shortened(here.before)}'", here.expected
    if expected.endswith("')'"):
        problem, expected = "unclosed parenthesis", "')'"
    end = starts_of(here.text)[here.at - 1] + len(here.before)
    return LanguageError(problem, text=here.text, position=end, expected=expected)


def _unreadable(here: _Place) -> LanguageError | None:
    """Tokens that fit nowhere."""
    if here.found in _UNREADABLE:
        return here.error(*_UNREADABLE[here.found])
    if not set("`‘’“”").isdisjoint(here.found):
        return here.error(f"unexpected {here.shown}", here.expected, _TWO_QUOTES)
    if here.found[0] == "$":
        hint = f"to compare with this very text, quote it: {here.shown}"
        return here.error(f"{here.shown} is a variable, and this language has none", A_VALUE, hint)
    return here.no_part(_PARAMETER) if here.found[0] == "@" else None


def _as_operand(here: _Place) -> LanguageError | None:
    """Tokens where a name, a value or a condition should be."""
    word = here.found.lower()
    if word in _AS_OPERAND:
        return here.no_part(_AS_OPERAND[word])
    together = here.before + here.found
    sign = next((character for character in word if character in "≠≤≥"), word)
    guess = together if together in _COMPARISONS else _USUAL_SLIPS.get(together) or _USUAL_SLIPS.get(sign)
    if guess is not None:
        return here.error(f"unexpected {here.shown}", here.expected, f"did you mean {guess}?")
    # `like = 5`, `a$b = 5`
    if here.after in _COMPARISONS if word in RESERVED else here.found[0].isalpha() and not word.isidentifier():
        hint = f'as the name of an attribute, quote it: "{shortened(here.found)}"'
        return here.error(f"unexpected {here.shown}", here.expected, hint)
    return None


def _as_operator(here: _Place) -> LanguageError | None:
    """Tokens after a name, a value or a condition."""
    found = _after_name(here) if _is_name(here.before) else None
    if found is not None:
        return found
    if here.found.lower() in _AS_OPERATOR:
        return here.no_part(_AS_OPERATOR[here.found.lower()])
    if here.found == "," and here.expected.endswith("')'"):
        return here.no_part(_LIST)
    if _is_number(here.before) and (_is_number(here.found) or here.found.isidentifier()) and here.is_glued():
        shown = shortened(here.before + here.found)
        return refused(here.text, here.at - 1, f"'{shown}' is not a number", A_VALUE)
    return None


def _after_name(here: _Place) -> LanguageError | None:
    """Tokens that show that the name before them was none."""
    word = here.before.lower()
    if here.found == "(":
        function = _Construct(f"the function {shortened(word)}()")
        return here.no_part_before(_BEFORE_PARENTHESIS.get(word, function))
    if here.found[0] == "." and here.is_glued():
        return _dotted(here)
    is_string = here.found[0] == "'"
    if is_string and (word in _BEFORE_STRING or here.is_glued()):
        return here.no_part_before(_BEFORE_STRING.get(word, _PREFIXED))
    if not is_string and not _is_number(here.found) and not here.found.isidentifier():
        return None
    if word == "where":
        return refused(here.text, here.at - 1, "unexpected 'where'", hint="write the condition alone")
    return here.no_part_before(_BEFORE_WORD_OR_VALUE[word]) if word in _BEFORE_WORD_OR_VALUE else None


def _dotted(here: _Place) -> LanguageError:
    tokens = tokens_of(here.text)
    end = here.at
    while tokens[end] and (tokens[end][0] == "." or tokens[end - 1] == "."):
        end += 1
    dotted = shortened("".join(tokens[here.at - 1 : end]))
    return refused(here.text, here.at - 1, f"{dotted} has a dot", A_NAME, f'quote it: "{dotted}"')


def _unknown(here: _Place) -> LanguageError:
    if set("<>=!~&|≠≤≥").issuperset(here.found):
        spaced = here.found + here.after
        guess = did_you_mean(here.found, (), usual={here.found: spaced} if spaced in _COMPARISONS else _USUAL_SLIPS)
        return here.error(f"unknown operator {here.shown}", _AN_OPERATOR, guess)
    return here.error(f"unexpected {here.shown}", here.expected, _hint(here))


def _hint(here: _Place) -> str | None:
    """A guess from the token that does not fit, or from the word before it (`nto flag` stumbles over the name)."""
    if here.found.lower() == "not":
        usual = {"null": "is not null", "is": "is not", "=": "<>"}.get(here.after.lower())
        return usual and f"did you mean {usual}?"
    for token in (here.found, here.before):
        # A short word resembles too many others.
        if len(token) > 1 and token.isidentifier() and token.lower() not in RESERVED:
            guess = did_you_mean(token, _WORDS, usual=_USUAL_SLIPS)
            if guess is not None:
                return guess
    if here.before[:1] == "'" and (here.found[0] == "'" or here.is_glued()):
        return _DOUBLED_QUOTE
    if not here.expected.startswith(("'and', ", "an operator, ")):
        return None
    return {")": "the parentheses do not pair up", ",": "to combine conditions, write and"}.get(here.found)


def _ends_operand(last: str) -> bool:
    is_quoted = len(last) > 1 and last[0] in "'\""
    return is_quoted or _is_name(last) or _is_number(last) or last.lower() in _CONSTANTS or last == ")"


def _is_name(token: str) -> bool:
    return token.isidentifier() and token.lower() not in RESERVED


def _is_number(token: str) -> bool:
    return token[:1].isdigit() or (token[:1] == "." and len(token) > 1)
