"""SQL text cut into tokens by one regular expression.

A token is a plain string, and its first character says what it is: a word, a string, a quoted name, a number or a sign.
Parsing needs no positions, so only an error computes them. No quantifier gives back what it took: the time is
proportional to the length of the text, whatever is in it. Nothing is skipped but space. A character without a meaning
is a sign, and so is a quote that is never closed.
"""

import re
from typing import Final

# Letters of every script, digits and `_`; the parser checks what makes a name. `a$b` is one mistake, not three tokens.
_WORD: Final = r'[^\s\x00-"%-?\[-^`{-\x7f][^\s\x00-"%-/:-?\[-^`{-\x7f]*+'
_STRING: Final = r"'[^']*+(?:''[^']*+)*+'"
_QUOTED_NAME: Final = r'"[^"]*+(?:""[^"]*+)*+"'
_NUMBER: Final = r"(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
# Comparisons, known or not, and other signs of several characters are one token each.
_SIGN: Final = r"[<>=!~]++|&&|\|\||::|--|->>?|/\*|."
_TOKEN: Final = re.compile(rf"\s*+({_WORD}|{_STRING}|{_QUOTED_NAME}|{_NUMBER}|{_SIGN}|\Z)", re.DOTALL)


def tokens_of(text: str) -> list[str]:
    """The tokens of `text`, then one or two empty ones for its end."""
    return _TOKEN.findall(text)


def starts_of(text: str) -> list[int]:
    """The position of each token."""
    return [found.start(1) for found in _TOKEN.finditer(text)]
