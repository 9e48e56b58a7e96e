"""How many random cases a test tries: all of them in a long run, a sixth of them in an ordinary one.

`OCTOPIA_TESTS=long` asks for a long run. The cases of an ordinary run are the first of those of a
long one, and the examples that Hypothesis finds are the same every time. What tests one case only,
or counts what its cases reached, is the same in both.
"""

import os
from typing import Final

LONG: Final = os.environ.get("OCTOPIA_TESTS") == "long"


def cases(count: int) -> int:
    """The number of cases, given the number for a long run."""
    return count if LONG else -(-count // 6)
