"""The commands that start a console: their output, and that they leave nothing behind."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from octopia.console.demo.contents import FEEDS, READERS
from octopia.console.demo.quotes import quotes
from octopia.language import conforms, matches, parse_filter
from tests.commands import Command, run
from tests.console.served import ask
from tests.net.processes import own_host
from tests.patience import HANG_S


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of a demo. Its brokers look for free ports themselves."""
    listen = f"{own_host()}:18400"
    process = Command("console", "--demo", "--listen", listen, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    children = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    _, said = process.communicate()
    # sessions at brokers that a test has killed are over, and their clients say so
    faults = [line for line in said.splitlines() if "may have missed notifications" not in line]
    assert (process.returncode, faults) == (0, [])
    psutil.wait_procs(children, timeout=HANG_S)
    assert [child for child in children if child.is_running()] == []


def order(demo: str, what: dict[str, Any]) -> tuple[int, Any]:
    answer: tuple[int, Any] = ask(f"{demo}api/play", what, {})
    return answer


def states(demo: str) -> Iterator[dict[str, Any]]:
    """The state again and again, as a page knows it."""
    known: dict[str, Any] = {}
    with urllib.request.urlopen(f"{demo}api/stream", timeout=HANG_S) as stream:  # noqa: S310
        for line in stream:
            if line.startswith(b"data: "):
                content = json.loads(line.removeprefix(b"data: "))
                if isinstance(content.get("brokers"), list) and "totals" in content:
                    known = content
                elif known and "totals" in content:
                    known["totals"] = content["totals"]
                    for part in ("brokers", "links"):
                        for place, row in content[part].items():
                            known[part][int(place)] = row
                if known:
                    yield known


def test_the_page_can_be_opened_as_soon_as_its_address_is_printed(demo: str) -> None:
    assert demo == f"http://{own_host()}:18400/"
    with urllib.request.urlopen(demo, timeout=HANG_S) as page:  # noqa: S310
        assert b"OctopiA" in page.read()


def test_quotes_flow_and_a_visitor_may_kill_and_restart_a_broker_and_switch_the_routing(demo: str) -> None:
    following = states(demo)
    next(state for state in following if state["totals"]["up"] == 9 and (state["totals"]["delivered"] or 0) > 0)
    assert order(demo, {"do": "kill", "broker": "(c,2)"})[1]["dead"] == ["(c,2)"]
    next(state for state in following if state["totals"]["up"] == 8)
    assert order(demo, {"do": "kill", "broker": "(c,2)"}) == (
        400,
        {"code": "input", "message": "(c,2) is dead already"},
    )
    assert order(demo, {"do": "restart", "broker": "(c,2)"})[1]["dead"] == []
    next(state for state in following if state["totals"]["up"] == 9)
    assert order(demo, {"do": "slow", "link": ["(b,2)", "(b,0)"], "ms": 200})[0] == 200
    next(state for state in following if state["totals"]["overloaded"] > 0)
    assert order(demo, {"do": "routing", "name": "snr"})[1]["routing"] == "snr"
    assert order(demo, {"do": "cut", "link": ["(a,0)", "(b,0)"]})[1]["cut"] == [["(a,0)", "(b,0)"], ["(b,0)", "(a,0)"]]
    next(state for state in following if state["totals"]["up"] == 9 and state["totals"]["links_up"] < 30)
    assert order(demo, {"do": "mend_all"})[1] == {
        "ready": True, "routing": "snr", "rate_per_s": 300.0, "slow": [], "cut": [], "dead": [],
    }  # fmt: skip
    next(state for state in following if state["totals"]["links_up"] == 30)
    following.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"do": "explode"}, "there are slow, cut, mend"),
        ({"do": "kill", "broker": "(z,9)"}, "there is no broker (z,9)"),
        ({"do": "cut", "link": ["(a,0)", "(c,2)"]}, "there is no link between (a,0) and (c,2)"),
        ({"do": "slow", "link": ["(a,0)", "(b,0)"], "ms": -1}, "0 to 1000 are possible"),
        ({"do": "routing", "name": "nonsense"}, "nonsense"),
        ({"do": "rate", "per_s": 1e9}, "0 to 5,000 are possible"),
    ],
)
def test_an_order_that_makes_no_sense_is_told_and_changes_nothing(demo: str, what: dict[str, Any], said: str) -> None:
    next(state for state in states(demo) if state["totals"]["brokers"] == 9)
    status, answer = order(demo, what)
    assert status == 400
    assert said in answer["message"]


def test_feeds_publish_what_they_advertise_and_every_reader_gets_something() -> None:
    published = []
    for feed in FEEDS:
        source, advertised = quotes(feed.name, feed.symbols), parse_filter(feed.advertisement)
        some = [next(source) for _ in range(3000)]
        assert all(conforms(quote, advertised) for quote in some)
        published += some
    for reader in READERS:
        wanted = parse_filter(reader.filter)
        assert any(matches(wanted, quote) for quote in published), reader


def test_serve_prints_the_brokers_and_the_address_of_the_console(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(
        f'[overlay]\ntree = "path:1"\nclusters = 2\n[brokers]\nhost = "{own_host()}"\nport = 7800\nhttp_port = 9800\n'
        'http_host = "same"\nhttp_token = "a-token-of-the-brokers"\nopen = true\n'
    )
    process = Command("serve", file, "--no-state", "--console", stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(3)]
    assert lines[:2] == [f"(a,{n}) octopia://{own_host()}:{7800 + n} http://{own_host()}:{9800 + n}" for n in (0, 1)]
    assert lines[2].startswith("http://127.0.0.1:84")
    next(state for state in states(lines[2]) if state["totals"]["up"] == 2)
    (console,) = psutil.Process(process.pid).children()
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    assert not console.is_running()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["overlay.toml", "--demo"], "give an overlay or --demo, not both"),
        (["--listen", "0.0.0.0:8400"], "everyone who reaches 0.0.0.0 could open the console"),
        (["octopia://127.0.0.1:7400"], "write http://host:port"),
        (["--access-token-file", "missing"], "missing: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_one_line(given: list[str], said: str, tmp_path: Path) -> None:
    done = run("console", *given, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
