"""Pages about a running overlay: what they say is typed in terminals is typed here, and shows what they say.

A page's commands are in `text` blocks, after `$ ` or after a machine's name and `$ `. They run as they stand, but for
addresses: each loopback or example address becomes one of this process's own (see `tests.net.processes`), so that
nobody else is there, and the overlay of a plain `octopia serve` comes from a file that differs in these alone. Every
command of the page must be used: a new one fails here until it is.
"""

import os
import re
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Command, typed
from tests.docs.test_docs import FENCE, PAGES, ROOT, assert_shows, tidy
from tests.net.processes import own_host

PROMPT = re.compile(r"^(?:m\d)?\$ ", re.MULTILINE)
# What differs from run to run: times, and names that brokers choose.
VARIES = [
    (re.compile(r"^ +\d+ µs|(?<=, )[\d,]+ µs"), "µs"),
    (re.compile(r"\d+\.\d+ ms"), "ms"),
    (re.compile(r"c-\w+…?"), "c-…"),
]


class Terminals:
    """The commands of a page, each to be used once."""

    def __init__(self, page: str, folder: Path, replace: dict[str, str]) -> None:
        self._folder = folder
        self._replace = replace
        self._shown: dict[str, list[str]] = {}
        self._running: list[Command] = []
        for kind, body in FENCE.findall(page_text(page)):
            if kind != "text" or not PROMPT.search(body):
                continue
            for part in PROMPT.split(body)[1:]:
                command, _, shown = re.sub(r"\\\n *", "", part).partition("\n")
                self._shown[command] = tidy(self.ours(shown))
        self._environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "100"}

    def ours(self, text: str) -> str:
        """With addresses and folders of this test."""
        for theirs, ours in self._replace.items():
            text = text.replace(theirs, ours)
        return text

    def _start(self, command: str, more: str) -> tuple[Command, list[str]]:
        shown = self._shown.pop(command)
        return typed(f"{self.ours(command)} {more}", cwd=self._folder, env=self._environment), shown

    def run(self, command: str, more: str = "", code: int = 0) -> None:
        """Run it to its end, with this exit code and the output on the page."""
        process, shown = self._start(command, more)
        out, _ = process.communicate()
        assert process.returncode == code, f"{command}\n{out}"
        assert_shows(same(tidy(out)), same(shown))

    def start(self, command: str, more: str = "", *, shows: bool = True) -> Command:
        """Keep it running until the test ends.

        The page's output comes first, except for lines after `…`, which may come later.
        """
        process, shown = self._start(command, more)
        self._running.append(process)
        assert process.stdout is not None
        for line in shown:
            if line == "…" or not shows:
                break
            assert process.stdout.readline().rstrip() == line
        return process

    def serve(self, command: str) -> Command:
        """A command that the page takes for granted."""
        self._shown[command] = []
        return self.start(command)

    def skip(self, command: str, why: str) -> None:
        """Not run, for a reason."""
        assert why
        del self._shown[command]

    def close(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.communicate()

    def all_used(self) -> bool:
        return not self._shown


def page_text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def same(lines: list[str]) -> list[str]:
    for pattern, plain in VARIES:
        lines = [pattern.sub(plain, line) for line in lines]
    return lines


def next_line(process: Command) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def next_notification(process: Command) -> str:
    """The next line of `octopia sub` that is not its word about a new publisher, which may come first or not at all."""
    line = next_line(process)
    return next_line(process) if line == "octopia: a publisher now advertises notifications that may match" else line


@pytest.fixture
def host() -> str:
    return own_host()


@pytest.fixture
def started(request: pytest.FixtureRequest, tmp_path: Path, host: str) -> Iterator[Terminals]:
    page, replace = request.param
    terminals = Terminals(
        page,
        tmp_path,
        {theirs: ours.format(host=host, folder=tmp_path, number=os.getpid() % 250) for theirs, ours in replace},
    )
    yield terminals
    terminals.close()


def write_overlay(folder: Path, host: str) -> None:
    """The overlay of `octopia serve`, at an address of our own."""
    (folder / "overlay.toml").write_text(
        f'[overlay]\ntree = "path:3"\nclusters = 3\n[brokers]\nhost = "{host}"\nport = 7400\nhttp_port = 9400\n'
        'http_host = "same"\n',
        encoding="utf-8",
    )


@pytest.mark.parametrize("started", [("troubleshooting.md", [("127.0.0.1", "{host}")])], indirect=True)
def test_troubleshooting(started: Terminals, tmp_path: Path, host: str) -> None:
    write_overlay(tmp_path, host)
    next_line(started.start("octopia serve", "overlay.toml --no-state"))
    subscriber = started.start('octopia sub "price > 100" --name alice --url octopia://127.0.0.1:7408', shows=False)
    assert next_line(subscriber).startswith("octopia: ")
    advertiser = started.start(
        'octopia adv "symbol is not null and price > 0" --name feed --url octopia://127.0.0.1:7400'
    )
    assert advertiser.poll() is None
    at = f"--overlay http://{host}:9400"
    for command, code in (
        ("""octopia why alice '{"symbol": "AAPL", "price": 120}'""", 0),
        ("""octopia why alice '{"symbol": "AAPL", "price": 80}'""", 1),
        ("""octopia why alice '{"symbol": "AAPL", "price": 120, "size": 5}'""", 1),
        ("""octopia why bob '{"symbol": "AAPL", "price": 120}'""", 1),
    ):
        started.run(command, at, code)
    near = f"--url octopia://{host}:7400"
    started.run("""octopia trace '{"symbol": "AAPL", "price": 120}' --as feed""", f"{at} {near}")
    started.run("octopia status --links", "overlay.toml")
    started.run("octopia status --url http://127.0.0.1:9400")
    started.run("octopia top --url http://127.0.0.1:9400", "--count 1")
    assert started.all_used()


@pytest.mark.parametrize("started", [("getting-started.md", [("127.0.0.1", "{host}")])], indirect=True)
def test_getting_started(started: Terminals, tmp_path: Path, host: str) -> None:
    write_overlay(tmp_path, host)
    started.start("octopia serve", "overlay.toml")
    subscriber = started.start("""octopia sub "symbol = 'AAPL' and price > 100" --url octopia://127.0.0.1:7408""")
    near = f"--url octopia://{host}:7400"
    started.run("""echo '{"symbol": "AAPL", "price": 120.5}' | octopia pub""", near)
    assert next_notification(subscriber) == '{"symbol": "AAPL", "price": 120.5}'
    started.run("""octopia trace '{"symbol": "AAPL", "price": 120.5}'""", f"{near} --overlay overlay.toml")
    started.run("octopia status", "overlay.toml")
    started.run("octopia top", "overlay.toml --count 1")
    started.run("octopia bench --subscribers 10 --rate 10000", f"{near} --seconds 1")
    slow = started.start("""octopia sub "price > 100" --policy block""", near, shows=False)
    # The withdrawal of an earlier advertisement may still be in flight.
    assert next_line(slow).startswith("octopia: in force at (a,0); ")
    assert started.all_used()


@pytest.mark.parametrize(
    "started",
    [("across-machines.md", [("10.0.0.", "127.252.{number}."), ("/etc/octopia", "{folder}")])],
    indirect=True,
)
def test_across_machines(started: Terminals, tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    text = next(body for kind, body in FENCE.findall(page_text("across-machines.md")) if kind == "toml")
    example = (ROOT / "examples" / "three-machines.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == tomllib.loads(example)
    file.write_text(started.ours(text), encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "quotes.jsonl").write_text('{"class": "STOCK", "symbol": "IBM", "price": 80}\n', encoding="utf-8")

    started.run("octopia certificates /etc/octopia/overlay.toml feed")
    for machine in ("m1", "m2", "m3"):
        next_line(started.start(f"octopia serve /etc/octopia/overlay.toml --machine {machine}"))
    subscriber = started.start(
        """octopia sub "class = 'STOCK'" --url octopias://10.0.0.3:7401 --ca authority.pem --token 'change me please'"""
    )
    started.run(
        "octopia pub quotes.jsonl --url octopias://10.0.0.1:7400 --ca authority.pem --cert feed.pem --key feed.key "
        """--advertise "class = 'STOCK' and symbol is not null and price > 0\""""
    )
    assert next_notification(subscriber) == '{"class": "STOCK", "symbol": "IBM", "price": 80}'
    started.run("octopia units overlay.toml --out units")
    started.skip(
        "sudo cp octopia-m1.service /etc/systemd/system/ && sudo systemctl enable --now octopia-m1",
        "it changes the machine; what is in the units is tested in tests/net/test_units.py",
    )
    assert started.all_used()


@pytest.mark.parametrize("started", [("quality-of-service.md", [("127.0.0.1", "{host}")])], indirect=True)
def test_quality_of_service(started: Terminals, tmp_path: Path, host: str) -> None:
    text = next(body for kind, body in FENCE.findall(page_text("quality-of-service.md")) if kind == "toml")
    example = (ROOT / "examples" / "quality-of-service.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == tomllib.loads(example)
    ours = example.replace("[brokers]", f'[brokers]\nhost = "{host}"\nhttp_host = "same"')
    (tmp_path / "overlay.toml").write_text(ours, encoding="utf-8")
    serving = started.serve("octopia serve overlay.toml")
    assert next_line(serving)
    subscriber = started.start(
        """octopia sub "price > 100" --url octopia://127.0.0.1:7400 --priority 3 --deadline-ms 500""", shows=False
    )
    assert next_line(subscriber).startswith("octopia: in force at (a,0)")
    started.run("""echo '{"symbol": "AAPL", "price": 120.5}' | octopia pub""", f"--url octopia://{host}:7408")
    assert next_notification(subscriber) == '{"symbol": "AAPL", "price": 120.5}'
    assert started.all_used()


def test_no_other_page_has_commands_that_nobody_runs() -> None:
    pages = [
        page.name
        for page in PAGES
        for kind, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if kind == "text" and PROMPT.search(body)
    ]
    assert set(pages) == {"getting-started.md", "across-machines.md", "quality-of-service.md", "troubleshooting.md"}
