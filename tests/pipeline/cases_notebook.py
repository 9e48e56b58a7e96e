"""The notebooks in `examples/` run, cell after cell, and print what is stored in them.

A kernel would bring some thirty packages for this; cells of plain Python need `exec` and a captured standard output.
"""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from octopia.pipeline import Session

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(session: Session, notebook: Path) -> None:
    names: dict[str, Any] = {}
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)  # noqa: S102  our own file
        assert printed.getvalue() == "".join(text for output in cell["outputs"] for text in output["text"])
        assert cell["execution_count"] == number
