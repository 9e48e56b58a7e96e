"""The syntax of region labels.

A label is read back from `(b,2)`, from `a-b,b-c`, from a scenario and from a terminal, so anything that would make one
of these ambiguous (blanks, commas, brackets, invisible characters) is refused once, here, and labels never need
escaping. Generated labels run a, b, … z, aa, ab, … like the columns of a spreadsheet.
"""

import unicodedata

from octopia.errors import TopologyError
from octopia.topology.limits import LABEL_LENGTH_MAX

_FORBIDDEN = {
    ",": "a comma",
    "(": "a bracket",
    ")": "a bracket",
    "[": "a bracket",
    "]": "a bracket",
    "{": "a bracket",
    "}": "a bracket",
    "<": "a bracket",
    ">": "a bracket",
}
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def check_label(label: object) -> str:
    """The label itself, or a `TopologyError` that says which character is bad."""
    if not isinstance(label, str):
        raise TopologyError(f"bad label {label!r}: a node's label is text, not {type(label).__name__}")
    if not label:
        raise TopologyError("bad label '': a node's label must not be empty")
    if len(label) > LABEL_LENGTH_MAX:
        raise TopologyError(
            f"bad label {label[:16]!r}…: {len(label)} characters, at most {LABEL_LENGTH_MAX} are allowed"
        )
    for character in label:
        fault = _fault_of(character)
        if fault:
            raise TopologyError(f"bad label {label!r}: {character!r} is {fault}, and a label must not hold one")
    return label


def _fault_of(character: str) -> str | None:
    if character in _FORBIDDEN:
        return _FORBIDDEN[character]
    if character.isspace():
        return "a space"
    # Cc, Cf, Cs, Co, Cn: control, invisible, half of a pair, private, unassigned. None of them shows as itself.
    return "a control character" if unicodedata.category(character).startswith("C") else None


def generated_label(number: int) -> str:
    """The label of the node with this number: 0 is a, 25 is z, 26 is aa."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, len(_ALPHABET))
        letters = _ALPHABET[rest] + letters
    return letters
