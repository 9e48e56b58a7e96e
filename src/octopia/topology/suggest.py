"""Small helpers of error lines: the guess behind "did you mean", and text cut to what a line can bear.

Rules of this file: a guess is offered only where it is close, for a far one misleads more than none.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN_MAX = 60


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` to hang on an error's line, or nothing where no known word is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    wanted = word.strip().lower()
    near = get_close_matches(wanted, by_lower_case, n=1, cutoff=0.6) or [
        candidate for candidate in by_lower_case if len(wanted) > 1 and candidate.startswith(wanted)
    ]
    return f" (did you mean {by_lower_case[near[0]]}?)" if near else ""


def shortened(text: str) -> str:
    """The text as an error's one line can bear it."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
