"""Error cases from the text files of this folder.

A case is two lines, the text and, indented, the whole message; `#` lines and empty lines are
skipped. Messages are long and compared in full, which reads better in a text file than in Python.
"""

from pathlib import Path


def error_cases(name: str) -> list[tuple[str, str]]:
    """The (text, message) pairs of a file."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    content = [line for line in lines if line and not line.startswith("#")]
    texts, messages = content[::2], content[1::2]
    assert not any(text.startswith("    ") for text in texts)
    return [(text, message.removeprefix("    ")) for text, message in zip(texts, messages, strict=True)]
