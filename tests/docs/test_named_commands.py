"""Commands that a page names without showing their output: all are parsed, and typed unless there is a reason not to.

They run as they stand, but for addresses, as in `test_live_pages`. One overlay serves them all. A new command on a page
fails here until it is in one of the tables.
"""

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopia.cli.app import loaded
from tests.commands import Command, typed
from tests.docs.test_docs import ROOT, USAGES
from tests.docs.test_live_pages import write_overlay
from tests.net.processes import own_host

# Typed until they end, with more arguments: exit code 0.
ENDING = {
    """octopia trace '{"symbol": "AAPL", "price": 120}'""": "--url octopia://127.0.0.1:7400 --overlay overlay.toml",
    """octopia why alice '{"symbol": "AAPL", "price": 120}'""": "--overlay overlay.toml",
    "octopia status, octopia top, octopia bench": "",  # three, see below
    """octopia pub --url octopia://127.0.0.1:7404 --advertise "price > 0\"""": "",
}
# Typed until they say this, then stopped.
STAYING = {
    """octopia sub "price > 100" --url octopia://127.0.0.1:7408""": ("", "in force at (c,2)"),
    """octopia sub "price > 100" --url octopia://127.0.0.1:7400""": ("", "in force at (a,0)"),
    """octopia sub "price > 100" --url octopia://e1:7400,octopia://w1:7408 --nearest""": ("", "in force at "),
    "octopia serve overlay.toml --broker b,2": ("--no-state", "(b,2) octopia://"),
    "octopia serve --record rec": ("other.toml --no-state", "(a,0) octopia://"),
    "octopia console overlay.toml --listen 127.0.0.1:8400": ("", ":8400"),
}
# The overlay that the others use.
SERVING = ("octopia serve", "octopia serve overlay.toml")
# Not typed here, for a reason.
ELSEWHERE = {
    "octopia console --demo": "tests/console/test_demo.py types it",
    "octopia serve --console": "tests/console/test_demo.py types it",
    "octopia serve overlay.toml --machine m1": "tests/docs/test_live_pages.py types it",
    "octopia topology [": "a synopsis; the page's examples are typed",
    "octopia demo": "needs Spark; tests/pipeline runs it",
    "octopia pipeline": "needs Spark, or a cluster; tests/pipeline runs it",
    "octopia reproduce": "needs Spark, or a cluster; tests/pipeline runs it",
    "octopia plan": "needs Spark; tests/pipeline runs it",
    "octopia watch": "needs Spark; tests/pipeline runs it",
    "octopia simulate": "takes minutes; tests/cli/test_simulate.py runs smaller ones",
    "octopia validate": "takes minutes; tests/experiments runs smaller ones",
}


def test_every_command_is_typed_or_has_a_reason() -> None:
    typed = {*ENDING, *STAYING, *SERVING}
    left = [line for line in USAGES if line not in typed and not line.startswith(tuple(ELSEWHERE))]
    assert left == []
    assert typed - set(USAGES) == set(), "on no page any more"


@pytest.mark.parametrize("line", [line for line in USAGES if "[" not in re.sub(r"'[^']*'", "", line)])
def test_the_parser_accepts_every_command(line: str) -> None:
    for one in line.split(", octopia "):
        name, *words = shlex.split(one.removeprefix("octopia "))
        loaded(name).make_context(name, words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where commands are typed while an overlay runs, with a client `alice`."""
    made = tmp_path_factory.mktemp("typed")
    host = own_host()
    write_overlay(made, host)
    overlay = (made / "overlay.toml").read_text(encoding="utf-8")
    (made / "alone").mkdir()
    for file, hundred in (("other.toml", 5), ("alone/overlay.toml", 6)):
        text = re.sub(r"port = (7|9)400", rf"port = \g<1>{hundred}00", overlay)
        (made / file).write_text(text, encoding="utf-8")
    with (
        Running(made, "octopia serve", "overlay.toml --no-state", f"{host}:7408"),
        Running(made, 'octopia sub "price > 100"', "--name alice --url octopia://127.0.0.1:7408", "in force"),
    ):
        yield made


class Running:
    """A command that has said something, and is stopped in the end."""

    def __init__(self, folder: Path, line: str, more: str, says: str) -> None:
        self._says = says
        self._process = popen(folder, f"{line} {more}")

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        seen = ""
        for text in self._process.stdout:
            seen += text
            if self._says in text:
                return
        raise AssertionError(f"ended, and never said {self._says!r}:\n{seen}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()


def popen(folder: Path, line: str) -> Command:
    host = own_host()
    for theirs in ("127.0.0.1", "//e1", "//w1"):
        line = line.replace(theirs, f"//{host}" if theirs.startswith("//") else host)
    return typed(line, cwd=folder, env=os.environ | {"NO_COLOR": "1", "COLUMNS": "100"})


def run(folder: Path, line: str) -> None:
    process = popen(folder, line)
    out, _ = process.communicate()
    assert process.returncode == 0, f"{line}\n{out}"


@pytest.mark.parametrize("line", [line for line in ENDING if ", " not in line.split("'")[0]])
def test_a_command_that_ends(folder: Path, line: str) -> None:
    if " why " in line:
        # Somebody must be allowed to publish it.
        with Running(folder, 'octopia adv "symbol is not null and price > 0"', "--url octopia://127.0.0.1:7400", "a1"):
            run(folder, f"{line} {ENDING[line]}")
    else:
        run(folder, f"{line} {ENDING[line]}")


@pytest.mark.parametrize(
    "line",
    [
        "octopia status overlay.toml",
        "octopia top overlay.toml --count 1",
        "octopia bench --url octopia://127.0.0.1:7400 -t 0.2 -r 100",
    ],
)
def test_commands_named_together(folder: Path, line: str) -> None:
    run(folder, line)


@pytest.mark.parametrize("line", STAYING)
def test_a_command_that_stays(folder: Path, line: str) -> None:
    more, says = STAYING[line]
    with Running(folder / "alone" if "--broker" in line else folder, line, more, says):
        pass


def test_reasons_name_files_that_are_there() -> None:
    for reason in ELSEWHERE.values():
        for name in re.findall(r"tests/[\w/.]+\w", reason):
            assert (ROOT / name).exists(), name
