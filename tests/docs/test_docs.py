"""Every command and snippet in the documentation runs, and shows what the page says it shows.

In a `python` block every line is run as a script. In a `console` block every `$ octopia …` line is run from the top of
the repository, must end with exit code 0, and its output must be the lines below it; a line `…` stands for any lines.
In an `sh` block every line must be a target of the Makefile. Commands of a running overlay are in `text` blocks, which
`test_live_pages` runs. Anything else in a fence is not run, so nothing else may look like a command.
"""

import os
import re
import shlex
import tomllib
from pathlib import Path
from subprocess import PIPE

import pytest

from octopia.cli.app import loaded
from tests.commands import run, typed

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"python", "console", "sh", "", "toml", "json", "text"}
BLOCKS = [
    pytest.param(kind, body, id=f"{page.relative_to(ROOT)}-{number}-{kind or 'plain'}")
    for page in PAGES
    for number, (kind, body) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")))
]
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(("kind", "body"), BLOCKS)
def test_block_is_true(kind: str, body: str, tmp_path: Path) -> None:
    assert kind in KINDS, f"a fence of kind {kind!r} is not run by any test"
    if kind == "python":
        done = run(script=body, cwd=tmp_path, env=os.environ | {"PYTHONWARNINGS": "error"})
        assert done.returncode == 0, done.stderr
    elif kind == "console":
        run_console(body, tmp_path)
    elif kind == "sh":
        for line in body.splitlines():
            check_shell_line(line)


def check_shell_line(line: str) -> None:
    """Set-up that takes too long to run here: targets and extras must be there."""
    command, *arguments = shlex.split(line)
    if command == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        return
    assert (command in ("pip", "pipx"), arguments[0]) == (True, "install"), line
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = re.fullmatch(r"\.(?:\[([a-z,]+)])?", arguments[1])
    assert wanted is not None, line
    assert {extra for extra in (wanted[1] or "").split(",") if extra} <= set(known), line


def run_console(body: str, tmp_path: Path) -> None:
    """Run the commands of a block where files of the repository are in reach and written files do no harm."""
    for name in ("src", "docs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        assert command.startswith("octopia "), command
        done = typed(command, cwd=tmp_path, env=environment, stderr=PIPE)
        shown, told = done.communicate()
        assert done.returncode == 0, f"{command}\n{told}"
        assert_shows(tidy(shown), tidy(expected))


def tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def assert_shows(actual: list[str], expected: list[str]) -> None:
    pattern = "\n".join(".*" if line.strip() == "…" else re.escape(line) for line in expected)
    if expected:
        assert re.fullmatch(pattern, "\n".join(actual), re.DOTALL), "\n".join(actual)


USAGE = re.compile(r"^octopia .*$", re.MULTILINE)
USAGES = sorted(
    {
        re.split(r"  +", line)[0]
        for page in PAGES
        for kind, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if kind in ("text", "")
        for line in USAGE.findall(body)
    }
)


@pytest.mark.parametrize("line", USAGES)
def test_commands_that_are_only_named_have_these_options(line: str) -> None:
    """Those that take long, or need a cluster: every command and option that a page names is there."""
    for one in line.split(", octopia "):
        name, *words = shlex.split(re.sub(r"\[(--[^]]*)]", r"\1", one.removeprefix("octopia ")))
        options = {option for parameter in loaded(name).params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, one


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_opens_with_what_it_is_then_the_two_commands_then_the_example() -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:3] == ["OctopiA", "Two commands", "Five lines"]


@pytest.mark.parametrize(
    ("picture", "command"),
    [
        ("fig7b.svg", ["replay", "src/octopia/scenes/fig7b.json", "--draw"]),
        ("evaluation.svg", ["topology", "evaluation", "--draw"]),
        ("fdr-trees.svg", ["topology", "path:3", "--trees", "b,2", "--draw"]),
        ("fdr-load.svg", ["replay", "src/octopia/scenes/fdr-load.json", "--draw"]),
        ("fdr-dead.svg", ["replay", "src/octopia/scenes/fdr-dead.json", "--draw"]),
    ],
)
def test_pictures_are_what_the_command_draws(picture: str, command: list[str], tmp_path: Path) -> None:
    drawn = tmp_path / picture
    assert run(*command, drawn, cwd=ROOT).returncode == 0
    kept = (ROOT / "docs" / "images" / picture).read_text(encoding="utf-8")
    assert shapes(drawn.read_text(encoding="utf-8")) == shapes(kept)


def shapes(svg: str) -> list[str]:
    """Texts and the number of elements: the visible content, whatever the drawing library's version writes."""
    return [*sorted(re.findall(r">([^<>\n]+)</text>", svg)), str(svg.count("<path"))]
