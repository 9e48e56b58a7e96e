"""What the site takes from outside docs/: pages of the repository's root, and the files that pages link to.

Pages are written to be read in the repository, so their links lead to files beside docs/. In the site such a file gets
a place of its own, and links to it are rewritten.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
PAGES = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and each file outside docs/ that a page links to."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for page in [file.src_uri for file in files.documentation_pages()]:
        for target in _outside(page, _text(page)).values():
            if target not in PAGES and files.get_file_from_path(_place(target)) is None:
                content = (ROOT / target).read_bytes()
                files.append(File.generated(config, _place(target), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links that leave docs/ lead to the copies in the site."""
    here = page.file.src_uri
    outside = _outside(here, markdown)

    def rewritten(found: re.Match[str]) -> str:
        target = outside.get(found[2])
        if target is None:
            return found[0]
        place = relpath(_place(target), str(PurePosixPath(here).parent))
        return f"{found[1]}{place}{found[3] or ''}{found[4]}"

    return _LINK.sub(rewritten, markdown)


def _text(page: str) -> str:
    source = ROOT / "docs" / page
    if source.exists():
        return source.read_text(encoding="utf-8")
    return next((ROOT / name).read_text(encoding="utf-8") for name, copy in PAGES.items() if copy == page)


def _outside(page: str, markdown: str) -> dict[str, str]:
    """The links of a page that leave docs/, and the files of the repository that they lead to."""
    at_root = page in PAGES.values()
    folder = ROOT if at_root else (ROOT / "docs" / page).parent
    found = {}
    for _, link, _, _ in _LINK.findall(markdown):
        if "://" in link:
            continue
        target = Path(f"{folder}/{link}").resolve()
        if not target.is_file():
            continue
        inside = target.is_relative_to(ROOT / "docs")
        if at_root or not inside:
            found[link] = str(target.relative_to(ROOT))
    return found


def _place(target: str) -> str:
    """The path of a repository file in the site."""
    if target in PAGES:
        return PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"files/{target}"
