"""The documentation as a site: it builds without a warning, shows every public name, and needs no network to read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import octopia

ROOT = Path(__file__).parent.parent.parent
# Resources that a browser loads by itself. Links that a reader may click can lead elsewhere.
LOADED = re.compile(
    r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']?(https?:)?//[^"'>]*""", re.IGNORECASE
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_public_name_is_on_the_page_of_the_python_api(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'id="octopia\.[\w.]*?\.?(\w+)"', page))
    assert set(octopia.__all__) - shown == {"__version__"}


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [(page.name, found[0]) for page in pages if (found := LOADED.search(page.read_text(encoding="utf-8")))] == []
