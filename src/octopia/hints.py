"""Guesses at the user's intention, and texts shortened to fit one line of an error.

A hint is one short phrase or nothing. It never decides anything, and is given only if it is close, since a far guess
misleads more than none. The time to compare words grows with their length and number, so only short words and the first
few candidates are compared.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Final

_WORD_CHARS_MAX: Final = 40
_SHOWN_CHARS_MAX: Final = 60
_CANDIDATES_MAX: Final = 200


def did_you_mean(word: str, known: Iterable[str], *, usual: Mapping[str, str] | None = None) -> str | None:
    """`did you mean X?`: the `usual` mistake, else the nearest of `known`, else one with this prefix; or None."""
    if len(word) > _WORD_CHARS_MAX:
        return None
    wanted = word.strip().lower()
    guess = (usual or {}).get(wanted)
    if guess is None:
        guess = nearest(word, known)
    # A known word was not misspelt: repeating it does not help.
    return None if guess is None or guess == word else f"did you mean {one_line(guess)}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, or one with this prefix; None if none is close."""
    if len(word) > _WORD_CHARS_MAX:
        return None
    wanted = word.strip().lower()
    candidates = {n.lower(): n for n in islice(known, _CANDIDATES_MAX) if len(n) <= _WORD_CHARS_MAX}
    near = get_close_matches(wanted, candidates, n=1, cutoff=0.6) or [
        name for name in candidates if len(wanted) > 1 and name.startswith(wanted)
    ]
    return candidates[near[0]] if near else None


def maybe_meant(word: str, known: Iterable[str]) -> str:
    """The same, as the end of an error's line: ` (did you mean X?)`, or nothing."""
    hint = did_you_mean(word, known)
    return "" if hint is None else f" ({hint})"


def one_line(text: str) -> str:
    """`text` with characters that could break a line or hide in it turned into spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def shortened(text: str) -> str:
    """`text` for a one-line message."""
    line = one_line(text[: _SHOWN_CHARS_MAX + 1])
    return line if len(line) <= _SHOWN_CHARS_MAX else f"{line[:_SHOWN_CHARS_MAX]}…"
