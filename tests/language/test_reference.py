"""The reference page: its table of limits is true (that its code runs is tested in tests/docs)."""

import re
from pathlib import Path

from octopia import language

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "language.md").read_text(encoding="utf-8")


def test_the_page_names_every_limit_with_its_value() -> None:
    rows = dict(re.findall(r"^\| `(\w+_MAX)` \| ([0-9,]+) \|", PAGE, flags=re.MULTILINE))
    limits = {name: getattr(language, name) for name in language.__all__ if name.endswith("_MAX")}
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == limits


def test_every_public_name_is_there_and_sorted() -> None:
    assert all(hasattr(language, name) for name in language.__all__)
    assert language.__all__ == sorted(language.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
