"""Stands in for the process that compiles: it ends as the test says, by a word written into a pipe."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    word = Path(os.environ["COMPILING_PIPE"]).read_text(encoding="utf-8")
    if word != "compiled":
        sys.exit(f"cannot compile: {word}")
